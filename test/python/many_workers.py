# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What tests have workers call: functions that end their worker, the first time or each time."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def number(value: int, folder: str) -> int:
    """The square of `value`; where a file of its name is missing, it is made, and the worker is killed."""
    marker = Path(folder) / str(value)
    if value % 2 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return value * value


def pid() -> int:
    """The worker's."""
    return os.getpid()
