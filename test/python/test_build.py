# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The vocabulary for building IR: what is known is folded, and what is not known becomes one op."""

import pytest
from tilewright.build import affine, index, loops, usedef, views
from tilewright.mlir import ir
from tilewright.mlir.dialects import func

# Of each function: operands, and what they fold to where all are known.
FOLDED = [
    (index.add, (3, 4), 7),
    (index.sub, (3, 4), -1),
    (index.mul, (3, 4), 12),
    (index.div, (14, 4), 3),
    (index.rem, (14, 4), 2),
    (index.div_rem, (14, 4), (3, 2)),
    (index.round_up, (14, 4), 16),
    (index.round_down, (14, 4), 12),
    (index.xor, (6, 3), 5),
    (index.minimum, (6, 3), 3),
    (index.signed_min, (-6, 3), -6),
    (index.signed_max, (-6, 3), 3),
    (index.total, ([1, 2, 3],), 6),
    (index.add, ((0, 1, 2), 5), (5, 6, 7)),
    (index.div_rem, ((4, 5, 6), 3), ((1, 1, 2), (1, 2, 0))),
    (affine.scaled, (3, 4), 12),
    (affine.half, (7,), 3),
    (affine.half_up, (7,), 4),
    (affine.parity, (7,), 1),
]


@pytest.fixture
def argument():
    """An index that is not known, in a function where ops are made."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("f", ([ir.IndexType.get()], []))
        with ir.InsertionPoint(function.add_entry_block()):
            yield function.arguments[0]


def made(value):
    """The ops in the function so far."""
    return [op.name for op in usedef.operations(value.owner.owner.operation)[1:]]


@pytest.mark.parametrize(("function", "operands", "expected"), FOLDED)
def test_what_is_known_is_folded_and_makes_no_op(argument, function, operands, expected):
    assert function(*operands) == expected
    assert made(argument) == []


def test_neutral_elements_make_no_op(argument):
    for same in (
        index.add(argument, 0),
        index.add(0, argument),
        index.mul(argument, 1),
        index.mul(1, argument),
        index.div(argument, 1),
    ):
        assert same == argument
    assert index.mul(argument, 0) == 0
    assert index.rem(argument, 1) == 0
    assert made(argument) == []


def test_what_is_not_known_becomes_one_op(argument):
    assert index.known(argument) is None
    sum_ = index.add(argument, argument)
    assert made(argument) == ["arith.addi"]
    assert usedef.defined_by(sum_, "arith.addi") is not None
    assert index.known(index.value(5)) == 5


def test_only_even_indices_are_said_to_be_even(argument):
    assert affine.is_even(index.mul(argument, 2))
    assert affine.is_even(affine.scaled(argument, 2))
    assert not affine.is_even(argument)
    assert not affine.is_even(index.add(index.mul(argument, 2), 1))


def test_a_branch_gives_what_its_sides_return(argument):
    (found,) = loops.if_else(
        index.less(argument, 4), lambda: [index.value(1)], lambda: [argument], [ir.IndexType.get()]
    )
    assert usedef.defined_by(found, "scf.if") is not None
    assert found.owner.operation.verify()


def test_a_loop_without_carried_values_ends_by_itself(argument):
    with loops.loop(0, argument, 4) as (_, carried, op):
        assert carried == []
    assert op.operation.verify()
    assert usedef.terminator(usedef.body(op)).name == "scf.yield"


def test_static_and_dynamic_numbers_keep_their_order(argument):
    numbers = [1, argument, 3]
    assert views.mixed(views.static_of(numbers), views.dynamic_of(numbers)) == numbers
