# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs kernels for processors that `tilewright.compile` has no emulator for, in tests that bring one."""

from __future__ import annotations

from typing import Any
from unittest import mock

import tilewright as tw
from tilewright.runtime import runners
from tilewright.runtime.emulator import Emulator
from tilewright.runtime.runners import Runner


def compiled(spec: tw.MatmulSpec, target: tw.Target, emulator: Emulator | None, **options: Any) -> tw.Kernel:
    """Compiles a kernel that `emulator` runs; without one, this process, which then catches what its processor lacks."""
    runner = Runner("host") if emulator is None else Runner("processes", emulator)
    with mock.patch.object(runners, "of", return_value=runner):
        return tw.compile(spec, target, cache=False, **options)
