# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes a linear layer whose weights are stored as outputs by inputs (layout "nt") without copying a transpose."""

import numpy as np
import tilewright as tw

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (128, 768)).astype(np.float32)
weights = rng.uniform(-1, 1, (3072, 768)).astype(np.float32)

spec = tw.MatmulSpec(m=128, n=3072, k=768, layout="nt")
kernel = tw.compile(spec)
y = kernel(x, weights)
assert (np.abs(y - tw.reference(spec, x, weights)) <= tw.error_bound(spec, x, weights)).all()

# A transposed view is recognized.
assert (tw.matmul(x, weights.T) == y).all()
print(spec, kernel.metadata.schedule)
