# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts the instructions of one call of an f32 kernel in the emulator, packing included, beside those of OpenBLAS.

Usage: instructions.py MxNxK TARGET
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from tilewright.runtime.compile import compile
from tilewright.spec import MatmulSpec

OPENBLAS_VERSION = "0.3.21+ds-4"
OPENBLAS: Mapping[str, int] = MappingProxyType(
    {"96x128x64": 300083, "123x121x61": 387117, "256x256x256": 5931825, "384x1024x1024": 139180573}
)
"""What `tilewright.bench.emulated_openblas` counts of this version; test_emulated_count.py counts again."""


def main(shape: str, target: str) -> None:
    m, n, k = (int(extent) for extent in shape.split("x"))
    kernel = compile(MatmulSpec(m, n, k), target, cache=False)
    count = kernel.count_instructions(np.ones((m, k), np.float32), np.ones((k, n), np.float32))
    sys.stdout.write(f"instructions: {count}\n")
    sys.stdout.write(f"percent of OpenBLAS's, rounded up: {math.ceil(100 * count / OPENBLAS[shape])}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
