# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chromium, and the answers that were recorded for the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import recorded_page


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    api: Any = pytest.importorskip("playwright.sync_api", reason="make setup-browser installs it")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no Chromium: make setup-browser installs it")
    with (
        api.sync_playwright() as driver,
        driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"]) as made,
    ):
        yield made


@pytest.fixture(scope="session")
def recorded() -> dict[str, Any]:
    return recorded_page.answers()
