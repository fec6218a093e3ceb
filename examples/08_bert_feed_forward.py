# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes BERT's feed-forward block: two products, each with its epilogue fused into its loops.

    hidden = gelu(x · w1 + b1)
    y = hidden · w2 + b2 + x

Run it with ``python examples/08_bert_feed_forward.py [TOKENS WIDTH HIDDEN]``. Where torch is installed, its result is compared too.
"""

import sys

import numpy as np
import tilewright as tw


def main(tokens: int, width: int, hidden: int) -> None:
    """Compiles both kernels, runs them, and checks the block."""
    rng = np.random.default_rng(0)
    x, w1, b1, w2, b2 = (
        rng.uniform(-1, 1, shape).astype(np.float32) / np.float32(shape[0] ** 0.5)
        for shape in ((tokens, width), (width, hidden), (hidden,), (hidden, width), (width,))
    )

    up = tw.compile(tw.MatmulSpec(tokens, hidden, width, epilogue=(tw.bias("n"), tw.gelu())))
    down = tw.compile(tw.MatmulSpec(tokens, width, hidden, epilogue=(tw.bias("n"), tw.residual("mn"))))
    first = up(x, w1, b1)
    y = down(first, w2, b2, x)

    # Each kernel is within the bound of its own operands.
    for kernel, result, operands in ((up, first, (x, w1, b1)), (down, y, (first, w2, b2, x))):
        error = np.abs(result - tw.reference(kernel.spec, *operands))
        if not (error <= tw.error_bound(kernel.spec, *operands)).all():
            sys.exit(f"{kernel.spec}: wrong")
        print(f"{kernel.spec}: right, the largest error is {error.max():.2g}")

    # Both together: the function in double precision, and torch.
    exact = tw.reference(up.spec, x, w1, b1) @ w2.astype(np.float64) + b2 + x
    print(f"the block: {np.abs(y - exact).max():.2g} from NumPy in double precision at most")
    if not np.allclose(y, exact, rtol=1e-4, atol=1e-5):
        sys.exit("the block is wrong")
    compare_with_torch(y, x, w1, b1, w2, b2)


def compare_with_torch(y: np.ndarray, *operands: np.ndarray) -> None:
    """Compares the block with torch's, or says why not."""
    try:
        import torch  # type: ignore[import-not-found]
    except ImportError:
        print("torch: not compared, it is not installed")
        return
    x, w1, b1, w2, b2 = map(torch.from_numpy, operands)
    theirs = torch.nn.functional.gelu(x @ w1 + b1) @ w2 + b2 + x
    torch.testing.assert_close(torch.from_numpy(y), theirs, rtol=1e-4, atol=1e-5)
    print(f"torch {torch.__version__}: the same, to {(torch.from_numpy(y) - theirs).abs().max():.2g}")


if __name__ == "__main__":
    main(*(int(extent) for extent in sys.argv[1:4] or (128, 768, 3072)))
