# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is added to a tile of C in shared memory before its sums are complete (`fetched`): numbers, races, registers, and when it pays."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from gpu_kernels import array, check, each_case
from tilewright.emit.gpu import tool
from tilewright.errors import ScheduleError
from tilewright.runtime import gpu
from tilewright.schedules.gpu.warpgroup import WarpGroupTile
from tilewright.schedules.gpu.warpgroup_sizes import of_call, sizes
from tilewright.schedules.gpu.warpgroup_time import Work, cycles
from tilewright.targets import nvidia

_, SM_90A, _ = nvidia.ROWS
EMULATED = SM_90A.emulated()
SMALL = {"bm": 128, "bn": 64, "stages": 3, "fetched": 1}
TURNS = {"bm": 64, "bn": 64, "pingpong": 1, "fetched": 1}
BF16 = tw.residual("mn", "bf16")
CASES: list[tuple[dict[str, Any], dict[str, int]]] = [
    ({"m": 130, "n": 70, "k": 200, "a": "bf16", "c": "bf16", "epilogue": (tw.bias("n"), tw.gelu(), BF16)}, SMALL),
    # C itself: of f32, in two boxes, several tiles of each block; times a number that the call tells.
    ({"m": 700, "n": 130, "k": 136, "a": "bf16", "layout": "tn", "beta": 1}, SMALL),
    ({"m": 60, "n": 71, "k": 130, "a": "f16", "c": "f16", "beta": 0.5}, SMALL),
    # Both, of which one is fetched; a factor of each element.
    ({"m": 60, "n": 130, "k": 65, "a": "bf16", "c": "bf16", "beta": 1, "epilogue": (tw.multiply("mn", "bf16"),)}, SMALL),
    # Several tiles of each consumer, which take turns; no step over K.
    ({"m": 700, "n": 130, "k": 130, "a": "bf16", "c": "bf16", "epilogue": (BF16, tw.relu())}, TURNS),
    ({"m": 300, "n": 130, "k": 0, "a": "bf16", "c": "bf16", "epilogue": (BF16,)}, TURNS),
    ({"m": 300, "n": 70, "k": 0, "a": "bf16", "c": "bf16", "epilogue": (BF16,)}, SMALL),
    # Clusters whose last tiles are beyond C; two groups of rows of a consumer; a batch, for which the residual is.
    ({"m": 300, "n": 150, "k": 200, "a": "bf16", "c": "bf16", "epilogue": (BF16,)}, {**SMALL, "cluster": 2, "beside": 2}),
    ({"m": 300, "n": 70, "k": 130, "a": "bf16", "beta": 1}, {"bm": 256, "bn": 64, "fetched": 1}),
    ({"m": 130, "n": 70, "k": 72, "a": "bf16", "batch": (2, 3), "c": "bf16", "epilogue": (BF16,)}, SMALL),
    # Pieces of tiles, of which the last ones are finished.
    ({"m": 860, "n": 130, "k": 330, "a": "bf16", "c": "bf16", "epilogue": (BF16,)}, {**SMALL, "bn": 128, "streamed": 1}),
    ({"m": 130, "n": 60, "k": 1000, "a": "bf16", "beta": 1}, {**SMALL, "streamed": 1}),
    # Rows of C as columns of instructions; bytes; sums that are promoted; two products.
    ({"m": 13, "n": 300, "k": 100, "a": "bf16", "c": "bf16", "epilogue": (BF16,)},
     {"bm": 16, "bn": 128, "swapped": 1, "fetched": 1}),
    ({"m": 70, "n": 300, "k": 100, "a": "bf16", "beta": 1}, {"bm": 72, "bn": 128, "swapped": 1, "fetched": 1}),
    ({"m": 70, "n": 170, "k": 40, "a": "bf16", "c": "f8E4M3FN", "epilogue": (tw.residual("mn", "f8E4M3FN"),)},
     {"bm": 64, "bn": 192, "consumers": 1, "stages": 2, "fetched": 1}),
    ({"m": 190, "n": 70, "k": 300, "a": "f8E4M3FN", "layout": "nt", "c": "bf16", "epilogue": (BF16,)},
     {"bm": 256, "bn": 64, "fetched": 1}),
    ({"m": 100, "n": 90, "k": 300, "a": "i8", "layout": "nt", "beta": 1}, SMALL),
    ({"m": 130, "n": 70, "k": 200, "a": "bf16", "c": "bf16", "epilogue": (tw.glu("gelu"), BF16)}, SMALL),
]  # fmt: skip


@each_case(CASES)
def test_numbers(case: dict[str, Any], parameters: dict[str, int]) -> None:
    spec = tw.MatmulSpec(**case)
    kernel = gpu.compile(spec, EMULATED, "warpgroup", parameters)
    check(kernel, spec)
    # A map more, of what is added, for boxes like C's.
    *_, c, added = kernel._stages.boxes
    assert (c.shape[-2:], c.swizzle) == (added.shape[-2:], added.swizzle)
    assert "fetched" in kernel.asm["scheduled"]


def test_weights_of_few_bits() -> None:
    spec = tw.MatmulSpec(
        m=13, n=140, k=256, a="bf16", b="i4", layout="nt", c="bf16", prologue_b=(tw.dequantize("n"), tw.cast("bf16")),
        epilogue=(BF16,),
    )  # fmt: skip
    kernel = gpu.compile(spec, EMULATED, "warpgroup", {"bm": 16, "bn": 128, "swapped": 1, "fetched": 1})
    check(kernel, spec)
    assert len(kernel._stages.boxes) == 4


