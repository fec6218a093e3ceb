# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turns functions on memrefs into functions on tensors: each write makes a new value of the memref.

Upstream has no pass for it: bufferization goes the other way. Memrefs that a function is given must not overlap one that it
writes to, which calls check.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.mlir import ir
from tilewright.mlir.dialects import func, tensor


@dataclass(frozen=True, slots=True)
class _View:
    """A memref that is a slice of another one.

    Attributes:
        source: The other one.
        slice: The op that makes it.
    """

    source: ir.Value
    slice: ir.Operation


def raise_to_tensors(function: func.FuncOp) -> tuple[int, ...]:
    """Makes `function`, on memrefs, one on tensors, which returns after its results the new contents of what it writes to.

    Before: ``func @f(%a: memref<4xf32>, %c: memref<4xf32>) { linalg.exp ins(%a) outs(%c) }``. After::

        func @f(%a: tensor<4xf32>, %c: tensor<4xf32>) -> tensor<4xf32> { %r = linalg.exp ins(%a) outs(%c); return %r }

    Returns which of the arguments it writes to.
    """
    block = function.entry_block
    with function.context, function.location:
        raiser = _Raiser(block)
        for op in list(block.operations):
            raiser.raise_op(op.operation)
        return raiser.finish(function)


class _Raiser:
    """Rewrites one function; keeps the contents of each memref."""

    def __init__(self, block: ir.Block) -> None:
        self._block = block
        self._contents: dict[ir.Value, ir.Value] = {}
        self._views: dict[ir.Value, _View] = {}
        self._written: set[int] = set()
        self._dead: list[ir.Operation] = []
        self._memrefs = [index for index, each in enumerate(block.arguments) if isinstance(each.type, ir.MemRefType)]
        for index in self._memrefs:
            argument = block.arguments[index]
            argument.set_type(_tensor(argument.type))
            self._contents[argument] = argument

    def raise_op(self, op: ir.Operation) -> None:
        """Rewrites one op, before which all are rewritten."""
        with ir.InsertionPoint(op), op.location:
            if op.name in ("memref.alloc", "memref.alloca"):
                kind = _tensor(op.results[0].type)
                made = ir.Operation.create("tensor.empty", results=[kind], operands=list(op.operands))
                self._contents[op.results[0]] = made.results[0]
            elif op.name == "memref.dim":
                size = tensor.dim(self._read(op.operands[0]), op.operands[1])
                op.results[0].replace_all_uses_with(size)
            elif op.name == "memref.subview":
                self._views[op.results[0]] = _View(op.operands[0], op)
            elif op.name == "memref.copy":
                self._write(op.operands[1], self._read(op.operands[0]))
            elif op.name == "func.return":
                return
            elif op.name != "memref.dealloc":
                if not any(self._is_memref(value) for value in op.operands):
                    return
                self._raise_linalg(op)
        self._dead.append(op)

    def finish(self, function: func.FuncOp) -> tuple[int, ...]:
        """Returns the new contents, and drops what is no longer used."""
        written = tuple(sorted(self._written))
        terminator = self._block.operations[len(self._block.operations) - 1].operation
        with ir.InsertionPoint(terminator), terminator.location:
            func.ReturnOp([*terminator.operands, *(self._contents[self._block.arguments[each]] for each in written)])
        terminator.erase()
        for op in reversed(self._dead):
            op.erase()
        last = self._block.operations[len(self._block.operations) - 1]
        kinds = ir.FunctionType.get(
            [each.type for each in self._block.arguments], [each.type for each in last.operands]
        )
        function.attributes["function_type"] = ir.TypeAttr.get(kinds)
        return written

    def _is_memref(self, value: ir.Value) -> bool:
        return value in self._contents or value in self._views

    def _raise_linalg(self, op: ir.Operation) -> None:
        """Makes a linalg op on memrefs one on tensors, whose results are what it wrote."""
        segments = (
            list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
            if "operandSegmentSizes" in op.attributes
            else []
        )
        outputs = segments[1] if len(segments) > 1 else 1
        operands = [self._read(value) if self._is_memref(value) else value for value in op.operands]
        made = ir.Operation.create(
            op.name,
            results=[each.type for each in operands[len(operands) - outputs :]],
            operands=operands,
            attributes={each: op.attributes[each] for each in op.attributes},
            regions=len(op.regions),
        )
        for old, new in zip(op.regions, made.regions, strict=True):
            for block in list(old.blocks):
                block.append_to(new)
        for target, result in zip(list(op.operands)[len(operands) - outputs :], made.results, strict=True):
            self._write(target, result)

    def _read(self, memref: ir.Value) -> ir.Value:
        """What a memref holds now."""
        view = self._views.get(memref)
        if view is None:
            return self._contents[memref]
        return _sliced("tensor.extract_slice", view.slice, _tensor(memref.type), [self._read(view.source)])

    def _write(self, memref: ir.Value, value: ir.Value) -> None:
        """Lets a memref hold `value` from now on."""
        view = self._views.get(memref)
        if view is not None:
            whole = self._read(view.source)
            self._write(view.source, _sliced("tensor.insert_slice", view.slice, whole.type, [value, whole]))
            return
        self._contents[memref] = value
        if isinstance(memref, ir.BlockArgument):
            self._written.add(memref.arg_number)


def _tensor(memref: ir.Type) -> ir.RankedTensorType:
    kind = ir.MemRefType(memref)
    return ir.RankedTensorType.get(kind.shape, kind.element_type)


def _sliced(name: str, like: ir.Operation, kind: ir.Type, operands: list[ir.Value]) -> ir.Value:
    """An op on the slice of a tensor that the subview `like` is of its memref."""
    attributes = {f"static_{each}": like.attributes[f"static_{each}"] for each in ("offsets", "sizes", "strides")}
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([*[1] * len(operands), 0, 0, 0])
    return ir.Operation.create(name, results=[kind], operands=operands, attributes=attributes).results[0]
