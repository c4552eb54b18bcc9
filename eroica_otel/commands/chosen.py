"""Everything that ``eroica-otel localize`` is told, by whatever way -> what its job is given. Opens nothing."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from eroica_otel.commands import access, destinations, sources
from eroica_otel.commands.configfile import ConfigFile, read
from eroica_otel.commands.settings import Option, Setting, effective, unknown_variables
from eroica_otel.config import LOCALIZER_PREFIX
from eroica_otel.errors import ConfigError
from eroica_otel.joboptions import JobOptions
from eroica_otel.publish.report import html, json
from eroica_otel.publish.serve import Renderer
from eroica_otel.webserver import Address, parse_address

RENDERERS: Mapping[str, Renderer] = {"json": json.render, "html": html.render}
CONFIG_VARIABLE = f"{LOCALIZER_PREFIX}CONFIG"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is in force.

    Attributes:
        settings: Every option by its dest, with its origin.
        file: What the configuration file says.
        job: What the job is given.
        problems: What does nothing although somebody gave it.
    """

    settings: Mapping[str, Setting]
    file: ConfigFile
    job: JobOptions
    problems: tuple[str, ...] = ()

    @property
    def arguments(self) -> argparse.Namespace:
        """Every option by its dest, as if all had been given on the command line."""
        return _namespace(self.settings)

    def make_folder(self) -> None:
        """Make the folder of --report.

        Raises:
            ConfigError: it cannot be made.
        """
        try:
            if self.job.folder:
                os.makedirs(self.job.folder, exist_ok=True)
        except OSError as error:
            folder = f"--report {self.job.folder}"
            raise ConfigError(f"{folder}: {error.strerror}; give a folder that can be written") from error


def choose(options: tuple[Option, ...], given: argparse.Namespace, environment: Mapping[str, str]) -> Chosen:
    """Return what the command line, the environment and the file that they name come to.

    Raises:
        ConfigError: something cannot be used; says where it was given, unless on the command line.
    """
    path = getattr(given, "config", "") or environment.get(CONFIG_VARIABLE, "")
    file = read(path, options) if path else ConfigFile()
    if file.problems:
        more = f" (and {len(file.problems) - 1} more)" if len(file.problems) > 1 else ""
        raise ConfigError(f"{path}: {file.problems[0]}{more}; eroica-otel config check {path} names all")
    return chosen(options, given, environment, file)


def chosen(
    options: tuple[Option, ...], given: argparse.Namespace, environment: Mapping[str, str], file: ConfigFile
) -> Chosen:  # fmt: skip
    """Return what is in force beside a file that was read already.

    Raises:
        ConfigError: as ``choose``.
    """
    settings = effective(options, given, environment, file.options or {}, file.path)
    try:
        job = _job(_namespace(settings), environment, file)
    except ConfigError as error:
        raise ConfigError(f"{error}{_where(str(error), options, settings)}") from error
    return Chosen(settings, file, job, tuple(unknown_variables(options, environment)))


def _namespace(settings: Mapping[str, Setting]) -> argparse.Namespace:
    return argparse.Namespace(**{dest: setting.value for dest, setting in settings.items()})


def _where(text: str, options: Iterable[Option], settings: Mapping[str, Setting]) -> str:
    """Return where the option that a message begins with was given, where that is not the command line."""
    named = text.split(maxsplit=1)[0]
    origin = next((settings[option.dest].origin for option in options if named == f"--{option.name}"), "default")
    return "" if origin == "default" or origin.startswith("--") else f" (from {origin})"


def _job(arguments: argparse.Namespace, environment: Mapping[str, str], file: ConfigFile) -> JobOptions:
    token = _token(arguments.token_file)
    if arguments.timeout == 0 and not arguments.once:
        raise ConfigError("--timeout 0 does not wait, which is for --once; give it too, or a number above 0")
    if arguments.tls_key and not arguments.tls_certificate:
        raise ConfigError(f"--tls-key {arguments.tls_key} has no certificate; give --tls-certificate too")
    tls = (arguments.tls_certificate, arguments.tls_key, token)
    listen = sources.listen(arguments, *tls)
    metrics = Address(*parse_address(arguments.metrics, "--metrics"), "--metrics", *tls)
    return JobOptions(
        listen=listen,
        metrics=metrics,
        state=arguments.state or _default_state(environment),
        outputs=_outputs(arguments.json),
        folder=arguments.report,
        renderers=RENDERERS,
        thresholds=file.policies.base.thresholds(),
        policies=file.policies,
        patience=file.patience,
        backend=sources.backend(arguments, listen, metrics),
        files=_folder(arguments.files),
        send=destinations.destinations(arguments, environment, listen, metrics),
        annotate=access.annotated(arguments, environment),
        workers=arguments.workers,
    )


def _folder(path: str) -> str:
    if path and not os.path.isdir(path):
        raise ConfigError(f"--files {path}: there is no such folder; create it, or give another")
    return path


def _outputs(file: str) -> dict[str, Renderer]:
    if file and not os.path.isdir(os.path.dirname(file) or "."):
        raise ConfigError(f"--json {file}: the folder does not exist; create it")
    return {file: json.render} if file else {}


def _token(file: str) -> str:
    if not file:
        return ""
    try:
        token = Path(file).read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConfigError(f"--token-file {file}: {error.strerror or error}; give a file that can be read") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"--token-file {file}: it is not ASCII; write one line with the token into it") from error
    if not token:
        raise ConfigError(f"--token-file {file} is empty; write a token into it")
    return token


def _default_state(environment: Mapping[str, str]) -> str:
    return os.path.join(environment.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "eroica_otel")
