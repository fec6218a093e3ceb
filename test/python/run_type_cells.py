# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs cells of the table of types, each at one small odd size, where the target's code can run. A program.

Usage: run_type_cells.py FAMILY…    x86, amx, arm, nvidia, vulkan, amd

Cells of several targets that are the same code, as far as instructions and vectors tell, are run once. Each is announced before it
is run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import emulated_amx
import matrix_targets
import numpy as np
import tilewright as tw
from tilewright.bench.type_cells import Cell, cells
from tilewright.payload.reference import within_bound
from tilewright.payload.samples import values
from tilewright.targets.gpu import GpuTarget
from tilewright.targets.registry import GPUS

M, N, K = 5, 19, 37
_SIZES = {
    "mma_sync": {"bm": 32, "bn": 32, "wm": 32, "wn": 32, "stages": 2},
    "matrix_cores": {"bm": 32, "bn": 32, "wm": 16, "wn": 16},
}
_LOOKUPS = frozenset({"avx512bw", "avx512vbmi", "f16c", "avx512bf16", "bf16"})
"""Features that decide how elements are widened."""


def targets(family: str) -> list[tw.Target | GpuTarget]:
    """Those of a family whose cells are run."""
    if family in {card.family for card in GPUS}:
        return [card for card in GPUS if card.family == family]
    if family == "amx":
        return [emulated_amx.target("amx-fp16")]
    known = [each for each in tw.targets() if each.target.family == family and each.target.name != "host"]
    emulated = family == "arm" and matrix_targets.QEMU_ARM is not None
    return [each.target for each in known if each.runs or (emulated and each.target.name in matrix_targets.ARM)]


def distinct(family: str) -> Iterator[tuple[tw.Target | GpuTarget, Cell]]:
    """The cells of a family, those that are the same code once."""
    seen = set()
    for target in targets(family):
        for cell in cells(target):
            if family == "amx" and not cell.instruction.startswith("td"):
                continue
            vectors = getattr(target, "vector_bits", 0), target.features & _LOOKUPS
            if (cell, vectors) not in seen:
                seen.add((cell, vectors))
                yield target, cell


def run(family: str, target: tw.Target | GpuTarget, cell: Cell) -> None:
    """Compiles a cell, looks for its instruction, and checks each element that it computes."""
    a, b = cell.types
    spec = tw.MatmulSpec(M, N, K, a=a, b=b)
    if isinstance(target, GpuTarget):
        sizes = _SIZES.get(cell.strategy)
        card = target if family == "vulkan" else target.emulated()
        kernel = tw.compile(spec, target=card, schedule=cell.strategy, parameters=sizes, cache=False)
    elif family == "amx":
        kernel = matrix_targets.runner("amx").compile(spec, {"schedule": cell.strategy})
    else:
        kernel = tw.compile(spec, target=target, schedule=cell.strategy, cache=False)
    random = np.random.default_rng(1)
    operands = [values(random, each.shape, each.type) for each in spec.operands]
    right = within_bound(kernel(*operands), tw.reference(spec, *operands), tw.error_bound(spec, *operands))
    assert right.all(), f"{target.name}: {cell}: {np.argwhere(~right)[0]}"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for place, each in distinct(name):
            sys.stdout.write(f"{place.name} {'×'.join(each.types)}: {each}\n")
            sys.stdout.flush()
            run(name, place, each)
