"""``python -m eroica_hardware`` is ``eroica-hardware``."""

from __future__ import annotations

import sys

from eroica_hardware.main import main

sys.exit(main())
