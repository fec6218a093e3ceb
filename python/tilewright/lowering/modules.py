# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lowers what stands between the products of a module, and calls the products: they are functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.build.index import value as index_value
from tilewright.build.usedef import operations
from tilewright.build.views import metadata, reinterpreted
from tilewright.dims import Dim, Extent
from tilewright.errors import LoweringError
from tilewright.lowering import pipelines, run
from tilewright.lowering.entries import entry
from tilewright.lowering.passes import dynamic_reshapes, dynamic_workspace, narrow_stores, workspace
from tilewright.lowering.types import half_floats, math_functions, small_floats
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright
from tilewright.mlir.dialects import func, memref, transform
from tilewright.mlir.dialects.transform import structured, vector
from tilewright.payload.modules.chains import PACKS
from tilewright.payload.modules.open_extents import shaped
from tilewright.payload.modules.places import ORDERS, STAND_IN
from tilewright.payload.packing import HEADER_BYTES, PackedFormat
from tilewright.schedules import steps
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

TIDY = "builtin.module(canonicalize, cse)"
"""Before anything is looked at: indices become numbers, what nothing uses goes."""
RESOLVE = "builtin.module(scf-for-loop-canonicalization, resolve-shaped-type-result-dims, canonicalize, cse)"
"""Dynamic extents become those of arguments, so that scratch memory can be asked for before all."""
GENERIC = "builtin.module(convert-elementwise-to-linalg, linalg-generalize-named-ops, canonicalize, cse)"
"""One form for all ops."""
FUSE = """builtin.module(
    linalg-inline-scalar-operands, linalg-fuse-elementwise-ops, canonicalize, cse, linalg-fuse-elementwise-ops, canonicalize, cse
)"""
"""What is elementwise becomes one op, where each result has one use."""
_WIDEN = """builtin.module(func.func(
    math-extend-to-supported-types, arith-emulate-unsupported-floats{source-types=bf16,f16 target-type=f32}, canonicalize, cse
))"""
"""16-bit floats are computed with in f32, and rounded after each operation."""
_TO_LLVM = pipelines.TO_LLVM.replace(
    "convert-vector-to-llvm,", "convert-vector-to-llvm{reassociate-fp-reductions=true},"
)
"""Linalg says nothing of the order in which a reduction adds up, so that the elements of a vector are added in a tree."""
_HOIST = "builtin.module(func.func(buffer-loop-hoisting))"
"""Buffers of what is computed in loops stand before them."""
_INTERNAL = "#llvm.linkage<internal>"
_NATIVE_MATH = frozenset(
    f"math.{each}"
    for each in (
        *("absf", "absi", "ceil", "copysign", "ctlz", "cttz", "ctpop", "floor"),
        *("fma", "round", "roundeven", "rsqrt", "sqrt", "trunc"),
    )
)
"""Functions that processors have; others, as far as `math_functions` does not write them out, are the C library's."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product that was lowered.

    Attributes:
        spec: What it computes.
        bodies: Its module in the LLVM dialect, whose function is called `entry.BODY`, and how many bytes of scratch memory that
            takes; those of each kernel of `plan`, if it has one. Where B comes packed, another function, `entry.PACK_BODY`,
            packs it.
        packed: The format of B when it comes packed.
        images: By number of an operand that is a matrix of patches, the shape of the images that the function takes for it.
        plan: Which kernel a call takes, where extents are dynamic.
    """

    spec: MatmulSpec
    bodies: Sequence[tuple[ir.Module, int]]
    packed: PackedFormat | None = None
    images: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    plan: Plan | None = None

    @property
    def workspace(self) -> int:
        """Bytes of scratch memory that it takes at most."""
        return max(size for _, size in self.bodies)

    @property
    def operands(self) -> list[tuple[tuple[Extent, ...], str]]:
        """The shapes and MLIR's element types of what its function takes: operands, result, scratch memory."""
        operands = (*self.spec.operands, self.spec.result)
        found = [
            (tuple(each.shape[axis] for axis in each.looped(self.spec.batch)), each.type.mlir) for each in operands
        ]
        for number, shape in self.images.items():
            found[number] = shape, found[number][1]
        if self.packed is not None:
            found[1] = (self.packed.nbytes - HEADER_BYTES,), "i8"
        return found + ([((self.workspace,), "i8")] if self.workspace else [])


def decompose(module: ir.Module) -> None:
    """Makes softmax the reductions and elementwise ops that it consists of.

    Raises:
        LoweringError: It failed.
    """
    with steps.script() as script:
        kind = transform.AnyOpType.get()
        structured.DecomposeInterfaceOp(kind, steps.match(script.root, "linalg.softmax"))
    run.run_own_script(module, script.module, "payload")


