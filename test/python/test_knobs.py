# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Knobs of schedules: a printed one can be turned, and is then the schedule of the other size; users' own are read the same way."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.emit import stages
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.runtime.trial import Trial
from tilewright.schedules import choices, make, select, steps
from tilewright.schedules.models import space
from tilewright.schedules.plan import Plan
from tilewright.schedules.steps import knobs

TARGET = targets.get("x86-64-v4")
SPECS = {
    "packed": tw.MatmulSpec(m=100, n=200, k=2100),
    "unpacked": tw.MatmulSpec(m=48, n=96, k=512),
    "streamed": tw.MatmulSpec(m=8, n=4096, k=1024),
    "inner_product": tw.MatmulSpec(m=24, n=96, k=512, layout="nt"),
}
LARGE = {
    "packed": tw.MatmulSpec(m=300, n=700, k=1200),
    "unpacked": tw.MatmulSpec(m=4096, n=8, k=1024),
    "streamed": tw.MatmulSpec(m=1, n=4096, k=1024),
}
"""Products that prefetch an operand."""


def scheduled(spec, plan):
    """The text of a schedule, and what it makes of the payload."""
    made = stages.build(spec, TARGET, plan, until="scheduled").texts
    return made["schedule"], made["scheduled"]


def from_text(text):
    return Plan("edited.mlir", None, text=text, trusted=False)


def body(text):
    """The scheduled payload without its attributes, which name the sizes that the strategy was given."""
    return text[text.index("\n    ") :]


@pytest.mark.parametrize("name", SPECS)
def test_a_knob_that_is_turned_makes_what_the_strategy_makes_of_that_size(name):
    spec = SPECS[name]
    plan = make.make(spec, TARGET, name)
    text, _ = scheduled(spec, plan)
    found = {each.name: each for each in choices.read(text)}
    assert found
    for each in found.values():
        assert each.selected == getattr(plan.parameters, each.name)
        other = max(set(each.options) - {each.selected})
        _, turned = scheduled(spec, from_text(choices.made(text, {each.name: other})))
        _, again = scheduled(spec, make.make(spec, TARGET, name, {**plan.sizes, each.name: other}))
        assert body(turned) == body(again), each


def asm(spec, plan, target=TARGET):
    return stages.build(spec, target, plan, until="asm").texts["asm"]


@pytest.mark.parametrize(
    ("name", "spec", "threads", "knob", "option"),
    [
        *((name, spec, 1, "unroll", 4) for name, spec in SPECS.items()),
        *((name, SPECS[name], 1, "order", 1) for name in ("packed", "inner_product")),
        ("unpacked", tw.MatmulSpec(m=48, n=200, k=64), 1, "order", 1),
        ("unpacked", SPECS["unpacked"], 1, "rows_ahead", 4),
        ("streamed", tw.MatmulSpec(m=48, n=1024, k=512), 1, "rows_ahead", 2),
        ("packed", tw.MatmulSpec(m=200, n=3000, k=1400), 1, "nest", 1),
        ("streamed", tw.MatmulSpec(m=16, n=16384, k=256), 1, "nest", 1),
        *((name, spec, 1, "ahead", 0) for name, spec in LARGE.items()),
        ("streamed", tw.MatmulSpec(m=1, n=4096, k=1024), 1, "ahead", 16),
        ("packed", tw.MatmulSpec(m=900, n=900, k=100), 4, "across", 1),
        ("packed", tw.MatmulSpec(m=900, n=900, k=100), 4, "across", 4),
    ],
)
def test_each_knob_changes_the_code_and_the_text_alone_does_it(name, spec, threads, knob, option):
    target = targets.get("znver3") if option == 16 else TARGET  # whose steps are shorter
    plan = make.make(spec, target, name, threads=threads)
    built = stages.build(spec, target, plan, until="asm").texts
    text = choices.made(built["schedule"], {knob: option})
    by_text = asm(spec, Plan("edited.mlir", None, text=text, trusted=False, threads=threads), target)
    by_size = asm(spec, make.make(spec, target, name, {**plan.sizes, knob: option}, threads), target)
    assert by_size == by_text
    assert by_size != built["asm"]


