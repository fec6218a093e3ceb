# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A thread's function on plain buffers: matrices whose rows lie any distance apart have no type in SPIR-V.

Upstream flattens memrefs of known layout only.

Before: ``f(%a: memref<?x?xf32, strided<[?, 1]>>, ...)``, ``load %a[i, j]``. After::

    f(%a: memref<?xf32>, ..., %sizes: memref<?xi32>)      # extents, then strides, of one operand after the other
    load %a[i * %sizes[2] + j]

Elements are loaded and stored one by one, from shared memory too: SPIR-V has no pointers to vectors in arrays of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.build.index import Index, add, value
from tilewright.codegen.gpu import words
from tilewright.errors import LoweringError
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, vector


@dataclass(frozen=True, slots=True)
class _View:
    """A view of a buffer, of elements or of words: element (i, j, ...) is `start` + the sum of indices times strides."""

    buffer: ir.Value
    element: ir.Type
    start: Index
    extents: tuple[Index, ...]
    strides: tuple[Index, ...]

    def place(self, at: Sequence[Index]) -> Index:
        """Where an element is."""
        place = self.start
        for index, stride in zip(at, self.strides, strict=True):
            place = add(place, _times(index, stride))
        return place


def flatten(function: ir.Operation) -> None:
    """Gives a function, in place, plain buffers for its operands, and one more with their extents and strides.

    Raises:
        LoweringError: An operand is used by an op that is not known here.
    """
    block = function.regions[0].blocks[0]
    with function.context, function.location:
        operands = list(block.arguments)
        views: dict[ir.Value, _View] = {}
        word = ir.IntegerType.get_signless(32)
        sizes = block.add_argument(_buffer(word), function.location)
        with ir.InsertionPoint.at_block_begin(block):
            number = 0
            for operand in operands:
                kind = ir.MemRefType(operand.type)
                held = word if words.is_narrow(kind.element_type) else kind.element_type
                flat = block.add_argument(_buffer(held), function.location)
                known = [
                    arith.index_cast(ir.IndexType.get(), memref.load(sizes, [value(number + each)]))
                    for each in range(2 * kind.rank)
                ]
                number += 2 * kind.rank
                strides, _ = kind.get_strides_and_offset()
                dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
                given = [
                    read if stride == dynamic else stride
                    for stride, read in zip(strides, known[kind.rank :], strict=True)
                ]
                views[operand] = _View(flat, kind.element_type, 0, tuple(known[: kind.rank]), tuple(given))
        flattening = _Flattening(views)
        flattening.block(block)
        flattening.finish()
        for _ in operands:
            block.erase_argument(0)
        inputs = [argument.type for argument in block.arguments]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))


class _Flattening:
    """Rewrites the ops that use operands, or memory at all."""

    def __init__(self, views: dict[ir.Value, _View]) -> None:
        self._views = views
        self._done: list[ir.Operation] = []

    def finish(self) -> None:
        """Erases the views, which nothing uses any longer."""
        for op in reversed(self._done):
            op.erase()

    def block(self, block: ir.Block) -> None:
        """Rewrites the ops of a block, and of those in them."""
        for op in list(block.operations):
            one = op.operation
            for region in one.regions:
                for inner in region.blocks:
                    self.block(inner)
            with one.location, ir.InsertionPoint(one):
                self._rewrite(one)

    def _rewrite(self, op: ir.Operation) -> None:
        match op.name:
            case "memref.subview":
                self._views[op.results[0]] = self._subview(op)
                self._done.append(op)
            case "memref.transpose":
                self._views[op.results[0]] = self._transpose(op)
                self._done.append(op)
            case "memref.dim":
                view = self._views[op.operands[0]]
                axis = op.operands[1].owner.operation.attributes["value"]
                op.results[0].replace_all_uses_with(value(view.extents[ir.IntegerAttr(axis).value]))
                op.erase()
            case "memref.load":
                self._replace(op, [self._load(op.operands[0], list(op.operands)[1:])])
            case "vector.load" | "vector.transfer_read":  # Of a row, all in bounds.
                kind = ir.VectorType(op.results[0].type)
                *outer, last = list(op.operands)[1 : 1 + ir.MemRefType(op.operands[0].type).rank]
                elements = [self._load(op.operands[0], [*outer, add(last, each)]) for each in range(kind.shape[0])]
                self._replace(op, [vector.from_elements(kind, elements)])
            case "memref.store":
                if op.operands[1] in self._views:
                    self._store(op.operands[0], op.operands[1], list(op.operands)[2:])
                    op.erase()
            case "vector.store":
                *outer, last = list(op.operands)[2:]
                for each in range(ir.VectorType(op.operands[0].type).shape[0]):
                    self._store(vector.extract(op.operands[0], [], [each]), op.operands[1], [*outer, add(last, each)])
                op.erase()
            case _ if any(operand in self._views for operand in op.operands):
                raise LoweringError(f"{op.name} of an operand", stage="spirv", expected="loads and stores")

    def _replace(self, op: ir.Operation, results: list[ir.Value]) -> None:
        for old, new in zip(op.results, results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()

    def _load(self, memory: ir.Value, at: Sequence[Index]) -> ir.Value:
        view = self._views.get(memory)
        if view is None:
            return memref.load(memory, [value(each) for each in at])
        if words.is_narrow(view.element):
            return words.load(view.buffer, view.place(at), view.element)
        return memref.load(view.buffer, [value(view.place(at))])

    def _store(self, element: ir.Value, memory: ir.Value, at: Sequence[Index]) -> None:
        view = self._views.get(memory)
        if view is None:
            memref.store(element, memory, [value(each) for each in at])
        elif words.is_narrow(view.element):
            words.store(element, view.buffer, view.place(at))
        else:
            memref.store(element, view.buffer, [value(view.place(at))])

    def _subview(self, op: ir.Operation) -> _View:
        source = self._views[op.operands[0]]
        given = iter(list(op.operands)[1:])
        dynamic = ir.ShapedType.get_dynamic_size()
        unknown = ir.ShapedType.get_dynamic_stride_or_offset()
        offsets = [
            next(given) if each in (dynamic, unknown) else each
            for each in ir.DenseI64ArrayAttr(op.attributes["static_offsets"])
        ]
        extents = [
            next(given) if each in (dynamic, unknown) else each
            for each in ir.DenseI64ArrayAttr(op.attributes["static_sizes"])
        ]
        dropped = len(extents) - ir.MemRefType(op.results[0].type).rank  # Axes of a batch, which come first.
        start, strides = source.place(offsets), source.strides[dropped:]
        return _View(source.buffer, source.element, start, tuple(extents[dropped:]), strides)

    def _transpose(self, op: ir.Operation) -> _View:
        source = self._views[op.operands[0]]
        return _View(source.buffer, source.element, source.start, source.extents[::-1], source.strides[::-1])


def _times(index: Index, stride: Index) -> Index:
    if isinstance(index, int) and isinstance(stride, int):
        return index * stride
    for one, other in ((index, stride), (stride, index)):
        if isinstance(one, int):
            return 0 if one == 0 else other if one == 1 else arith.muli(value(other), value(one))
    return arith.muli(value(index), value(stride))


def _buffer(element: ir.Type) -> ir.MemRefType:
    return ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], element)
