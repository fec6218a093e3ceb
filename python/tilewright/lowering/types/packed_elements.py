# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands of which two elements share a byte: from here on, a function takes their bytes, and takes elements apart in registers.

Until then the payload and its schedules have them as ``memref<KxNxi4>`` (or f4E2M1FN), as though each had a place of its own.
Upstream's narrow-type emulation wants memrefs without strides, and vectors of whole bytes; rows here may lie any distance apart, and
end within a byte. An element of four bits is a byte in registers: with its sign, without one, or f4E2M1FN's code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.build.affine import half, half_up, is_even, parity
from tilewright.build.constants import constant, element_of
from tilewright.build.index import Index, add, known, value
from tilewright.build.usedef import operations, replace, retype, users
from tilewright.build.views import DYNAMIC, dynamic_of, mixed, offsets_of, sizes_of, static_of
from tilewright.errors import LoweringError
from tilewright.lowering.types.small_floats import from_f4_code
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref, vector
from tilewright.spec import MatmulSpec

_NARROW = re.compile(r"(?:\b|(?<=x))(?:i4|f4E2M1FN)\b")
"""In the text of a type, such as "vector<8xi4>"."""
_OF_PREFETCH = ("isWrite", "localityHint", "isDataCache")


def of(spec: MatmulSpec) -> list[int]:
    """The numbers of the operands of `spec` of which two elements share a byte."""
    return [index for index, each in enumerate(spec.operands) if each.type.packed > 1]


def take_bytes(function: func.FuncOp, spec: MatmulSpec) -> None:
    """Gives a bufferized function those operands as bytes.

    Before: ``matmul(%b: memref<KxNxi4>)``, ``%x = read %b[k, n] : vector<16xi4>``, ``arith.extsi %x``. After::

        matmul(%b: memref<KxceilNxi8>)        two elements a byte, the first one in the low half
        %y = read %b[k, n / 2] : vector<8xi8>
        %x = interleave of the low and the high halves of %y, with their signs : vector<16xi8>
    """
    block = function.entry_block
    with function.context, function.location:
        for index in of(spec):
            operand = spec.operands[index]
            argument = block.arguments[index]
            extent = ir.MemRefType(argument.type).shape[-1]
            uses = users(argument)
            argument.set_type(_bytes(ir.MemRefType(argument.type)))
            halves = _Halves(extent, signed=operand.type.kind == "int")
            for op in uses:
                halves.rewrite(op, argument)
        _to_bytes(function.operation)
        retype(function)