@pytest.mark.parametrize(
    ("name", "spec", "sizes"),
    [
        ("packed", tw.MatmulSpec(m=61, n=130, k=77), {"unroll": 4, "order": 1, "ahead": 0, "mc": 24, "kc": 40}),
        (
            "unpacked",
            tw.MatmulSpec(m=61, n=130, k=77, epilogue=(tw.relu(),)),
            {"unroll": 8, "order": 1, "rows_ahead": 2},
        ),
        ("inner_product", tw.MatmulSpec(m=61, n=13, k=177, layout="nt"), {"unroll": 2, "order": 1, "mr": 2}),
        ("streamed", tw.MatmulSpec(m=7, n=130, k=77, beta=1), {"unroll": 2, "order": 1, "mr": 2, "rows_ahead": 8}),
    ],
)
def test_turned_knobs_leave_the_numbers_as_they_are(name, spec, sizes):
    """Neither what an iteration takes nor the order of tiles is in a sum: the same bits."""
    given = [
        np.random.default_rng(0).standard_normal(shape, dtype=np.float32) for shape in (spec.a_shape, spec.b_shape)
    ]
    found = []
    block = {each: size for each, size in sizes.items() if each in ("mr", "nr", "mc", "nc", "kc")}
    for chosen in (block, sizes):
        kernel = tw.compile(spec, schedule=name, parameters=chosen)
        found.append(kernel(*given, out=np.ones((spec.m, spec.n), np.float32)))
    np.testing.assert_array_equal(*found)
    assert kernel.metadata.parameters.items() >= sizes.items()


BLOCKS = {"mc": 24, "nc": 32, "kc": 64}
ORDERS = [
    ("packed", tw.MatmulSpec(m=61, n=130, k=77), 1, 6),
    ("packed", tw.MatmulSpec(m=161, n=130, k=77, layout="tt", beta=1), 2, 6),
    ("packed", tw.MatmulSpec(m=61, n=130, k=77, a="f64", batch=(2,)), 1, 6),
    ("packed", tw.MatmulSpec(m=61, n=130, k=64, epilogue=(tw.glu(),)), 1, 2),
    ("streamed", tw.MatmulSpec(m=5, n=130, k=77, epilogue=(tw.relu(),)), 1, 2),
]


@pytest.mark.parametrize(("name", "spec", "threads", "orders"), ORDERS)
def test_loops_over_blocks_in_any_order_have_other_code_and_the_same_bits(name, spec, threads, orders):
    sizes = [{**BLOCKS, "nest": number} for number in range(orders)]
    kernels = [tw.compile(spec, schedule=name, threads=threads, parameters=each) for each in sizes]
    assert len({each.asm["asm"] for each in kernels}) == orders
    first, *others = (Trial.random(each, spec, 0) for each in kernels)
    first()
    assert first.difference().right
    for other in others:
        other()
        np.testing.assert_array_equal(other.out, first.out)


