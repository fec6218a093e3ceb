# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks a user's module for unsupported ops before anything is changed, and refuses them with their location."""

from __future__ import annotations

from typing import NoReturn

from tilewright.dtypes import DTYPES, STORED
from tilewright.errors import SpecError
from tilewright.mlir import ir
from tilewright.payload.importer import C_IDENTIFIER, TAKEN
from tilewright.payload.modules.open_extents import OPEN
from tilewright.payload.text import place

_OPS = frozenset(
    {
        "arith.constant",
        "func.return",
        "linalg.softmax",
        "memref.alloc",
        "memref.alloca",
        "memref.copy",
        "memref.dealloc",
        "memref.dim",
        "memref.subview",
        "tensor.cast",
        "tensor.collapse_shape",
        "tensor.dim",
        "tensor.empty",
        "tensor.expand_shape",
        "tensor.extract_slice",
        "tensor.insert_slice",
        "tensor.splat",
    }
)
"""Ops in the body of a function, besides linalg's and elementwise ones of tensors."""
_REFUSED_PREFIXES = ("linalg.winograd", "linalg.mmt4d", "linalg.batch_mmt4d", "linalg.pack", "linalg.unpack")
_ELEMENTWISE = ("arith.", "math.")
_KNOWN = "linalg ops, elementwise ops of arith and math, arith.constant, and ops of tensor or memref that make, slice or reshape"
_MOST_ELEMENTS = 2**40
_SIZED = ("memref.alloc", "memref.alloca", "tensor.empty", "tensor.expand_shape", "tensor.splat")
"""Ops whose sizes may be extents of tensors; see `extents`."""
_DYNAMIC = ir.ShapedType.get_dynamic_stride_or_offset()


def check(module: ir.Module, filename: str) -> None:
    """Checks that each op of `module` is of a kind that can be compiled, with known element types.

    Raises:
        SpecError: One is not; the error names the op and its place as FILE:LINE:COLUMN.
    """
    _Checker(filename).module(module)


def check_indices(module: ir.Module, filename: str) -> None:
    """Checks, once constants are folded, that no offset and no size is computed but from extents.

    Raises:
        SpecError: One is; the error names the op and its place.
    """
    for function in module.body.operations:
        for each in function.operation.regions[0].blocks[0].operations:
            op = each.operation
            indices = [value for value in op.operands if isinstance(value.type, ir.IndexType)]
            if op.name in ("memref.dim", "tensor.dim"):
                indices = [value for value in indices if value.owner.operation.name != "arith.constant"]
            elif op.name in _SIZED:
                indices = []
            if indices:
                what = f"{op.name} with an offset or a size that is no constant is not supported yet"
                raise SpecError(what, where=place(op.location, filename), expected="numbers")


