# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules learned from a choice: thresholds are exact, few points decide nothing, and dynamic kernels take what the table chooses."""

import random

import pytest
import tilewright as tw
from tilewright import targets
from tilewright.mlir import ir
from tilewright.schedules import calls, cases, regions, select
from tilewright.schedules.cpu.inner_product import inner_product
from tilewright.schedules.models.blocking import Blocking

ANY = (tw.Dim(1), tw.Dim(1), tw.Dim(1))


def test_thresholds_between_points_of_the_grid_are_exact():
    found, usual = regions.rules(ANY, lambda m, n, k: "few" if m <= 37 and k >= 100 else "many")
    assert usual == "many"
    assert {test for tests, _ in found for test in tests} == {calls.Test("m", most=37), calls.Test("k", least=100)}
    assert {name for _, name in found} == {"few"}


def test_a_threshold_of_a_product_of_extents():
    found, usual = regions.rules((8, tw.Dim(1), 1024), lambda m, n, k: "large" if n * k >= 3 << 20 else "small")
    (tests, name), *more = found
    assert not more
    chosen = {name, usual}
    assert chosen == {"large", "small"}
    (test,) = tests
    for n in (1, 3071, 3072, 8000):
        assert test.holds(8, n, 1024) == (name == ("large" if n >= 3072 else "small"))


def test_a_threshold_of_a_quotient_of_extents():
    found, usual = regions.rules(ANY, lambda m, n, k: "along k" if k >= 32 * m and m <= 64 else "panels")
    assert usual == "panels"
    assert found == [((calls.Test("k/m", least=32), calls.Test("m", most=64)), "along k")]


def test_what_cannot_take_every_call_is_not_the_usual_choice():
    _, usual = regions.rules(ANY, lambda m, n, k: "in steps" if m <= 256 else "all", ["in steps"])
    assert usual == "all"


def test_one_choice_has_no_rules():
    assert regions.rules(ANY, lambda m, n, k: "one") == ([], "one")


SPECS = [
    (target, tw.MatmulSpec.from_dtypes(*extents, types, layout=layout))
    for target in ("znver4", "x86-64-v3", "neoverse-n1", "neoverse-v1", "armv9-a+sme")
    for extents, types, layout in (
        ((None, None, None), "f32", "nn"),
        ((None, None, None), "f32", "nt"),
        ((None, 2048, None), "bf16,bf16,f32", "nn"),
        ((None, None, 1024), "u8,i8,i32", "nn"),
        ((tw.Dim(1, 64), None, None), "f64", "tn"),
    )
]


@pytest.mark.parametrize(("target", "spec"), SPECS, ids=str)
def test_cases_are_what_the_table_chooses(target, spec):
    """For calls of all sizes, but for a tenth at most, near a threshold: those are between points of the grid."""
    row, chosen, wrong, tried = targets.get(target), random.Random(3), [], 180
    plan = cases.plan(spec, row, None)
    for _ in range(tried):
        sizes = [2 ** chosen.uniform(0, top) for top in (10, 13, 14)]
        m, n, k = (
            extent.nearest(int(size)) or extent.min if isinstance(extent, tw.Dim) else extent
            for extent, size in zip((spec.m, spec.n, spec.k), sizes, strict=True)
        )
        k = k // 16 * 16 or 16  # whole steps of every instruction
        if m and n:
            wanted = select.first(spec, spec.at(m, n, k), row)
            taken = next(case for case in plan.cases if all(test.holds(m, n, k) for test in case.tests))
            wrong += [(m, n, k, wanted, taken.plan.name)] * (wanted != taken.plan.name)
    assert len(wrong) <= tried // 10, wrong


CHOSEN = """
znver4 1024x1024x1024 f32 nn: packed
znver4 64x1024x1024 f32 nn: unpacked
znver4 16x1024x1024 f32 nn: unpacked
znver4 256x64x32768 f32 nn: unpacked
znver4 8x4096x4096 f32 nn: streamed
znver4 24x4096x4096 f32 nn: streamed
znver4 100x4096x4096 f32 nn: packed
znver4 1x4096x4096 bf16,bf16,f32 nn: unpacked
znver4 24x2048x4096 f32 tn: packed
znver4 1000x1x1000 f32 nn: inner_product
znver4 8x1024x1024 f32 nt: inner_product
znver4 64x1024x64 f64 nt: packed
znver4 96x1024x1024 f32 tn: unpacked
znver4 1200x1024x1024 f32 tn: packed
neoverse-v1 96x96x96 f32 nn: scalable
neoverse-v1 2x512x512 f32 nn: unpacked
armv9-a+sme 512x512x512 f32 nn: outer_product
znver5 10x500x400 f32 nt: inner_product
znver5 24x1024x2000 bf16 nt: inner_product
znver5 64x64x16384 f32 tn: unpacked
znver5 24x512x2048 f32 tn: unpacked
znver5 17x33x900 f32 nt: inner_product
znver5 17x33x100 bf16 nt: packed
"""


