"""Takes the name of a data folder, gives where it lies: the copy in the wheel, else the one in the checkout."""

from __future__ import annotations

from pathlib import Path

from eroica_otel.errors import ConfigError

FOLDERS = ("grafana", "alerts")


def path(name: str, package: Path = Path(__file__).parent) -> Path:
    """Return the folder ``name``, one of FOLDERS.

    Raises:
        ConfigError: the name is unknown, or neither the wheel nor a checkout holds the folder.
    """
    if name not in FOLDERS:
        raise ConfigError(f"there is no data folder {name!r}; give one of {', '.join(FOLDERS)}")
    for folder in (package / "_assets" / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise ConfigError(f"the data folder {name!r} is missing beside {package}; install eroica-otel again from its wheel")
