# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes a product of f32 as it is and from pieces of bf16, and prints how large the errors are, and how large they may be.

    python examples/30_precision.py [M N K]

Where this machine has no dot product of bf16, it prints why the pieces are refused.
"""

import sys
import warnings

import numpy as np
import tilewright as tw
from tilewright.errors import SlowScheduleWarning

m, n, k = map(int, sys.argv[1:]) if len(sys.argv) > 1 else (384, 512, 256)
rng = np.random.default_rng(0)
a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
warnings.simplefilter("ignore", SlowScheduleWarning)
for name in (None, "bf16x3", "bf16x6", "bf16x9"):
    spec = tw.MatmulSpec(m, n, k, precision=name)
    try:
        c = tw.compile(spec)(a, b)
    except tw.TargetError as refused:
        print(f"{spec}: {refused}")
        continue
    error = np.abs(c - tw.reference(spec, a, b))
    assert (error <= tw.error_bound(spec, a, b)).all()
    print(f"{spec}: off by {error.max():.1e} at most, and by {tw.error_bound(spec, a, b).max():.1e} by its bound")
