# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A convolution and attention for a GPU, from the same specs as for processors, in the emulator: no card is needed.

Run it with ``python examples/33_gpu_operators.py``.
"""

import numpy as np
import tilewright as tw

CONVOLUTION = tw.Conv2dSpec(2, 7, 9, 16, 24, 3, 3, a="bf16", padding=1, epilogue=(tw.bias(), tw.relu()))
ATTENTION = tw.AttentionSpec(37, 53, 24, heads=4, kv_heads=2, q="bf16", causal="lower_right")
SIZES = {
    "conv2d": {"bm": 64, "bn": 32, "wm": 32, "wn": 16},
    "attention": {"bm": 32, "kc": 16, "rows": 16, "threads": 64},
}
"""Small blocks, for small problems; without `parameters` tilewright chooses."""


def main() -> None:
    """Compiles both for an A100, runs them, and says what became of them."""
    rng = np.random.default_rng(0)
    for spec in (CONVOLUTION, ATTENTION):
        kernel = tw.compile(spec, target=tw.targets.gpu("sm_80").emulated(), parameters=SIZES[spec.operator])
        operands = [rng.uniform(-1, 1, each.shape).astype(tw.dtypes.to_numpy(each.type)) for each in spec.operands]
        difference = np.abs(kernel(*operands).astype(np.float64) - tw.reference(spec, *operands))
        if not (difference <= tw.error_bound(spec, *operands)).all():
            raise SystemExit("wrong")
        products = kernel.asm["ptx"].count("mma.sync")
        copies = kernel.asm["ptx"].count("cp.async.cg")
        print(f"{spec}: right; {kernel.metadata.schedule}, {products} mma.sync and {copies} cp.async in its code")


if __name__ == "__main__":
    main()