def test_panels_are_packed_inside_the_loops_over_blocks_of_their_operand_alone():
    spec, loops = (
        tw.MatmulSpec(m=61, n=130, k=77),
        {"jc": "c130 step %c32", "pc": "c77 step %c24", "ic": "c61 step %c27"},
    )
    for number, order in enumerate(itertools.permutations(loops)):
        sizes = {"mr": 9, "nr": 16, "mc": 27, "nc": 32, "kc": 24, "nest": number}
        _, text = scheduled(spec, make.make(spec, TARGET, "packed", sizes))
        depths = {}
        for line in text.splitlines():
            for name, sign in {**loops, "a": "tensor<3x9x24xf32>", "b": "tensor<2x24x16xf32>"}.items():
                if "scf.for" in line and sign in line:
                    depths.setdefault(name, (len(line) - len(line.lstrip())) // 2 - 2)
        assert sorted(loops, key=lambda name: depths[name]) == list(order)
        assert depths["a"] == 1 + max(depths["ic"], depths["pc"])
        assert depths["b"] == 1 + max(depths["jc"], depths["pc"])


def test_an_iteration_takes_as_many_steps_as_a_knob_says():
    spec = SPECS["unpacked"]
    counts = [asm(spec, make.make(spec, TARGET, "unpacked", {"unroll": n})).count("vfmadd") for n in (1, 4)]
    assert counts[1] == 4 * counts[0]


def test_what_a_strategy_does_not_go_by_is_refused():
    spec, open_ = SPECS["packed"], tw.MatmulSpec(m=None, n=200, k=300)
    for target, name, given, size, expected in (
        (targets.get("sme"), "outer_product", spec, {"unroll": 2}, "what outer_product goes by: the sizes of blocks"),
        (TARGET, "packed", open_, {"order": 1}, "static extents"),
        (TARGET, "packed", open_, {"nest": 1}, "static extents"),
        (TARGET, "inner_product", spec, {"nest": 1}, "what inner_product goes by: .*order"),
        (TARGET, "packed", spec, {"nest": 6}, "an int from 0 to 5"),
        (TARGET, "packed", spec, {"threads": 2}, "1, as many as share the loops"),
        (TARGET, "packed", spec, {"order": 2}, "an int from 0 to 1"),
    ):
        with pytest.raises(ScheduleError, match=expected):
            make.make(given, target, name, size)


def test_an_order_that_there_is_not_is_refused():
    spec = SPECS["packed"]
    for given, size, expected in (
        (
            replace(spec, b_packed=True),
            {"nest": 1},
            "nest is 1; expected at most 0: the loops over blocks are as they have to be",
        ),
        (spec, {"mc": 100, "nc": 32, "nest": 3}, "nest is 3; expected at most 1: the loops over blocks are jc, pc"),
    ):
        with pytest.raises(ScheduleError, match=expected):
            scheduled(given, make.make(given, TARGET, "packed", size))


def test_minor_knobs_are_tried_near_good_sizes_only():
    spec, row = SPECS["packed"], select.row("packed")
    sizes = select.sized("packed", spec, TARGET).parameters
    assert not {each.unroll for each in space.points(row.axes, spec, TARGET, sizes)} - {0}
    assert {each.unroll for each in space.around(row.axes, spec, TARGET, sizes)} == {0, 2}
    large = tw.MatmulSpec(m=300, n=700, k=1200)
    blocked = replace(select.sized("packed", large, TARGET).parameters, mc=96, nc=256, kc=300)
    orders = [each.nest for each in space.around(row.axes, large, TARGET, blocked) if each.nest]
    assert orders == [1, 2, 3, 4, 5], "orders of loops are not like those of the next numbers"
    assert "unroll" not in sizes.by_name
    assert replace(sizes, unroll=2).by_name["unroll"] == 2


def test_what_is_no_option_is_refused():
    text, _ = scheduled(SPECS["packed"], make.make(SPECS["packed"], TARGET, "packed"))
    with pytest.raises(ScheduleError, match="kc is 7; expected one of"):
        choices.made(text, {"kc": 7})
    with pytest.raises(ScheduleError, match="no choice 'depth'"):
        choices.made(text, {"depth": 1})
    kc = next(each.selected for each in choices.read(text) if each.name == "kc")
    edited = text.replace(f'knob<"kc"> = {kc}', 'knob<"kc"> = 7')
    with pytest.raises(ScheduleError, match="selected"):
        scheduled(SPECS["packed"], from_text(edited))


def test_two_knobs_that_do_not_fit_together_are_refused():
    spec = tw.MatmulSpec(m=4000, n=4000, k=64)
    text, _ = scheduled(spec, make.make(spec, TARGET, "packed", {"mr": 4, "nr": 32, "mc": 16, "nc": 128}))
    found = {each.name: each.options for each in choices.read(text)}
    with pytest.raises(ScheduleError, match="expected parameter to be less than"):
        scheduled(spec, from_text(choices.made(text, {"nr": max(found["nr"]), "nc": min(found["nc"])})))


def own(spec, target, sizes):
    """A user's schedule with a size and an order that may vary."""
    with steps.script() as script:
        size = knobs.knob("kc", [0, 8, 16], 16)
        product = steps.match(script.root, "linalg.matmul")
        tiled, _ = steps.tile(product, [0, 0, size])
        steps.mark(tiled, "tiled")

        def tile(sizes):
            return lambda: steps.tile(steps.match_marked(script.root, "tiled"), sizes)

        knobs.alternatives("order", [tile([4, 0, 0]), tile([0, 4, 0])], 1)
    return script.module


def test_a_users_schedule_has_knobs_and_alternatives():
    spec = tw.MatmulSpec(m=8, n=24, k=64)
    with ir.Context():
        text = str(own(spec, TARGET, None))
    assert choices.read(text) == [choices.Choice("kc", (0, 8, 16), 16), choices.Choice("order", (0, 1), 1)]
    made = {}
    for order in (0, 1):
        for size in (0, 8):
            other = choices.made(text, {"order": order, "kc": size})
            assert [each.selected for each in choices.read(other)] == [size, order]
            _, made[order, size] = scheduled(spec, from_text(other))
    assert len(set(made.values())) == 4
    assert ["step %c8 " in made[0, size] for size in (0, 8)] == [False, True]


def test_a_knob_needs_one_of_its_options():
    with pytest.raises(ValueError, match="kc: 5 selected; expected one of 8, 16"):
        knobs.knob("kc", [8, 16], 5)
    with pytest.raises(ValueError, match="order: 2 selected; expected one from 0 to 1"):
        knobs.alternatives("order", [list, list], 2)


@pytest.mark.parametrize("name", SPECS)
def test_the_space_holds_the_models_choice_and_sizes_that_fit(name):
    spec, row = SPECS[name], select.row(name)
    sizes = select.sized(name, spec, TARGET).parameters
    found = set(space.points(row.axes, spec, TARGET, sizes))
    assert sizes in found
    assert len(found) > 2
    for each in found - {sizes}:
        vectors = -(-each.nr // TARGET.lanes(spec.acc_type)) if name != "inner_product" else each.nr
        assert each.mr * vectors < TARGET.vector_registers
        assert each.kc >= 1


def test_panels_that_other_kernels_share_do_not_vary():
    spec = tw.MatmulSpec(m=300, n=400, k=2100, b_packed=True)
    sizes = select.sized("packed", spec, TARGET).parameters
    found = set(space.points(space.PACKED, spec, TARGET, sizes))
    assert {(each.nr, each.nc, each.kc) for each in found} == {(sizes.nr, sizes.nc, sizes.kc)}
    assert len(found) > 2
