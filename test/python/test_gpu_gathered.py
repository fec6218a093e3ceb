# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `warpgroup` where rows of A are gathered from a table: numbers, rows that there are none of, registers, and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from gpu_kernels import array, check
from tilewright.emit.gpu import tool
from tilewright.errors import OperandError, ScheduleError
from tilewright.runtime import gpu
from tilewright.runtime.fiber_calls import call
from tilewright.schedules.gpu.warpgroup_sizes import ranked, sizes
from tilewright.targets import nvidia

_, SM_90A, _ = nvidia.ROWS
EMULATED = SM_90A.emulated()
SMALL = {"bm": 128, "bn": 64, "stages": 3}
TURNS = {"bm": 64, "bn": 64, "pingpong": 1}
GATED = (tw.bias("n"), tw.glu(), tw.residual("mn", "bf16"))
CASES: list[tuple[dict[str, Any], dict[str, int]]] = [
    ({"m": 130, "n": 70, "k": 200, "rows": 50, "a": "bf16"}, SMALL),
    ({"m": 130, "n": 71, "k": 136, "rows": 900, "a": "f16", "layout": "nt", "c": "f16", "epilogue": (tw.gelu(),)}, SMALL),
    # More columns than a box has; fewer than a piece of 16 bytes; no step over K.
    ({"m": 70, "n": 70, "k": 300, "rows": 9, "a": "bf16"}, {**SMALL, "bk": 128}),
    ({"m": 70, "n": 70, "k": 3, "rows": 9, "a": "bf16"}, SMALL),
    ({"m": 70, "n": 70, "k": 0, "rows": 9, "a": "bf16"}, SMALL),
    ({"m": 100, "n": 90, "k": 300, "rows": 60, "a": "i8", "layout": "nt"}, SMALL),
    ({"m": 70, "n": 40, "k": 50, "rows": 60, "a": "f32", "tf32": True, "layout": "nt"}, SMALL),
    ({"m": 190, "n": 70, "k": 300, "rows": 77, "a": "f8E4M3FN", "layout": "nt", "c": "bf16"}, {"bm": 256, "bn": 64}),
    # Several tiles of each block; blocks that share tiles of B; consumers in turns; pieces of tiles; parts of K.
    ({"m": 700, "n": 130, "k": 130, "rows": 333, "a": "bf16", "c": "bf16", "index": "i64"}, SMALL),
    ({"m": 300, "n": 70, "k": 200, "rows": 33, "a": "bf16", "c": "bf16"}, {**SMALL, "cluster": 2}),
    ({"m": 300, "n": 130, "k": 130, "rows": 33, "a": "bf16", "c": "bf16"}, TURNS),
    ({"m": 860, "n": 130, "k": 330, "rows": 33, "a": "bf16", "c": "bf16"}, {**SMALL, "bn": 128, "streamed": 1}),
    ({"m": 130, "n": 70, "k": 500, "rows": 33, "a": "bf16", "c": "bf16"}, {**SMALL, "split": 3}),
    # Few rows, fewer than threads have pieces; experts: two products, and what is added to them fetched.
    ({"m": 5, "n": 150, "k": 100, "rows": 33, "a": "bf16", "c": "bf16"}, {"bm": 8, "bn": 128, "swapped": 1}),
    ({"m": 130, "n": 70, "k": 200, "rows": 50, "a": "bf16", "c": "bf16", "epilogue": GATED}, {**SMALL, "fetched": 1}),
    ({"m": 13, "n": 150, "k": 700, "rows": 50, "a": "bf16", "c": "bf16", "epilogue": GATED}, {}),
]  # fmt: skip


def _spec(rows: int, index: str = "i32", **case: Any) -> tw.MatmulSpec:
    return tw.MatmulSpec(**case, prologue_a=(tw.gather_rows(rows, index),))


@pytest.mark.parametrize(("case", "parameters"), CASES, ids=lambda each: str(_spec(**each)) if "m" in each else "")
def test_numbers(case: dict[str, Any], parameters: dict[str, int]) -> None:
    spec = _spec(**case)
    kernel = gpu.compile(spec, EMULATED, "warpgroup", parameters)
    for seed in (0, 1):
        check(kernel, spec, seed=seed)
    assert all(aligned for aligned, _ in kernel._made)
    # There is no map of the table: boxes are of B and what is like it, of C, and of what is added to it.
    assert all(box.operand for box in kernel._stages.boxes)


