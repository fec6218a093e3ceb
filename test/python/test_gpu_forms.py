# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is fused on GPUs beside elementwise entries: gated linear units, gathered rows, and what needs whole rows of C."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from gpu_kernels import check, check_that_breaking_is_caught
from tilewright.emit import gpu_code
from tilewright.emit.gpu import tool
from tilewright.errors import OperandError, SpecError
from tilewright.payload.propagation import ROUNDINGS
from tilewright.runtime import gpu, gpu_call
from tilewright.targets import amd, nvidia
from tilewright.targets.vulkan import ROWS

SM_80, SM_90A, SM_100A = (each.emulated() for each in nvidia.ROWS)
GFX942, GFX1100 = (each.emulated() for each in amd.ROWS)
(VULKAN,) = ROWS
SMALL = {"bm": 32, "bn": 32, "wm": 16, "wn": 16}
_BARRIER = r"(?:tail )?call void @llvm\.nvvm\.barrier[^\n]*\n"
ODD = {"m": 37, "n": 43, "k": 53}
CASES: list[tuple[Any, str, dict[str, Any]]] = [
    (SM_80, "mma_sync", {**ODD, "a": "bf16", "c": "bf16", "epilogue": (tw.bias(), tw.glu("gelu"), tw.residual("mn", "bf16"))}),
    (SM_80, "simt", {**ODD, "layout": "tt", "beta": 1, "epilogue": (tw.glu("relu"),)}),
    (SM_80, "mma_sync", {**ODD, "a": "u8", "b": "i8", "layout": "nt", "batch": (2,), "b_batch": (),
                         "epilogue": (tw.dequantize(0.01), tw.glu(lambda c: c * c), tw.quantize(5))}),
    (GFX942, "matrix_cores", {**ODD, "a": "f16", "layout": "tn", "epilogue": (tw.glu(), tw.glu("sigmoid"))}),
    (SM_80, "mma_sync", {"m": 70, "n": 24, "k": 128, "a": "bf16", "prologue_a": (tw.gather_rows(50, "i64"),)}),
    (SM_80, "mma_sync", {**ODD, "a": "bf16", "prologue_a": (tw.gather_rows(5), tw.scale_by(""), tw.cast("bf16"))}),
    # What lies beyond K becomes one in both, and has to be zero all the same.
    (SM_80, "mma_sync", {"m": 40, "n": 48, "k": 72, "a": "bf16", "layout": "nt", "prologue_a": (tw.exp(), tw.cast("bf16")),
                         "prologue_b": (tw.exp(), tw.cast("bf16"))}),
    (SM_80, "simt", {**ODD, "prologue_a": (tw.gather_rows(9), tw.scale_by("m"), tw.exp()), "prologue_b": (tw.scale_by("k"),)}),
    (GFX1100, "matrix_cores", {**ODD, "a": "i4", "k": 54, "b": "bf16", "layout": "nt",
                               "prologue_a": (tw.gather_rows(9), tw.dequantize("m")), "epilogue": (tw.glu(),)}),
    (SM_90A, "warpgroup", {"m": 66, "n": 72, "k": 64, "a": "bf16", "c": "bf16",
                           "epilogue": (tw.bias(), tw.softmax(), tw.scale_by("m"), tw.residual("mn", "bf16"))}),
    (SM_80, "simt", {**ODD, "batch": (2, 3), "a_batch": (3,), "epilogue": (tw.softmax(), tw.residual())}),
    (SM_80, "mma_sync", {**ODD, "a": "f16", "c": "f16", "epilogue": (tw.relu(), tw.row_sum())}),
    (GFX942, "matrix_cores", {**ODD, "n": 300, "a": "i8", "epilogue": (tw.row_max(),)}),
    (GFX942, "simt", {**ODD, "a": "f64", "epilogue": (tw.gelu(), tw.softmax())}),
]  # fmt: skip


@pytest.mark.parametrize(("target", "strategy", "fields"), CASES)
def test_numbers(target: Any, strategy: str, fields: dict[str, Any]) -> None:
    spec = tw.MatmulSpec(**fields)
    sizes = SMALL if strategy in ("mma_sync", "matrix_cores") else {}
    check(gpu.compile(spec, target, strategy, sizes), spec)


def test_the_best_strategy_that_fuses_it_is_taken() -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"epilogue": (tw.glu(),)}, "mma_sync"),
        ({"prologue_a": (tw.gather_rows(9),)}, "mma_sync"),
        ({"epilogue": (tw.softmax(),)}, "tensor_memory"),
    )
    for fields, chosen in cases:
        spec = tw.MatmulSpec(m=None, n=8, k=8, a="bf16", **fields)
        assert gpu.compile(spec, SM_100A).metadata.schedule == chosen
    assert (
        gpu.compile(tw.MatmulSpec(m=None, n=8, k=8, a="bf16", epilogue=(tw.glu(),)), SM_90A).metadata.schedule
        == "warpgroup"
    )


def test_both_products_of_a_unit_are_summed_in_one_loop() -> None:
    kernel = gpu.compile(tw.MatmulSpec(m=None, n=None, k=None, a="bf16", epilogue=(tw.glu(),)), SM_80)
    assert kernel.asm["scheduled"].count("vector.contract") == 2
    assert kernel.asm["scheduled"].count("scf.for ") == 1


def test_rows_of_a_table_are_copied_ahead_of_time() -> None:
    kernel = gpu.compile(tw.MatmulSpec(m=None, n=None, k=None, a="bf16", prologue_a=(tw.gather_rows(9),)), SM_80)
    assert "cp.async.cg.shared.global" in kernel.asm["ptx"]