class _Checker:
    """Checks one module; keeps the file's name for errors."""

    def __init__(self, filename: str) -> None:
        self._filename = filename

    def module(self, module: ir.Module) -> None:
        functions = [op.operation for op in module.body.operations]
        if not functions:
            raise SpecError("no function", where=self._filename, expected="a func.func with linalg ops")
        for function in functions:
            if function.name != "func.func":
                self._refuse(function, f"{function.name} is not supported yet", "func.func ops only")
            self._function(function)

    def _refuse(self, op: ir.Operation, what: str, expected: str | None = None, remedy: str | None = None) -> NoReturn:
        raise SpecError(what, where=place(op.location, self._filename), expected=expected, remedy=remedy)

    def _function(self, function: ir.Operation) -> None:
        name = ir.StringAttr(function.attributes["sym_name"]).value
        if not C_IDENTIFIER.fullmatch(name) or name in TAKEN:
            expected = "a letter, then letters, digits and _, and no word that C has taken"
            self._refuse(
                function, f"the function is called {name!r}, which cannot be the name of a C function", expected
            )
        blocks = list(function.regions[0].blocks)
        if len(blocks) != 1:
            what = "the function has several blocks" if blocks else "the function has no body"
            self._refuse(function, what, "one block of linalg ops")
        for argument in blocks[0].arguments:
            self._boundary(argument.type, function)
        for each in blocks[0].operations:
            self._op(each.operation)
        for value in blocks[0].operations[len(blocks[0].operations) - 1].operands:
            if not isinstance(value.type, ir.RankedTensorType):
                self._refuse(
                    function, f"the function returns a {value.type}", "tensors, or memrefs among its arguments"
                )
            self._boundary(value.type, function)

    def _boundary(self, kind: ir.Type, function: ir.Operation) -> None:
        """What is taken from callers, or given to them, is a tensor or memref of a type that NumPy has."""
        if not isinstance(kind, (ir.RankedTensorType, ir.MemRefType)):
            self._refuse(
                function, f"an argument is a {kind}", "tensors or memrefs", "Pass a number as a tensor without extents"
            )
        self._shaped(kind, function)
        if isinstance(kind, ir.MemRefType) and not _has_rows(kind):
            self._refuse(function, f"a {kind} is not supported yet", _ROWS)
        known = sorted({row.mlir for row in DTYPES.values() if row.name not in STORED and not row.part})
        if str(kind.element_type) not in known:
            self._refuse(
                function, f"elements of {kind.element_type} are not supported yet", f"one of {', '.join(known)}"
            )

    def _op(self, op: ir.Operation) -> None:
        name = op.name
        linalg = name.startswith("linalg.") and not name.startswith(_REFUSED_PREFIXES)
        if not linalg and name not in _OPS and not name.startswith(_ELEMENTWISE):
            self._refuse(op, f"{name} is not supported yet", _KNOWN)
        single = not all(isinstance(each.type, ir.RankedTensorType) for each in op.results)
        if name.startswith(_ELEMENTWISE) and name != "arith.constant" and single:
            what = f"{name} of single numbers is not supported yet"
            self._refuse(op, what, _KNOWN, "Compute it in a linalg.generic")
        for value in (*op.operands, *op.results):
            if isinstance(value.type, ir.ShapedType):
                self._shaped(value.type, op)
        if linalg and name != "linalg.softmax":
            self._body(op)

    def _shaped(self, kind: ir.Type, op: ir.Operation) -> None:
        if not isinstance(kind, (ir.RankedTensorType, ir.MemRefType)):
            self._refuse(op, f"a {kind} is not supported yet", "ranked tensors and memrefs")
        if isinstance(kind.element_type, (ir.ComplexType, ir.VectorType)) or str(kind.element_type).startswith("!"):
            self._refuse(op, f"elements of {kind.element_type} are not supported yet", "numbers")
        elements = 1
        for extent in kind.shape:
            elements *= 1 if extent == OPEN else extent
        if elements > _MOST_ELEMENTS:
            self._refuse(op, f"a {kind} has more elements than memory", f"at most {_MOST_ELEMENTS}")
        if isinstance(kind, ir.RankedTensorType):
            if kind.encoding is not None:
                self._refuse(op, f"a {kind}, with an encoding, is not supported yet", "none")
        elif kind.memory_space is not None:
            self._refuse(op, f"a {kind} is not supported yet", "the default memory space")

    def _body(self, op: ir.Operation) -> None:
        """What a linalg op does to one element: straight-line code of arith and math."""
        if not len(op.regions) or not len(op.regions[0].blocks):
            return
        for each in op.regions[0].blocks[0].operations:
            inner = each.operation
            if not inner.name.startswith((*_ELEMENTWISE, "linalg.yield", "linalg.index")):
                self._refuse(inner, f"{inner.name} in {op.name} is not supported yet", "ops of arith and math")


_ROWS = "elements of a row beside one another, and outer dimensions around inner ones"


def _has_rows(kind: ir.MemRefType) -> bool:
    """Whether elements lie in row-major order, perhaps with gaps between rows, as callers have to pass them."""
    try:
        strides, offset = kind.get_strides_and_offset()
    except (RuntimeError, ValueError):
        return False
    least = 1
    for position, (extent, stride) in enumerate(zip(reversed(kind.shape), reversed(strides), strict=True)):
        if (extent > 1 or extent == OPEN) and (stride != 1 if position == 0 else stride != _DYNAMIC and stride < least):
            return False
        least = least if _DYNAMIC in (stride, extent) else stride * extent
    return offset in (0, _DYNAMIC)
