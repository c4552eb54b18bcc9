"""The demo's output folder is its own; the rest of the demo is in tests/e2e."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from eroica_otel.commands.demo import FAULT_CORES, HELP, MARKER, OURS, _alone, _own_folder
from eroica_otel.errors import ConfigError


def test_the_help_says_how_hard_the_limit_of_the_cpu_is() -> None:
    assert FAULT_CORES == 0.07
    assert "--fault cpu gives one worker 7 % of a core: a worker of this training needs a tenth of one" in HELP


def test_what_the_caller_has_set_for_its_own_trainings_is_left_out_but_for_further_deliveries() -> None:
    kept = {
        "OTEL_METRICS_EXPORTER": "otlp,remote_write", "EROICA_REMOTE_WRITE_URL": "http://127.0.0.1:1", "PATH": "/bin",
    }  # fmt: skip
    own = {"EROICA_DISABLED": "1", "EROICA_LOCALIZE_PROMETHEUS": "http://a", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "x"}
    environment = {**own, **kept}
    assert _alone(environment, "otlp") == sorted(own)
    assert environment == kept


@pytest.mark.parametrize(
    ("exporter", "backend", "missing"),
    [("none", "otlp", "otlp"), ("prometheus", "otlp", "otlp"), ("otlp", "prometheus", "prometheus")],
)
def test_a_delivery_that_leads_past_the_demo_is_refused(exporter: str, backend: str, missing: str) -> None:
    with pytest.raises(ConfigError, match=f"OTEL_METRICS_EXPORTER='{exporter}' .* or add {missing}"):
        _alone({"OTEL_METRICS_EXPORTER": exporter}, backend)


def test_what_an_earlier_demo_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    with _own_folder(tmp_path / "out") as out:
        for name in OURS:
            (out / name).mkdir()
        (out / "mine").write_text("kept")
    with _own_folder(tmp_path / "out") as out:
        assert sorted(path.name for path in out.iterdir()) == [MARKER, "mine"]


def test_a_folder_with_somebodys_files_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "thesis").write_text("dear")
    with pytest.raises(ConfigError, match="give a new or an empty folder"), _own_folder(tmp_path):
        pass
    assert (tmp_path / "state" / "thesis").read_text() == "dear"


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    with _own_folder(tmp_path / "out") as out:
        (out / "workers").symlink_to(kept)
    with _own_folder(tmp_path / "out") as out:
        assert not (out / "workers").exists()
    assert kept.is_dir()


def test_two_demos_do_not_share_a_folder(tmp_path: Path) -> None:
    with _own_folder(tmp_path / "out") as out, (out / MARKER).open() as second:
        with pytest.raises(BlockingIOError):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(ConfigError, match="another demo is using it"), _own_folder(tmp_path / "out"):
            pass


def test_a_file_in_its_place_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="give a folder that can be made"), _own_folder(tmp_path / "file"):
        pass