def test_one_kernel_serves_every_size() -> None:
    fields: dict[str, Any] = {"prologue_a": (tw.gather_rows(7),), "epilogue": (tw.glu(), tw.row_sum())}
    kernel = gpu.compile(tw.MatmulSpec(m=None, n=40, k=None, **fields), SM_80)
    for number, (m, k) in enumerate([(1, 1), (65, 33), (3, 0), (0, 5)]):
        check(kernel, tw.MatmulSpec(m=m, n=40, k=k, **fields), seed=number, aligned=number == 1)


def test_a_row_that_is_none_is_refused() -> None:
    kernel = gpu.compile(tw.MatmulSpec(m=3, n=2, k=4, prologue_a=(tw.gather_rows(10),)), SM_80)
    for wrong in (10, -1):
        index = np.array([0, wrong, 9], np.int32)
        with pytest.raises(OperandError, match="index is out of range"):
            kernel(np.ones((10, 4), np.float32), np.ones((4, 2), np.float32), index)


@pytest.mark.parametrize(
    "fields",
    [
        {"m": 300, "n": 5, "k": 6, "layout": "tn", "epilogue": (tw.bias("m"), tw.row_sum())},
        {"m": 3, "n": 5, "k": 6, "batch": (7, 5), "a_batch": (5,), "b_batch": (7, 1), "epilogue": (tw.residual(),)},
        {"m": 300, "n": 5, "k": 6, "layout": "tn", "a": "i4", "b": "f32"},
    ],
    ids=["rows", "entries", "rows of nibbles"],
)
def test_more_blocks_than_a_grid_has_are_several_launches(monkeypatch: pytest.MonkeyPatch, fields: Any) -> None:
    monkeypatch.setattr(gpu_call, "MOST_BLOCKS", 16)
    spec = tw.MatmulSpec(**fields)
    check(gpu.compile(spec, SM_80, "simt", {"bm": 8, "bn": 16, "rows": 2, "columns": 2}), spec)


@pytest.mark.parametrize(
    ("entry", "exact", "ends"),
    [
        (tw.exp(), math.exp, {800: math.inf, -800: 0}),
        (tw.function(lambda c: tw.math.log(tw.math.max(c, -c))), lambda x: math.log(abs(x)), {0: -math.inf}),
        (tw.tanh(), math.tanh, {30: 1, -30: -1}),
        (tw.function(lambda c: tw.math.erf(c)), math.erf, {7: 1, -7: -1}),
    ],
    ids=["exp", "log", "tanh", "erf"],
)
def test_functions_of_f64(request: pytest.FixtureRequest, entry: Any, exact: Any, ends: dict[float, float]) -> None:
    random = np.random.default_rng(0)
    some = np.concatenate([random.uniform(-1.5, 1.5, 200), random.uniform(-20, 20, 200), [1e-9, math.inf]])
    x = np.array([*some, *ends, math.nan])
    spec = tw.MatmulSpec(m=1, n=x.size, k=1, a="f64", epilogue=(entry,))
    got = gpu.compile(spec, SM_80, "simt")(np.ones((1, 1)), x[None])[0]
    want = np.array([exact(each) for each in some])
    finite = np.isfinite(want)
    # The C library's numbers are off by a unit too.
    off = np.abs(got[: some.size][finite] - want[finite]) / np.abs(want[finite])
    assert off.max() <= (ROUNDINGS[request.node.callspec.id] + 2) * 2.0**-53
    assert (got[: some.size][~finite] == want[~finite]).all()
    assert got[some.size : -1].tolist() == list(ends.values())
    assert np.isnan(got[-1])


def test_threads_that_do_not_meet_over_rows_are_caught() -> None:
    spec = tw.MatmulSpec(m=3, n=64, k=16, epilogue=(tw.softmax(),))
    kernel = gpu.compile(spec, SM_80, "simt")
    check_that_breaking_is_caught(kernel, spec, _BARRIER, "", "race")


def test_numbers_of_rows_that_threads_do_not_wait_for_are_caught() -> None:
    spec = tw.MatmulSpec(m=40, n=16, k=16, prologue_a=(tw.gather_rows(9),))
    kernel = gpu.compile(spec, SM_80, "simt")
    first = rf"\A((?:.|\n)*?){_BARRIER}"
    check_that_breaking_is_caught(kernel, spec, first, r"\1", "race")


def test_the_assembler_takes_them_without_spills() -> None:
    if tool("ptxas") is None:
        pytest.skip("there is no ptxas")
    for fields in (
        {"a": "bf16", "epilogue": (tw.bias(), tw.glu("gelu"))},
        {"a": "bf16", "prologue_a": (tw.gather_rows(9),)},
        {"a": "f64", "epilogue": (tw.gelu(),)},
    ):
        made = gpu.compile(tw.MatmulSpec(m=None, n=None, k=None, **fields), SM_90A).assembled()
        assert made.spill_bytes == 0


def test_what_is_not_done_is_refused() -> None:
    with pytest.raises(SpecError, match="glu after softmax"):
        tw.MatmulSpec(m=4, n=5, k=6, epilogue=(tw.softmax(), tw.glu()))
    with pytest.raises(SpecError, match="functions of f64"):
        gpu.compile(tw.MatmulSpec(m=4, n=5, k=6, a="f64", epilogue=(tw.tanh(),)), VULKAN)
    kernel = gpu.compile(tw.MatmulSpec(m=4, n=5, k=6, epilogue=(tw.softmax(),)), VULKAN)
    assert "gpu.barrier" in kernel.asm["rows_threads"]
    with pytest.raises(SpecError, match="two kernels"):
        gpu_code.made(kernel._stages, "spv")
