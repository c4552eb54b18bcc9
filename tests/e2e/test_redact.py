"""A real small training whose code is full of a marked word: nothing that leaves it carries the word."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from eroica_otel.commands.main import main
from eroica_otel.export.redact import TOKEN
from factories_worker import Endpoint

PACKAGE = '''\
"""acme's secret recipe."""

import time

import torch
from torch.utils.data import Dataset


class AcmeSet(Dataset):
    def __len__(self):
        return 10**6

    def __getitem__(self, index):
        return self.acme_augment(torch.randn(16))

    def acme_augment(self, sample):
        end = time.perf_counter() + 0.002  # acme comment
        while time.perf_counter() < end:
            pass
        return sample


@torch.library.custom_op("acme::fuse", mutates_args=())
def acme_fuse(x: torch.Tensor) -> torch.Tensor:
    time.sleep(0.002)
    return x.clone()


acme_fuse.register_autograd(lambda context, gradient: gradient)
'''
SCRIPT = """\
import pathlib
import sys

import torch
from torch.utils.data import DataLoader

import eroica_otel.auto
from acme_recipes.acme_data import AcmeSet, acme_fuse


def acme_main(stop):
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in DataLoader(AcmeSet(), batch_size=4):
        acme_fuse(model(batch)).square().mean().backward()
        optimizer.step()
        if stop.exists():
            break


acme_main(pathlib.Path(sys.argv[1]))
"""


def test_nothing_that_leaves_a_real_training_names_its_code(tmp_path: Path) -> None:
    project = tmp_path / "acme-project"
    (project / "acme_recipes").mkdir(parents=True)
    (project / "acme_recipes" / "acme_data.py").write_text(PACKAGE)
    (project / "acme_train.py").write_text(SCRIPT)
    with closing(Endpoint()) as otlp, closing(Endpoint()) as written:
        environment = {name: text for name, text in os.environ.items() if not name.startswith(("EROICA_", "OTEL_"))}
        environment |= {
            "EROICA_REDACT": "names",
            "EROICA_DIR": str(tmp_path / "workers"),
            "EROICA_WINDOW_SECONDS": "1",
            "OTEL_METRICS_EXPORTER": "otlp,remote_write",
            "OTEL_EXPORTER_OTLP_ENDPOINT": otlp.url,
            "EROICA_REMOTE_WRITE_URL": written.url,
        }
        stop = tmp_path / "stop"
        running = subprocess.Popen([sys.executable, "acme_train.py", str(stop)], cwd=project, env=environment)
        try:
            _wait_for_window(running, otlp)
        finally:
            stop.touch()
            code = running.wait(60)
    assert code == 0
    sent = b"".join(otlp.bodies)
    for delivery in (sent, b"".join(written.bodies)):
        assert b"acme" not in delivery.lower()
        assert str(tmp_path).encode() not in delivery
        for public in (b"aten::", b"torch.utils.data.dataloader", b"input"):
            assert public in delivery
    _names_come_back(sent, tmp_path, project)


def _wait_for_window(running: subprocess.Popen[bytes], otlp: Endpoint) -> None:
    for _ in range(900):
        if any(b"eroica.pattern_beta_ratio" in body for body in otlp.bodies):
            return
        try:
            code = running.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"the training ended with {code}")
    raise AssertionError("no window in 90 s")


def _names_come_back(sent: bytes, tmp_path: Path, project: Path) -> None:
    """From what the worker kept, and from source and key alone; both give the functions of the training."""
    tokens = " ".join(sorted(set(TOKEN.findall(sent.decode(errors="replace")))))
    output = tmp_path / "tokens"
    output.write_text(tokens)
    unredact = [sys.executable, "-m", "eroica_otel.commands.main", "unredact", str(output)]
    kept = subprocess.run([*unredact, "--dir", str(tmp_path / "workers")], capture_output=True, text=True, check=True)
    source = ["--dir", str(tmp_path), "--source", str(project), "--key-file", str(tmp_path / "workers" / "redact.key")]
    found = subprocess.run([*unredact, *source], capture_output=True, text=True, check=False)
    wanted = {"acme_main", "AcmeSet.__getitem__", "AcmeSet.acme_augment", "acme_recipes.acme_data", "acme::fuse"}
    assert wanted <= set(kept.stdout.split())
    assert wanted <= set(found.stdout.split())
    assert main(["unredact", "--text", "nothing hidden", "--dir", str(tmp_path)]) == 0
