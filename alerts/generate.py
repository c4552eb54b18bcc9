"""Takes alerts/templates, alerts/config.ini and the table of causes, gives alerts/rules and alerts/prometheusrule.yaml.

``make docs`` runs it; a test fails when a file is not what this writes. With other choices: ``python alerts/generate.py
--config MINE.ini --out FOLDER``; what MINE.ini leaves out is as in config.ini. A template marks what is filled in by
``@{name}``.
"""

from __future__ import annotations

import argparse
import configparser
import json
import re
import string
import sys
from collections.abc import Mapping
from pathlib import Path

from eroica_otel.errors import ConfigError, EroicaError, one_line
from eroica_otel.localize.causes import TABLE

ALERTS = Path(__file__).parent
HEAD = "# Written by alerts/generate.py from alerts/templates and alerts/config.ini; do not edit.\n"
HANG_CAUSES = ("checkpoint_stall", "hang_in_python", "hang_missing_rank", "process_stopped")
"""Causes of a worker that does not go on, as against one that is slow: all that localize/hang.py gives."""

MANIFEST = """\
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: eroica-otel
  labels:
    # What the operator selects; kube-prometheus-stack asks for its own release here.
    release: prometheus
spec:
"""

_JOB = "training_job=%q, team=%q"
_JOB_ARGUMENTS = "$labels.training_job $labels.team"
_QUERIES = {
    # What it takes now; a mean of five minutes is half of what was before when a finding is told.
    "q_period": (
        f"job:eroica_iteration_recent_seconds:median{{{_JOB}}} or job:eroica_iteration_period_seconds:mean5m{{{_JOB}}}"
    ),
    "q_rise": f"job:eroica_iteration_degradation_ratio:median{{{_JOB}}}",
    "q_split": f"max(eroica_localizer_no_consensus{{{_JOB}}}) > 0",
    "q_expected": f"max(eroica_localizer_workers_expected{{{_JOB}}})",
    "q_world": f"max(eroica_world_size{{{_JOB}}})",
    "q_gone": (
        f"topk(8, max by (rank, host) (last_over_time(eroica_world_size{{{_JOB}}}[1h]))"
        f" unless on (rank) eroica_world_size{{{_JOB}}})"
    ),
    "q_victims": f"max(eroica_anomaly_victims{{{_JOB}, function_id=%q, cause=%q}}) > 0",
    "q_ranks": (
        "count by (rank) (eroica_anomaly_impact_ratio{"
        f'{_JOB}, role=%q, severity=%q, scope="role", function_id=%q, cause=%q'
        "})"
    ),
    "q_link": f'topk(1, max by (link) (eroica_anomaly_impact_ratio{{{_JOB}, verdict="culprit", rank=""}}))',
    "q_deliveries": f'sort(sum by (delivery) (rate(eroica_deliveries_total{{{_JOB}, outcome="failed"}}[10m])) > 0)',
    "q_failed_windows": f'topk(8, max by (rank) (eroica_windows_total{{{_JOB}, outcome="failed"}}) > 0)',
    "q_failed_stages": f'topk(8, max by (stage) (eroica_failures_total{{{_JOB}, stage!="delivery"}}) > 0)',
    "q_localizer_stages": (
        "max by (stage) (increase(eroica_localizer_failures_total@{localizer_braces}[@{failures}])) > 0"
    ),
    "q_advice": "max by (advice) (cause:eroica_advice:info{cause=%q})",
}
"""What annotations look up; each %q is filled in, and quoted, by the alert's own labels."""

_WORKER = "rank=%q, host=%q, severity=%q"
_WORKER_ARGUMENTS = "$labels.rank $labels.host $labels.severity"
_HANGS, _SLOWS = 'cause=~"@{hang_causes}"', 'cause!~"@{hang_causes}"'
_FINDINGS = {
    "worker": (f'{_WORKER}, verdict="culprit", scope!="role", {_SLOWS}', _WORKER_ARGUMENTS),
    "role": (f'role=%q, severity=%q, verdict="culprit", scope="role", {_SLOWS}', "$labels.role $labels.severity"),
    "hang": (f'{_WORKER}, verdict="culprit", {_HANGS}', _WORKER_ARGUMENTS),
    "link": ('rank="", severity=%q, verdict="culprit"', "$labels.severity"),
    "job": (f'severity=%q, verdict="job", {_SLOWS}', "$labels.severity"),
    "jobhang": (f'severity=%q, verdict="job", {_HANGS}', "$labels.severity"),
}
"""Matchers of the findings that one alert is about, and the labels that fill them in."""

