# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Estimates, by the emulator's model of a Hopper GPU, the time of products that `bench card` has measured, and writes both into a table.

Of each product of bf16 with 4096 columns, up to 4096³, the fastest, a middle and the slowest sizes that were tried; a quarter of an hour.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tilewright import compile as compiled
from tilewright import ptx
from tilewright.bench.card import plan
from tilewright.bench.suites import parse_shape
from tilewright.dtypes import to_numpy
from tilewright.runtime import emulated_time, fiber_calls, gpu_call, gpu_passes
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel
from tilewright.spec import MatmulSpec

RESULTS = Path(__file__).resolve().parents[2] / "docs/reference/results"
CARD, TABLE = RESULTS / "nvidia-h200.jsonl.gz", RESULTS / "nvidia-h200-estimates.csv"
TYPES, COLUMNS_OF_C = "bf16", 4096
COLUMNS = ("types", "layout", "m", "n", "k", "sizes", "measured", "estimated")
_MOST = 4096**3
_RUN = 2
"""The run that is compared: its sizes were chosen with the model as it is now."""
_WARP = 32


def estimated(spec: MatmulSpec, sizes: Mapping[str, int]) -> float:
    """Seconds that a product by strategy `warpgroup` would take: the sum of its kernels."""
    kernel: Any = compiled(spec, "sm_90a", schedule="warpgroup", parameters=sizes, verify=False)
    shapes = ((spec.a_shape, spec.a_type), (spec.b_shape, spec.b_type), (spec.c_shape, spec.c_type))
    arrays = [np.zeros(shape, to_numpy(kind)) for shape, kind in shapes]
    form, made = kernel.code(True, lambda stages: {each.strategy: each for each in stages.passes}, boxed=True)
    seconds = 0.0
    for each in gpu_passes.passes(form, spec, arrays, gpu_call.aligned_empty):
        launch = gpu_call.launch(each.form, each.spec, emulated_time.PROCESSORS)
        module = ptx.translated(made[each.form.strategy].texts["ptx"], counts=True)
        emulated = EmulatedGpuKernel(module.llvmir, list(module.kernels)[-1])
        events, counts = emulated.trace(launch, *fiber_calls.arguments(each, launch))
        blocks, cluster = (int(np.prod(each)) for each in (launch.grid, launch.cluster))
        found = emulated_time.estimate(events, counts, warps=launch.block[0] // _WARP, blocks=blocks, cluster=cluster)
        seconds += found.seconds
    return seconds


def rows() -> Iterator[tuple[object, ...]]:
    """The rows of the table."""
    every = [json.loads(line) for line in gzip.decompress(CARD.read_bytes()).splitlines()]
    for each in every:
        if each["kind"] != "time" or each.get("run") != _RUN or "tried" not in each:
            continue
        shape = parse_shape(each["shape"])
        if each["types"] != TYPES or each["epilogue"] or shape.n != COLUMNS_OF_C or shape.m * shape.n * shape.k > _MOST:
            continue
        tried = sorted(each["tried"], key=lambda one: -one["tflops"])
        spec = plan.spec_of(each["types"], each["layout"], "", shape)
        for at in sorted({0, len(tried) // 2, len(tried) - 1}, reverse=True):
            one = tried[at]
            seconds = estimated(spec, one["sizes"])
            rate = 2 * shape.m * shape.n * shape.k / seconds / 1e12
            said = " ".join(f"{name}={size}" for name, size in one["sizes"].items())
            yield each["types"], each["layout"], *each["shape"].split("x"), said, f"{one['tflops']:.1f}", f"{rate:.1f}"


def main() -> int:
    """Writes the table, once it is complete; 0."""
    found: list[tuple[object, ...]] = []
    for row in rows():
        found.append(row)
        print(*row, file=sys.stderr)
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *found])
    return 0


if __name__ == "__main__":
    sys.exit(main())
