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

from tilewright.build.index import Index, add, mul, value
from tilewright.build.usedef import body, replace, retype
from tilewright.build.views import DYNAMIC, offsets_of, sizes_of
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
            place = add(place, mul(index, stride))
        return place


def flatten(function: ir.Operation) -> None:
    """Gives a function, in place, plain buffers for its operands, and one more with their extents and strides.

    Raises:
        LoweringError: An operand is used by an op that is not known here.
    """
    block = body(function)
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
                read = zip(strides, known[kind.rank :], strict=True)
                given = [each if stride == DYNAMIC else stride for stride, each in read]
                views[operand] = _View(flat, kind.element_type, 0, tuple(known[: kind.rank]), tuple(given))
        flattening = _Flattening(views)
        flattening.block(block)
        flattening.finish()
        for _ in operands:
            block.erase_argument(0)
        retype(function)


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
                replace(op, value(view.extents[ir.IntegerAttr(axis).value]))
            case "memref.load":
                replace(op, self._load(op.operands[0], list(op.operands)[1:]))
            case "vector.load" | "vector.transfer_read":  # Of a row, all in bounds.
                kind = ir.VectorType(op.results[0].type)
                *outer, last = list(op.operands)[1 : 1 + ir.MemRefType(op.operands[0].type).rank]
                elements = [self._load(op.operands[0], [*outer, add(last, each)]) for each in range(kind.shape[0])]
                replace(op, vector.from_elements(kind, elements))
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
        offsets, extents = offsets_of(op), sizes_of(op)
        dropped = len(extents) - ir.MemRefType(op.results[0].type).rank  # Axes of a batch, which come first.
        start, strides = source.place(offsets), source.strides[dropped:]
        return _View(source.buffer, source.element, start, tuple(extents[dropped:]), strides)

    def _transpose(self, op: ir.Operation) -> _View:
        source = self._views[op.operands[0]]
        return _View(source.buffer, source.element, source.start, source.extents[::-1], source.strides[::-1])


def _buffer(element: ir.Type) -> ir.MemRefType:
    return ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], element)
