# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products by a transposed B that are computed as their transposes: when, with which sizes, and what of them is packed."""

from dataclasses import replace

import pytest
import tilewright as tw
from emulated_amx import HARDWARE
from tilewright.emit import stages
from tilewright.runtime.trial import Trial
from tilewright.schedules import make, select
from tilewright.schedules.models import exchange, parts, space, tile_blocks, tiled
from tilewright.schedules.models.blocking import Blocking
from tilewright.schedules.models.tile_blocks import Caches, Product

TARGET = tw.targets.get("graniterapids")
BATCH = tw.MatmulSpec(64, 1024, 1024, a="bf16", c="f32", layout="nt")


def packed(spec: tw.MatmulSpec, given: dict[str, int] | None = None) -> Blocking:
    return select.sized("packed", spec, TARGET, given).parameters


@pytest.mark.parametrize("rows", [3, 16, 64, 128])
@pytest.mark.parametrize(("a", "b"), [("bf16", "bf16"), ("u8", "i8")])
def test_few_rows_by_weights_as_torch_has_them_are_exchanged(rows, a, b):
    spec = tw.MatmulSpec(rows + (a == "u8"), 1024, 1024, a=a, b=b, layout="nt")
    chosen = select.choose(spec, TARGET)
    assert (chosen.strategy, chosen.parameters.exchanged) == ("packed", 1)
    assert chosen.parameters.kc == spec.k
    assert chosen.parameters.mc == chosen.parameters.mr


@pytest.mark.parametrize(
    "changes",
    [
        {"layout": "nn"},
        {"layout": "tt"},
        {"m": tw.Dim()},
        {"n": 1000},
        {"k": 1000},
        {"b_packed": True},
        {"beta": 1},
        {"deterministic": True},
        {"epilogue": (tw.softmax(),)},
        {"epilogue": (tw.glu(),)},
        {"batch": (2,)},
        {"prologue_b": (tw.multiply("n"), tw.cast("bf16"))},
        {"a": "f32", "b": "f32"},
    ],
    ids=str,
)
def test_others_are_not_and_a_schedule_that_asks_for_it_is_refused(changes):
    spec = replace(BATCH, **{"b": "bf16", **changes})
    assert not exchange.may(spec, TARGET)
    assert spec.dynamic or not packed(spec).exchanged
    with pytest.raises(tw.ScheduleError, match="exchanged is 1"):
        select.sized("packed", spec, TARGET, {"exchanged": 1})


def test_targets_without_tile_registers_exchange_nothing():
    assert not exchange.may(BATCH, tw.targets.get("znver5"))


def test_few_rows_of_a_dynamic_extent_are_multiplied_along_k():
    spec = replace(BATCH, m=tw.Dim())
    call = spec.at(4, 1024, 1024)
    assert select.first(spec, call, TARGET) == "inner_product"
    assert select.first(call, call, TARGET) == "packed"
    assert not select.sized("packed", BATCH, TARGET, typical=True).parameters.exchanged


def test_many_rows_are_not_exchanged():
    assert not select.choose(replace(BATCH, m=1024), TARGET).parameters.exchanged


def test_sizes_that_are_given_are_of_the_product_as_it_is_unless_they_say_so():
    assert packed(BATCH, {"past_l1": 0}).exchanged == 1
    assert not packed(BATCH, {"mc": 32}).exchanged
    given = packed(BATCH, {"mc": 32, "exchanged": 1})
    assert (given.exchanged, given.mc) == (1, 32)
    assert packed(BATCH, {"exchanged": 0}).exchanged == 0


def test_the_transpose_has_rows_for_columns():
    entries = (tw.dequantize(0.5), tw.bias(), tw.bias("m"), tw.residual())
    spec = tw.MatmulSpec(64, 1024, 1024, a="u8", b="i8", layout="nt", epilogue=entries)
    of = exchange.turned(spec)
    assert (of.m, of.n, of.k, of.a, of.b, of.layout, of.c) == (1024, 64, 1024, "i8", "u8", "nt", "f32")
    assert [each.axes for each in of.chain.operands] == ["m", "n", "mn"]
    assert exchange.turned(BATCH).fused
    assert not exchange.turned(BATCH).plain_sums.fused
    assert parts.inside(spec, Blocking(32, 32, 32, 64, 1024, exchanged=1))[0] == of


