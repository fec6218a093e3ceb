# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes attention of a decoder: a prompt at once, then token by token with a growing cache, with interleaved heads."""

import ml_dtypes
import numpy as np
import tilewright as tw

heads, kv_heads, size, prompt, most = 8, 2, 64, 48, 128
rng = np.random.default_rng(0)


def projected(rows: int, count: int) -> np.ndarray:
    """What a linear layer would give: rows of all heads side by side, seen as heads of rows."""
    values = rng.normal(size=(rows, count * size)).astype(ml_dtypes.bfloat16)
    return values.reshape(rows, count, size).swapaxes(0, 1)


keys, values = (np.zeros((kv_heads, most, size), ml_dtypes.bfloat16) for _ in range(2))
sizes = {"head": size, "heads": heads, "kv_heads": kv_heads, "q": "bf16", "causal": "lower_right"}
# The prompt's kernel takes any length, the other any cache.
whole = tw.compile(tw.AttentionSpec(queries=None, keys=None, **sizes))
step = tw.compile(tw.AttentionSpec(queries=1, keys=None, **sizes))

queries = projected(prompt, heads)
keys[:, :prompt], values[:, :prompt] = projected(prompt, kv_heads), projected(prompt, kv_heads)
rows = np.empty((prompt, heads, size), ml_dtypes.bfloat16)
whole(queries, keys[:, :prompt], values[:, :prompt], out=rows.swapaxes(0, 1))

for length in range(prompt + 1, prompt + 5):
    query = projected(1, heads)
    keys[:, length - 1 : length], values[:, length - 1 : length] = projected(1, kv_heads), projected(1, kv_heads)
    result = step(query, keys[:, :length], values[:, :length])
    operands = query, keys[:, :length], values[:, :length]
    error = np.abs(result.astype(np.float64) - tw.reference(step.spec, *operands))
    assert (error <= tw.error_bound(step.spec, *operands)).all()

print(whole.metadata.parameters["products"][0], "and", step.metadata.parameters["products"][0])
print(whole.metadata.workspace_bytes, "bytes beyond operands")
