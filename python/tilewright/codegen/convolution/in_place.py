# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lets a bufferized product read its A where it lies, where packing would make panels in the order that A has already.

Panels of all of K, of an A without gaps, are its rows one after the other. Upstream folds a copy whose source is not written, but not
one that loops and vectors were made of.
"""

from __future__ import annotations

from tilewright.build.index import mul, total, value
from tilewright.build.usedef import erase
from tilewright.build.views import DYNAMIC, reinterpreted
from tilewright.codegen.convolution import packing
from tilewright.mlir import ir
from tilewright.mlir.dialects import func
from tilewright.payload.abi import ENTRY
from tilewright.spec import MatmulSpec


def read(module: ir.Module, spec: MatmulSpec) -> bool:
    """Lets the product of `module` read A, which has no gaps, in place; returns whether it does.

    Before: ``for ir: for i: for k: panels[ir / mr][i][k:k+L] = A[ic + ir + i][k:k+L]``, and reads of ``panels``. After, with no such
    loop, ``panels`` is A from row ic on, of the shape [rows / mr][mr][K].

    Nothing is changed where panels are anything else: of a part of K, of more rows than A has, in another order, or computed.
    """
    function = next(op for op in module.body if isinstance(op, func.FuncOp) and op.name.value == ENTRY)
    panels = packing.found(function)
    if panels is None or len(panels.roots) != 1:
        return False
    kind = ir.MemRefType(panels.buffer.type)
    _, rows, depth = kind.shape if kind.rank == 3 else (0, 1, 0)
    if depth != spec.k or spec.m % rows:
        return False
    with function.context, function.location:
        with ir.InsertionPoint(panels.roots[0]):
            start = value(mul(total(panels.rows), spec.k))
            layout = ir.StridedLayoutAttr.get(DYNAMIC, [rows * depth, depth, 1])
            lies = ir.MemRefType.get(kind.shape, kind.element_type, layout)
            panels.buffer.replace_all_uses_with(reinterpreted(lies, function.arguments[0], [start]))
        erase(panels.roots[0])
    return True
