# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles one matrix product, calls it on numpy arrays, checks the result, and times it.

Run it with ``python examples/01_matmul.py [M N K]``.
"""

import sys
import time

import numpy as np
import tilewright as tw


def main(m: int, n: int, k: int) -> None:
    """Compiles, checks and times C = A·B with A of m×k and B of k×n elements."""
    spec = tw.MatmulSpec(m=m, n=n, k=k, a="f32")
    kernel = tw.compile(spec)
    made = "loaded from the cache" if kernel.metadata.cached else "compiled"
    print(f"{spec}: {made} in {1e3 * kernel.metadata.compile_seconds:.0f} ms, schedule {kernel.metadata.schedule}")

    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, (m, k)).astype(np.float32)
    b = rng.uniform(-1, 1, (k, n)).astype(np.float32)
    c = kernel(a, b)

    # How far from the exact product a right kernel may be, element by element.
    error = np.abs(c - tw.reference(spec, a, b))
    bound = tw.error_bound(spec, a, b)
    if not (error <= bound).all():
        sys.exit("wrong")
    print(f"right: the largest error is {error.max():.1e}, and {(error / bound).max():.4f} of what rounding may do")
    print(f"numpy differs by {np.abs(c - a @ b).max():.1e}")

    for name, call in (("tilewright", lambda: kernel(a, b, out=c)), ("numpy", lambda: np.matmul(a, b, out=c))):
        print(f"{name:10} {spec.flops / seconds(call) / 1e9:6.1f} GFLOP/s")


def seconds(call, repeats: int = 20) -> float:  # noqa: ANN001
    """The median time of a call, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[repeats // 2]


if __name__ == "__main__":
    main(*(int(extent) for extent in sys.argv[1:4] or (384, 1024, 1024)))
