"""The key of the tokens and the names behind them: files of the training's owner, which never leave the machine.

All workers of a job need one key. On one machine it is made where it is missing, in the private folder that the workers
share; ranks on several machines get it from a file that the owner puts there (EROICA_REDACT_KEY_FILE).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from eroica_otel.config import WorkerConfig
from eroica_otel.errors import ConfigError
from eroica_otel.export.redact import NONE, Redactor
from eroica_otel.identity import LOCAL_WORLDS
from eroica_otel.model import Identity

KEY_FILE = "redact.key"
NAMES_FILE = "redacted-names.jsonl"
LEAST_BYTES = 16
"""Of a secret: whoever could try all keys would find every name that can be guessed."""
MOST_BYTES = 1 << 16
MOST_NAMES_BYTES = 32 << 20


def redactor(
    config: WorkerConfig, identity: Identity, environment: Mapping[str, str], failed: Callable[[str], None]
) -> tuple[Redactor, NamesFile]:
    """Return what takes names out of this worker's series, and the file that keeps them here.

    Without a usable key nothing leaves in the clear either: names get a key that nobody has, and ``failed`` is told.
    """
    folder = Path(config.directory)
    names = NamesFile(folder)
    if config.redact == NONE:
        return Redactor(NONE, b""), names
    try:
        key = read_key(Path(config.redact_key_file)) if config.redact_key_file else shared_key(folder)
    except ConfigError as error:
        failed(f"{error}; until then nobody can tell or compare the names of this worker")
        return Redactor(config.redact, secrets.token_bytes(32)), names
    if config.redact_key_file and seen_by_others(Path(config.redact_key_file)):
        failed(f"others may read the key of the redaction: chmod 600 {config.redact_key_file}")
    if not config.redact_key_file and on_several_machines(identity, environment):
        failed(
            "each machine of this job has a redaction key of its own, so its workers cannot be compared with those of "
            "another: put one key on all of them and set EROICA_REDACT_KEY_FILE"
        )
    return Redactor(config.redact, key, names.learn), names


def on_several_machines(identity: Identity, environment: Mapping[str, str]) -> bool:
    """Return whether the launcher's variables say that the job has ranks elsewhere; False where they do not tell."""
    here = next((environment[name] for name in LOCAL_WORLDS if environment.get(name, "").isdecimal()), "")
    if here:
        return int(here) < identity.world_size
    nodes = environment.get("SLURM_NNODES", "")
    return nodes.isdecimal() and int(nodes) > 1


def read_key(path: Path) -> bytes:
    """Return the key that a secret file stands for.

    Raises:
        ConfigError: the file cannot be read, or holds too little.
    """
    try:
        with path.open("rb") as file:
            secret = file.read(MOST_BYTES).strip()
    except OSError as error:
        raise ConfigError(
            f"the key of the redaction cannot be read ({error}): set EROICA_REDACT_KEY_FILE to a file that all ranks "
            "can read, as `head -c 32 /dev/urandom | base64 > FILE` makes it"
        ) from error
    if len(secret) < LEAST_BYTES:
        raise ConfigError(
            f"{path} holds {len(secret)} bytes and a key needs {LEAST_BYTES}: make one by "
            f"`head -c 32 /dev/urandom | base64 > {path}`"
        )
    return hashlib.blake2b(secret, digest_size=32, person=b"eroica redact").digest()


def shared_key(folder: Path) -> bytes:
    """Return the key of all workers under ``folder``; whoever comes first makes it.

    Raises:
        ConfigError: it cannot be made or read.
    """
    path = folder / KEY_FILE
    if not path.exists():
        mine = folder / f"{KEY_FILE}.{os.getpid()}"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.stat().st_uid != os.getuid():
                raise PermissionError("it belongs to another user")
            descriptor = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32) + "\n")
            with suppress(FileExistsError):
                os.link(mine, path)  # a whole file or none, and the first one stays
        except OSError as error:
            raise ConfigError(f"no key of the redaction can be made in {folder} ({error}): set EROICA_DIR") from error
        finally:
            mine.unlink(missing_ok=True)
    return read_key(path)


def seen_by_others(path: Path) -> bool:
    """Return whether users beside the owner may read the file."""
    try:
        return bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))
    except OSError:
        return False


class NamesFile:
    """Where the workers of one machine write which name a token stands for: one JSON object a line, 0600."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAMES_FILE
        self._known: dict[str, str] | None = None
        self._new: dict[str, str] = {}

    def learn(self, token: str, name: str) -> None:
        """Remember a name until the next ``write``."""
        if self._known is None:
            self._known = dict(read_names(self._path))
        if token not in self._known:
            self._known[token] = self._new[token] = name

    def write(self) -> None:
        """Append what is new, in one piece, since other workers do the same.

        Raises:
            OSError: it cannot be written; it is not tried again with these.
        """
        if not self._new:
            return
        text = "".join(json.dumps({token: name}) + "\n" for token, name in self._new.items()).encode()
        self._new.clear()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, text)
        finally:
            os.close(descriptor)


def read_names(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (token, name) of a names file; a torn line is passed over, a file that is not there is empty."""
    with suppress(OSError), path.open("rb") as file:
        for line in file.read(MOST_NAMES_BYTES).splitlines():
            with suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    yield from ((str(token), str(name)) for token, name in found.items())
