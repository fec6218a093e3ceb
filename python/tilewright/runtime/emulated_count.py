# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counting the instructions of emulated calls, by the plugin of QEMU in ``tools/tilewright-count``."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

from tilewright.errors import TargetError, TilewrightError
from tilewright.runtime.emulator import Emulator

_PLUGINS = Path(__file__).resolve().parents[1] / "bin"
_VERSION = re.compile(r"version (\d+)\.")
_COUNT = re.compile(r"^tilewright-count: (\d+)$", re.MULTILINE)
_INTERFACE_2 = 9
"""The first version of QEMU whose plugins are of interface 2, and no longer of 1."""


def counting(emulator: Emulator) -> Emulator:
    """An emulator of the same architecture that counts: this one, or the system's where this one takes no plugins.

    Raises:
        TargetError: Neither takes plugins, or the plugin is not built.
    """
    system = shutil.which("-".join(emulator.name.split("-")[:2]))
    for path in dict.fromkeys((emulator.path, system)):
        if path is not None and "-plugin" in _said_by(path, "-h"):
            # With its log, QEMU reads the program's symbols.
            options = ("-plugin", str(_plugin(path)), "-d", "plugin")
            return replace(emulator, path=path, options=(*emulator.options, *options))
    raise TargetError(
        f"{emulator.path} takes no plugins, by which instructions are counted",
        expected="a QEMU that is linked dynamically, as that of Debian 12 is",
        remedy="Install the package qemu-user (`make setup-arm` does)",
    )


def _plugin(emulator: str) -> Path:
    """The plugin for an emulator's interface."""
    version = _VERSION.search(_said_by(emulator, "--version"))
    interface = 2 if version and int(version[1]) >= _INTERFACE_2 else 1
    plugin = _PLUGINS / f"tilewright-count-{interface}.so"
    if not plugin.exists():
        raise TargetError("it does not exist", where=str(plugin), remedy="Run `make setup`, which builds it")
    return plugin


@cache
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
