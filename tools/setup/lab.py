# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Installs what `tilewright lab` and notebooks need besides the compiler: a web server, bubblewrap, widgets. `make setup-lab` calls it.

With ``browser``, which `make setup-browser` says, also Chromium, what drives it, and what compares pictures, for the tests of the page.
"""

from __future__ import annotations

import sys

import packages
from common import VENV_PYTHON, SetupError, run, say

BUBBLEWRAP = packages.Need("bubblewrap", lambda: packages.has_program("bwrap"), ("bubblewrap",), required=False)
CHROMIUM = packages.Need("Chromium", lambda: packages.has_program("chromium"), ("chromium",), required=False)
SERVER = ("starlette", "uvicorn")
"""The extra ``lab``."""
WIDGETS = ("anywidget",)
"""The extra ``notebook``."""
DRIVER = ("playwright", "pillow", "fonttools")


def main(asked: list[str]) -> int:
    """Installs what is missing; 0 also where it cannot be had, after a line that says why."""
    with_browser = "browser" in asked
    try:
        packages.provide([BUBBLEWRAP, *([CHROMIUM] if with_browser else [])])
    except SetupError as error:
        say(f"{error}; without bubblewrap the lab's schedules can read your files")
    for wheels, loss in (
        (SERVER, "`tilewright lab` and its tests"),
        (WIDGETS, "widgets in notebooks"),
        *([(DRIVER, "tests of its page")] if with_browser else []),
    ):
        missing = [each for each in wheels if not packages.is_installed(each)]
        if not missing:
            continue
        try:
            pip = [VENV_PYTHON, "-I", "-m", "pip", "--disable-pip-version-check", "install", "-q"]
            run([*pip, *missing], what=f"installing {', '.join(missing)}")
        except SetupError as error:
            say(f"going on without {loss} ({error})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
