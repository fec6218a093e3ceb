# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A depthwise convolution of images in NHWC: no product of matrices, but one of vectors of channels for each element of the filter.

Upstream's ``linalg.depthwise_conv_2d_nhwc_hwc`` takes an image whose padding is there, which would be a copy of it: here a
pixel whose patch lies inside of the image reads it as it is, and others ask for each element of the filter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tilewright.build.constants import zero
from tilewright.build.index import Number, add, less, mul, value
from tilewright.build.loops import if_else
from tilewright.lowering import run, short_runs
from tilewright.lowering.patch_layout import Patches
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, linalg, memref, scf, vector
from tilewright.mlir.dialects.transform import structured
from tilewright.operator_specs.conv2d import Conv2dSpec
from tilewright.payload import elementwise
from tilewright.schedules import steps
from tilewright.spec import MatmulSpec

_CONTRACT = "#arith.fastmath<contract>"
"""Lets a multiplication and an addition be one instruction, where there is one."""


def written_out(spec: Conv2dSpec, patches: Patches, lanes: int, context: ir.Context) -> ir.Module:
    """Builds the function of the convolution on memrefs.

    Its loops, of which those over the filter are unrolled::

        for image, i, j in the result:
          for c in 0..channels step L:
            acc = 0
            for u, v in the filter: acc += x[image, i·s + u·d - p, j·s + v·d - p, c:c+L] * w[u, v, c:c+L]
            y[image, i, j, c:c+L] = epilogue(acc)

    Args:
        spec: What is computed: as many groups as channels, of the images and of the result.
        patches: Of all channels.
        lanes: Elements of a vector of sums.
        context: Where.
    """
    with context, ir.Location.name(str(spec)):
        module = ir.Module.create()
        operands = (*spec.operands, spec.result)
        types = [_compact(each.shape, ir.Type.parse(each.type.mlir)) for each in operands]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp(spec.operator, ir.FunctionType.get(types, []))
        with ir.InsertionPoint(function.add_entry_block()):
            flat = [_row_of(value, prod(each.shape)) for value, each in zip(function.arguments, operands, strict=True)]
            _Loops(spec, patches, flat).build(lanes)
            func.ReturnOp([])
        with steps.script() as script:
            structured.VectorizeChildrenAndApplyPatternsOp(script.functions)
        run.run_own_script(module, script.module, "bufferized")
    return module


def _compact(shape: Sequence[int], element: ir.Type) -> ir.Type:
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return ir.MemRefType.get(list(shape), element, ir.StridedLayoutAttr.get(0, strides))


def _row_of(value: ir.Value, size: int) -> ir.Value:
    """An operand as one row of elements."""
    kind = ir.MemRefType.get([size], ir.MemRefType(value.type).element_type)
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get([0]),
        "static_sizes": ir.DenseI64ArrayAttr.get([size]),
        "static_strides": ir.DenseI64ArrayAttr.get([1]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0, 0]),
    }
    return ir.Operation.create(
        "memref.reinterpret_cast", results=[kind], operands=[value], attributes=attributes
    ).results[0]


def _loop(count: int, step: int, body: Callable[[ir.Value], None]) -> None:
    """A loop over the multiples of `step` below `count`."""
    index = ir.IndexType.get()
    bounds = [arith.constant(index, each) for each in (0, count, step)]
    loop = scf.ForOp(bounds[0], bounds[1], bounds[2])
    with ir.InsertionPoint(loop.body):
        body(loop.induction_variable)
        scf.YieldOp([])


