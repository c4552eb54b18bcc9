"""Writes the tables that follow from code: docs/series.md from names.py, the options of README.md from config.py,
docs/configuration.md from the options and thresholds of the localizer, docs/support.md from the table of trainings that
the tests run and from what these came to, the causes of docs/method.md from localize/causes.py.

``make docs`` runs it; a test fails when a table is not what this writes.
"""

from __future__ import annotations

import re
import sys
from itertools import groupby
from pathlib import Path

from eroica_hardware import names as agent
from eroica_otel import names
from eroica_otel.commands.config import options_of_localize
from eroica_otel.config import OPTIONS
from eroica_otel.jobpolicy import THRESHOLDS, WAITS, bounds
from eroica_otel.jobstate import Patience
from eroica_otel.localize.causes import TABLE
from eroica_otel.localize.policy import Policy

ROOT = Path(__file__).parent.parent
SERIES = ROOT / "docs" / "series.md"
CONFIGURATION = ROOT / "docs" / "configuration.md"
SUPPORT = ROOT / "docs" / "support.md"
METHOD = ROOT / "docs" / "method.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- options: written by docs/generate.py -->", "<!-- end of options -->"
CAUSES, CAUSES_END = "<!-- causes: written by docs/generate.py -->", "<!-- end of causes -->"

_INTRODUCTION = """\
# Series

Every series that eroica_otel exports, as Prometheus shows it. Written from `eroica_otel/names.py` and
`exporters/eroica_hardware/names.py` by `make docs`.

The OpenTelemetry instrument has the same name with one dot, `eroica.` and the rest, and without `_total`. Pull, a
Collector and Prometheus 3 all arrive at the name shown here, since the unit's word stands in the instrument's name.

Labels of every series of a worker: `training_job`, `team` (service.namespace), `rank`, `host`, `role`. The window id is
a value, never a label. Series marked *c* are always there on a healthy CPU job after its first window; a test scrapes
them. Of the node agent, those marked *c* are always there.
"""

_AGENT = """
`hw_*` are those of OpenTelemetry's semantic conventions for hardware, with its attributes as labels: `hw_id` is the
UUID of a GPU (`gpu_uuid` of `eroica_worker_info`), the name of a network interface, or `mlx5_0/1` for a port of an RDMA
device; a temperature has the `hw_id` of its GPU. What was not read for a minute is absent.
"""


def series_page() -> str:
    """Return docs/series.md."""
    blocks = [_INTRODUCTION]
    titles = {
        names.WORKER: "Workers (helper process)",
        names.LAYOUT: "Layout vec of remote write, for large jobs",
        names.LOCALIZER: "Localizer",
        agent.AGENT: "Node agent (eroica-hardware)",
    }
    for component, title in titles.items():
        rows = ["| series | type | labels | what it is |", "|---|---|---|---|"]
        for metric in (metric for metric in (*names.ALL, *agent.ALL) if metric.component == component):
            own = [label for label in metric.labels if component != names.WORKER or label not in names.IDENTITY]
            labels = ", ".join(f"`{label}`" for label in own) or "-"
            mark = " *c*" if metric.cpu_job else ""
            rows.append(f"| `{metric.name}`{mark} | {metric.type} | {labels} | {metric.help} |")
        more = " beside those of every worker" if component == names.WORKER else ""
        about = _AGENT if component == agent.AGENT else f"\nLabels{more}.\n"
        blocks.append(f"## {title}\n{about}\n" + "\n".join(rows) + "\n")
    return "\n".join(blocks)


def options_table() -> str:
    """Return the table of the worker's options."""
    rows = ["| variable | argument of `instrument()` | default | meaning |", "|---|---|---|---|"]
    for name, option in OPTIONS.items():
        default = {True: "1", False: "0", "": "-"}.get(option.default, f"{option.default}")
        rows.append(f"| `{option.metadata['variable']}` | `{name}` | {default} | {option.metadata['help']} |")
    return "\n".join(rows)