@pytest.mark.parametrize("n", [43, 48])
def test_nothing_beside_c_is_written_and_rows_that_are_not_aligned_are_read_by_threads(n: int) -> None:
    spec = tw.MatmulSpec(m=70, n=n, k=40, a="bf16", c="bf16", epilogue=(BF16,))
    kernel = gpu.compile(spec, EMULATED, parameters=SMALL)
    rng = np.random.default_rng(0)
    a, b, added = (array(each, rng) for each in spec.operands)
    memory = np.full((72, 64), 99, a.dtype)
    kernel(a, b, added, out=memory[1:71, 8 : 8 + n])
    expected = np.full(memory.shape, 99, np.float64)
    expected[1:71, 8 : 8 + n] = tw.reference(spec, a, b, added)
    assert np.allclose(memory.astype(np.float64), expected, atol=0.1)
    one_for_all = np.broadcast_to(added[:1], added.shape)
    got = kernel(a, b, one_for_all)
    assert np.allclose(got.astype(float), tw.reference(spec, a, b, np.array(one_for_all)), atol=0.1)
    # A result whose rows are no whole pieces of 16 bytes is stored by threads, however far its rows are apart.
    assert set(kernel._made) == {(True, False), *([(True, True)] if n == 48 else [])}


def test_the_assembler_spills_nothing() -> None:
    if tool("ptxas") is None:
        pytest.skip("there is no ptxas")
    for case, parameters in (
        ({"epilogue": (tw.bias("n"), tw.gelu(), BF16)}, {"bn": 256, "cluster": 2}),
        ({"epilogue": (BF16,)}, {"bm": 64, "bn": 256, "pingpong": 1}),
        ({"epilogue": (BF16,)}, {"bn": 256, "streamed": 1}),
        ({"c": "f32", "beta": 1}, {"bn": 128}),
        ({"epilogue": (BF16,)}, {"bm": 64, "bn": 128, "swapped": 1}),
        ({"a": "f8E4M3FN", "layout": "nt", "epilogue": (BF16,)}, {"bn": 192}),
        ({"epilogue": (tw.glu(), BF16)}, {"bn": 128, "cluster": 2}),
    ):
        spec = tw.MatmulSpec(**{"m": 512, "n": 512, "k": 512, "a": "bf16", "c": "bf16", **case})
        made = gpu.compile(spec, SM_90A, "warpgroup", {**parameters, "fetched": 1}).assembled()
        assert (made.spill_bytes, made.warnings) == (0, ()), (case, parameters)


def test_stages_leave_room_for_it() -> None:
    spec = tw.MatmulSpec(m=4096, n=4096, k=4096, a="bf16", c="bf16", epilogue=(BF16,))
    given = {"bm": 128, "bn": 256, "cluster": 2}
    plain, fetched = (sizes(spec, SM_90A, {**given, "fetched": each}) for each in (0, 1))
    assert (plain.stages, fetched.stages) == (4, 3)
    assert fetched.boxes_of_c(2) == 128 * 256 * 2
    # Of tiles half as large, boxes of C have places for all of them anyway.
    half = [sizes(spec, SM_90A, {"bm": 128, "bn": 128, "fetched": each}).stages for each in (0, 1)]
    assert half == [6, 6]
    assert gpu.compile(spec, SM_90A, "warpgroup", {**given, "fetched": 1}).shared_bytes <= SM_90A.shared_bytes


def test_the_model_says_when_it_pays() -> None:
    def chosen(k: int, **fields: Any) -> WarpGroupTile:
        return sizes(tw.MatmulSpec(m=1536, n=2816, k=k, a="bf16", **fields), SM_90A, {})  # 132 tiles.

    assert chosen(1024, c="bf16", epilogue=(BF16,)).fetched
    assert chosen(1024, beta=1, c="bf16").fetched
    # There is nothing to fetch; nothing of C's size; long sums beside which it is little.
    assert not chosen(1024, c="bf16").fetched
    assert not chosen(1024, c="bf16", epilogue=(tw.residual("mn", "f32"),)).fetched
    assert not chosen(65536, c="bf16", epilogue=(BF16,)).fetched
    open_ = tw.MatmulSpec(m=None, n=None, k=None, a="bf16", c="bf16", epilogue=(BF16,))
    assert of_call(open_, SM_90A, open_.sized({"m": 4096, "n": 4096, "k": 1024}))["fetched"]
    # Slots that are fewer cost time where steps are short.
    work = Work(4096, 4096, 4096, 1, 2, 2, bytes_added=2, fetchable=True)
    few, many = (cycles(work, WarpGroupTile(bm=128, bn=64, stages=each)) for each in (2, 4))
    assert few > 1.5 * many


def test_what_cannot_be_fetched_is_refused() -> None:
    spec = tw.MatmulSpec(m=64, n=64, k=64, a="bf16", c="bf16", epilogue=(BF16,))
    with pytest.raises(ScheduleError, match=r"fetched.*no split"):
        gpu.compile(spec, EMULATED, "warpgroup", {**SMALL, "split": 2})
    for other in ((), (tw.residual("n"),), (tw.residual("mn", "f32"),)):
        with pytest.raises(ScheduleError, match="nothing is added to C that has elements of as many bits"):
            gpu.compile(
                tw.MatmulSpec(m=64, n=64, k=64, a="bf16", c="bf16", epilogue=other), EMULATED, "warpgroup", SMALL
            )


def test_it_is_copied_once_for_each_box() -> None:
    spec = tw.MatmulSpec(m=512, n=512, k=512, a="bf16", c="bf16", epilogue=(BF16,))
    counts = [
        len(re.findall(r"cp\.async\.bulk\.tensor\.2d\.shared::cluster\.global", kernel.asm["ptx"]))
        for kernel in (gpu.compile(spec, SM_90A, "warpgroup", {**SMALL, "fetched": each}) for each in (0, 1))
    ]
    assert counts[1] > counts[0]
