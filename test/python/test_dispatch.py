# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The entry of a dynamic kernel: every call goes to the first case whose tests hold, as the plan has it."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
import tilewright as tw
from handmade import compiled
from tilewright import _runtime, targets
from tilewright.lowering.entries import comparisons, dispatch
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs._tilewright import translate_to_llvmir
from tilewright.schedules import cases, make, plan, select

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 64, 127, 255, 256, 1000, 2047, 2048, 5000)


def entered(spec: tw.MatmulSpec, made: plan.Plan) -> Callable[[int, int, int], int]:
    """Which kernel a call of these extents enters: the entry's code, run here, before kernels that return their numbers."""
    chooses = dispatch.choice(spec, made, "f", "%m, %n, %k", "i64, i64, i64")
    kernels = "\n".join(
        f"llvm.func @f_case{number}(%m: i64, %n: i64, %k: i64) -> i32 {{\n"
        f"  %number = llvm.mlir.constant({number} : i32) : i32\n  llvm.return %number : i32\n}}"
        for number in range(len(made.kernels))
    )
    with ir.Context():
        module = ir.Module.parse(f"llvm.func @f(%m: i64, %n: i64, %k: i64) -> i32 {{\n{chooses}\n}}\n{kernels}")
        code = _runtime.Code(compiled(translate_to_llvmir(module.operation)), "f")
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 3)(code.address)
    return lambda m, n, k, code=code: function(m, n, k)


@pytest.mark.parametrize("target", ["x86-64-v3", "znver4", "neoverse-v2"])
@pytest.mark.parametrize("types", ["f32", "bf16", "i8"])
def test_a_call_enters_the_first_case_that_fits(target: str, types: str) -> None:
    spec = tw.MatmulSpec.from_dtypes(None, None, None, types)
    made = make.make(spec, targets.get(target))
    enter = entered(spec, made)
    for call in itertools.product(EXTENTS, repeat=3):
        first = next(each for each in made.cases if all(test.holds(*call) for test in each.tests))
        assert enter(*call) == made.kernels.index((first.spec, first.plan)), call


def test_each_part_of_a_test_is_compared() -> None:
    spec = tw.MatmulSpec(None, None, None)
    large = make.make(spec, targets.get("x86-64-v3")).cases[-1]
    assert not large.tests
    other = plan.Plan("other", None)
    for test in (
        plan.Test("k", multiple=4),
        plan.Test("m", 3),
        plan.Test("n", most=3),
        plan.Test("kn", 6, 12),
        plan.Test("mnk", 2, 60, 3),
        plan.Test("k/m", 2),
        plan.Test("n/k", most=1),
    ):
        enter = entered(spec, plan.Plan("", None, cases=(plan.Case(spec, other, (test,)), large)))
        found = {call: enter(*call) == 0 for call in itertools.product(range(1, 9), repeat=3)}
        assert found == {call: test.holds(*call) for call in found}
        assert len(set(found.values())) == 2


@pytest.mark.parametrize("types", ["f32", "bf16", "u8,i8,i32"])
def test_tiny_products_are_told_first(types: str) -> None:
    """By a kernel without panels; only kernels that every case's tests fit rely on the extents that the entry compared."""
    target, spec = targets.get("znver4"), tw.MatmulSpec.from_dtypes(None, None, None, types)
    made = make.make(spec, target)
    first = cases.first_tile(spec, made.cases, target)
    assert first is not None
    assert (first.m, first.n) == (tw.Dim(1, 16), tw.Dim(2, 16))
    assert not select.is_in_panels(made.cases[0].plan.name)
    assert cases.first_tile(spec, make.make(spec, target, "packed").cases, target) is None
    assert all(cases.implied(spec, made, number) for number, (of, _) in enumerate(made.kernels) if of.k != 0)
    wider = replace(made, cases=(replace(made.cases[0], tests=()), *made.cases[1:]))
    assert not cases.implied(spec, wider, 0)
    no_zero = replace(made, cases=tuple(each for each in made.cases if each.spec.k != 0))
    assert not cases.implied(spec, no_zero, len(no_zero.kernels) - 1)


def test_nothing_is_compared_that_is_known() -> None:
    """For a small call, one comparison rules out all cases of a large B; of what a call surely passes, nothing is compared."""
    large, few, column = plan.Test("kn", 1 << 22), plan.Test("m", most=8), plan.Test("n", most=1)
    made, start = comparisons.nodes(
        [(large, few), (large, column), (column,), (few, plan.Test("kn", 1 << 20)), ()],
        {"m": (1, 1 << 30), "n": (1, 1 << 30), "k": (1, 1 << 30)},
    )

    def case_of(m: int, n: int, k: int) -> tuple[int | None, int]:
        target, count = start, 0
        while comparisons.case(target) is None:
            target = made[target].passed if made[target].test.holds(m, n, k) else made[target].failed
            count += 1
        return comparisons.case(target), count

    assert case_of(9, 8, 8) == (4, 2)  # more than a column, and then too small for all others
    assert case_of(9, 1, 8) == (2, 2)
    assert case_of(8, 2048, 2048) == (0, 3)
    assert case_of(8, 1024, 1024) == (3, 4)
    assert case_of(8, 8, 8) == (4, 2)
    assert not comparisons.nodes([(few,), ()], {"m": (1, 8), "n": (1, 1), "k": (1, 1)})[0]
