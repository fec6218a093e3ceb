# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a block reads of A and B, and where in an operand a slice of it lies: for copies that go by coordinates."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.build.index import Index, add
from tilewright.build.usedef import body, defined_by, terminator
from tilewright.build.views import mixed
from tilewright.codegen.gpu import prologues
from tilewright.errors import LoweringError
from tilewright.mlir import ir


def axes_of(argument: ir.Value) -> int:
    """Axes of an operand."""
    return ir.MemRefType(argument.type).rank


def reads_of(over_k: ir.Operation) -> list[ir.Operation]:
    """What reads A and each B for the products of a loop over K, behind whatever only widens their elements."""
    return [stored_of(prologues.forms(operand)[-1][0]) for operand in multiplied(over_k)]


def multiplied(over_k: ir.Operation) -> list[ir.Value]:
    """The vector of A that the products of a loop over K multiply, and that of each B, in the order of the loop's sums."""
    sums = [defined_by(each, "vector.contract") for each in terminator(body(over_k)).operands]
    contracts = [each for each in sums if each is not None]
    if not contracts or len(contracts) < len(sums) or len({each.operands[0] for each in contracts}) > 1:
        raise LoweringError(
            f"a loop over K with {len(contracts)} products and {len(sums)} results",
            stage="threads",
            expected="one vector.contract for each result, all of the same A",
        )
    return [contracts[0].operands[0], *(each.operands[1] for each in contracts)]


def stored_of(vector: ir.Value) -> ir.Operation:
    """What reads a vector of the block from an operand as it is stored.

    Raises:
        LoweringError: It is computed.
    """
    read = defined_by(vector, "vector.transfer_read")
    if read is None or prologues.made_in(read) is not None:
        raise LoweringError("what a prologue computes cannot be copied in boxes", stage="threads")
    return read


def argument_of(view: ir.Value) -> int:
    """The number of the operand that a view is of, among the arguments of the function."""
    while (subview := defined_by(view, "memref.subview")) is not None:
        view = subview.operands[0]
    return ir.BlockArgument(view).arg_number


def place_of(view: ir.Value, of: Callable[[ir.Value], ir.Value]) -> list[Index]:
    """Where in an operand a view of it starts: in the batch, and in the matrix. `of` gives a thread's value for one of the block."""
    entry: list[Index] = []
    at: list[Index] = [0, 0]
    while (subview := defined_by(view, "memref.subview")) is not None:
        offsets = mixed(subview.attributes["static_offsets"], map(of, list(subview.operands)[1:]))
        entry, at = offsets[:-2], [add(here, more) for here, more in zip(at, offsets[-2:], strict=True)]
        view = subview.operands[0]
    return [*entry, *at]