def test_every_size_by_one_kernel_and_rows_that_are_not_aligned() -> None:
    kernel = gpu.compile(_spec(40, m=None, n=None, k=None, a="bf16"), EMULATED)
    assert kernel.metadata.schedule == "warpgroup"
    for number, (m, n, k) in enumerate([(1, 1, 1), (129, 8, 640), (3, 300, 72), (0, 4, 5)]):
        check(kernel, _spec(40, m=m, n=n, k=k, a="bf16"), seed=number)
    check(kernel, _spec(40, m=30, n=20, k=70, a="bf16"), aligned=False)


def test_a_row_that_is_none_is_refused_and_is_zeros_in_a_kernel() -> None:
    """As in other strategies: in a card's memory nobody looks at numbers before."""
    spec = _spec(10, m=5, n=16, k=24, a="bf16")
    kernel = gpu.compile(spec, EMULATED, "warpgroup", SMALL)
    rng = np.random.default_rng(0)
    table, b = (array(each, rng) for each in spec.operands[:2])
    index = np.array([0, 10, 9, -1, 2**31 - 1], np.int32)
    with pytest.raises(OperandError, match="index is out of range"):
        kernel(table, b, index)
    out = np.full((5, 16), 7, np.float32)
    call(kernel, spec, [table, b, index, out], 0)
    inside = (index >= 0) & (index < 10)
    rows = np.where(inside[:, None], table[np.where(inside, index, 0)].astype(np.float64), 0)
    assert np.allclose(out, rows @ b.astype(np.float64), atol=1e-4)


def test_the_assembler_spills_nothing() -> None:
    if tool("ptxas") is None:
        pytest.skip("there is no ptxas")
    for case, parameters in (
        ({}, {"bn": 256}),
        ({"c": "bf16", "epilogue": (tw.bias("n"), tw.gelu())}, {"bn": 256, "cluster": 2}),
        ({"c": "bf16"}, {"bm": 64, "bn": 256, "pingpong": 1}),
        ({"c": "bf16"}, {"bn": 256, "cluster": 2, "streamed": 1}),
        ({}, {"bm": 256, "bn": 128}),
        ({}, {"bn": 128, "split": 4}),
        ({}, {"bm": 192, "bn": 128, "consumers": 3}),
        ({"c": "bf16"}, {"bm": 64, "bn": 128, "swapped": 1}),
        ({"a": "f8E4M3FN", "c": "bf16", "layout": "nt"}, {"bm": 256, "bn": 128}),
        ({"c": "bf16", "epilogue": GATED}, {"bn": 128, "cluster": 2, "fetched": 1}),
    ):
        spec = _spec(4096, **{"m": 512, "n": 512, "k": 512, "a": "bf16", **case})
        made = gpu.compile(spec, SM_90A, "warpgroup", parameters).assembled()
        assert (made.spill_bytes, made.warnings) == (0, ()), (case, parameters)


def test_rows_are_copied_while_others_multiply() -> None:
    text = gpu.compile(_spec(9, m=None, n=None, k=None, a="bf16"), SM_90A, "warpgroup", SMALL).asm["ptx"]
    assert text.count("cp.async.cg.shared.global") == 128 * 64 * 2 // 16 // 128
    assert text.count("cp.async.mbarrier.arrive.noinc.shared") == 1


def test_sizes() -> None:
    spec = _spec(4096, m=4096, n=4096, k=4096, a="bf16")
    assert not any(each.beside > 1 for each in ranked(spec, SM_90A))
    with pytest.raises(ScheduleError, match="beside=2, and rows of A are gathered"):
        sizes(spec, SM_90A, {"beside": 2})
    # What computes more of A than its rows' places is for other strategies.
    widened = tw.MatmulSpec(m=64, n=64, k=64, a="f8E4M3FN", b="bf16", prologue_a=(tw.gather_rows(9), tw.cast("bf16")))
    assert gpu.compile(widened, SM_90A).metadata.schedule == "mma_sync"
