"""The word in a file's name that says of which rank it is. Pure."""

from __future__ import annotations

import os
import re

ENDING = re.compile(r"(?:\.(?:pt|trace|json|gz|sqlite|kineto|chrome))+$", re.IGNORECASE)
_WORD = re.compile(r"(?:^|[^a-z])(?:rank|worker|gpu)[-_. ]?(\d{1,6})(?!\d)", re.IGNORECASE)


def rank_by_word(path: str) -> int | None:
    """Return the rank where a word of the name says that it is one: rank0, worker-3, gpu_1."""
    word = _WORD.search(ENDING.sub("", os.path.basename(os.path.normpath(path))))
    return None if word is None else int(word[1])
