# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles under a schedule of your own: a function from a spec and a target to a transform-dialect module.

Run it with ``python examples/02_own_schedule.py``. The same file is a schedule for the command line:
``tilewright run --shape 512x512x512 --schedule examples/02_own_schedule.py``.
"""

import time

import numpy as np
import tilewright as tw
from tilewright.mlir import ir
from tilewright.mlir.dialects.transform import structured
from tilewright.schedules import steps


def schedule(spec: tw.MatmulSpec, target: tw.Target, sizes: tw.Blocking) -> ir.Module:
    """Register tiles of 4 rows and 3 vectors on the operands as they lie.

    It fits products whose rows and columns the tile divides; what else may be done about the rest, `steps.pad` and
    `steps.peel` say. `sizes` has the sizes that tilewright would choose; this schedule has its own.
    """
    rows, columns = 4, 3 * target.lanes(spec.acc_type)
    with steps.script() as script:
        matmul = steps.match(script.root, "linalg.matmul")
        # An op of upstream's transform dialect, as its Python builder makes it:
        outer = structured.TileUsingForOp(matmul, sizes=[rows, columns, 0])
        # The same, with a helper that returns handles:
        tile, _loop = steps.tile(outer.results[0], [0, 0, 1])
        steps.vectorize(tile)
        steps.keep_accumulators(script.functions, looped=True)
        if spec.beta == 0:
            steps.start_from_zero(script.functions)
    return script.module


def main() -> None:
    """Compares this schedule with the one that tilewright chooses."""
    spec = tw.MatmulSpec(m=512, n=480, k=512)
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in (spec.a_shape, spec.b_shape))
    for name, given in (("chosen", None), ("own", schedule)):
        kernel = tw.compile(spec, schedule=given)
        c = kernel(a, b)
        if not (np.abs(c - tw.reference(spec, a, b)) <= tw.error_bound(spec, a, b)).all():
            raise SystemExit(f"{name}: wrong")
        start = time.perf_counter()
        for _ in range(20):
            kernel(a, b, out=c)
        gflops = 20 * spec.flops / (time.perf_counter() - start) / 1e9
        print(f"{name:6}  {gflops:6.1f} GFLOP/s  schedule {kernel.metadata.schedule}")
    print(kernel.asm["schedule"])


if __name__ == "__main__":
    main()
