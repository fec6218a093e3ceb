# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuses epilogues into a product: named entries, a Python function, and requantization of integers.

Run it with ``python examples/06_epilogues.py [M N K]``.
"""

import sys

import numpy as np
import tilewright as tw


def main(m: int, n: int, k: int) -> None:
    """Compiles three epilogues for one shape, and checks each against the reference."""
    rng = np.random.default_rng(0)

    # A layer with bias and activation.
    check(tw.MatmulSpec(m, n, k, epilogue=(tw.bias("n"), tw.gelu())), rng)

    # One of one's own, with an operand: three lines.
    spec = tw.MatmulSpec(m, n, k, epilogue=(lambda c, s: tw.math.tanh(c * s),))
    kernel = tw.compile(spec)
    print(kernel, "takes", ", ".join(f"{each.name}{each.shape}" for each in spec.operands))
    check(spec, rng)

    # Integers in, integers out.
    layer = (tw.bias("n"), tw.dequantize("n"), tw.relu(), tw.quantize(100.0, zero_point=3, type="u8"))
    check(tw.MatmulSpec(m, n, k, a="u8", b="i8", epilogue=layer), rng)


def check(spec: tw.MatmulSpec, rng: np.random.Generator) -> None:
    """Runs a kernel of `spec` on random operands."""
    operands = []
    for each in spec.operands:
        values = rng.uniform(-1, 1, each.shape) if each.type.kind == "float" else rng.integers(0, 100, each.shape)
        operands.append(values.astype(each.type.numpy))
    result = tw.compile(spec)(*operands)
    error = np.abs(result - tw.reference(spec, *operands))
    if not (error <= tw.error_bound(spec, *operands)).all():
        sys.exit(f"{spec}: wrong")
    print(f"{spec}: right, the largest error is {error.max():.2g}")


if __name__ == "__main__":
    main(*(int(extent) for extent in sys.argv[1:4] or (64, 300, 100)))
