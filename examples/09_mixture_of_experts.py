# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes a layer of experts: each token goes to one of them, whose kernel gathers its tokens' rows while it multiplies.

No expert's tokens are copied together first: `tilewright.gather_rows` takes row ``index[i]`` of all tokens for row i of A.

Run it with ``python examples/09_mixture_of_experts.py [TOKENS WIDTH HIDDEN EXPERTS]``. Where torch is installed, its result is
compared too.
"""

import sys

import numpy as np
import tilewright as tw


def main(tokens: int, width: int, hidden: int, experts: int) -> None:
    """Sends tokens to experts, and checks each expert's result."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (tokens, width)).astype(np.float32)
    weights = rng.uniform(-1, 1, (experts, width, hidden)).astype(np.float32)
    bias = rng.uniform(-1, 1, (experts, hidden)).astype(np.float32)
    chosen = rng.integers(0, experts, tokens)

    y = np.empty((tokens, hidden), np.float32)
    for expert in range(experts):
        rows = np.flatnonzero(chosen == expert).astype(np.int32)
        gather, layer = (tw.gather_rows(tokens),), (tw.bias("n"), tw.silu())
        spec = tw.MatmulSpec(len(rows), hidden, width, prologue_a=gather, epilogue=layer)
        result = tw.compile(spec)(x, weights[expert], rows, bias[expert])
        operands = (x, weights[expert], rows, bias[expert])
        if not (np.abs(result - tw.reference(spec, *operands)) <= tw.error_bound(spec, *operands)).all():
            sys.exit(f"expert {expert}: wrong")
        print(f"expert {expert}: {len(rows)} tokens, right")
        y[rows] = result

    products = np.einsum("tw,twh->th", x.astype(np.float64), weights[chosen].astype(np.float64)) + bias[chosen]
    exact = products / (1 + np.exp(-products))
    print(f"the layer: {np.abs(y - exact).max():.2g} from NumPy in double precision at most")
    if not np.allclose(y, exact, rtol=1e-4, atol=1e-4):
        sys.exit("the layer is wrong")
    compare_with_torch(y, x, weights, bias, chosen)


def compare_with_torch(y: np.ndarray, *operands: np.ndarray) -> None:
    """Compares the layer with torch's, or says why not."""
    try:
        import torch  # type: ignore[import-not-found]
    except ImportError:
        print("torch: not compared, it is not installed")
        return
    x, weights, bias, chosen = map(torch.from_numpy, operands)
    products = torch.bmm(x[:, None], weights[chosen])[:, 0] + bias[chosen]
    torch.testing.assert_close(torch.from_numpy(y), torch.nn.functional.silu(products), rtol=1e-4, atol=1e-4)
    print(f"torch {torch.__version__}: the same")


if __name__ == "__main__":
    main(*(int(extent) for extent in sys.argv[1:5] or (96, 64, 128, 4)))
