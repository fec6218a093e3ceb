# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands of which two elements share a byte: from here on, a function takes their bytes, and takes elements apart in registers.

Until then the payload and its schedules have them as ``memref<KxNxi4>`` (or f4E2M1FN), as though each had a place of its own.
Upstream's narrow-type emulation wants memrefs without strides, and vectors of whole bytes; rows here may lie any distance apart, and
end within a byte. An element of four bits is a byte in registers: with its sign, without one, or f4E2M1FN's code.
"""

from __future__ import annotations

import re

from tilewright.errors import LoweringError
from tilewright.lowering.small_floats import element_of, from_f4_code, operations
from tilewright.mlir import ir
from tilewright.mlir.dialects import affine, arith, func, memref, vector
from tilewright.spec import MatmulSpec

_NARROW = re.compile(r"(?:\b|(?<=x))(?:i4|f4E2M1FN)\b")
"""In the text of a type, such as "vector<8xi4>"."""


def of(spec: MatmulSpec) -> list[int]:
    """The numbers of the operands of `spec` of which two elements share a byte."""
    return [index for index, each in enumerate(spec.operands) if each.type.packed > 1]


def take_bytes(function: func.FuncOp, spec: MatmulSpec) -> None:
    """Gives a bufferised function those operands as bytes.

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
            uses = [use.owner.operation for use in argument.uses]
            argument.set_type(_bytes(ir.MemRefType(argument.type)))
            halves = _Halves(extent, signed=operand.type.kind == "int")
            for op in uses:
                halves.rewrite(op, argument)
        _retype(function.operation)
        inputs = [argument.type for argument in block.arguments]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, function.type.results))


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
        extent: Elements of a row of it, or a value that tells how many there are.
    """

    def __init__(self, extent: int | ir.Value, *, signed: bool, odd: ir.Value | None = None) -> None:
        """Takes, beside, whether elements have a sign, and how many elements of the first byte are none of the slice's: 0, or a value."""
        self.extent = extent
        self._signed = signed
        self._odd = odd

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
            elif op.name == "memref.subview":
                self._slice(op, source)
            else:
                raise LoweringError(f"{op.name} of elements of four bits", stage="bufferized")
        op.erase()

    def _scalar(self, op: ir.Operation, source: ir.Value) -> ir.Value:
        *rows, column = list(op.operands)[1:]
        column = self._from_start(column)
        byte = memref.load(source, [*rows, _apply(column, lambda d: ir.AffineExpr.get_floor_div(d, 2))])
        i8 = byte.type
        high = arith.shrui(byte, _splat(i8, 4))
        is_high = arith.trunci(
            ir.IntegerType.get_signless(1), arith.index_cast(ir.IntegerType.get_signless(32), column)
        )
        return self._with_sign(arith.andi(arith.select(is_high, high, byte), _splat(i8, 15)))

    def _slice(self, op: ir.Operation, source: ir.Value) -> None:
        slice_ = op.opview
        assert isinstance(slice_, memref.SubViewOp), "as its name says"
        offsets, sizes, strides = (
            _mixed(ir.DenseI64ArrayAttr(op.attributes[f"static_{what}"]), values)
            for what, values in (("offsets", slice_.offsets), ("sizes", slice_.sizes), ("strides", slice_.strides))
        )
        kind = ir.MemRefType(op.results[0].type)
        if strides[-1] != 1 or kind.get_strides_and_offset()[0][-1] != 1:
            raise LoweringError("every other element of four bits", stage="bufferized")
        first = self._from_start(offsets[-1])
        odd = None if _is_even(first) else _apply(first, lambda d: ir.AffineExpr.get_mod(d, 2))
        extent = sizes[-1]
        known = isinstance(extent, int)
        bytes_ = -(-(extent + (odd is not None)) // 2) if known else _apply(_plus(extent, odd), _half_up)
        offsets[-1] = _apply(first, lambda d: ir.AffineExpr.get_floor_div(d, 2))
        sizes[-1] = bytes_
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        shape = [*kind.shape[:-1], bytes_ if known else ir.ShapedType.get_dynamic_size()]
        layout = ir.StridedLayoutAttr.get(dynamic, [*[dynamic] * (kind.rank - 1), 1])
        made = ir.MemRefType.get(shape, ir.IntegerType.get_signless(8), layout, kind.memory_space)
        arguments, attributes = [], []
        for values in (offsets, sizes, strides):
            arguments.append([each for each in values if isinstance(each, ir.Value)])
            attributes.append(ir.DenseI64ArrayAttr.get([each if isinstance(each, int) else dynamic for each in values]))
        view = memref.SubViewOp(made, source, *arguments, *attributes).result
        inner = _Halves(extent, signed=self._signed, odd=odd)
        for each in [use.owner.operation for use in op.results[0].uses]:
            inner.rewrite(each, view)

    def _words(self, op: ir.Operation, source: ir.Value) -> None:
        """Reads bytes in place of elements that are only taken as words, each of several of them."""
        read = op.opview
        assert isinstance(read, vector.TransferReadOp), "as its name says"
        *rows, first = read.indices
        first = self._from_start(first)
        width = ir.VectorType(read.vector.type).shape[-1]
        if not _is_even(first) or width % 2:
            raise LoweringError("words that begin within a byte", stage="bufferized")
        i8 = ir.IntegerType.get_signless(8)
        at = [*rows, _apply(first, lambda d: ir.AffineExpr.get_floor_div(d, 2))]
        order, in_bounds = op.attributes["permutation_map"], op.attributes["in_bounds"]
        bytes_ = vector.TransferReadOp(
            ir.VectorType.get([width // 2], i8), source, at, order, _splat(i8, 0), in_bounds
        ).result
        for use in list(op.results[0].uses):
            use.owner.operation.operands[0] = bytes_

    def _vector(self, op: ir.Operation, source: ir.Value) -> ir.Value:
        read = op.opview
        assert isinstance(read, vector.TransferReadOp), "as its name says"
        if read.mask is not None:
            raise LoweringError("elements of four bits under a mask", stage="bufferized")
        kind = ir.VectorType(read.vector.type)
        order = ir.AffineMapAttr(op.attributes["permutation_map"]).value
        in_bounds = [ir.BoolAttr(each).value for each in ir.ArrayAttr(op.attributes["in_bounds"])]
        last = ir.AffineDimExpr.get(order.n_dims - 1)
        *rows, first = read.indices
        first = self._from_start(first)
        i8 = ir.IntegerType.get_signless(8)
        even = _is_even(first)
        at = [*rows, _apply(first, lambda d: ir.AffineExpr.get_floor_div(d, 2))]
        along = [axis for axis, each in enumerate(order.results) if each == last]
        if along and along != [kind.rank - 1]:
            raise LoweringError("a vector across elements that share bytes", stage="bufferized")
        width = kind.shape[-1] if along else 1
        # One byte more, where the first element may be in the upper half of one.
        count = -(-width // 2) if even else width // 2 + 1
        shape = [*kind.shape[:-1], count] if along else list(kind.shape)
        bytes_ = vector.TransferReadOp(
            ir.VectorType.get(shape, i8), source, at, op.attributes["permutation_map"], _splat(i8, 0), in_bounds
        ).result
        low, high = arith.andi(bytes_, _splat(bytes_.type, 15)), arith.shrui(bytes_, _splat(bytes_.type, 4))
        if even and along and width % 2 == 0:
            _take_bits(op.results[0], bytes_)
        codes = vector.interleave(low, high) if along else low
        upper = (
            None
            if even
            else arith.trunci(
                ir.IntegerType.get_signless(1),
                arith.index_cast(ir.IntegerType.get_signless(32), first),
            )
        )
        if along:
            whole = _part(codes, 0, width)
            whole = whole if upper is None else arith.select(upper, _part(codes, 1, width), whole)
        else:
            whole = codes if upper is None else arith.select(upper, high, codes)
        elements = self._with_sign(whole)
        if along and not in_bounds[-1] and not (isinstance(self.extent, int) and self.extent % 2 == 0):
            elements = self._within(elements, read.indices[len(read.indices) - 1])
        return elements

    def _within(self, elements: ir.Value, first: ir.Value) -> ir.Value:
        """Zeros in place of what shares a byte with the last element, and is none."""
        kind = ir.VectorType(elements.type)
        extent = self.extent if isinstance(self.extent, ir.Value) else arith.constant(ir.IndexType.get(), self.extent)
        left = arith.subi(extent, first)
        sizes = [arith.constant(ir.IndexType.get(), each) for each in kind.shape[:-1]]
        mask = vector.create_mask(ir.VectorType.get(kind.shape, ir.IntegerType.get_signless(1)), [*sizes, left])
        return arith.select(mask, elements, _splat(kind, 0))

    def _with_sign(self, codes: ir.Value) -> ir.Value:
        if not self._signed:
            return codes
        return arith.subi(arith.xori(codes, _splat(codes.type, 8)), _splat(codes.type, 8))

    def _from_start(self, column: int | ir.Value) -> int | ir.Value:
        """A column, counted from where the bytes begin."""
        return column if self._odd is None else _plus(column, self._odd)


def _take_bits(elements: ir.Value, bytes_: ir.Value) -> None:
    """Lets what takes elements for bits alone take their bytes."""
    for op in [use.owner.operation for use in elements.uses]:
        if op.name == "vector.bitcast":
            with ir.InsertionPoint.after(bytes_.owner), op.location:
                op.results[0].replace_all_uses_with(vector.bitcast(op.results[0].type, bytes_))
            op.erase()


def _is_words(op: ir.Operation) -> bool:
    """Whether a vector that is read is only taken as words."""
    users = [use.owner.operation.name for use in op.results[0].uses]
    return bool(users) and set(users) == {"vector.bitcast"}


def _mixed(static: ir.DenseI64ArrayAttr, dynamic: ir.OpOperandList) -> list[int | ir.Value]:
    """Numbers, of which those that are not known are values."""
    given = iter(dynamic)
    unknown = ir.ShapedType.get_dynamic_size()
    return [next(given) if each == unknown else each for each in static]


def _half_up(size: ir.AffineExpr) -> ir.AffineExpr:
    return ir.AffineExpr.get_ceil_div(size, 2)


def _apply(value, expression):
    """An expression of an index."""
    if isinstance(value, int):
        folded = ir.AffineMap.get(0, 0, [expression(ir.AffineExpr.get_constant(value))]).results[0]
        return ir.AffineConstantExpr(folded).value
    made = expression(ir.AffineDimExpr.get(0))
    return affine.AffineApplyOp(ir.AffineMap.get(1, 0, [made]), [value]).result


def _plus(x, y):
    if y is None:
        return x
    x = arith.constant(ir.IndexType.get(), x) if isinstance(x, int) else x
    return arith.addi(x, y)


def _splat(kind: ir.Type, value: int) -> ir.Value:
    if not isinstance(kind, ir.VectorType):
        return arith.constant(kind, value)
    number = ir.IntegerAttr.get(ir.VectorType(kind).element_type, value)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, number))


def _part(codes: ir.Value, start: int, width: int) -> ir.Value:
    """The elements of the last dimension from `start` on."""
    kind = ir.VectorType(codes.type)
    if start == 0 and kind.shape[-1] == width:
        return codes
    sizes = [*kind.shape[:-1], width]
    return vector.extract_strided_slice(
        ir.VectorType.get(sizes, kind.element_type), codes, [*[0] * (kind.rank - 1), start], sizes, [1] * kind.rank
    )


def _is_even(index: int | ir.Value) -> bool:
    """Whether an index is even, as far as constants, loops and expressions show."""
    if isinstance(index, int):
        return index % 2 == 0
    owner = index.owner
    if isinstance(owner, ir.Block):
        loop = owner.owner
        if loop.name != "scf.for" or ir.BlockArgument(index).arg_number != 0:
            return False
        lower, _, step = list(loop.operands)[:3]
        return _is_even(lower) and _is_even(step)
    op = owner.operation if not isinstance(owner, ir.Operation) else owner
    if op.name == "arith.constant":
        return ir.IntegerAttr(op.attributes["value"]).value % 2 == 0
    if op.name == "affine.apply":
        order = ir.AffineMapAttr(op.attributes["map"]).value
        evens = [_is_even(each) for each in op.operands]
        return _is_even_expression(order.results[0], evens[: order.n_dims], evens[order.n_dims :])
    if op.name in ("arith.addi", "arith.subi"):
        return all(_is_even(each) for each in op.operands)
    return op.name == "arith.muli" and any(_is_even(each) for each in op.operands)


def _is_even_expression(expression: ir.AffineExpr, dims: list[bool], symbols: list[bool]) -> bool:
    if isinstance(expression, ir.AffineConstantExpr):
        return expression.value % 2 == 0
    if isinstance(expression, ir.AffineDimExpr):
        return dims[expression.position]
    if isinstance(expression, ir.AffineSymbolExpr):
        return symbols[expression.position]
    parts = [_is_even_expression(each, dims, symbols) for each in (expression.lhs, expression.rhs)]
    if isinstance(expression, ir.AffineMulExpr):
        return any(parts)
    return isinstance(expression, (ir.AffineAddExpr, ir.AffineModExpr)) and all(parts)


def _retype(function: ir.Operation) -> None:
    """Makes all that is left of elements of four bits in `function` the bytes that they are in registers."""
    for op in operations(function):
        name = op.name
        if name in ("arith.extsi", "arith.extui", "arith.extf") and _NARROW.search(str(op.operands[0].type)):
            continue
        if name == "arith.constant" and _NARROW.search(str(op.results[0].type)):
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(_splat(_as_byte(op.results[0].type), 0))
            op.erase()
            continue
        values = [*op.results, *(x for region in op.regions for block in region.blocks for x in block.arguments)]
        for value in values:
            if _NARROW.search(str(value.type)):
                value.set_type(_as_byte(value.type))
    for op in operations(function):
        if op.name in ("arith.extsi", "arith.extui") and op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
        elif op.name == "arith.extf" and isinstance(element_of(op.operands[0]), ir.IntegerType):
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(from_f4_code(op.operands[0], op.results[0].type))
            op.erase()


def _as_byte(kind: ir.Type) -> ir.Type:
    return ir.Type.parse(_NARROW.sub("i8", str(kind)), kind.context)
