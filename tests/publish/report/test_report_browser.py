"""The page in a real browser, wide, on a phone and in the dark: what is seen, that nothing overflows, a screenshot."""

from __future__ import annotations

import base64
import html as escaping
import json
import re
import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.model import Timeline
from eroica_otel.publish.report import html
from factories_report import detail, function, report

_OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
_WATCH = """
<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe id="page" style="border:0" width="WIDTH" height="3000" srcdoc="PAGE"></iframe><pre id="found"></pre>
<script>
document.getElementById("page").onload = (event) => {
  const view = event.target.contentDocument, root = view.documentElement;
  const seen = (element) => element.getClientRects().length > 0 && element.getBoundingClientRect().width > 0;
  const boxes = [...view.querySelectorAll("svg.plot, svg.window")].filter(seen);
  const inside = (part, whole) => part.left >= whole.left - 1 && part.right <= whole.right + 1;
  document.getElementById("found").textContent = JSON.stringify({
    overflow: root.scrollWidth - root.clientWidth,
    text: view.body.innerText,
    pictures: boxes.map((one) => one.getAttribute("class")),
    outside: boxes.flatMap((one) => [...one.querySelectorAll("text, path, circle, rect")]
      .filter((part) => seen(part) && !inside(part.getBoundingClientRect(), one.getBoundingClientRect()))
      .map((part) => part.outerHTML)),
    culprits: boxes.map((one) => [...one.querySelectorAll("path.culprit")].filter(seen).length),
    bars: [...view.querySelectorAll("svg.window path")].filter(seen).map((one) => one.getBoundingClientRect().height),
  });
};
</script>
"""


_LOOK = """
<!doctype html><pre id="found"></pre><img id="picture" src="data:image/png;base64,DATA">
<script>
window.onload = () => {
  const picture = document.getElementById("picture"), canvas = document.createElement("canvas"), counted = {};
  canvas.width = picture.naturalWidth;
  canvas.height = picture.naturalHeight;
  const context = canvas.getContext("2d");
  context.drawImage(picture, 0, 0);
  const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
  for (const pixel of new Uint32Array(data.buffer)) counted[pixel] = (counted[pixel] || 0) + 1;
  document.getElementById("found").textContent = JSON.stringify(counted);
};
</script>
"""


def browser() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found is not None, "no Chromium on PATH: sh .ci/servers installs it"
    return found


def page() -> str:
    """Return a page with everything that is drawn: a finding, mu and sigma, the iteration, the window."""
    measured = function(mu=(0.5, 0.5, 0.96, 0.5), sigma=(0.3, 0.3, 0.04, 0.3))
    shares = {"compute": (0.5, 0.25, 0.0), "python": (0.25, 0.5, 0.5), "idle": (0.25, 0.25, 0.5)}
    lines = (Timeline(2, 5.2, shares), Timeline(0, 5.2, shares))
    return html.render(report(detail=detail(functions=(measured,), timelines=lines)))


def run(folder: Path, *arguments: str) -> str:
    command = [browser(), *_OPTIONS, f"--user-data-dir={folder / 'profile'}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def looked_at(folder: Path, width: int) -> dict[str, Any]:
    """Return what a browser of this width shows of the page."""
    watch = folder / "watch.html"
    watch.write_text(_WATCH.replace("WIDTH", str(width)).replace("PAGE", escaping.escape(page())), "utf-8")
    shown = run(folder, "--virtual-time-budget=5000", "--window-size=1300,3000", "--dump-dom", watch.as_uri())
    found = re.search(r'<pre id="found">(.*?)</pre>', shown, re.DOTALL)
    assert found is not None
    value: dict[str, Any] = json.loads(escaping.unescape(found[1]))
    return value


@pytest.mark.parametrize(("width", "plot"), [(1200, "plot wide"), (360, "plot narrow")])
def test_everything_is_seen_and_nothing_overflows(tmp_path: Path, width: int, plot: str) -> None:
    seen = looked_at(tmp_path, width)
    assert seen["overflow"] == 0
    assert seen["pictures"] == [plot, "plot small", "plot small", "window", "window"]
    assert seen["outside"] == []
    assert seen["culprits"] == [1, 1, 1, 0, 0]
    # Of 96 px: compute stands at the bottom, up to 50 %; Python on it reaches from 0 to 75 %, idle from 50 to 100 %.
    assert seen["bars"] == pytest.approx([48.0, 72.0, 48.0] * 2, abs=1.0)
    text = seen["text"].replace("\u00a0", " ")
    for words in ("Rank 2 on node-c costs 46 ms of every 212 ms iteration (22 %).", "What to do", "end of the window"):
        assert words in text


def colours(scheme: str) -> dict[str, str]:
    """Return the colours by name that the style sheet gives the page in the light or in the dark."""
    parts = html.style().split("prefers-color-scheme: dark")
    block = parts[scheme == "dark"].partition(":root {")[2].partition("}")[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


def pixels(folder: Path, picture: Path) -> Counter[str]:
    """Return how many pixels of a picture have each colour, as a browser decodes it."""
    look = folder / "look.html"
    look.write_text(_LOOK.replace("DATA", base64.b64encode(picture.read_bytes()).decode()), "utf-8")
    shown = run(folder, "--virtual-time-budget=5000", "--dump-dom", look.as_uri())
    found = re.search(r'<pre id="found">(.*?)</pre>', shown, re.DOTALL)
    assert found is not None
    counted: dict[str, int] = json.loads(found[1])
    return Counter({f"#{int(one).to_bytes(4, 'little')[:3].hex()}": count for one, count in counted.items()})


@pytest.mark.parametrize(("scheme", "other"), [("light", "dark"), ("dark", "light")])
def test_a_screenshot_has_the_page_s_colours(tmp_path: Path, scheme: str, other: str) -> None:
    file, picture = tmp_path / "page.html", tmp_path / "page.png"
    file.write_text(page(), "utf-8")
    mode = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    run(tmp_path, *mode, "--force-color-profile=srgb", "--window-size=1200,3000", f"--screenshot={picture}",
        file.as_uri())  # fmt: skip
    assert struct.unpack(">II", picture.read_bytes()[16:24]) == (1200, 3000)
    seen, here, there = pixels(tmp_path, picture), colours(scheme), colours(other)
    assert seen.most_common(2)[0][0] in (here["page"], here["card"])
    assert min(seen[here["page"]], seen[here["card"]]) > 100_000
    assert seen[there["page"]] + seen[there["card"]] < 1000
    # Three diamonds; a quarter, five twelfths and a third of the two windows of 840 x 96, and more.
    assert seen[here["accent"]] > 100
    for kind, least in (("compute", 35_000), ("python", 60_000), ("idle", 45_000)):
        assert seen[here[kind]] > least, kind