_CONFIGURATION = """\
# The localizer: running it, and its configuration

Written from the code by `make docs`. The workers' options are in the [README](../README.md#options-of-the-worker).

Each option of `eroica-otel localize` can be given in three ways; the first that gives it counts:

1. on the command line: `--prometheus-interval 10`,
2. by a variable, `EROICA_LOCALIZE_` and the name in capitals: `EROICA_LOCALIZE_PROMETHEUS_INTERVAL=10` (1 or 0 for
   what is on or off; of what can be repeated one a line),
3. in the TOML file that `--config FILE` or `EROICA_LOCALIZE_CONFIG` names: `prometheus-interval = 10`.

Else the default holds. A list is replaced, not added to. Thresholds and waits are in the file alone:

```toml
prometheus = "http://prometheus:9090"
match = 'team="vision"'
report = "/srv/eroica"

[thresholds]                     # of all jobs
material_ratio = 0.06

[patience]
hang_seconds = 90

[[job]]                          # of the jobs that fit
training_job = "llm-*"           # * ? and [abc]; team can be given as well, or alone
critical_ratio = 0.3
```

Every `[[job]]` that fits a job counts; where two set the same threshold, the later wins. What a job has of its own is
in the notes of its verdicts and in `eroica_job_threshold_ratio`.

```console
$ eroica-otel config check localize.toml
```

names all that is wrong (unknown names with the nearest known one, wrong types, values out of range, what contradicts)
and exits with 1; it prints each value in force and where it comes from, without passwords. `localize` refuses such a
file with 2. Changes count after a restart; nothing is lost by one.

## Running it

- **Many jobs.** One localizer follows all jobs whose series reach it (`--match` chooses). Each is judged in a thread
  of its own, eight at once: a large job, or one whose window cannot be judged, takes none of the others' time.
- **End.** SIGTERM and SIGINT: nothing more is taken in, what is complete is judged, findings are pushed and their
  series ended; windows and findings are in `--state`. What is not complete, or takes longer than 5 s, is judged by
  the next start. Nothing is judged twice.
- **Cron.** `eroica-otel localize --prometheus URL --once --timeout 0 --state DIR` judges what the backend holds
  since the last run, of all jobs, and ends: 0 no finding is open, 1 one is, 3 nobody can tell. The folder carries
  findings and references from run to run.
- **Files.** `eroica-otel localize --files DIR` judges the pattern files of a folder (JSON Lines that end in `.jsonl`,
  as `eroica-otel query --json` writes them), also those that come and grow while it runs; a line counts when it has
  its end. How far each file was read is in `--state`, so that a restart reads nothing twice.
- **Large jobs.** From 4,096 workers on a job is read from its backend into columns, in either layout, and keeps the
  medians of each role as its reference instead of every worker's window. Hangs are read worker by worker. What a server
  does not answer at once is asked for in parts, by the last digits of the ranks.
- **How many.** A localizer follows 131,072 workers of all jobs at once; jobs that were silent for ten minutes give
  way to others. `--workers` changes that. Of what is beyond it the log tells once for each job: windows of large jobs
  are judged with all workers, but nobody sees when those that are not followed hang, and a finding about their job
  ends by a later window, not because all are healthy again. Give the localizer more memory and a larger number, or
  start one for some of the jobs and another for the others (`--match`).
- **Two at once.** Give each a `--state` of its own and the same series. From the same windows they show the same
  series of jobs and findings, whatever the order in which they heard of them; the rules count neither twice, since
  they aggregate without `instance`. Only what tells about the process differs:
  `eroica_localizer_last_success_timestamp_seconds`, `eroica_localizer_duration_seconds` and the counters. One that
  starts later has no reference before the next reference window: copy the folder of the other while that one is
  stopped, or start both together.
- **Is it alive?** `/-/healthy` answers 503 when no round was made for a minute,
  `eroica_localizer_last_round_timestamp_seconds` tells when the last one was, and `EroicaLocalizerAbsent` fires when
  it is gone.
- **Versions.** Series tell their schema (`eroica_build_info`). This version reads its own and the one before; a
  worker with another is left out. The localizer says so, and so does the worker's log where it delivers here.
"""


def configuration_page() -> str:
    """Return docs/configuration.md."""
    blocks = [_CONFIGURATION]
    for title, options in groupby(options_of_localize(), key=lambda option: option.group):
        rows = ["| key | variable | type | default | meaning |", "|---|---|---|---|---|"]
        for option in options:
            default = "false" if option.default is False else option.default or "-"
            cells = (
                f"`{option.name}`",
                f"`{option.variable}`",
                option.kind.removeprefix("a "),
                f"{default}",
                option.help,
            )
            rows.append(f"| {' | '.join(cells)} |")
        blocks.append(f"## Options: {title}\n\n" + "\n".join(rows) + "\n")
    told = dict(re.findall(r"^        (\w+): (.*)$", Patience.__doc__ or "", re.MULTILINE))
    rows = [f"| `{name}` | {getattr(Patience(), name):g} | {_bounds(name)} | {told[name]} |" for name in WAITS]
    blocks.append("\n".join(["## [patience]\n", "| key | default | range | meaning |", "|---|---|---|---|", *rows, ""]))
    rows = [f"| `{name}` | {getattr(Policy(), name):g} | {_bounds(name)} |" for name in THRESHOLDS]
    about = "## [thresholds] and [[job]]\n\nWhat each decides is in [the method](method.md).\n"
    blocks.append("\n".join([about, "| key | default | range |", "|---|---|---|", *rows, ""]))
    return "\n".join(blocks)


def _bounds(name: str) -> str:
    low, high = bounds(name)
    return f"{low:g} to {high:g}" if high == 1 else f"from {low:g}"


def readme(text: str) -> str:
    """Return the README with its table of options renewed."""
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n{options_table()}\n{END}{rest.split(END)[1]}"


def causes_table() -> str:
    """Return the table of causes, in the order in which they are tried."""
    rows = ["| cause | whose | what shows it |", "|---|---|---|"]
    rows += [f"| `{row.name}` | {row.domain} | {row.evidence} |" for row in TABLE]
    return "\n".join(rows)


def method(text: str) -> str:
    """Return docs/method.md with its table of causes renewed."""
    head, rest = text.split(CAUSES)
    return f"{head}{CAUSES}\n{causes_table()}\n{CAUSES_END}{rest.split(CAUSES_END)[1]}"


def support_page() -> str:
    """Return docs/support.md, from docs/support.json."""
    if str(ROOT / "tests") not in sys.path:
        sys.path.append(str(ROOT / "tests"))
    from support.page import page
    from support.results import read

    return page(read())


def main() -> int:
    """Write all of them."""
    SERIES.write_text(series_page())
    CONFIGURATION.write_text(configuration_page())
    SUPPORT.write_text(support_page())
    METHOD.write_text(method(METHOD.read_text()))
    README.write_text(readme(README.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