class _Loops:
    """Builds the loops."""

    def __init__(self, spec: Conv2dSpec, patches: Patches, flat: Sequence[ir.Value]) -> None:
        self._spec = spec
        self._product: MatmulSpec = spec.product
        self._patches = patches
        self._x, self._w, *self._further, self._out = flat

    def build(self, lanes: int) -> None:
        """Builds them at the current insertion point, for vectors of so many elements."""
        spec, sums = self._spec, ir.Type.parse(self._product.acc_type.mlir)
        whole, rest = spec.oc // lanes * lanes, spec.oc % lanes
        scratch = {
            size: memref.alloca(ir.MemRefType.get([size], sums), [], [])
            for size in {lanes, rest}
            if 0 < size <= spec.oc
        }

        def pixel(at: ir.Value) -> None:
            image, top, left = self._patches.places(at)

            def channels(*, checked: bool) -> None:
                taps = self._taps(image, top, left, checked=checked)
                if whole:
                    _loop(whole, lanes, lambda c: self._channels(at, c, taps, scratch[lanes]))
                if rest:
                    self._channels(at, whole, taps, scratch[rest])

            inside = short_runs.all_inside(at, top, left, self._patches)
            if_else(inside, lambda: channels(checked=False), lambda: channels(checked=True))

        _loop(spec.pixels, 1, pixel)

    def _taps(
        self, image: Number, top: Number, left: Number, *, checked: bool
    ) -> Sequence[tuple[Number, ir.Value | None]]:
        """For each element of the filter, where its channels start in the images, and whether it is inside of one where that is asked."""
        found: list[tuple[Number, ir.Value | None]] = []
        first = self._patches.offset(image, top, left, 0)
        for down in range(self._spec.kh):
            for right in range(self._spec.kw):
                steps_ = down * self._spec.dilation[0], right * self._spec.dilation[1]
                start = add(first, self._patches.offset(0, *steps_, 0))
                if not checked:
                    found.append((start, None))
                    continue
                places = zip((top, left), steps_, self._patches.extents, strict=True)
                inside = arith.andi(*(less(add(at, step), end) for at, step, end in places))
                found.append((arith.select(inside, value(start), value(0)), inside))
        return found

    def _channels(
        self, pixel: ir.Value, c: Number, taps: Sequence[tuple[Number, ir.Value | None]], scratch: ir.Value
    ) -> None:
        """The sums of some channels of one pixel, and what the epilogue makes of them."""
        product, spec = self._product, self._spec
        size = ir.MemRefType(scratch.type).shape[0]
        sums = ir.VectorType.get([size], ir.MemRefType(scratch.type).element_type)
        total = zero(sums)
        for number, (start, inside) in enumerate(taps):
            given = self._read(self._x, add(start, c), size)
            if inside is not None:
                given = arith.select(inside, given, zero(ir.VectorType(given.type)))
            weight = self._read(self._w, add(number * spec.oc, c), size)
            wide = [
                _widened(value, element.kind, sums)
                for value, element in ((given, product.a_type), (weight, product.b_type))
            ]
            total = _added(total, *wide)
        index = value(0)
        vector.transfer_write(None, total, scratch, [index], ir.AffineMap.get_identity(1), [True])
        self._finish(scratch, add(mul(pixel, spec.oc), c), c)

    def _read(self, flat: ir.Value, start: Number, size: int) -> ir.Value:
        return vector.load(ir.VectorType.get([size], ir.MemRefType(flat.type).element_type), flat, [value(start)])

    def _finish(self, scratch: ir.Value, place: Number, c: Number) -> None:
        """Writes what the epilogue makes of the sums in `scratch` to the result from `place` on."""
        product, size = self._product, ir.MemRefType(scratch.type).shape[0]
        starts = {"n": c, "mn": place, "": 0}
        given = [
            _part(flat, starts[each.axes], 1 if each.axes == "" else size)
            for flat, each in zip(self._further, product.further, strict=True)
        ]
        maps = [
            "affine_map<(d0) -> (0)>" if each.axes == "" else "affine_map<(d0) -> (d0)>" for each in product.further
        ]
        identity = "affine_map<(d0) -> (d0)>"
        out = _part(self._out, place, size)
        made = linalg.GenericOp(
            [],
            [scratch, *given],
            [out],
            ir.ArrayAttr.get([ir.Attribute.parse(each) for each in (identity, *maps, identity)]),
            ir.ArrayAttr.get([ir.Attribute.parse("#linalg.iterator_type<parallel>")]),
        )
        elements = [ir.MemRefType(value.type).element_type for value in (scratch, *given, out)]
        with ir.InsertionPoint(ir.Block.create_at_start(made.regions[0], elements)):
            total, *others, _ = made.regions[0].blocks[0].arguments
            chain = product.chain
            result = elementwise.apply(chain, total, others)
            linalg.YieldOp([elementwise.converted(result, chain.result, product.c_type.name, chain.compute)])


def _part(flat: ir.Value, start: Number, size: int) -> ir.Value:
    """Elements of a row of elements."""
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    kind = ir.MemRefType.get([size], ir.MemRefType(flat.type).element_type, ir.StridedLayoutAttr.get(dynamic, [1]))
    return memref.SubViewOp(
        kind,
        flat,
        [value(start)],
        [],
        [],
        ir.DenseI64ArrayAttr.get([ir.ShapedType.get_dynamic_size()]),
        ir.DenseI64ArrayAttr.get([size]),
        ir.DenseI64ArrayAttr.get([1]),
    ).result


def _widened(value: ir.Value, kind: str, sums: ir.VectorType) -> ir.Value:
    """A vector of elements in the type of the sums."""
    if value.type == sums:
        return value
    return {"float": arith.extf, "int": arith.extsi, "uint": arith.extui}[kind](sums, value)


def _added(total: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """The sum with the product of x and y added."""
    if isinstance(ir.VectorType(total.type).element_type, ir.IntegerType):
        return arith.addi(total, arith.muli(x, y))
    fused = ir.Attribute.parse(_CONTRACT)
    return arith.addf(total, arith.mulf(x, y, fastmath=fused), fastmath=fused)
