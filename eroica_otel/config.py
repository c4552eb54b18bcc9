"""Options of the worker side: one frozen dataclass, and the only place of the worker that reads the environment.

Precedence: argument of ``instrument()`` > environment > default. A malformed variable never stops training: its
default is used and ``problems`` says what was wrong and what would be right.
"""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from eroica_otel.errors import ConfigError
from eroica_otel.wanted import contradictions

CAPTURE_MODES = ("light", "exact", "stacks")
REDACT_MODES = ("none", "paths", "names")
LEVELS = ("compute", "memory", "communication", "host", "python", "python_wait")
"""What an instant may be charged to (docs/how-it-works.md, The summary)."""
RESOURCES = ("cpu", "nic", "sm_clock", "sm", "dram", "pcie", "nvlink")
"""What mu and sigma may measure."""
HARDWARE_VARIABLE, HARDWARE_DIRECTORY = "EROICA_HARDWARE_DIR", "/run/eroica-hardware"
"""The folder that the node agent shares with the workers, and its default (systemd's RuntimeDirectory=)."""
LOCALIZER_PREFIX = "EROICA_LOCALIZE_"
"""Variables of this prefix are options of ``eroica-otel localize`` (commands/settings.py), not of a worker."""
_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}


def boolean(text: str) -> bool:
    """Return what a variable says that is on or off.

    Raises:
        ValueError: it says neither; the text tells what would be right.
    """
    low = text.strip().lower()
    if low not in _TRUE | _FALSE:
        raise ValueError("1 or 0")
    return low in _TRUE


def _number(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"a number from {low:g} to {high:g}") from None
        if not low <= value <= high:
            raise ValueError(f"a number from {low:g} to {high:g}")
        return value

    return parse


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"a whole number from {low} to {high}") from None
        if not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return value

    return parse


