# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: ANN401 - playwright need not be installed, so its types are not known.
"""Takes the pictures of the lab that README and docs show, in Chromium, with what this machine measures."""

from __future__ import annotations

import importlib
import importlib.util
import io
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).parents[2] / "docs/images"
_SIZE, _TALL = {"width": 1400, "height": 860}, {"width": 1400, "height": 1180}
_COLORS = 160
_WAIT = 120_000
"""Milliseconds that the machine may take for an answer."""
_REST = 4_000
"""Milliseconds in which what a page asked for last has ended."""


def take() -> list[Path]:
    """Writes the pictures; what was written, nothing where there is no browser."""
    chromium = shutil.which("chromium")
    if chromium is None or importlib.util.find_spec("playwright") is None:
        return []
    driving: Any = importlib.import_module("playwright.sync_api")
    command = [sys.executable, "-I", "-m", "tilewright", "lab"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        try:
            with (
                driving.sync_playwright() as driver,
                driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"]) as browser,
            ):
                return [_lines(browser, address), _why(browser, address)]
        finally:
            server.terminate()


def _lines(browser: Any, address: str) -> Path:
    """The first example, with what one line of its schedule made."""
    with browser.new_context(viewport=_SIZE, color_scheme="light") as context:
        page = _opened(context, address)
        _edit(page)
        page.locator("#editor .line", has_text="steps.vectorize").locator(".at").click(force=True)
        return _saved(page, "lab.png")


def _why(browser: Any, address: str) -> Path:
    """A strategy of ours on a dark page: its time beside what each part of the machine would take, and its loops."""
    with browser.new_context(viewport=_TALL, color_scheme="dark") as context:
        page = _opened(context, address)
        page.select_option("#example", "packed")
        page.wait_for_selector("#view-drawings", state="visible")
        _edit(page)
        page.click("#view-why")
        page.wait_for_selector("#verdict")
        page.wait_for_function("() => !/being measured/.test(document.querySelector('#verdict').textContent)")
        return _saved(page, "lab-why.png")


def _opened(context: Any, address: str) -> Any:
    """A page with its first example compiled, traced and run."""
    page = context.new_page()
    page.set_default_timeout(_WAIT)
    page.goto(address)
    page.wait_for_selector("#ir .row")
    page.wait_for_selector("#tiles >> text=numbers are right")
    return page


def _edit(page: Any) -> None:
    """Compiles once more, so that no time is of a browser that starts: one line more, when all that came before is shown."""
    busy = "(is) => document.querySelector('#ir-pane').getAttribute('aria-busy') === is"
    page.wait_for_function(busy, arg="false")
    page.wait_for_timeout(_REST)
    page.fill("#editor textarea", page.input_value("#editor textarea") + "\n")
    page.press("#editor textarea", "Control+Home")
    page.wait_for_function(busy, arg="true")
    page.wait_for_function(busy, arg="false")
    page.wait_for_selector("#tiles >> text=numbers are right")


def _saved(page: Any, name: str) -> Path:
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    page.wait_for_timeout(500)  # Until colors have faded in.
    image: Any = importlib.import_module("PIL.Image")
    taken = image.open(io.BytesIO(page.screenshot())).convert("RGB")
    taken.quantize(_COLORS, kmeans=2).save(IMAGES / name, optimize=True)
    return IMAGES / name
