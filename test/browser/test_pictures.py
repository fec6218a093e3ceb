# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lab's page beside pictures of it that were looked at: wide and narrow, light and dark, three views.

The page gets answers that were recorded, letters are boxes (`boxes.py`), and time stands still, so that it is the same on every machine.
What is compared are means of 8 by 8 pixels, which hide how a browser smooths edges. `make pictures` takes all anew, and records the
answers.
"""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import boxes
import numpy as np
import pytest
from tilewright.emit.child import Limits
from tilewright.lab import page as lab_page
from tilewright.lab import samples, sandbox
from tilewright.lab.compiler import Compiler
from tilewright.lab.problem import KINDS, read

CHROMIUM = shutil.which("chromium")
api: Any = pytest.importorskip("playwright.sync_api", reason="make setup-browser installs it")
Image: Any = pytest.importorskip("PIL.Image", reason="make setup-browser installs it")
pytest.importorskip("fontTools", reason="make setup-browser installs it")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: make setup-browser installs it")

HERE = Path(__file__).parent
PICTURES, RECORDED, DIFFERENCES = HERE / "pictures", HERE / "recorded.txt", HERE.parents[1] / "build" / "pictures"
RENEWS = bool(os.environ.get("TILEWRIGHT_PICTURES"))
"""Whether pictures and answers are made anew, and nothing is compared."""
ORIGIN = "http://127.0.0.1:9"
"""Nobody is there: the test answers."""
SIZES = {"wide": (1280, 896), "narrow": (400, 848)}
"""In whole cells."""
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
TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


def recording() -> dict[str, Any]:
    """What a server says of a small product for AVX2, on a machine that has that."""
    (sample,) = (each for each in samples.all() if each.name == "register_tile")
    asked = {**sample.product, "shape": "48x96x64", "language": "py", "text": sample.text, "target": "x86-64-v3"}
    with Compiler(sandbox.find(), Limits(60, 4096)) as compiler:
        said = {kind: compiler.answer(kind, read(dict(asked)), "") for kind in ("compile", "trace", "run", "speeds")}
    example = sample.as_json()
    example["product"]["shape"] = asked["shape"]
    return said | {
        "about": {
            "version": "",
            "isolation": "bubblewrap: no network, no files but system libraries, Python and tilewright; a seccomp filter",
            "limits": {"seconds": 30, "memory_mb": 4096},
            "targets": [{"name": "host", "about": "this machine", "kind": "processors"}],
            "strategies": {"processors": {}, "gpus": {}},
            "kinds": KINDS,
            "examples": [example],
        }
    }


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    if RENEWS:
        RECORDED.write_text(lab_page.packed(recording()) + "\n", encoding="ascii")
    return lab_page.unpacked(RECORDED.read_text(encoding="ascii").strip())


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with (
        api.sync_playwright() as driver,
        driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def font() -> str:
    return boxes.css()


@contextmanager
def shown(browser: Any, recorded: dict[str, Any], css: str, size: str, scheme: str) -> Iterator[Any]:
    """The page, with everything that was answered on it."""
    static = resources.files("tilewright.lab").joinpath("static")

    def answer(route: Any) -> None:
        path = route.request.url.removeprefix(ORIGIN).partition("?")[0].strip("/")
        if path.startswith("api/"):
            route.fulfill(content_type="application/json", body=json.dumps(recorded[path.removeprefix("api/")]))
            return
        name = path.removeprefix("static/") or "index.html"
        route.fulfill(content_type=TYPES[name.rsplit(".", 1)[-1]], body=static.joinpath(name).read_text("utf-8"))

    width, height = SIZES[size]
    with browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme) as context:
        page = context.new_page()
        page.route("**/*", answer)
        page.add_init_script("performance.now = () => 0")
        page.goto(ORIGIN + "/")
        page.add_style_tag(content=css)
        page.wait_for_selector("#tiles >> text=numbers are right", state="attached")
        page.wait_for_selector("#ir .row", state="attached")
        page.wait_for_function("() => document.querySelector('#ir-pane').getAttribute('aria-busy') === 'false'")
        page.evaluate("document.fonts.ready")
        yield page


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