def _choice(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in values:
            raise ValueError(" or ".join(values))
        return text

    return parse


def _web(text: str) -> str:
    if text and not text.startswith(("http://", "https://")):
        raise ValueError("an address that begins with http:// or https://")
    return text


def _headers(text: str) -> str:
    if any("=" not in item for item in text.split(",") if item.strip()):
        raise ValueError("NAME=VALUE, several with commas")
    return text


def _order(text: str) -> str:
    levels = [item.strip() for item in text.split(",") if item.strip()]
    if not set(levels) <= set(LEVELS) or len(set(levels)) < len(levels):
        raise ValueError(f"some of {', '.join(LEVELS)}, each once, with commas")
    return ",".join(levels)


def _hold(text: str) -> str:
    for item in text.split(",") if text.strip() else ():
        resource, _, share = item.partition("=")
        try:
            usable = resource.strip() in RESOURCES and 0 < float(share) <= 1
        except ValueError:
            usable = False
        if not usable:
            raise ValueError(f"RESOURCE=SHARE with commas, of {', '.join(RESOURCES)}, above 0 and at most 1")
    return text


def _option(variable: str, default: Any, parse: Callable[[str], Any], text: str) -> Any:
    return field(default=default, metadata={"variable": variable, "parse": parse, "help": text})


def default_directory() -> str:
    """Return the private folder under which workers of this user keep status files and captures."""
    return os.path.join(tempfile.gettempdir(), f"eroica-{getpass.getuser() if os.name != 'posix' else os.getuid()}")


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a worker does; every field is one line of the README's options table."""

    disabled: bool = _option(
        "EROICA_DISABLED", False, boolean, "kill switch: nothing is hooked; neither on nor off counts as on"
    )
    training_job: str = _option(
        "EROICA_TRAINING_JOB", "", str, "name of the job; else OTEL_SERVICE_NAME, a scheduler's name, the script's"
    )
    team: str = _option("EROICA_TEAM", "", str, "label team; else service.namespace of OTEL_RESOURCE_ATTRIBUTES")
    role: str = _option(
        "EROICA_ROLE", "", str, "workers of one role are compared; else as the process groups tell, else all"
    )
    capture: str = _option("EROICA_CAPTURE", "light", _choice(*CAPTURE_MODES), "light, exact or stacks")
    window_seconds: float = _option("EROICA_WINDOW_SECONDS", 20.0, _number(0.5, 600), "length of a window")
    reference: bool = _option("EROICA_REFERENCE", True, boolean, "take a reference window once after warm-up")
    cooldown_seconds: float = _option(
        "EROICA_COOLDOWN_SECONDS", 600.0, _number(0, 86400), "rest after a degraded window"
    )
    periodic_seconds: float = _option(
        "EROICA_PERIODIC_SECONDS", 0.0, _number(0, 604_800), "take a window so long after the latest one; 0: never"
    )
    degraded_ratio: float = _option(
        "EROICA_DEGRADED_RATIO", 0.05, _number(0.01, 10), "rise of the iteration time that counts"
    )
    recent_iterations: int = _option(
        "EROICA_RECENT_ITERATIONS", 50, _integer(10, 1000), "iterations in the recent mean (N)"
    )
    learn_repeats: int = _option("EROICA_LEARN_REPEATS", 10, _integer(3, 100), "repeats that define the iteration (M)")
    event_budget: int = _option(
        "EROICA_EVENT_BUDGET", 1_000_000, _integer(1000, 100_000_000), "most trace events in a window"
    )
    sampler_hertz: float = _option(
        "EROICA_SAMPLER_HERTZ", 1000.0, _number(10, 10000), "stack samples per second in a window"
    )
    loaders: bool = _option("EROICA_LOADERS", True, boolean, "sample the processes of a DataLoader too, in a window")
    top_functions: int = _option("EROICA_TOP_FUNCTIONS", 50, _integer(1, 500), "functions kept per worker and window")
    order: str = _option(
        "EROICA_ORDER", "", _order, "what an instant is charged to first, with commas; the same on all workers"
    )
    hold: str = _option(
        "EROICA_HOLD", "", _hold, "share of a resource's use behind mu and sigma (nic=0.8); the same on all workers"
    )
    hold_seconds: float = _option(
        "EROICA_HOLD_SECONDS", 120.0, _number(1, 86400), "how long patterns stay visible to scrapes"
    )
    watchdog: bool = _option(
        "EROICA_WATCHDOG", True, boolean, "let a training that hangs in C write its stack on SIGURG"
    )
    helper_nice: int = _option("EROICA_HELPER_NICE", 5, _integer(0, 19), "niceness of the helper process")
    nic: str = _option("EROICA_NIC", "", str, "network interface or RDMA adapter of the collectives; else found")
    nic_mbit: float = _option("EROICA_NIC_MBIT", 0.0, _number(0, 1e7), "its speed, where the interface does not tell")
    hardware_dir: str = _option(
        HARDWARE_VARIABLE, HARDWARE_DIRECTORY, str, "folder that the node agent shares; empty: do not look for one"
    )
    hardware_wait_seconds: float = _option(
        "EROICA_HARDWARE_WAIT_SECONDS", 0.0, _number(0, 300), "wait after a window for what the agent has late (nsys)"
    )
    directory: str = _option("EROICA_DIR", "", str, "private folder for status files and captures")
    deliveries: str = _option(
        "EROICA_DELIVERIES", "", str, "otlp, prometheus, remote_write, with commas; else OTEL_METRICS_EXPORTER"
    )
    pull: str = _option(
        "EROICA_PULL", "worker", _choice("worker", "node"), "one port for each worker, or one for all of a node"
    )
    remote_write_url: str = _option("EROICA_REMOTE_WRITE_URL", "", _web, "where remote_write sends series")
    remote_write_headers: str = _option(
        "EROICA_REMOTE_WRITE_HEADERS", "", _headers, "more headers, NAME=VALUE with commas (X-Scope-OrgID=team)"
    )
    remote_write_token_file: str = _option(
        "EROICA_REMOTE_WRITE_TOKEN_FILE", "", str, "file with a bearer token, read at each delivery"
    )
    remote_write_user: str = _option("EROICA_REMOTE_WRITE_USER", "", str, "user of basic authentication")
    remote_write_password_file: str = _option(
        "EROICA_REMOTE_WRITE_PASSWORD_FILE", "", str, "file with the password, read at each delivery"
    )
    redact: str = _option(
        "EROICA_REDACT", "none", _choice(*REDACT_MODES), "none, paths or names: what leaves as keyed hashes"
    )
    redact_key_file: str = _option(
        "EROICA_REDACT_KEY_FILE", "", str, "file with their key, the same on all machines; else made in EROICA_DIR"
    )
    problems: tuple[str, ...] = ()
    own_provider: bool = False
    """Whether the series go by a meter provider of the training's, so that the helper delivers nothing."""

    @classmethod
    def from_env(cls, environment: Mapping[str, str], **arguments: Any) -> WorkerConfig:
        """Read EROICA_* of ``environment``; ``arguments`` (field names) win.

        Raises:
            ConfigError: an argument has an unknown name. A malformed value does not raise: see ``problems``.
        """
        unknown = sorted(set(arguments) - set(OPTIONS))
        if unknown:
            raise ConfigError(f"instrument() has no option {', '.join(unknown)}; it has {', '.join(OPTIONS)}")
        given = {name: environment.get(option.metadata["variable"]) for name, option in OPTIONS.items()}
        values, problems = _parsed(given, {name: option.metadata["variable"] for name, option in OPTIONS.items()})
        wins, wrong = _parsed(arguments, {name: name for name in OPTIONS})
        known = {option.metadata["variable"] for option in OPTIONS.values()} | _OTHER_VARIABLES
        problems += wrong + [
            f"{name} is not an option of this version and does nothing"
            for name in sorted(environment)
            if name.startswith("EROICA_") and not name.startswith(LOCALIZER_PREFIX) and name not in known
        ]
        config = cls(**(values | wins))
        config = replace(config, problems=(*problems, *_without_effect(config), *contradictions(environment, config)))
        directory = os.path.expanduser(config.directory) if config.directory else default_directory()
        key_file = config.redact_key_file and os.path.abspath(os.path.expanduser(config.redact_key_file))
        shared = config.hardware_dir and os.path.abspath(os.path.expanduser(config.hardware_dir))
        return replace(config, directory=os.path.abspath(directory), redact_key_file=key_file, hardware_dir=shared)

    def with_own_provider(self) -> WorkerConfig:
        """Return it with the series on a meter provider of the training's."""
        odd = ("EROICA_DELIVERIES has no effect: the series go to meter_provider",) if self.deliveries else ()
        return replace(self, own_provider=True, problems=(*self.problems, *odd))

    def charge_order(self) -> tuple[str, ...]:
        """Return ``order`` as levels, highest first; () where the usual one holds."""
        return tuple(self.order.split(",")) if self.order else ()

    def held_shares(self) -> dict[str, float]:
        """Return ``hold`` by resource."""
        pairs = (item.split("=") for item in self.hold.split(",") if item.strip())
        return {resource.strip(): float(share) for resource, share in pairs}


OPTIONS = {item.name: item for item in fields(WorkerConfig) if "variable" in item.metadata}
"""Every option by the name of its field."""


def _without_effect(config: WorkerConfig) -> Iterator[str]:
    """Say what has been set and has no effect, each with its remedy."""
    if config.redact_key_file and config.redact == "none":
        yield "EROICA_REDACT_KEY_FILE has no effect, names leave as they are: set EROICA_REDACT=paths or names too"
    if config.hardware_wait_seconds and not config.hardware_dir:
        yield "EROICA_HARDWARE_WAIT_SECONDS has no effect while EROICA_HARDWARE_DIR is empty: set it, or leave both out"


_CAREFUL: dict[str, tuple[object, str]] = {
    "redact": ("names", "names is used"),
    "disabled": (True, "nothing is watched"),
}
"""What an unusable value means, and how that is said, where the default would do what must not happen: names that were
to be kept leave, a training that was to be left alone is watched."""


def _parsed(given: Mapping[str, Any], spelled: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return usable values by field, and what is wrong with the others; None = not given."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in given.items():
        if value is None:
            continue
        try:
            values[name] = OPTIONS[name].metadata["parse"](str(value))
        except ValueError as error:
            done = "it is ignored"
            if name in _CAREFUL:
                values[name], done = _CAREFUL[name]
            problems.append(f"{spelled[name]}={value!r} is not usable: give {error}; {done}")
    return values, problems


_OTHER_VARIABLES = {"EROICA_DEMO_FAULT"}
