"""Tokens back into names: from what workers kept, from source code and key, into text, JSON and HTML."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from eroica_otel.commands.main import main
from eroica_otel.commands.unredact import restored
from eroica_otel.export.codenames import names_in
from eroica_otel.export.redact import Redactor, token
from eroica_otel.export.secret import NAMES_FILE, NamesFile, read_key, shared_key
from eroica_otel.kinds import Frame
from factories_worker import pattern, worker_window

SOURCE = """\
import torch


class Model:
    def forward(self, x):
        return [self.scale(y) for y in x]

    def build(self):
        def inner():
            return lambda: torch.ops.load("acme::fuse")
        return inner


async def fetch():
    pass
"""


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("EROICA_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    (folder / "acme").mkdir(parents=True)
    (folder / "acme" / "__init__.py").touch()
    (folder / "acme" / "model.py").write_text(SOURCE)
    (folder / "acme" / "broken.py").write_text("def f(:")
    return folder


def kept(folder: Path, **names: str) -> None:
    file = NamesFile(folder)
    for key, name in names.items():
        file.learn(key.replace("t", "~", 1), name)
    file.write()


def test_names_that_the_workers_of_this_machine_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(tmp_path, t000000000001="Set.augment", t000000000002="acme.data")
    text = "rank 3 spends 62 ms in ~000000000001 (~000000000002:104)"
    assert main(["unredact", "--text", text, "--dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "rank 3 spends 62 ms in Set.augment (acme.data:104)\n"


def test_the_folder_is_that_of_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path, t000000000001="main")
    monkeypatch.setenv("EROICA_DIR", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO("in ~000000000001\n"))
    assert main(["unredact"]) == 0
    assert capsys.readouterr().out == "in main\n"


def test_a_copy_from_another_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    kept(other, t000000000001="main")
    report = tmp_path / "report.txt"
    report.write_text("~000000000001")
    command = ["unredact", str(report), "--dir", str(tmp_path), "--names", str(other / NAMES_FILE)]
    assert main(command) == 0
    assert capsys.readouterr().out == "main\n"


def test_unknown_tokens_stay_and_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["unredact", "--text", "a ~00000000000f b", "--dir", str(tmp_path)]) == 3
    output = capsys.readouterr()
    assert output.out == "a ~00000000000f b\n"
    assert "1 tokens have no name here (~00000000000f)" in output.err
    assert "--source and --key-file" in output.err


def test_every_name_that_a_window_hides_is_found_in_the_source_with_the_key(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = shared_key(tmp_path)
    frames = [
        Frame(module, name, str(project / "acme" / "model.py"), line)
        for module, name, line in (
            ("acme.model", "Model.forward", 5), ("acme.model", "Model.forward.<locals>.<listcomp>", 6),
            ("acme.model", "Model.build.<locals>.inner.<locals>.<lambda>", 10), ("model", "fetch", 15),
            ("src.acme.model", "Model.build.<locals>.inner", 9),
        )
    ]  # fmt: skip
    stack = tuple(f"{frame.module}:{frame.qualname}:{frame.line}" for frame in frames)
    given = (pattern(stack=stack), pattern(1, kind="compute", function="acme::fuse", stack=()))
    window = Redactor("names", key).window(worker_window(given), frames)
    text = " > ".join((*window.patterns[0].stack, window.patterns[1].function))
    assert "acme" not in text
    assert main(["unredact", "--text", text, "--dir", str(tmp_path), "--source", str(project)]) == 0
    assert capsys.readouterr().out.strip() == " > ".join((*stack, "acme::fuse"))


def test_with_a_key_file_the_source_suffices(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = tmp_path / "job.key"
    secret.write_text("an owner's long secret")
    hidden = token(read_key(secret), "Model.forward")
    nowhere = str(tmp_path / "nowhere")
    command = ["unredact", "--text", hidden, "--dir", nowhere, "--source", str(project), "--key-file", str(secret)]
    assert main(command) == 0
    assert capsys.readouterr().out == "Model.forward\n"


def test_json_stays_json_and_html_stays_html() -> None:
    names = {"~000000000001": 'f.<locals>.g "x"\\'}
    document = json.dumps({"function": "~000000000001 (a:1)"})
    assert json.loads(restored(document, names)) == {"function": 'f.<locals>.g "x"\\ (a:1)'}
    page = restored("<!doctype html><code>~000000000001</code>", names)
    assert page == "<!doctype html><code>f.&lt;locals&gt;.g &quot;x&quot;\\</code>"
    assert restored("plain ~000000000001", names) == 'plain f.<locals>.g "x"\\'


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["no-such-file"], "cannot be read as text"),
        (["--text", "x", "--names", "no-such-file"], "--names no-such-file is no file"),
        (["--text", "x", "--source", "no-such-folder"], "the key of the redaction cannot be read"),
        (["--text", "x", "--key-file", "key"], "give the folder of the training's code with --source"),
    ],
)
def test_wrong_usage_is_told(more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["unredact", "--dir", str(tmp_path), *more]) == 2
    assert said in capsys.readouterr().err


def test_a_source_folder_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared_key(tmp_path)
    assert main(["unredact", "--text", "x", "--dir", str(tmp_path), "--source", str(tmp_path / "none")]) == 2
    assert "is no folder; give the one that holds the training's code" in capsys.readouterr().err


def test_names_of_a_source_folder(project: Path) -> None:
    found = set(names_in(project))
    assert {"acme", "src.acme", "src.acme.model", "acme.model", "model", "acme.broken", "Model", "forward"} <= found
    assert "acme.__init__" not in found
