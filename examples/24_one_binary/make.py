# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a library of two kernels in the folder that is named: `use.py`, `use.c`, `use.cpp` and `use.rs` call it without tilewright."""

import sys

import tilewright as tw

library = tw.library(
    {
        "rows": tw.MatmulSpec(m=None, n=48, k=64),  # any number of rows
        "layer": tw.MatmulSpec(m=32, n=48, k=64, epilogue=(tw.bias("n"), tw.relu())),
    },
    targets=sys.argv[2:] or ["host"],
    name="layers",
    out=sys.argv[1],
)
print(library)
