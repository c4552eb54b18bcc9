"""Hook of mkdocs: a link from a page to a file beside docs/ becomes its name, or a link where repo_url is set.

A file that the checkout does not hold is a warning, and with --strict a failure, as every other broken link is.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_BESIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)#\s]+)(#[^)\s]*)?\)")
logger = logging.getLogger("mkdocs.hooks.site")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Return the page with what its links to files beside docs/ become."""

    def told(found: re.Match[str]) -> str:
        text, path, anchor = found[1], found[2], found[3] or ""
        if not (ROOT / path).exists():
            logger.warning("%s leads to ../%s, which is not there", page.file.src_uri, path)
        if config.repo_url:
            return f"[{text}]({config.repo_url.rstrip('/')}/blob/HEAD/{path}{anchor})"
        return f"{text} (`{path}`)" if text != path else f"`{path}`"

    return _BESIDE.sub(told, markdown)