def _bytes(kind: ir.MemRefType) -> ir.MemRefType:
    """The type of the bytes of a buffer of elements of four bits; its rows may be any distance apart, and begin anywhere."""
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    shape = [*kind.shape[:-1], -(-kind.shape[-1] // 2) if kind.shape[-1] >= 0 else kind.shape[-1]]
    strides, offset = kind.get_strides_and_offset()
    layout = ir.StridedLayoutAttr.get(offset and dynamic, [*[dynamic] * (len(strides) - 1), 1])
    return ir.MemRefType.get(shape, ir.IntegerType.get_signless(8), layout, kind.memory_space)


class _Halves:
    """Rewrites what uses an operand, or a slice of it.

    Attributes:
        extent: Elements of a row of it.
    """

    def __init__(self, extent: Index, *, signed: bool, odd: Index = 0, lone: bool = False) -> None:
        """Takes more of the slice.

        Args:
            extent: As above.
            signed: Whether elements have a sign.
            odd: How many elements of its first byte are none of the slice's, where that may be 1.
            lone: Whether it lacks the dimension along which elements share bytes, having one of each row.
        """
        self.extent = extent
        self._signed = signed
        self._odd = odd
        self._lone = lone

    def rewrite(self, op: ir.Operation, source: ir.Value) -> None:
        """Rewrites an op that reads `source`.

        Raises:
            LoweringError: It is of a kind that is not known here.
        """
        with ir.InsertionPoint(op), op.location:
            if op.name == "vector.transfer_read" and _is_words(op):
                self._words(op, source)
            elif op.name == "vector.transfer_read":
                op.results[0].replace_all_uses_with(self._vector(op, source))
            elif op.name == "memref.load":
                op.results[0].replace_all_uses_with(self._scalar(op, source))
            elif op.name == "memref.dim":
                op.results[0].replace_all_uses_with(self._extent(op, source))
            elif op.name == "memref.prefetch" and not self._lone:
                *rows, column = list(op.operands)[1:]
                at = [*rows, value(half(self._from_start(column)))]
                memref.PrefetchOp(source, at, *(op.attributes[each] for each in _OF_PREFETCH))
            elif op.name == "memref.subview":
                self._slice(op, source)
            elif op.name == "memref.transpose":
                self._transposed(op, source)
            else:
                raise LoweringError(f"{op.name} of elements of four bits", stage="bufferized")
        op.erase()

    def _extent(self, op: ir.Operation, source: ir.Value) -> ir.Value:
        if self._lone or known(op.operands[1]) != ir.MemRefType(source.type).rank - 1:
            return memref.dim(source, op.operands[1])
        return value(self.extent)

    def _scalar(self, op: ir.Operation, source: ir.Value) -> ir.Value:
        if self._lone:
            return self._with_sign(_half(memref.load(source, list(op.operands)[1:]), self._odd))
        *rows, column = list(op.operands)[1:]
        column = self._from_start(column)
        return self._with_sign(_half(memref.load(source, [*rows, value(half(column))]), value(column)))

    def _transposed(self, op: ir.Operation, source: ir.Value) -> None:
        """Lets loads of single elements of a transposed view, and prefetches, be of what it is of."""
        order = [
            ir.AffineDimExpr(each).position for each in ir.AffineMapAttr(op.attributes["permutation"]).value.results
        ]
        for load in users(op.results[0]):
            if load.name == "memref.dim":
                with ir.InsertionPoint(load), load.location:
                    load.operands[1] = value(order[known(load.operands[1]) or 0])
                load.operands[0] = source
                self.rewrite(load, source)
                continue
            if load.name not in ("memref.load", "memref.prefetch"):
                raise LoweringError(f"{load.name} of transposed elements of four bits", stage="bufferized")
            given = list(load.operands)[1:]
            given = [given[order.index(axis)] for axis in range(len(order))]
            with ir.InsertionPoint(load), load.location:
                if load.name == "memref.prefetch":
                    direct = memref.PrefetchOp(source, given, *(load.attributes[each] for each in _OF_PREFETCH))
                    load.erase()
                else:
                    direct = memref.LoadOp(source, given)
                    replace(load, direct.result)
            self.rewrite(direct.operation, source)

    def _slice(self, op: ir.Operation, source: ir.Value) -> None:
        slice_ = op.opview
        assert isinstance(slice_, memref.SubViewOp), "as its name says"
        offsets, sizes = offsets_of(op), sizes_of(op)
        strides = mixed(op.attributes["static_strides"], slice_.strides)
        kind = ir.MemRefType(op.results[0].type)
        apart = not kind.rank or kind.get_strides_and_offset()[0][-1] != 1
        lone = apart and sizes[-1] == 1 and kind.rank < ir.MemRefType(source.type).rank
        if self._lone or strides[-1] != 1 or (apart and not lone):
            raise LoweringError("a slice of every other element of four bits", stage="bufferized")
        first = self._from_start(offsets[-1])
        odd = 0 if is_even(first) else parity(first)
        extent = sizes[-1]
        offsets[-1], sizes[-1] = half(first), half_up(add(extent, odd))
        shape, steps = list(kind.shape), [DYNAMIC] * kind.rank
        if not lone:
            (shape[-1],), steps[-1] = static_of(sizes[-1:]), 1
        layout = ir.StridedLayoutAttr.get(DYNAMIC, steps)
        made = ir.MemRefType.get(shape, ir.IntegerType.get_signless(8), layout, kind.memory_space)
        given = offsets, sizes, strides
        attributes = [ir.DenseI64ArrayAttr.get(static_of(each)) for each in given]
        view = memref.SubViewOp(made, source, *map(dynamic_of, given), *attributes).result
        inner = _Halves(extent, signed=self._signed, odd=odd, lone=lone)
        for each in users(op.results[0]):
            inner.rewrite(each, view)

    def _words(self, op: ir.Operation, source: ir.Value) -> None:
        """Reads bytes in place of elements that are only taken as words, each of several of them."""
        read = op.opview
        assert isinstance(read, vector.TransferReadOp), "as its name says"
        *rows, first = read.indices
        first = self._from_start(first)
        width = ir.VectorType(read.vector.type).shape[-1]
        if not is_even(first) or width % 2:
            raise LoweringError("words that begin within a byte", stage="bufferized")
        bytes_ = _bytes_of(op, source, [*rows, half(first)], [width // 2])
        for use in list(op.results[0].uses):
            use.owner.operation.operands[0] = bytes_

    def _vector(self, op: ir.Operation, source: ir.Value) -> ir.Value:
        read = op.opview
        assert isinstance(read, vector.TransferReadOp), "as its name says"
        if read.mask is not None:
            raise LoweringError("elements of four bits under a mask", stage="bufferized")
        kind, at = ir.VectorType(read.vector.type), list(read.indices)
        if self._lone:
            return self._with_sign(_half(_bytes_of(op, source, at, kind.shape), self._odd))
        order = ir.AffineMapAttr(op.attributes["permutation_map"]).value
        last = ir.AffineDimExpr.get(order.n_dims - 1)
        first = self._from_start(at[-1])
        at[-1] = half(first)
        along = [axis for axis, each in enumerate(order.results) if each == last]
        if not along:
            return self._with_sign(_half(_bytes_of(op, source, at, kind.shape), value(first)))
        if along != [kind.rank - 1]:
            raise LoweringError("a vector across elements that share bytes", stage="bufferized")
        width, even = kind.shape[-1], is_even(first)
        # One byte more, where the first element may be in the upper half of one.
        count = -(-width // 2) if even else width // 2 + 1
        bytes_ = _bytes_of(op, source, at, [*kind.shape[:-1], count])
        codes = vector.interleave(
            arith.andi(bytes_, constant(bytes_.type, 15)), arith.shrui(bytes_, constant(bytes_.type, 4))
        )
        whole = _part(codes, 0, width)
        if not even:
            whole = arith.select(_is_one(value(first)), _part(codes, 1, width), whole)
        elements = self._with_sign(whole)
        in_bounds = ir.BoolAttr(list(ir.ArrayAttr(op.attributes["in_bounds"]))[-1]).value
        if not in_bounds and not (isinstance(self.extent, int) and self.extent % 2 == 0):
            elements = self._within(elements, list(read.indices)[-1])
        return elements

    def _within(self, elements: ir.Value, first: ir.Value) -> ir.Value:
        """Zeros in place of what shares a byte with the last element, and is none."""
        kind = ir.VectorType(elements.type)
        left = arith.subi(value(self.extent), first)
        sizes = [value(each) for each in kind.shape[:-1]]
        mask = vector.create_mask(ir.VectorType.get(kind.shape, ir.IntegerType.get_signless(1)), [*sizes, left])
        return arith.select(mask, elements, constant(kind, 0))

    def _with_sign(self, codes: ir.Value) -> ir.Value:
        if not self._signed:
            return codes
        return arith.subi(arith.xori(codes, constant(codes.type, 8)), constant(codes.type, 8))

    def _from_start(self, column: Index) -> Index:
        """A column, counted from where the bytes begin."""
        return add(column, self._odd)


def _is_words(op: ir.Operation) -> bool:
    """Whether a vector that is read is only taken as words."""
    users = [use.owner.operation.name for use in op.results[0].uses]
    return bool(users) and set(users) == {"vector.bitcast"}


def _is_one(index: ir.Value) -> ir.Value:
    """Whether an index is odd."""
    return arith.trunci(ir.IntegerType.get_signless(1), arith.index_cast(ir.IntegerType.get_signless(32), index))


def _half(bytes_: ir.Value, index: Index) -> ir.Value:
    """Of each byte the element whose number is odd as `index` is."""
    low = arith.andi(bytes_, constant(bytes_.type, 15))
    if index == 0:
        return low
    return arith.select(_is_one(value(index)), arith.shrui(bytes_, constant(bytes_.type, 4)), low)


def _bytes_of(op: ir.Operation, source: ir.Value, at: Sequence[Index], shape: Sequence[int]) -> ir.Value:
    """What `op` reads, from the byte at `at` on."""
    i8 = ir.IntegerType.get_signless(8)
    in_bounds = [ir.BoolAttr(each).value for each in ir.ArrayAttr(op.attributes["in_bounds"])]
    kind, order = ir.VectorType.get(list(shape), i8), op.attributes["permutation_map"]
    return vector.TransferReadOp(kind, source, [value(each) for each in at], order, constant(i8, 0), in_bounds).result


def _part(codes: ir.Value, start: int, width: int) -> ir.Value:
    """The elements of the last dimension from `start` on."""
    kind = ir.VectorType(codes.type)
    if start == 0 and kind.shape[-1] == width:
        return codes
    sizes = [*kind.shape[:-1], width]
    return vector.extract_strided_slice(
        ir.VectorType.get(sizes, kind.element_type), codes, [*[0] * (kind.rank - 1), start], sizes, [1] * kind.rank
    )


def _to_bytes(function: ir.Operation) -> None:
    """Makes all that is left of elements of four bits in `function` the bytes that they are in registers."""
    for op in operations(function):
        name = op.name
        if name in ("arith.extsi", "arith.extui", "arith.extf") and _NARROW.search(str(op.operands[0].type)):
            continue
        if name == "arith.constant" and _NARROW.search(str(op.results[0].type)):
            with ir.InsertionPoint(op), op.location:
                replace(op, constant(_as_byte(op.results[0].type), 0))
            continue
        values = [*op.results, *(x for region in op.regions for block in region.blocks for x in block.arguments)]
        for each in values:
            if _NARROW.search(str(each.type)):
                each.set_type(_as_byte(each.type))
    for op in operations(function):
        if op.name in ("arith.extsi", "arith.extui") and op.operands[0].type == op.results[0].type:
            replace(op, op.operands[0])
        elif op.name == "arith.extf" and isinstance(element_of(op.operands[0]), ir.IntegerType):
            with ir.InsertionPoint(op), op.location:
                replace(op, from_f4_code(op.operands[0], op.results[0].type))


def _as_byte(kind: ir.Type) -> ir.Type:
    return ir.Type.parse(_NARROW.sub("i8", str(kind)), kind.context)
