# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prompts of different lengths end to end, their keys in pages, then a token for each: on this machine and, emulated, on Hopper.

Run it with ``python examples/35_paged_attention.py``.
"""

import ml_dtypes
import numpy as np
import tilewright as tw

HEADS, KV_HEADS, SIZE, PAGE = 6, 2, 64, 16
PROMPTS = (21, 3, 40)
SIZES = {"heads": HEADS, "kv_heads": KV_HEADS, "q": "bf16", "causal": "lower_right", "page": PAGE}
PREFILL = tw.AttentionSpec(None, None, SIZE, sequences=tw.Dim(), **SIZES)
"""Queries of any number of sequences, which lie end to end."""
DECODE = tw.AttentionSpec(1, None, SIZE, batch=(len(PROMPTS),), **SIZES)
"""One query for each entry of a batch."""


def pages_of(lengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A table of pages, in no order; what names none is -1."""
    columns = -(-lengths.max() // PAGE)
    table = rng.permutation(2 * lengths.size * columns)[: lengths.size * columns].reshape(-1, columns)
    return np.where(np.arange(columns) * PAGE < lengths[:, None], table, -1).astype(np.int32)


def main() -> None:
    """Runs both kernels on both targets, and compares their numbers with the reference."""
    rng = np.random.default_rng(0)
    lengths = np.array(PROMPTS, np.int32) + 1  # A prompt, and a token.
    table = pages_of(lengths, rng)
    # As a cache holds them: pages of positions of heads.
    keys, values = (
        rng.normal(size=(2 * table.size, PAGE, KV_HEADS, SIZE)).astype(ml_dtypes.bfloat16).swapaxes(1, 2)
        for _ in range(2)
    )
    starts = np.array([0, *np.cumsum(PROMPTS)], np.int32)
    prompts = rng.normal(size=(HEADS, starts[-1], SIZE)).astype(ml_dtypes.bfloat16)
    tokens = rng.normal(size=(len(PROMPTS), HEADS, 1, SIZE)).astype(ml_dtypes.bfloat16)
    calls = {
        PREFILL: (prompts, keys, values, starts, lengths - 1, table),
        DECODE: (tokens, keys, values, lengths, table),
    }
    for target in ("host", tw.targets.gpu("sm_90a").emulated()):
        for spec, operands in calls.items():
            kernel = tw.compile(spec, target=target)
            difference = np.abs(kernel(*operands).astype(np.float64) - tw.reference(spec, *operands))
            if not (difference <= tw.error_bound(spec, *operands)).all():
                raise SystemExit("wrong")
            merged = kernel.metadata.parameters.get("merged")
            rows = "" if merged is None else f", tiles of {merged} heads"
            print(f"{'prompts' if spec is PREFILL else 'tokens'} on {kernel.target.name}: right{rows}")


if __name__ == "__main__":
    main()
