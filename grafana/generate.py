"""Takes the boards of grafana/boards, gives grafana/dashboards/*.json.

``make docs`` runs it (Python >= 3.11, where grafana-foundation-sdk runs); a test fails when a file is not what this
writes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from boards import function, itself, job, jobs, worker
from boards.render import render

FOLDER = Path(__file__).parent / "dashboards"
BOARDS = (jobs.BOARD, job.BOARD, function.BOARD, worker.BOARD, itself.BOARD)


def files() -> dict[str, str]:
    """Return the text of every dashboard by the name of its file."""
    return {f"{board.uid}.json": json.dumps(render(board), indent=2) + "\n" for board in BOARDS}


def main() -> int:
    """Write the dashboards."""
    for name, text in files().items():
        (FOLDER / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
