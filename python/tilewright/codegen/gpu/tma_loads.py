# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a block reads of A and B, and where in an operand a slice of it lies: for copies that go by coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.build.index import Index, add
from tilewright.build.usedef import body, defined_by, terminator
from tilewright.build.views import mixed
from tilewright.codegen.gpu import patches, prologues
from tilewright.codegen.patch_layout import Patches
from tilewright.errors import LoweringError
from tilewright.mlir import ir


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where a box starts.

    Attributes:
        at: Its place in the tensor, or in the images, along the innermost axis first.
        offsets: Of patches, how far from there the element of the filter is, to the right and down.
    """

    at: Sequence[Index]
    offsets: Sequence[Index] = ()

    @classmethod
    def of_patches(cls, images: Patches, pixel: Index, k: Index) -> Coordinates:
        """Those of patches, from a pixel of the result and an element of its patch on."""
        return cls(*patches.place_of_box(images, pixel, k))

    @property
    def mode(self) -> ir.Attribute | None:
        """What the copy's op says of them."""
        return ir.Attribute.parse("#nvvm.tma_load_mode<im2col>") if self.offsets else None


def images_of(function: ir.Operation) -> dict[int, Patches]:
    """The images of which operands of a function are matrices of patches, by the operand's number."""
    return {number: each.patches for number, each in patches.of(function).items()}


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