_PER_JOB, _PER_WORKER, _PER_ROLE = "training_job, team", "training_job, team, rank, host", "training_job, team, role"
_ALERTED = {
    "worker": (_PER_WORKER, f'verdict="culprit", rank!="", scope!="role", {_SLOWS}'),
    # What all workers of a role do is how the work is divided: it is told of the role, on no host.
    "role": (_PER_ROLE, f'verdict="culprit", rank!="", scope="role", {_SLOWS}'),
    "hang": (_PER_WORKER, f'verdict="culprit", rank!="", {_HANGS}'),
    "link": (_PER_JOB, 'verdict="culprit", rank=""'),
    "job": (_PER_JOB, f'verdict="job", {_SLOWS}'),
    "jobhang": (_PER_JOB, f'verdict="job", {_HANGS}'),
}
"""What has one alert, and the matchers of the findings among which the alert is about one."""


class _Template(string.Template):
    delimiter = "@"


def main(argv: list[str] | None = None) -> int:
    """Write the rules and the manifest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--config", type=Path, default=ALERTS / "config.ini", help="your choices (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, default=ALERTS, help="where the files go (default: %(default)s)")
    arguments = parser.parse_args(argv)
    try:
        write(arguments.out, files(read(arguments.config)))
    except EroicaError as error:
        sys.stderr.write(f"generate.py: {error}\n")
        return error.exit_code
    return 0


def read(path: Path) -> str:
    """Return the text of a config.ini.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = one_line(getattr(error, "strerror", "") or str(error))
        raise ConfigError(f"--config {path} cannot be read: {why}; give a copy of alerts/config.ini") from error


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files by their path below ``folder``.

    Raises:
        ConfigError: the folder cannot be written.
    """
    for name, text in texts.items():
        try:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, "utf-8")
        except OSError as error:
            raise ConfigError(f"--out {folder} cannot be written: {error.strerror}; give another folder") from error


def files(config: str) -> dict[str, str]:
    """Return the text of every generated file by its path below alerts/, for the text of a config.ini.

    Raises:
        ConfigError: it is none, or a choice cannot be used.
    """
    words = _words(config)
    rules = {path.name: _fill(path.read_text("utf-8"), words) for path in sorted((ALERTS / "templates").glob("*.yml"))}
    groups = "groups:\n" + "".join(text.removeprefix("groups:\n") for text in rules.values())
    manifest = MANIFEST + "".join(f"  {line}".rstrip() + "\n" for line in groups.splitlines())
    return {f"rules/{name}": HEAD + text for name, text in rules.items()} | {"prometheusrule.yaml": HEAD + manifest}


def _words(config: str) -> dict[str, str]:
    """Return what each @{name} stands for."""
    words = _choices(config)
    words["localizer_braces"] = f"{{{words['localizer']}}}" if words["localizer"] else ""
    # What is no address makes a dead link of runbook_url, which Grafana and notifications show as one.
    words["runbook_label"] = "runbook_url" if words["runbook"].startswith(("http://", "https://")) else "runbook"
    words["hang_causes"] = "|".join(HANG_CAUSES)
    words["advice_rules"] = "\n".join(_advice(row.name, row.advice) for row in TABLE)
    expressions = {f"x_{name}": _largest(*what) for name, what in _ALERTED.items()}
    return words | _QUERIES | expressions | _lookups()


_MATCHER = r'\w+\s*(=~|!~|!=|=)\s*"([^"\\]|\\.)*"'
_KINDS = {
    "rules": (rf"{_MATCHER}(\s*,\s*{_MATCHER})*", 'matchers, for example cluster="a", env=~"b.*"'),
    "thresholds": (r"[0-9]+(\.[0-9]+)?", "a number"),
    "patience": (r"([0-9]+(ms|[smhdwy]))+", "a duration, for example 5m"),
}
"""What the values of a section look like: in Prometheus' words, since a rule that it refuses stops all of a file."""
_MAY_BE_EMPTY = ("localizer", "agents")