def scheduled(
    module: ir.Module, schedule: Callable[[Collection[int]], ir.Module | None], count: int
) -> tuple[ir.Module, list[int]]:
    """The module under the schedule of what is left between products, and the numbers of the nests that it does not take.

    Its ops are the user's, of every form there is: that vectors are made of all of them cannot be promised. What the
    schedule fails at stays as it was, for loops over elements.

    Args:
        module: The module.
        schedule: Makes the schedule of the nests of some numbers.
        count: How many nests there are.
    """
    run.run_passes(module, _WIDEN, "scheduled")
    text = str(module.operation.get_asm(enable_debug_info=True))

    def under(numbers: Collection[int]) -> ir.Module | None:
        tried, script = ir.Module.parse(text, module.context), schedule(numbers)
        try:
            if script is not None:
                run.run_own_script(tried, script, "scheduled")
        except LoweringError:
            return None
        return tried

    whole = under(range(count))
    if whole is not None:
        return whole, []
    taken = [number for number in range(count) if under([number]) is not None]
    made = under(taken)
    if made is None:  # Those that go alone do not go together.
        return module, list(range(count))
    return made, [number for number in range(count) if number not in taken]


def bufferize(module: ir.Module, products: Sequence[Product]) -> int:
    """Takes the one function of `module` to memrefs, and lets it call its products.

    Returns the bytes of workspace that it then needs; 0 where a function of the module, `open_workspace.BYTES`, tells them.

    Raises:
        LoweringError: Bufferization failed.
    """
    function = _function(module)
    run.make_private(function)
    with module.context:  # where results go, `boundary.close` has said
        run.run_own_script(module, pipelines.bufferize(empties=False), "bufferized")
    run.run_passes(module, pipelines.DROP_RESULT, "bufferized")
    function = _function(module)
    if function.type.results:
        raise LoweringError("a result is not computed into its argument", stage="bufferized")
    run.run_passes(module, _HOIST, "bufferized")
    with function.context, function.location:
        _call_products(_function(module), products)
    run.run_passes(module, pipelines.TIDY_BUFFERS, "bufferized")
    if dynamic_workspace.is_needed(_function(module)):
        dynamic_workspace.gather(module, _function(module))
        size = 0
    else:
        size = workspace.gather(_function(module), reuse=True)
    run.run_passes(module, pipelines.DEALLOCATE, "bufferized")
    return size


def _function(module: ir.Module) -> func.FuncOp:
    return next(op for op in module.body if isinstance(op, func.FuncOp) and not op.is_external)


def _marked(function: func.FuncOp, mark: str) -> list[tuple[ir.Operation, int]]:
    """The ops that have a number as the attribute `mark`, and that number."""
    found = [op for op in operations(function.operation) if mark in op.attributes]
    return [(op, ir.IntegerAttr(op.attributes[mark]).value) for op in found]


def _call_products(function: func.FuncOp, products: Sequence[Product]) -> None:
    """Replaces what stands for products by calls, of functions that are declared before `function`."""
    calls, packs = _marked(function, STAND_IN), _marked(function, PACKS)
    most, scratch = max((products[number].workspace for _, number in calls), default=0), None
    if most:
        with ir.InsertionPoint.at_block_begin(function.entry_block):
            scratch = _bytes(most)
    for number in sorted({number for _, number in calls}):
        _declare(function, symbol(number), products[number].operands)
    for op, number in packs:
        product = products[number]
        size = product.operands[1]
        _declare(function, f"{symbol(number)}_pack", [(product.spec.b_shape, product.spec.b_stored.mlir), size])
        handle = op.operands[1]
        with ir.InsertionPoint(handle.owner), op.location:
            packed = _bytes(product.packed.nbytes - HEADER_BYTES if product.packed else 0)
        handle.replace_all_uses_with(packed)
        with ir.InsertionPoint(op), op.location:
            source = _as_passed(op.operands[0], product.spec.b_shape)
            _call(f"{symbol(number)}_pack", [source, _as_passed(packed, size[0])])
        op.erase()
    for op, number in calls:
        product = products[number]
        with ir.InsertionPoint(op), op.location:
            # Without scratch memory, which an operand of the product may be, and the op has none.
            orders = _orders(op) or [None] * len(op.operands)
            values = [
                _as_passed(value, shape, order)
                for value, (shape, _), order in zip(op.operands, product.operands, orders, strict=False)
            ]
            if scratch is not None and product.workspace:
                # All products take theirs from the same bytes, one after the other.
                values.append(_reinterpreted(scratch, [product.workspace], [0], _passed([product.workspace], "i8")))
            _call(symbol(number), values)
        op.erase()


def _orders(op: ir.Operation) -> list[list[int]]:
    """Which axis of each operand each dimension is that the product takes; none where they lie as it takes them."""
    if ORDERS not in op.attributes:
        return []
    return [
        [ir.IntegerAttr(each).value for each in ir.ArrayAttr(order)] for order in ir.ArrayAttr(op.attributes[ORDERS])
    ]


def _declare(function: func.FuncOp, name: str, operands: Sequence[tuple[tuple[Extent, ...], str]]) -> None:
    types = [_passed(shape, element) for shape, element in operands]
    with ir.InsertionPoint(function):
        func.FuncOp(name, ir.FunctionType.get(types, []), visibility="private")


def _call(name: str, values: list[ir.Value]) -> None:
    func.CallOp([], ir.FlatSymbolRefAttr.get(name), values)


