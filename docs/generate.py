"""Writes the tables that follow from code: docs/series.md from names.py, the options of README.md from config.py,
docs/support.md from the table of trainings that the tests run and from what these came to, the causes of docs/method.md
from localize/causes.py.

``make docs`` runs it; a test fails when a table is not what this writes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from eroica_hardware import names as agent
from eroica_otel import names
from eroica_otel.config import OPTIONS
from eroica_otel.localize.causes import TABLE

ROOT = Path(__file__).parent.parent
SERIES = ROOT / "docs" / "series.md"
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
    SUPPORT.write_text(support_page())
    METHOD.write_text(method(METHOD.read_text()))
    README.write_text(readme(README.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
