# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plants a wrong, a crashing and a slow step in a schedule of each strategy, has each found, and writes the table of how.

Writes docs/reference/results/bisect.csv: which op is named, in how many runs, and how many there may be: the logarithm of the number of ops
or differences that are searched, rounded up, and two. On another machine the sizes of its own schedules may be others, and no count.
"""

from __future__ import annotations

import csv
import math
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import faults
import numpy as np
import tilewright as tw
from faults import Planted
from tilewright import targets
from tilewright.bench.slower import slower
from tilewright.dtypes import to_numpy
from tilewright.runtime.bisect import IsBad
from tilewright.runtime.gpu import GpuKernel
from tilewright.runtime.kernel import Kernel

FILE = Path(__file__).parents[2] / "docs/reference/results/bisect.csv"
COLUMNS = ("strategy", "target", "fault", "planted", "named", "number", "of", "runs", "runs allowed")
_MORE = 2
"""Runs beyond the logarithm: both ends of the chain."""
_TIMES = 1.3
"""How much slower is slow."""


@dataclass(frozen=True, slots=True)
class Case:
    """A product by a strategy, and the slow step that is planted in its schedule.

    Attributes:
        target: For which target.
        old: A pattern of what the step has.
        new: What the slow one has for it.
        shape: The extents of the product; of GPUs' kernels those of the tiles in the end are smaller.
        fields: What else it is.
        timed: The extents of the product with the slow step; None where it is the same.
    """

    target: str
    old: str
    new: str
    shape: tuple[int, int, int] = (33, 33, 33)
    fields: Mapping[str, Any] = field(default_factory=dict)
    timed: tuple[int, int, int] | None = None

    def spec(self, shape: tuple[int, int, int]) -> tw.MatmulSpec:
        """The product of some extents."""
        return tw.MatmulSpec(*shape, **self.fields)


_KEPT = r"transform\.loop\.hoist_loop_invariant_subsets (%\w+).*"
_IN_MEMORY = r'transform.annotate \1 "sums_stay_in_memory" : !transform.any_op'
_TIDIED = r"(?s) *transform\.apply_patterns to %\d+ {\n *transform\.apply_patterns\.tensor\.merge.*"
_ROWS = (
    "    %rows, %loop = transform.structured.tile_using_for %1 tile_sizes [4, 0, 0]"
    " : (!transform.any_op) -> (!transform.any_op, !transform.any_op)\n"
)
"""Four rows of sums for each step along k, where there is room for 32."""
_HALF = {"a": "bf16", "b": "bf16"}
_FEWER = r"(pipeline %\w+ stages) \d+"
_CODES = {"a": "f32", "b": "i4", "prologue_b": (tw.dequantize("gn", 0, 32),)}
_LIMITED = {"epilogue": (tw.relu(),)}
"""What sums start from is no part of these decisions; from what on results count is the payload's."""
CASES: Mapping[str, Case] = {
    "packed": Case("x86-64-v3", r'(knob<"mr"> =) 4', r"\1 1", timed=(192, 192, 192)),
    "unpacked": Case("x86-64-v3", r'(knob<"mr"> =) 4', r"\1 1", timed=(96, 96, 96)),
    "streamed": Case("x86-64-v3", _KEPT, _IN_MEMORY, timed=(2, 256, 512)),
    "inner_product": Case("x86-64-v3", _KEPT, _IN_MEMORY, fields={"layout": "nt"}, timed=(8, 64, 512)),
    "scaled_sums": Case("x86-64-v3", r'(knob<"mr"> =) 4', r"\1 1", (4, 48, 64), _CODES | _LIMITED, timed=(4, 512, 512)),
    "scalable": Case("neoverse-v1", r"(scalable_tiles<mr =) 6", r"\1 1", fields=_LIMITED),
    "outer_product": Case("armv9-a+sme", _TIDIED, _ROWS, fields=_LIMITED),
    "mma_sync": Case("sm_80", _FEWER, r"\1 2", fields=_HALF),
    "warpgroup": Case("sm_90a", _FEWER, r"\1 2", (64, 64, 64), _HALF),
    "tensor_memory": Case("sm_100a", _FEWER, r"\1 2", (64, 64, 64), _HALF),
    "matrix_cores": Case("gfx942", _FEWER, r"\1 1", fields=_HALF),
    "simt": Case("vulkan", _FEWER, r"\1 1"),
}
"""By strategy."""


