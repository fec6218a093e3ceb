# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lab's page beside pictures of it that were looked at: wide and narrow, light and dark, three views.

The page gets answers that were recorded, letters are boxes (`boxes.py`), and time stands still, so that it is the same on every machine.
What is compared are means of 8 by 8 pixels, which hide how a browser smooths edges. `make pictures` takes all anew, and records the
answers.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import boxes
import numpy as np
import pytest
from recorded_page import RENEWS, SIZES, shown

Image: Any = pytest.importorskip("PIL.Image", reason="make setup-browser installs it")
pytest.importorskip("fontTools", reason="make setup-browser installs it")

HERE = Path(__file__).parent
PICTURES, DIFFERENCES = HERE / "pictures", HERE.parents[1] / "build" / "pictures"
VIEWS = ("lines", "hot", "why")
KEPT, CELL, COLORS = 2, 8, 160
"""Pictures are kept at half their size, with so many colors; means are over so many pixels each way."""
OFF, ALLOWED = 24, 0.002
"""A cell differs when a color of it is off by more of 255; so large a share of them may: a select box that another browser draws."""
BROKEN = {
    "no tiles": "#tiles { display: none }",
    "panes swapped": "#code-pane { order: -1 }",
    "one column": "main { grid-template-columns: 1fr 1fr !important }",
    "lines too high": ".row { height: 2em }",
    "another color": ":root { --card: #d0d0d0 !important }",
    "labels beside": "#product label { flex-direction: row !important }",
    "larger letters": "body { font-size: 16px !important }",
    "lit lines dark": ":root { --lit: var(--card) !important }",
}


@pytest.fixture(scope="module")
def font() -> str:
    return boxes.css()


def taken(browser: Any, recorded: dict[str, Any], css: str, size: str, scheme: str, view: str) -> Any:
    """The picture of a view."""
    with shown(browser, recorded, css, size, scheme) as page:
        if view == "lines":
            page.locator("#editor .line", has_text="steps.vectorize").locator(".at").click(force=True)
        else:
            if size == "narrow":
                page.click("#tab-code-pane")
            page.click(f"#view-{view}")
        page.mouse.move(0, 0)
        page.evaluate("() => new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(then)))")
        return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def reduced(picture: Any, by: int) -> Any:
    """A picture whose pixels are means of so many each way."""
    return picture.resize((picture.width // by, picture.height // by), Image.Resampling.BOX)


def differing(kept: Any, picture: Any) -> np.ndarray:
    """The cells that differ, of a picture as it is kept and one as it is taken."""
    one, other = (np.asarray(reduced(each, CELL // KEPT), np.int16) for each in (kept, reduced(picture, KEPT)))
    assert one.shape == other.shape
    return np.abs(one - other).max(axis=2) > OFF


def beside(kept: Any, picture: Any, cells: np.ndarray) -> Any:
    """What was expected, what is there, and that with what differs in red, side by side."""
    now = reduced(picture, KEPT)
    mask = Image.fromarray((cells * 160).astype(np.uint8)).resize(now.size, Image.Resampling.NEAREST)
    marked = Image.composite(Image.new("RGB", now.size, "red"), now, mask)
    made = Image.new("RGB", (3 * now.width + 20, now.height), "gray")
    for number, each in enumerate((kept, now, marked)):
        made.paste(each, (number * (now.width + 10), 0))
    return made


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_page_looks_as_it_did(browser, recorded, font, size, scheme, view):
    name = f"{size}-{scheme}-{view}.png"
    picture = taken(browser, recorded, font, size, scheme, view)
    if RENEWS:
        reduced(picture, KEPT).quantize(COLORS, kmeans=2).save(PICTURES / name, optimize=True)
        return
    kept = Image.open(PICTURES / name).convert("RGB")
    cells = differing(kept, picture)
    if cells.mean() > ALLOWED:
        DIFFERENCES.mkdir(parents=True, exist_ok=True)
        beside(kept, picture, cells).save(DIFFERENCES / name)
        pytest.fail(
            f"{cells.mean():.1%} of {name} differ, {ALLOWED:.1%} are allowed: {DIFFERENCES / name} has what was expected, what "
            "is there, and where they differ. If the page is as it should be, `make pictures` takes it anew"
        )


@pytest.mark.skipif(RENEWS, reason="pictures are taken anew")
@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_page_is_noticed(browser, recorded, font, fault):
    picture = taken(browser, recorded, font + BROKEN[fault], "wide", "light", "lines")
    kept = Image.open(PICTURES / "wide-light-lines.png").convert("RGB")
    assert differing(kept, picture).mean() > 2 * ALLOWED


def test_what_the_processor_counted_stands_beside_the_model(browser, recorded, font):
    counted = {"cycles": 2e5, "instructions": 5e5, "beyond": {"L1": 2048.0, "L3": 128.0}}
    for said, expected in (({"counted": counted}, "2.5 a cycle"), ({"not_counted": "no counters"}, "no counters")):
        run = {**{key: each for key, each in recorded["run"].items() if "counted" not in key}, **said}
        with shown(browser, {**recorded, "run": run}, font, "wide", "light") as page:
            page.click("#view-why")
            assert expected in page.inner_text("#told")
            cells = page.locator("#counted td").all_inner_texts()
            assert cells == (["counted", "", "2 KiB", "", "128 B"] if "counted" in said else [])
