"""Names that must not leave: what becomes a token, what stays, and that tokens say the same on every worker."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from eroica_otel.config import WorkerConfig
from eroica_otel.errors import ConfigError
from eroica_otel.export.public import is_public_frame, is_public_group, is_public_name
from eroica_otel.export.redact import TOKEN, Redactor, token
from eroica_otel.export.secret import KEY_FILE, NAMES_FILE, NamesFile, read_key, read_names, redactor, shared_key
from eroica_otel.kinds import Frame, function_id, is_wait, pause_of
from eroica_otel.localize.stands import frame_of
from eroica_otel.model import Pattern
from factories_worker import all_reduce, identity, pattern, status, worker_window

KEY = b"k" * 32
SITE = "/opt/venv/lib/python3.11/site-packages"
MINE = Frame("acme.data", "Set.augment", "/home/me/acme/data.py", 104)
SCRIPT = Frame("__main__", "main", "/home/me/train_acme.py", 7)
SAVE = Frame("torch.serialization", "save", f"{SITE}/torch/serialization.py", 900)
QUEUE = Frame("queue", "Queue.get", f"{sys.base_prefix}/lib/python3.11/queue.py", 100)


def text(frame: Frame) -> str:
    return f"{frame.module}:{frame.qualname}:{frame.line}"


def python(*frames: Frame, function: str = "") -> Pattern:
    last = frames[-1]
    shown = f"{last.qualname} ({Path(last.file).name}:{last.line})"
    return pattern(function=function or shown, stack=tuple(map(text, frames)))


def redacted(mode: str, *patterns: Pattern, frames: tuple[Frame, ...] = (MINE, SCRIPT, SAVE, QUEUE)) -> list[Pattern]:
    return list(Redactor(mode, KEY).window(worker_window(patterns), frames).patterns)


def test_none_changes_nothing() -> None:
    window = worker_window((python(SCRIPT, MINE),))
    assert Redactor("none", b"").window(window, (MINE,)) is window


def test_names_hides_names_and_keeps_numbers() -> None:
    (found,) = redacted("names", python(SCRIPT, MINE))
    module, name, main = token(KEY, "acme.data"), token(KEY, "Set.augment"), token(KEY, "main")
    assert found.stack == (f"__main__:{main}:7", f"{module}:{name}:104")
    assert found.function == f"{name} ({module}:104)"
    assert (found.kind, found.family, found.beta, found.mu) == ("python", "other", 0.5, 0.5)


@pytest.mark.parametrize(("mode", "shown"), [("names", token(KEY, "acme_events")), ("paths", "acme_events")])
def test_a_category_that_nobody_knows_is_a_name_of_the_trainings(mode: str, shown: str) -> None:
    window = worker_window((), unknown={"acme_events": (3, 0.25), "others": (1, 0.5)})
    assert Redactor(mode, KEY).window(window, ()).unknown == {shown: (3, 0.25), "others": (1, 0.5)}


def test_a_function_that_is_also_in_a_file_of_the_trainings_is_the_trainings() -> None:
    mine = QUEUE._replace(file="/home/me/queue.py")
    hidden = f"{token(KEY, 'queue')}:{token(KEY, 'Queue.get')}:100"
    for frames, shown in (((QUEUE,), text(QUEUE)), ((QUEUE, mine), hidden), ((mine, QUEUE), hidden)):
        (found,) = redacted("names", python(QUEUE), frames=frames)
        assert found.stack == (shown,)


@pytest.mark.parametrize(
    ("name", "public"),
    [("_SingleProcessDataLoaderIter.__next__", True), ("__next__", True), ("AcmeDataLoaderIter.__next__", False)],
)
def test_a_trace_puts_any_iterator_under_torchs_module(name: str, public: bool) -> None:
    assert is_public_frame(Frame("torch.utils.data.dataloader", name, "torch/utils/data/dataloader.py", 0)) == public


def test_paths_hides_modules_and_files_and_keeps_functions() -> None:
    inner, script = redacted("paths", python(SCRIPT, MINE), python(SCRIPT))
    module = token(KEY, "acme.data")
    assert inner.stack == ("__main__:main:7", f"{module}:Set.augment:104")
    assert inner.function == f"Set.augment ({module}:104)"
    assert script.function == "main (__main__:7)"


@pytest.mark.parametrize("mode", ["paths", "names"])
def test_a_function_has_another_id_than_one_that_can_be_guessed_and_the_same_on_each_worker(mode: str) -> None:
    plain = function_id("python", " > ".join(map(text, (SCRIPT, MINE))))
    given = pattern(function_id=plain, stack=(text(SCRIPT), text(MINE)))
    (first,), (again,) = redacted(mode, given), redacted(mode, given)
    (other,) = Redactor(mode, b"another key").window(worker_window((given,)), ()).patterns
    assert first.function_id == again.function_id
    assert re.fullmatch("[0-9a-f]{12}", first.function_id)
    assert len({plain, first.function_id, other.function_id}) == 3


def test_frames_of_libraries_stay_so_that_verdicts_can_read_them() -> None:
    (found,) = redacted("names", python(SCRIPT, SAVE))
    assert found.stack[-1] == text(SAVE)
    assert found.function == "save (serialization.py:900)"
    assert pause_of((frame_of(found.stack[-1]),)) is not None
    (waits,) = redacted("names", python(Frame("torch.distributed.distributed_c10d", "all_reduce", "", 1)))
    assert is_wait(frame_of(waits.stack[-1]))
    (reads,) = redacted("names", python(SCRIPT, QUEUE))
    assert reads.stack[-1] == text(QUEUE)


@pytest.mark.parametrize(
    "frame",
    [
        Frame("queue", "f", "/home/me/queue.py", 1),
        Frame("test.secret", "f", "/home/me/test/secret.py", 1),
        Frame("transformers.models.acme", "AcmeModel.forward", "/home/me/transformers/models/acme.py", 1),
        Frame("acme", "f", f"{SITE}/acme/__init__.py", 1),
        Frame("json", "f", f"{SITE}/json/__init__.py", 1),
        Frame("json", "f", "", 1),
        Frame("torchacme.data", "f", f"{SITE}/torchacme/data.py", 1),
    ],
    ids=["script named like a module", "package", "fork", "company's package", "shadow", "no file", "prefix"],
)
def test_what_is_in_doubt_counts_as_the_trainings_own(frame: Frame) -> None:
    assert not is_public_frame(frame)


@pytest.mark.parametrize(
    "frame",
    [
        Frame("torch.nn.modules.linear", "Linear.forward", f"{SITE}/torch/nn/modules/linear.py", 1),
        Frame("threading", "Thread.run", "/usr/lib/python3.10/threading.py", 1),
        Frame("runpy", "_run_code", "<frozen runpy>", 1),
        Frame("eroica_otel", "watch", "eroica_otel", 0),
        Frame("numpy.random", "f", "/usr/lib/python3/dist-packages/numpy/random/__init__.py", 1),
    ],
)
def test_what_everybody_has_is_public(frame: Frame) -> None:
    assert is_public_frame(frame)


def test_this_interpreters_own_library_is_found() -> None:
    assert is_public_frame(Frame("os", "walk", os.__file__, 1))


NAMES: Mapping[str, list[str]] = {
    "compute": [
        "aten::mm", "torchvision::nms", "quantized::linear", "at::native::vectorized_elementwise_kernel",
        "ampere_sgemm_128x64_nn", "cutlass_80_tensorop_s1688gemm_128x128", "nvjet_hsh_128x256_64x4",
    ],
    "communication": [
        "gloo:all_reduce", "nccl:_all_gather_base", "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "ncclDevKernel_Generic_4",
        "ncclDevKernel_SendRecv: stage 3 of 16", "ncclDevKernel_Generic_1: recv, last stage",
        "nccl:broadcast", "gloo:send",
    ],
    "memory": ["Memcpy HtoD (Pageable -> Device)", "Memset (Device)"],
    "host": ["cudaLaunchKernel", "hipMemcpyAsync", "cuLaunchKernelEx", "aten::item"],
}  # fmt: skip
PRIVATE: Mapping[str, list[str]] = {
    "compute": ["acme::fuse", "acme_attention_kernel", "triton_poi_fused_acme_0", "cudaAcme", "sm90_acme_gemm"],
    "communication": [
        "acme_symm_mem_reduce",
        "gloo:acme",
        "nccl:all_reduce_acme",
        "ncclDevKernel_SendRecv: acme stage",
    ],
    "memory": ["acme", "Memcpyacme"],
    "host": ["acme", "aten::a b"],
    "python": ["aten::mm"],
    "": ["aten::mm"],
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, some in NAMES.items() for name in some])
def test_names_of_libraries_stay(kind: str, name: str) -> None:
    assert is_public_name(kind, name)
    (found,) = redacted("names", pattern(kind=kind, function=name, stack=()))
    assert found.function == name


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, some in PRIVATE.items() for name in some])
def test_other_names_do_not(kind: str, name: str) -> None:
    assert not is_public_name(kind, name)
    (found,) = redacted("names", pattern(kind=kind, function=name, stack=()))
    assert found.function == token(KEY, name)


def test_garbage_collections_are_called_so() -> None:
    gc = pattern(function="garbage collection", family="gc", stack=("garbage collection",))
    (found,) = redacted("names", gc)
    assert (found.function, found.stack) == ("garbage collection", ("garbage collection",))


@pytest.mark.parametrize("frame", ["acme", "a:b", "acme:f:x", "acme:f:-1", ""])
def test_a_stack_of_another_form_is_hidden_too(frame: str) -> None:
    (found,) = redacted("names", pattern(function="acme f", stack=(frame,)))
    assert "acme" not in found.function + found.stack[0]
    assert frame_of(found.stack[0]).line == 0


def test_groups_named_by_torch_stay_and_others_are_the_same_token_everywhere() -> None:
    assert all(map(is_public_group, ("", "0", "17", "default_pg")))
    hidden = Redactor("names", KEY)
    mine = token(KEY, "tp_acme")
    named = all_reduce(collectives=tuple(one.__class__("tp_acme", 1, 2, 0.1) for one in all_reduce().collectives[:1]))
    window = hidden.window(worker_window((named,), progress={"tp_acme": (7, 6), "0": (1, 1)}), ())
    assert window.patterns[0].collectives[0].group == mine
    assert window.progress == {mine: (7, 6), "0": (1, 1)}
    stands = hidden.status(status(collectives={"tp_acme": 7, "1": 2}, groups=(("tp_acme", 4, "abcd1234"),)))
    assert (stands.collectives, stands.groups) == ({mine: 7, "1": 2}, ((mine, 4, "abcd1234"),))
    assert Redactor("none", KEY).status(status()) == status()


# The key


def test_the_key_of_one_machine_is_made_once_and_is_the_owners(tmp_path: Path) -> None:
    first = shared_key(tmp_path)
    assert shared_key(tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert (len(first), first.hex() in (tmp_path / KEY_FILE).read_text()) == (32, False)


@pytest.mark.parametrize("content", [None, b"", b"short", b" " * 64], ids=["missing", "empty", "short", "blank"])
def test_a_key_that_is_none_is_refused_with_the_remedy(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"head -c 32 /dev/urandom"):
        read_key(path)


def made(folder: Path, said: list[str], environment: Mapping[str, str] | None = None, **options: str) -> Redactor:
    config = WorkerConfig.from_env({}, directory=str(folder), **{"redact": "names"} | options)
    return redactor(config, identity(), environment or {}, said.append)[0]


def shown(by: Redactor) -> str:
    return by.window(worker_window((python(SCRIPT, MINE),)), ()).patterns[0].function


def test_workers_of_one_machine_and_those_with_one_key_file_show_the_same(tmp_path: Path) -> None:
    said: list[str] = []
    one, two = tmp_path / "a", tmp_path / "b"
    for folder in (one, two):
        folder.mkdir()
    key = tmp_path / "key"
    key.write_text("an owner's long secret\n")
    key.chmod(0o600)
    assert shown(made(one, said)) == shown(made(one, said)) != shown(made(two, said))
    assert shown(made(one, said, redact_key_file=str(key))) == shown(made(two, said, redact_key_file=str(key)))
    assert said == []


def test_without_a_usable_key_names_still_do_not_leave_and_it_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    lost = [shown(made(tmp_path, said, redact_key_file=str(tmp_path / "none"))) for _ in range(2)]
    assert all(TOKEN.match(text) for text in lost)
    assert lost[0] != lost[1]
    assert "EROICA_REDACT_KEY_FILE" in said[0]


@pytest.mark.parametrize(
    ("environment", "several"),
    [({}, False), ({"LOCAL_WORLD_SIZE": "4"}, False), ({"LOCAL_WORLD_SIZE": "2"}, True), ({"SLURM_NNODES": "2"}, True)],
)
def test_several_machines_without_a_common_key_are_told(
    environment: dict[str, str], several: bool, tmp_path: Path
) -> None:
    said: list[str] = []
    made(tmp_path, said, environment)
    assert [text.partition(",")[0] for text in said] == (
        ["each machine of this job has a redaction key of its own"] if several else []
    )


def test_a_key_that_others_may_read_is_told(tmp_path: Path) -> None:
    said: list[str] = []
    key = tmp_path / "key"
    key.write_text("an owner's long secret\n")
    key.chmod(0o644)
    made(tmp_path, said, redact_key_file=str(key))
    assert said == [f"others may read the key of the redaction: chmod 600 {key}"]


def test_a_mode_that_does_not_exist_hides_all() -> None:
    config = WorkerConfig.from_env({"EROICA_REDACT": "name"})
    assert config.redact == "names"
    assert config.problems == ("EROICA_REDACT='name' is not usable: give none or paths or names; names is used",)


# The names behind the tokens


def test_names_are_kept_once_for_all_workers_of_the_machine(tmp_path: Path) -> None:
    mine, others = NamesFile(tmp_path), NamesFile(tmp_path)
    for file in (mine, others, mine):
        file.learn("~000000000001", "acme é")
        file.write()
    NamesFile(tmp_path).write()
    path = tmp_path / NAMES_FILE
    assert path.stat().st_mode & 0o777 == 0o600
    assert dict(read_names(path)) == {"~000000000001": "acme é"}
    assert len(path.read_text().splitlines()) == 1
    with path.open("a") as torn:
        torn.write('{"~000000000002": "to\n[1]\n{"~000000000003": "c"}\n')
    assert dict(read_names(path)) == {"~000000000001": "acme é", "~000000000003": "c"}
    assert dict(read_names(tmp_path / "none")) == {}


def test_each_token_of_a_window_is_kept_with_its_name(tmp_path: Path) -> None:
    config = WorkerConfig.from_env({}, directory=str(tmp_path), redact="names")
    by, names = redactor(config, identity(), {}, lambda why: None)
    window = by.window(
        worker_window((python(SCRIPT, MINE), pattern(3, kind="compute", function="acme::x", stack=())), unknown={}), ()
    )
    names.write()
    kept = dict(read_names(tmp_path / NAMES_FILE))
    tokens = {found for one in window.patterns for text in (one.function, *one.stack) for found in TOKEN.findall(text)}
    assert tokens == kept.keys()
    assert set(kept.values()) == {"acme.data", "Set.augment", "main", "acme::x"}
