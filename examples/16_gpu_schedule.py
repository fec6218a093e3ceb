# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles under a GPU schedule of your own: how threads share a block's tile, and the stages of its pipeline.

Run it with ``python examples/16_gpu_schedule.py``. The same file is a schedule for the command line:
``tilewright run --shape 93x121x61 --dtype bf16 --target sm_80 --device emulated --schedule examples/16_gpu_schedule.py``.
"""

from typing import Any

import numpy as np
import tilewright as tw
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.steps import block_tile, sharing


def schedule(spec: tw.MatmulSpec, target: tw.GpuTarget, sizes: Any) -> ir.Module:  # noqa: ANN401 - of any strategy
    """Tiles of 64 x 64 for blocks of four warps, which multiply 32 x 32 each, and four stages.

    `spec` has dynamic extents, as all GPU kernels do. `sizes` has the sizes that tilewright would choose; this schedule has its own.
    """
    with steps.script() as script:
        # From linalg to blocks that compute a tile each, in vectors as large as the tile, by upstream's transform ops:
        blocks = block_tile.tile(script, spec, bm=64, bn=64, bk=32)
        # What becomes of such a block is decided by ops of ours, and carried out when the payload has been bufferized:
        sharing.share_among_warps(blocks, rows=32, columns=32, instructions="mma_sync")
        sharing.pipeline(blocks, stages=4)
    return script.module


def main() -> None:
    """Runs this schedule in the emulator, and shows what the payload's loops carry of it."""
    spec = tw.MatmulSpec(m=93, n=121, k=61, a="bf16", epilogue=(tw.bias("n"), tw.relu()))
    kernel = tw.compile(spec, target=tw.targets.gpu("sm_80").emulated(), schedule=schedule)
    rng = np.random.default_rng(0)
    kind = tw.dtypes.to_numpy(spec.a_type)
    a, b = (rng.uniform(-1, 1, shape).astype(kind) for shape in (spec.a_shape, spec.b_shape))
    bias = rng.uniform(-1, 1, spec.n).astype(np.float32)
    difference = np.abs(kernel(a, b, bias) - tw.reference(spec, a, b, bias))
    if not (difference <= tw.error_bound(spec, a, b, bias)).all():
        raise SystemExit("wrong")
    print(f"right; {kernel.metadata.threads} threads a block, {kernel.metadata.parameters}")
    for line in kernel.asm["scheduled"].splitlines():
        if "#tilewright." in line:
            print(line.strip())


if __name__ == "__main__":
    main()
