# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of Dask arrays, run by `test_distributed.py` with a Python that has Dask: chunks that differ, types, and what is refused."""

import sys

import dask.array as da  # pyright: ignore[reportMissingImports] - not in the project's own environment
import numpy as np
import tilewright as tw
from tilewright import distributed

CASES = [
    (np.float32, (30, 40), (25, 50)),
    (np.float64, (64, 16), (16, 33)),
    (np.int8, (100, 11), (80, 90)),
]


def refused(a, b, **options):
    try:
        distributed.matmul(a, b, **options)
    except tw.TilewrightError:
        return True
    return False


rng = np.random.default_rng(0)
for kind, of_a, of_b in CASES:
    a, b = (rng.integers(-9, 9, shape).astype(kind) for shape in ((100, 80), (80, 90)))
    lazy = distributed.matmul(da.from_array(a, of_a), da.from_array(b, of_b))
    found = lazy.compute()
    assert found.dtype == lazy.dtype == (np.int32 if kind is np.int8 else kind)
    assert lazy.chunksize == (of_a[0], of_b[1])
    # Whole numbers: every order of sums is exact.
    assert (found == a.astype(np.int64) @ b.astype(np.int64)).all()
x = da.ones((8, 6), dtype=np.float32)
assert refused(x, x)
assert refused(x, np.ones((6, 4), np.float32))
assert refused(x, x.T, out=np.ones((8, 8), np.float32))
assert refused(x[0], x.T)
sys.stdout.write("right\n")