def _choices(config: str) -> dict[str, str]:
    """Return the choices by name, those of config.ini where ``config`` makes none."""
    known, given = (configparser.ConfigParser(interpolation=None) for _ in range(2))
    known.read_string((ALERTS / "config.ini").read_text("utf-8"))
    try:
        given.read_string(config)
    except configparser.Error as error:
        raise ConfigError(f"no config.ini: {one_line(str(error))}; give a copy of alerts/config.ini") from error
    for section in given.sections():
        for name, value in given[section].items():
            if not known.has_option(section, name):
                raise ConfigError(f"[{section}] {name} is no choice; alerts/config.ini has all of them")
            pattern, like = (".+", "its address") if name == "runbook" else _KINDS[section]
            if re.fullmatch(pattern, value) is None and (value or name not in _MAY_BE_EMPTY):
                raise ConfigError(f"[{section}] {name} = {one_line(value)} cannot be used; give {like}")
            known[section][name] = value
    return {name: value for section in known.sections() for name, value in known[section].items()}


def _advice(cause: str, advice: str) -> str:
    return f"""\
      - record: cause:eroica_advice:info
        expr: vector(1)
        labels:
          cause: {cause}
          advice: {json.dumps(advice)}"""


def _largest(keys: str, matchers: str) -> str:
    """Return the expression of the largest finding for each set of keys, a critical one before a warning."""
    critical, warning = (
        f"""\
          topk by ({keys}) (
            1,
            max by ({keys}, severity, domain) (
              eroica_anomaly_impact_ratio{{@{{jobs}}, severity="{severity}", {matchers}}}
            )
          )
"""
        for severity in ("critical", "warning")
    )
    return f"{critical}            or on ({keys})\n{warning}".rstrip("\n")


def _lookups() -> dict[str, str]:
    """Return the pieces of annotations that look something up."""
    period = f"(printf `@{{q_period}}` {_JOB_ARGUMENTS} {_JOB_ARGUMENTS})"
    gone = f"(printf `@{{q_gone}}` {_JOB_ARGUMENTS} {_JOB_ARGUMENTS})"
    found = {
        "t_period": f"{{{{ range query {period} }}}} ({{{{ .Value | humanizeDuration }}}}){{{{ end }}}}",
        "t_gone": (
            f'{{{{ range $i, $each := query {gone} | sortByLabel "rank" }}}}{{{{ if $i }}}},{{{{ else }}}}'
            "; seen in the last hour and gone:{{ end }} rank {{ $each.Labels.rank }}"
            "{{ with $each.Labels.host }} on {{ . }}{{ end }}{{ end }}"
        ),
    }
    known = "{{ range query (printf `@{q_advice}` .Labels.cause) }}{{ .Labels.advice }}"
    waiting = f"(printf `@{{q_victims}}` {_JOB_ARGUMENTS} .Labels.function_id .Labels.cause)"
    ranks = f"(printf `@{{q_ranks}}` {_JOB_ARGUMENTS} $labels.role $labels.severity .Labels.function_id .Labels.cause)"
    shown = {
        "function": "{{ .Labels.function }}",
        "cause": "{{ .Labels.cause }}",
        "function_cause": "{{ with .Labels.function }}{{ . }}, {{ end }}{{ .Labels.cause }}",
        "advice": known + "{{ else }}see the runbook{{ end }}",
        "victims": f"{{{{ range query {waiting} }}}} Workers that wait for it: {{{{ .Value }}}}.{{{{ end }}}}",
        "ranks": (
            f'{{{{ range $i, $each := query {ranks} | sortByLabel "rank" }}}}{{{{ if $i }}}}, {{{{ end }}}}'
            "{{ $each.Labels.rank }}{{ end }}"
        ),
    }
    for name, (matchers, labels) in _FINDINGS.items():
        top = f"topk(1, max by (function, function_id, cause) (eroica_anomaly_impact_ratio{{{_JOB}, {matchers}}}))"
        for what, text in shown.items():
            found[f"t_{what}_{name}"] = (
                f"{{{{ range query (printf `{top}` {_JOB_ARGUMENTS} {labels}) }}}}{text}{{{{ end }}}}"
            )
    return found


def _fill(text: str, words: Mapping[str, str]) -> str:
    """Fill in words, also inside words; braces that stay empty go.

    Raises:
        KeyError: a template names what nobody gives.
    """
    while "@{" in text:
        text = _Template(text).substitute(words)
    return text.replace("{, ", "{").replace("{}", "")


if __name__ == "__main__":
    sys.exit(main())