def _bytes(count: int) -> ir.Value:
    return memref.AllocOp(ir.MemRefType.get([count], ir.IntegerType.get_signless(8)), [], []).memref


def symbol(number: int) -> str:
    """The name of the function of product `number`."""
    return f"product{number}"


def _passed(shape: Sequence[Extent], element: str) -> ir.MemRefType:
    """The type of an operand of a product: rows anywhere, elements of a row side by side."""
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    strides = [dynamic] * (len(shape) - 1) + [1] * bool(shape)
    layout = ir.StridedLayoutAttr.get(dynamic, strides)
    return ir.MemRefType.get([shaped(each) for each in shape], ir.Type.parse(element), layout)


def _as_passed(value: ir.Value, shape: Sequence[Extent], order: Sequence[int] | None = None) -> ir.Value:
    """A memref with the shape that a product takes, which has dimensions of extent one that `value` may lack.

    With an `order`, dimension i is axis ``order[i]`` of `value`; where that is -1, there is one entry for all.
    """
    if order is not None:
        kind = _passed(shape, str(ir.MemRefType(value.type).element_type))
        return _reinterpreted(value, shape, [None if axis < 0 else axis for axis in order], kind)
    given = list(ir.MemRefType(value.type).shape)
    if len(given) == len(shape) == 1:  # Bytes, of which nobody knew how many there are.
        given = [shaped(each) for each in shape]
    sources: list[int | None] = []
    rest = list(range(len(given)))
    for position, extent in enumerate(shape):
        needed = len(shape) - position - 1
        if rest and given[rest[0]] == shaped(extent) and (extent != 1 or len(rest) > needed):
            sources.append(rest.pop(0))
        else:
            sources.append(None)
    element = str(ir.MemRefType(value.type).element_type)
    return _reinterpreted(value, shape, sources, _passed(shape, element))


def _reinterpreted(
    value: ir.Value, shape: Sequence[Extent], sources: Sequence[int | None], kind: ir.MemRefType
) -> ir.Value:
    """`value` as a memref of type `kind`, of whose axes each is one of `value`, or new, of one entry that stands for all."""
    base, offset, sizes, steps_ = metadata(value)
    # The last stride is one, and the type says it; so is that of an axis of one element.
    pairs = zip(sources[:-1], shape, strict=False)
    strides = [steps_[axis] if axis is not None else index_value(int(extent == 1)) for axis, extent in pairs]
    axes = [axis for axis, extent in zip(sources, shape, strict=True) if isinstance(extent, Dim) and axis is not None]
    return reinterpreted(kind, base, [offset], [sizes[axis] for axis in axes], strides)


def to_llvm(module: ir.Module, name: str, target: Target) -> None:
    """Takes a bufferized module to the LLVM dialect; its function is then called `name`.

    Raises:
        LoweringError: A pass failed.
    """
    if "memref.expand_shape" in str(module):
        _drop_unit_dimensions(module)
    run.run_own_script(module, pipelines.lower_vectors(target.vector_bits // 32, ()), "llvm")
    attributes = {"sym_name": f'"{name}"', "llvm.linkage": _INTERNAL, **entry.target_attributes(target)}
    for key, text in attributes.items():
        _tilewright.set_attribute(_function(module).operation, key, text)
    with module.context:
        small_floats.expand(module.operation, target)
    text = str(module)
    halves = [each for each in half_floats.CONVERTERS if re.search(rf"\b{each}\b|x{each}\b", text)]
    with module.context:
        if "f16" in halves and half_floats.CONVERTERS["f16"].isdisjoint(target.features):
            half_floats.expand_f16(module.operation)
        if "bf16" in halves and half_floats.CONVERTERS["bf16"].isdisjoint(target.features):
            run.run_passes(module, half_floats.EXPAND_BF16, "llvm")
        left = math_functions.expand(module.operation, target)
    if left or _calls_library(module):
        run.run_passes(module, math_functions.F64, "llvm")
    with module.context:
        dynamic_reshapes.expand(module.operation)
    run.run_passes(module, _TO_LLVM, "llvm")
    with module.context:
        if "avx512bw" in target.features:
            narrow_stores.protect(module.operation)
        if halves:
            half_floats.move_as_integers(module.operation)


def _calls_library(module: ir.Module) -> bool:
    """Whether a function of the C library's is needed."""
    return any(op.name.startswith("math.") and op.name not in _NATIVE_MATH for op in operations(module.operation))


def _drop_unit_dimensions(module: ir.Module) -> None:
    """Lets vectors be read and written along dimensions of more than one element only.

    Upstream's patterns that make reads of a reshaped buffer reads of what it is of never end where the vector has more dimensions
    than that: of memref<32x48xf32> seen as 32x1x48, a vector<1x1x32xf32>. Needs an active `ir.Context`.
    """
    with steps.script() as script:
        steps.apply(script.functions, vector.apply_patterns_vector_rank_reducing_subview_patterns)
    run.run_own_script(module, script.module, "llvm")
