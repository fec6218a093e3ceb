# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All mutants, in the order of the flow. `test/python/test_mutants.py` holds them to the sources."""

from __future__ import annotations

import rows_back
import rows_front
import rows_gpu
import rows_lowering
import rows_schedules
from mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *rows_front.ROWS,
    *rows_schedules.ROWS,
    *rows_lowering.ROWS,
    *rows_gpu.ROWS,
    *rows_back.ROWS,
)
