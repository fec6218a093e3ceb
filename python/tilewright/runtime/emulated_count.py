# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counting the instructions of emulated calls, by the plugin of QEMU in ``tools/tilewright-count``."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

from tilewright.errors import TargetError, TilewrightError

_PLUGINS = Path(__file__).resolve().parents[1] / "bin"
_VERSION = re.compile(r"version (\d+)\.")
_COUNT = re.compile(r"^tilewright-count: (\d+)$", re.MULTILINE)
_INTERFACE_2 = 9
"""The first version of QEMU whose plugins are of interface 2, and no longer of 1."""


@cache
def options(emulator: str) -> tuple[str, ...]:
    """The options with which an emulator counts what it runs.

    Args:
        emulator: Its path.

    Raises:
        TargetError: It takes no plugins, or the plugin is not built.
    """
    if "-plugin" not in _said_by(emulator, "-h"):
        raise TargetError(
            "it counts no instructions, because it takes no plugins",
            where=emulator,
            expected="a QEMU that is linked dynamically",
            remedy="Install the package qemu-user (`make setup-arm` does)",
        )
    version = _VERSION.search(_said_by(emulator, "--version"))
    interface = 2 if version and int(version[1]) >= _INTERFACE_2 else 1
    plugin = _PLUGINS / f"tilewright-count-{interface}.so"
    if not plugin.exists():
        raise TargetError("it does not exist", where=str(plugin), remedy="Run `make setup`, which builds it")
    # With its log, QEMU reads the program's symbols.
    return ("-plugin", str(plugin), "-d", "plugin")


def _said_by(emulator: str, option: str) -> str:
    try:
        return subprocess.run([emulator, option], capture_output=True, text=True, check=False).stdout
    except OSError as error:
        raise TargetError(f"it could not be run: {error.strerror}", where=emulator) from None


def read(log: str) -> int:
    """The count in what an emulator logged.

    Raises:
        TilewrightError: There is none.
    """
    found = _COUNT.search(log)
    if found is None:
        raise TilewrightError("the emulator ended without a count", where="tilewright-count")
    return int(found[1])