@pytest.mark.parametrize("line", CHOSEN.strip().splitlines())
@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_chosen_for_a_call(line, threads):
    asked, name = line.split(": ")
    target, shape, types, layout = asked.split()
    m, n, k = map(int, shape.split("x"))
    spec = tw.MatmulSpec.from_dtypes(None, None, None, types, layout=layout)
    plan = cases.plan(spec, targets.get(target), None, None, threads)
    taken = next(case for case in plan.cases if all(test.holds(m, n, k) for test in case.tests))
    assert taken.plan.name == name


def test_rules_share_the_code_of_a_strategy():
    """A strategy has no more kernels than variants, however many rules lead to it."""
    row, spec = targets.get("znver4"), tw.MatmulSpec(None, None, None, layout="nt")
    plan = cases.plan(spec, row, None)
    for name in {each.name for _, each in plan.kernels} & set(select.STRATEGIES):
        variants = list(select.row(name).variants(spec, row))
        assert sum(each.name == name for _, each in plan.kernels) <= len(variants)
    assert len(plan.cases) > len(plan.kernels)


def _taken(spec, *call, **given):
    plan = cases.plan(spec, targets.get("znver5"), None, **given)
    return next(case.plan for case in plan.cases if all(test.holds(*call) for test in case.tests))


def test_few_columns_have_panels_that_fit_and_share_code():
    spec = tw.MatmulSpec(None, None, None, layout="nt")
    widths = {n: _taken(spec, 1000, n, 1000).sizes["nr"] for n in (7, 30, 65, 96, 128)}
    assert widths == {7: 16, 30: 32, 65: 80, 96: 48, 128: 64}
    assert _taken(spec, 1000, 128, 1000) == _taken(spec, 1000, 1024, 1000)


def test_sizes_that_a_user_gave_stay():
    assert _taken(tw.MatmulSpec(None, None, None, a="bf16"), 512, 512, 512, overrides={"kc": 96}).sizes["kc"] == 96


def test_tall_tiles_of_a_transposed_operand_have_whole_groups_of_rows():
    for n in (16, 32, 48):
        assert _taken(tw.MatmulSpec(None, None, None, a="u8", b="i8", layout="tn"), 512, n, 512).sizes["mr"] % 4 == 0


@pytest.mark.parametrize(("m", "height"), [(4, 4), (5, 6), (8, 4), (12, 6)])
def test_few_rows_have_tiles_that_fit(m, height):
    assert _taken(tw.MatmulSpec(None, None, None, a="bf16"), m, 2048, 2048).sizes["mr"] == height


@pytest.mark.parametrize(
    ("types", "n", "height"), [("f32", 8, 8), ("bf16", 8, 16), ("f32", 30, 8), ("u8,i8,i32", 30, 8)]
)
def test_tiles_of_few_columns_are_no_higher_than_loads_want(types, n, height):
    """Rows that a call does not have are padded and computed."""
    assert _taken(tw.MatmulSpec.from_dtypes(None, None, None, types, layout="nt"), 20, n, 64).sizes["mr"] == height


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_transposed_b_is_never_gathered(dtype):
    """However deep it is: its vectors lie along K, and register tiles of rows would gather each."""
    spec = tw.MatmulSpec(None, None, None, dtype, layout="nt", alpha="arg", beta="arg")
    plan = cases.plan(spec, targets.get("znver5"), None)
    assert {case.plan.name for case in plan.cases} == {"trivial", "packed", "inner_product"}
    assert _taken(spec, 1000, 1000, 20000).name == "inner_product"


@pytest.mark.parametrize(("call", "peels"), [((1, 64, 64), True), ((64, 1, 64), True), ((8, 1024, 1024), False)])
def test_one_row_or_column_is_loaded_without_a_mask(call, peels):
    """But for the last step: memory delivers less to masked loads, and a product of one row or column is loads."""
    spec, target = tw.MatmulSpec(None, None, None, layout="nt"), targets.get("znver5")
    case = next(each for each in cases.plan(spec, target, None).cases if all(test.holds(*call) for test in each.tests))
    with ir.Context():
        schedule = str(inner_product(case.spec, target, Blocking(**case.plan.sizes)))
    assert ("transform.loop.peel" in schedule) == peels


def test_rules_are_learned_once(monkeypatch):
    """A spec that is planned again, as where its kernel comes from the cache, has the cases that it had."""
    spec, target = tw.MatmulSpec(m=None, n=72, k=88, a="f32", b="f32", c="f32"), targets.resolve("x86-64-v3")
    first = cases.plan(spec, target, None)

    def learned(*_: object) -> None:
        pytest.fail("the rules are learned again")

    monkeypatch.setattr(regions, "rules", learned)
    assert cases.plan(spec, target, None) == first
