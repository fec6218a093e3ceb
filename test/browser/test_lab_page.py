# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lab's page in Chromium: what a person does there, and what they see."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
api: Any = pytest.importorskip("playwright.sync_api", reason="make setup-browser installs it")
pytest.importorskip("starlette", reason="make setup-lab installs it")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: make setup-browser installs it")
WAIT = 60_000
"""Milliseconds that the machine may take for an answer."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, "-m", "tilewright", "lab", "--seconds", "30"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with (
        api.sync_playwright() as driver,
        driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]) as made,
    ):
        yield made


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page with its first example compiled and traced; that it says nothing on the console is checked at the end."""
    said: list[str] = []
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        made = context.new_page()
        made.on("console", lambda message: said.append(message.text))
        made.on("pageerror", lambda error: said.append(str(error)))
        made.set_default_timeout(WAIT)
        made.goto(address)
        made.wait_for_selector("#ir .row")
        made.wait_for_selector("#view .row")
        yield made
        assert said == []


def test_the_first_example_is_compiled_traced_and_run(page):
    assert "assembly in" in page.text_content("#status")
    page.wait_for_selector("#tiles >> text=numbers are right")
    assert page.locator("#view .row.hot").count() > 10
    assert page.locator("#timeline .track-steps button").count() > 10


def test_an_edit_is_compiled_and_its_error_stands_at_its_line(page):
    page.fill("#editor textarea", "def schedule(spec, target, sizes):\n    return 1 / 0\n")
    page.wait_for_selector("#error >> text=ZeroDivisionError")
    assert page.locator("#editor .line.wrong .at").text_content() == "2"


def test_a_line_of_the_schedule_lights_up_what_it_made(page):
    line = page.locator("#editor .line", has_text="steps.vectorize").locator(".at")
    number = line.text_content()
    box = line.bounding_box()
    page.mouse.move(box["x"] + 80, box["y"] + box["height"] / 2)
    page.wait_for_selector(f'#view .row.lit[data-line="{number}"]')


def test_steps_are_gone_through_by_keys(page):
    before = page.text_content("#step-name")
    page.keyboard.press("Alt+ArrowLeft")
    assert page.text_content("#step-name") != before
