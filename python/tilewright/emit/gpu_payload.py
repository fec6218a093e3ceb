# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The payload of a GPU kernel: a product of any extents, in the forms that it has on its way through the compiler."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from tilewright.codegen.gpu import gathered_rows, grouped, patches
from tilewright.codegen.patch_layout import Patches
from tilewright.dims import Dim
from tilewright.entries import Epilogue
from tilewright.expressions import trace
from tilewright.mlir import ir
from tilewright.operator_specs import Conv2dSpec
from tilewright.payload import conv2d, matmul
from tilewright.payload.conv2d_products import of_launch, reads_patches
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget


def scattered(spec: Conv2dSpec) -> str:
    """How an operand of a convolution's product that is not in memory is brought to the threads; empty where both are."""
    said = conv2d.patches(spec) if reads_patches(spec) else None
    return patches.copied(Patches.named(said), of_launch(spec).a_stored.bits) if said else ""


class Forms:
    """The forms of a product on its way through the compiler.

    Attributes:
        finished: The product, of any extents, that ends in an op over its elements.
        read: The one that the payload is made of.
        scheduled: The one that the schedule is made for.
    """

    def __init__(self, spec: MatmulSpec, target: GpuTarget, operator: object = None) -> None:
        """Makes them; `operator` is the convolution that `spec` is a product of."""
        self._operator = operator
        if spec.alpha == 0:  # Calls have a K of 0 then.
            spec = replace(spec, alpha=1)
        # Every block, also one that covers all of C, is then a slice that is padded to a tile.
        finished = spec if spec.fused else replace(spec, epilogue=(_sum(),))
        self.read = _with_open_extents(gathered_rows.read_as_a(finished, target) if spec.gathers else finished)
        self.finished = _with_open_extents(finished)
        self.only_gathers = bool(spec.gathers) and len(spec.prologue_a) == 1
        self.scheduled = replace(self.read, prologue_a=()) if self.only_gathers else self.read

    def payload(self, context: ir.Context) -> tuple[ir.Module, str]:
        """The payload: as it is compiled, and its text."""
        module = matmul.build(self.read, context)
        if isinstance(self._operator, Conv2dSpec) and reads_patches(self._operator):
            conv2d.say_patches(self._operator, module)
        text = str(module)
        if grouped.of(self.finished):
            grouped.read_one_by_one(module)
        if self.only_gathers:
            gathered_rows.drop_prologue(module)
        return module, text


def _with_open_extents(spec: MatmulSpec) -> MatmulSpec:
    """The same product with dynamic extents.

    A spec promises no such thing where two elements share a byte: the length of a row in memory would not be known. Here calls
    give the start of each row, so that check is skipped. Extents of zero in the batch are dynamic: no loop has zero iterations.
    """
    made = copy(spec)
    for axis in ("m", "n", "k"):
        object.__setattr__(made, axis, Dim())
    for batch in ("batch", "a_batch", "b_batch"):
        object.__setattr__(made, batch, tuple(size or Dim() for size in getattr(spec, batch)))
    return made


def _sum() -> Epilogue:
    """An entry that leaves each sum as it is, so that every product ends in an op over its elements."""
    return Epilogue("sum()", (), trace(lambda c: c, 0))