def test_the_schedule_exchanges_and_packs_one_operand():
    text = str(stages.build(BATCH, TARGET, make.make(BATCH, TARGET), until="schedule").texts["schedule"])
    assert "transform.tilewright.exchange" in text
    assert "panels_of_b" in text
    assert "panels_of_a" not in text


def test_tiles_are_counted_by_the_operands_of_the_call():
    sizes = select.choose(BATCH, TARGET).parameters
    counted = tiled.tile_loads(BATCH, TARGET, sizes)
    turned = tiled.tile_loads(exchange.turned(BATCH), TARGET, replace(sizes, exchanged=0))
    assert counted["A"] == turned["B"]
    assert counted["B"] == turned["A"]


def test_a_tuner_offers_both():
    [axis] = [each for each in space.PACKED if each.sizes == ("exchanged",)]
    chosen = select.choose(BATCH, TARGET).parameters
    assert axis.offered(BATCH, TARGET, chosen) == [(0,), (1,)]
    assert axis.at(BATCH, TARGET, chosen, (0,)) == select.sized("packed", BATCH, TARGET, {"exchanged": 0}).parameters


@pytest.mark.parametrize("element", [1, 2])
def test_rows_that_are_read_where_they_lie_from_memory_are_few(element):
    caches = Caches(48 << 10, 2 << 20)
    far = Product(1 << 14, 16, 4096, element, 64 // element, a_fits=True)
    assert tile_blocks.rows_read_at_once(far, caches, 96) == 32
    assert tile_blocks.rows_read_at_once(replace(far, m=64), caches, 96) == 96
    assert tile_blocks.rows_read_at_once(replace(far, a_fits=False), caches, 96) == 96


@pytest.mark.parametrize("n", [8, 16, 32])
def test_a_b_that_comes_packed_has_one_format_for_any_rows(n):
    rows = (1, 16, 48, 100, 300, 1000, 100000)
    found = [packed(tw.MatmulSpec(m, n, 4096, a="bf16", c="f32", b_packed=True)) for m in rows]
    assert len({(each.nr, each.nc, each.kc) for each in found}) == 1


@pytest.mark.parametrize("m", [1161, 1408, 54, 27, 130])
@pytest.mark.parametrize("n", [16, 32, 64])
def test_rows_of_a_tile_are_as_many_in_each_register(m, n):
    mr = packed(tw.MatmulSpec(m, n, 1728, a="u8", b="i8")).mr
    assert mr % -(-mr // 16) == 0


@pytest.mark.skipif(not HARDWARE, reason="the machine has no AMX; plain products are emulated in test_amx")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sizes", [{}, {"kc": 128, "mc": 64}], ids=["whole", "sliced"])
@pytest.mark.parametrize(
    "epilogue",
    [(tw.bias(), tw.gelu()), (tw.bias("m"),), (tw.residual(), tw.relu()), (tw.multiply("mn"), tw.scale(0.5))],
    ids=str,
)
@pytest.mark.parametrize("m", [7, 40, 64])
def test_numbers_with_an_epilogue(m, epilogue, sizes, threads):
    plain = tw.MatmulSpec(m, 96, 256, a="bf16", layout="nt", epilogue=epilogue)
    for spec in (replace(plain, c="bf16"), replace(plain, alpha="arg")):
        kernel = tw.compile(spec, schedule="packed", parameters={"exchanged": 1, **sizes}, threads=threads)
        trial = Trial.random(kernel, spec, m)
        trial()
        assert trial.difference().right


def test_bad_choices_say_so():
    with pytest.raises(tw.ScheduleError, match="mr is 28; expected a multiple of 16"):
        packed(BATCH, {"exchanged": 1, "mr": 28})
    with pytest.raises(tw.ScheduleError, match="exchanged is 1; expected 0, or extents that are known"):
        tw.compile(replace(BATCH, m=tw.Dim()), "graniterapids", schedule="packed", parameters={"exchanged": 1})
    with pytest.raises(tw.ScheduleError, match="exchanged is 2"):
        select.sized("packed", BATCH, TARGET, {"exchanged": 2})
