# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs run in a Python of their own, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap


def in_new_process(program: str, *options: str) -> str:
    """What `program` prints in a Python of its own, with tilewright found as it is here."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(program)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout
