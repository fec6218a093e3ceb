# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes the attention scores of all heads at once: a batch of interleaved matrices, with a scale and a mask fused."""

import numpy as np
import tilewright as tw

rows, heads, size = 64, 12, 64
rng = np.random.default_rng(0)
# As linear layers leave them: for each place all heads, one after the other. Nothing is copied.
q, k = (rng.uniform(-1, 1, (rows, heads, size)).astype(np.float32).swapaxes(0, 1) for _ in range(2))
mask = np.where(np.tri(rows, dtype=bool), 0, -1e9).astype(np.float32)

spec = tw.MatmulSpec(
    rows,
    rows,
    size,
    layout="nt",
    batch=(heads,),
    epilogue=(tw.scale(size**-0.5), tw.residual("mn")),
    deterministic=True,
)
kernel = tw.compile(spec)
# One mask for all heads.
masks = np.broadcast_to(mask, spec.c_shape)
scores = kernel(q, k, masks)
expected = q @ k.swapaxes(1, 2) * size**-0.5 + mask
assert np.allclose(scores, expected, atol=1e-5)
assert (np.abs(scores - tw.reference(spec, q, k, masks)) <= tw.error_bound(spec, q, k, masks)).all()
print(spec, kernel.metadata.schedule)
