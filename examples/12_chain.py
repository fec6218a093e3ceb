# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes an MLP as one function: two chained products, with weights packed ahead of time.

    y = gelu(x · w1 + b1) · w2 + b2

Run it with ``python examples/12_chain.py [ROWS WIDTH HIDDEN]``. Many rows by small weights are computed some rows at a time: what is
between the products then never leaves the caches. Where torch is installed, torch.compile is timed beside it.
"""

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import tilewright as tw


def main(rows: int, width: int, hidden: int) -> None:
    """Compiles the chain and its products, checks that they give the same, and times both."""
    first = tw.MatmulSpec(rows, hidden, width, b_packed=True, epilogue=(tw.bias("n"), tw.gelu()))
    second = tw.MatmulSpec(rows, width, hidden, b_packed=True, epilogue=(tw.bias("n"),))
    mlp = tw.compile_chain((first, second))
    print(mlp["chain"])

    rng = np.random.default_rng(0)
    x, w1, b1, w2, b2 = (
        rng.uniform(-1, 1, shape).astype(np.float32) / np.float32(shape[0] ** 0.5)
        for shape in ((rows, width), (width, hidden), (hidden,), (hidden, width), (width,))
    )
    given = (x, mlp.pack("b", w1), b1, mlp.pack("b2", w2), b2)
    up, down = tw.compile(first), tw.compile(second)
    apart = (up.pack_b(w1), down.pack_b(w2))
    y, between = mlp(*given), np.empty((rows, hidden), np.float32)
    if not (y == down(up(x, apart[0], b1), apart[1], b2)).all():
        sys.exit("wrong: the chain and its products differ")
    print("right: the same bits as its two products give")

    def both() -> None:
        down(up(x, apart[0], b1, out=between), apart[1], b2, out=y)

    calls = {"chain": lambda: mlp(*given, out=y), "two kernels": both, **with_torch(x, w1, b1, w2, b2)}
    seconds = {name: [] for name in calls}
    for _ in range(20):  # In turns, so that each meets the same weather.
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    for name, each in seconds.items():
        median = statistics.median(each)
        print(f"{name}: {median * 1e3:.3f} ms, {4 * rows * width * hidden / median * 1e-9:.1f} GFLOP/s")


def with_torch(x: np.ndarray, *weights: np.ndarray) -> dict[str, Callable[[], object]]:
    """The same by torch.compile on one thread, where torch is installed."""
    try:
        import torch  # type: ignore[import-not-found]
    except ImportError:
        return {}
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    w1, b1, w2, b2 = map(torch.from_numpy, weights)
    up, down = torch.nn.Linear(*w1.shape), torch.nn.Linear(*w2.shape)
    for layer, weight, bias in ((up, w1, b1), (down, w2, b2)):
        layer.weight.data, layer.bias.data = weight.t().contiguous(), bias
    compiled, tensor = torch.compile(torch.nn.Sequential(up, torch.nn.GELU(), down)), torch.from_numpy(x)
    compiled(tensor)
    return {"torch.compile": lambda: compiled(tensor)}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or ("32768", "64", "256")))
