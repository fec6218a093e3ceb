# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes C = alpha·A·B + beta·C as a BLAS does, with factors that calls tell, and serves a column-major caller without a copy."""

import numpy as np
import tilewright as tw

rng = np.random.default_rng(0)
a, b, c = (rng.uniform(-1, 1, shape) for shape in ((300, 200), (200, 100), (300, 100)))
expected = 0.75 * (a @ b) - 1.5 * c

spec = tw.MatmulSpec(m=300, n=100, k=200, a="f64", alpha="arg", beta="arg")
kernel = tw.compile(spec)
out = c.copy()
kernel(a, b, out=out, alpha=0.75, beta=-1.5)
assert (abs(out - expected) <= tw.error_bound(spec, a, b, 0.75, -1.5, c)).all()

# beta 0 never adds the former C, and alpha 0 never reads A and B: a NaN in them is no part of the result.
kernel(np.full_like(a, np.nan), b, out=out, alpha=0, beta=2)
print("alpha 0 and beta 2:", np.isfinite(out).all())

# Column-major matrices are row-major transposes: C' = alpha·B'·A' + beta·C', so M and N, and A and B, change places.
columns = [np.asfortranarray(each) for each in (a, b, c)]
dgemm = tw.compile(tw.MatmulSpec(m=100, n=300, k=200, a="f64", alpha="arg", beta="arg"))
dgemm(columns[1].T, columns[0].T, out=columns[2].T, alpha=0.75, beta=-1.5)
print("column-major, off by at most:", f"{abs(columns[2] - expected).max():.0e}")
print(kernel.c_function.prototype)
