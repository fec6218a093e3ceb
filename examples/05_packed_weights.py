# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packs the weights of a layer once, saves them to a file, and serves batches of several sizes with them.

Run it with ``python examples/05_packed_weights.py [N K]``.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import tilewright as tw


def main(n: int, k: int) -> None:
    """Multiplies batches with weights of k×n elements, packed ahead of time and not."""
    rng = np.random.default_rng(0)
    weights = rng.uniform(-1, 1, (k, n)).astype(np.float32)

    with tempfile.TemporaryDirectory() as folder:
        # Any kernel for these weights packs them; how many rows its batches have makes no difference.
        packer = tw.compile(tw.MatmulSpec(m=32, n=n, k=k, b_packed=True))
        packer.pack_b(weights).save(Path(folder, "weights"))
        packed = tw.PackedB.load(Path(folder, "weights"))
    print(f"{packed.nbytes} bytes for {weights.nbytes}: {packed.format}")

    for m in (1, 8, 32, 128):
        batch = rng.uniform(-1, 1, (m, k)).astype(np.float32)
        spec = tw.MatmulSpec(m=m, n=n, k=k, b_packed=True)
        serve, plain = tw.compile(spec), tw.compile(tw.MatmulSpec(m=m, n=n, k=k))
        result = serve(batch, packed)
        if not (np.abs(result - tw.reference(spec, batch, weights)) <= tw.error_bound(spec, batch, weights)).all():
            sys.exit("wrong")
        ahead = seconds(lambda: serve(batch, packed, out=result))  # noqa: B023 - called at once
        as_it_is = seconds(lambda: plain(batch, weights, out=result))  # noqa: B023
        print(f"{m:4} rows: right, {1e6 * ahead:7.1f} µs packed ahead, {1e6 * as_it_is:7.1f} µs as they are")

    try:
        tw.compile(tw.MatmulSpec(m=8, n=n + 1, k=k, b_packed=True))(batch[:8], packed)
    except tw.OperandError as error:
        print(f"refused: {error}")


def seconds(call, repeats: int = 20) -> float:  # noqa: ANN001
    """The median time of a call, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[repeats // 2]


if __name__ == "__main__":
    main(*(int(extent) for extent in sys.argv[1:3] or (768, 768)))
