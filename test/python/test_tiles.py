# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model of blocks of AMX tiles."""

import pytest
import tilewright as tw
from tilewright.schedules import make
from tilewright.schedules.models import tiles


def test_blocks_leave_registers_for_both_operands():
    found = set(tiles.blocks())
    assert {(1, 1), (2, 2), (1, 6), (6, 1)} <= found
    assert not found & {(2, 3), (3, 2), (1, 7), (4, 4)}


def test_a_step_takes_its_products_or_the_latency_of_a_sum_and_its_loads():
    assert tiles.step_cycles(2, 2) == 4 * 16 + 4 * 8
    assert tiles.step_cycles(1, 1) == 52 + 2 * 8
    assert tiles.step_cycles(1, 6) == 6 * 16 + 7 * 8


@pytest.mark.parametrize(
    ("m", "n", "block"),
    [
        (1024, 1024, (32, 32)),
        (16, 1024, (16, 64)),
        (1024, 16, (64, 16)),
        (64, 64, (32, 32)),
        (40, 40, (16, 48)),
        (1, 1, (16, 16)),
        (0, 5, (16, 16)),
    ],
)
def test_the_block_of_a_shape(m, n, block):
    assert tiles.block(m, n) == block


@pytest.mark.parametrize("m", [1, 16, 17, 100, 1000])
def test_with_the_columns_given_only_the_rows_are_chosen(m):
    assert tiles.block(m, 1000, nr=32)[1] == 32


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("types", "element"), [(("bf16", "bf16", "f32"), 2), (("u8", "i8", "i32"), 1)])
def test_products_of_small_types_get_tiles_where_there_are_some(types, element, packed):
    a, b, c = types
    spec = tw.MatmulSpec(m=500, n=500, k=500, a=a, b=b, c=c, b_packed=packed)
    sizes = make.make(spec, tw.targets.get("sapphirerapids")).sizes
    assert (sizes["mr"] % 16, sizes["nr"] % 16) == (0, 0)
    others = make.make(spec, tw.targets.get("cascadelake")).sizes
    assert (others["mr"], others["nr"]) != (sizes["mr"], sizes["nr"])
    assert tw.targets.get("sapphirerapids").dot(a, b).step == 64 // element
