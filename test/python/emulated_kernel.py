# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels for processors that `tilewright.compile` knows no emulator of, for tests that bring one."""

from __future__ import annotations

from typing import Any
from unittest import mock

import tilewright as tw
from tilewright.runtime import emulators
from tilewright.runtime.emulator import Emulator


def compiled(spec: tw.MatmulSpec, target: tw.Target, emulator: Emulator | None, **options: Any) -> tw.Kernel:
    """Compiles a kernel that `emulator` runs; without one, this process, which then catches what its processor lacks."""
    with mock.patch.object(emulators, "runner", return_value=(emulator, None)):
        return tw.compile(spec, target, cache=False, **options)
