# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs run in a Python of their own, for tests."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from tilewright.processes.command import paths_of_children


def new_process(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """What becomes of `program` in a Python of its own, with tilewright found as it is here."""
    found = f"import sys as _sys; _sys.path[:] = {paths_of_children()}\n"
    command = [sys.executable, "-I", *options, "-c", found + textwrap.dedent(program)]
    run = subprocess.run(command, capture_output=True, check=False)
    printed = (each.decode(errors="replace") for each in (run.stdout, run.stderr))
    return subprocess.CompletedProcess(command, run.returncode, *printed)


def in_new_process(program: str, *options: str) -> str:
    """What `program` prints there, after it ended well."""
    run = new_process(program, *options)
    assert run.returncode == 0, run.stderr
    return run.stdout
