# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs child processes in bubblewrap, where it is installed and works: no network, no files but the system's libraries and ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tilewright
from tilewright.lab import filter
from tilewright.processes.command import paths_of_children

_PROGRAM = "bwrap"
_PROBE_SECONDS = 10
_SCRATCH_BYTES = 256 << 20
"""The size of the folder in which a child may write: it counts as memory."""
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sys/devices/system", "/etc/ld.so.cache")
"""What a child may read besides Python and this package."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How children are confined.

    Attributes:
        program: bubblewrap's file; None where it is not used.
        reason: Why not; empty where it is.
    """

    program: str | None
    reason: str = ""

    def command(self, variables: Mapping[str, str]) -> list[str]:
        """What comes before the command of a child; `variables` is all that its environment has."""
        if self.program is None:
            return []
        binds = [each for path in (*_SYSTEM, *_folders()) for each in ("--ro-bind-try", path, path)]
        known = {"PATH": os.defpath, "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8", **variables}
        environment = [each for name, value in known.items() for each in ("--setenv", name, value)]
        alone = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
        scratch = ["--size", str(_SCRATCH_BYTES), "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev"]
        return [self.program, *alone, *environment, *scratch, *binds, "--chdir", "/tmp", "--"]

    def __str__(self) -> str:
        """For people."""
        files = "bubblewrap: no network, no files but system libraries, Python and tilewright"
        system_calls = "a seccomp filter: no new processes, no sockets"
        said = [files] if self.program else [f"no bubblewrap ({self.reason}): schedules can read your files"]
        return "; ".join([*said, system_calls if filter.is_known() else "no seccomp filter for this machine"])


def find(wanted: bool = True) -> Sandbox:
    """The sandbox: bubblewrap if it is `wanted`, installed, and allowed to work here."""
    if not wanted:
        return Sandbox(None, "turned off")
    program = shutil.which(_PROGRAM)
    if program is None:
        return Sandbox(None, "not installed")
    found = Sandbox(program)
    try:
        tried = subprocess.run(
            [*found.command({}), sys.executable, "-I", "-c", ""],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Sandbox(None, f"it does not run: {error}")
    if tried.returncode:
        said = tried.stderr.strip().splitlines() or [f"status {tried.returncode}"]
        return Sandbox(None, f"it does not work here: {said[-1]}")
    return found


def _folders() -> list[str]:
    """The folders of Python, of this package and of what it imports."""
    places = [sys.prefix, sys.base_prefix, sys.exec_prefix, *paths_of_children()]
    libraries = [os.environ["LLVM_DIR"]] if "LLVM_DIR" in os.environ else []
    links = [each for each in Path(tilewright.__file__).parent.rglob("*") if each.is_symlink()]  # Of a checkout.
    real = [str(Path(each).resolve()) for each in (*places, *libraries) if Path(each).exists()]
    return list(dict.fromkeys([*places, *libraries, *real, *(str(each.resolve().parent) for each in links)]))