def main(wanted: list[str]) -> int:
    """Bisects the faults of the strategies that are given, or of all, and puts their rows into the file, each as it is known."""
    known = {tuple(row[:3]): row for row in _known()}
    for name in wanted or CASES:
        for fault in FAULTS:
            row = [str(each) for each in _row(name, CASES[name], fault)]
            known[tuple(row[:3])] = row
            print(*row, sep=", ", flush=True)
            keys = [(name, case.target, each) for name, case in CASES.items() for each in FAULTS]
            with FILE.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(
                    [COLUMNS, *(known[key] for key in keys if key in known)]
                )
    print(f"wrote {FILE}")
    return 0


def _known() -> list[list[str]]:
    """The rows of the file."""
    if not FILE.exists():
        return []
    with FILE.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def _wrong(case: Case, strategy: str) -> tuple[Planted, tw.Blame]:
    spec = case.spec(case.shape)
    good = tw.compile(spec, case.target, schedule=strategy).asm["schedule"]
    return _bisected(spec, case.target, good, faults.wrong(good, amid=_beside(case.target)))


def _crashing(case: Case, strategy: str) -> tuple[Planted, tw.Blame]:
    spec = case.spec(case.shape)
    good = tw.compile(spec, case.target, schedule=strategy).asm["schedule"]
    return _bisected(spec, case.target, good, faults.crashing(good, amid=_beside(case.target)))


def _slow(case: Case, strategy: str) -> tuple[Planted, tw.Blame]:
    spec = replace(case.spec(case.timed or case.shape), epilogue=())
    kernel = tw.compile(spec, case.target, schedule=strategy)
    good = kernel.asm["schedule"]
    is_slow = slower(kernel, spec, _TIMES) if case.timed else _does_more(kernel)
    return _bisected(spec, case.target, good, faults.slow(good, case.old, case.new), is_slow)


def _bisected(
    spec: tw.MatmulSpec, target: str, good: str, planted: Planted, is_bad: IsBad | None = None
) -> tuple[Planted, tw.Blame]:
    """What is blamed of a schedule with a fault: beside the good one on GPUs and where the fault is a slow step."""
    with tempfile.TemporaryDirectory() as name:
        files = Path(name, "bad.mlir"), Path(name, "good.mlir")
        for file, text in zip(files, (planted.text, good), strict=True):
            file.write_text(text, encoding="utf-8")
        beside = files[1] if is_bad is not None or _beside(target) else None
        return planted, tw.bisect(spec, files[0], target, good=beside, is_bad=is_bad, among="ops")


def _beside(target: str) -> bool:
    """Whether schedules for a target are compared with a good one: beginnings of a GPU's make no kernel."""
    return targets.gpu(target) is not None


def _does_more(usual: Kernel) -> IsBad:
    """Whether a kernel that is emulated runs more instructions than one, or, a GPU's, has fewer tiles on their way."""
    if isinstance(usual, GpuKernel):
        return lambda kernel: _slots(kernel) < _slots(usual)
    least = _TIMES * _instructions(usual)
    return lambda kernel: _instructions(kernel) > least


def _slots(kernel: Kernel) -> int:
    assert isinstance(kernel, GpuKernel)
    slots = re.findall(r"memref\.alloc\(\) : memref<(\d+)x", kernel.asm["threads"])
    return kernel.shared_bytes + sum(map(int, slots))


def _instructions(kernel: Kernel) -> int:
    spec = kernel.spec
    assert isinstance(spec, tw.MatmulSpec)
    operands = [np.ones(each.shape, to_numpy(each.type)) for each in spec.operands]
    return kernel.count_instructions(*operands)


FAULTS: Mapping[str, Callable[[Case, str], tuple[Planted, tw.Blame]]] = {
    "wrong": _wrong,
    "crashing": _crashing,
    "slow": _slow,
}
"""What finds each kind of fault."""


def _row(strategy: str, case: Case, fault: str) -> tuple[object, ...]:
    planted, blame = FAULTS[fault](case, strategy)
    named = next((line for line in reversed(blame.op.splitlines()) if planted.op in line), blame.op.splitlines()[0])
    most = math.ceil(math.log2(blame.count)) + _MORE
    shown = named.split(" : ")[0].strip()[:80]
    return strategy, case.target, fault, planted.op, shown, blame.number, blame.count, blame.runs, most


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
