# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Knobs of schedules: a printed one can be turned, and is then the schedule of the other size; users' own are read the same way."""

import pytest
import tilewright as tw
from tilewright import targets
from tilewright.emit import stages
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
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
        assert each.selected == plan.sizes[each.name]
        other = max(set(each.options) - {each.selected})
        _, turned = scheduled(spec, from_text(choices.made(text, {each.name: other})))
        _, again = scheduled(spec, make.make(spec, TARGET, name, {**plan.sizes, each.name: other}))
        assert body(turned) == body(again), each


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
