# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where ops over memrefs read and write: slices of buffers, with starts that are sums of what is known while compiling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tilewright.build.usedef import definition
from tilewright.build.views import offsets_of, sizes_of
from tilewright.mlir import ir

_PURE = frozenset({"affine", "arith", "math", "ub", "vector", "x86vector", "scf"})
"""Dialects whose ops without a memref operand touch no memory."""
_KNOWN = _PURE | {"amx", "memref"}
"""Dialects whose ops touch no memory but through their memref operands."""
_READS = frozenset({"vector.transfer_read", "vector.load", "vector.maskedload", "memref.load", "amx.tile_load"})
_VIEWS = frozenset(
    {"memref.subview", "memref.cast", "memref.view", "memref.reinterpret_cast", "memref.collapse_shape"}
    | {"memref.expand_shape", "memref.transpose", "memref.memory_space_cast", "memref.assume_alignment"}
)
_HARMLESS = frozenset({"memref.prefetch", "memref.dim"})


@dataclass(frozen=True)
class Linear:
    """A sum of values, each with a factor, and a constant. A value is an `ir.Value`, or a quotient of one.

    Attributes:
        terms: From value to factor, none of which is zero.
        constant: What is added.
    """

    terms: frozenset[tuple[object, int]] = frozenset()
    constant: int = 0

    def __add__(self, other: Linear) -> Linear:
        """The sum."""
        terms = dict(self.terms)
        for atom, factor in other.terms:
            terms[atom] = terms.get(atom, 0) + factor
        return Linear(frozenset((a, f) for a, f in terms.items() if f), self.constant + other.constant)

    def times(self, factor: int) -> Linear:
        """The product with a constant."""
        return Linear(frozenset((a, f * factor) for a, f in self.terms if factor), self.constant * factor)


@dataclass(frozen=True)
class Quotient:
    """The first value over a constant, rounded."""

    value: ir.Value
    divisor: int


@dataclass(frozen=True)
class Slice:
    """Where an access lies along one dimension of a buffer: `size` elements from `start` on."""

    dimension: int
    start: Linear
    size: int


@dataclass
class Access:
    """What one op does to one buffer.

    Attributes:
        buffer: The argument or allocation; None when that is not known.
        writes: Whether it may write.
        slices: The slices that it is known to lie in.
    """

    buffer: ir.Value | None
    writes: bool
    slices: list[Slice] = field(default_factory=list)


def linear(value: ir.Value) -> Linear:
    """An index as a sum, as far as it can be followed."""
    op = definition(value)
    if op is None:
        return Linear(frozenset({(value, 1)}))
    if op.name == "arith.constant":
        return Linear(constant=ir.IntegerAttr(op.attributes["value"]).value)
    if op.name == "affine.apply":
        return _applied(op, 0)
    if op.name == "arith.addi":
        return linear(op.operands[0]) + linear(op.operands[1])
    divided = _divided(linear(op.operands[0]), linear(op.operands[1])) if op.name == "arith.divui" else None
    return Linear(frozenset({(value, 1)})) if divided is None else divided


def constant(value: ir.Value) -> int | None:
    """The value of an index that is a constant; otherwise None."""
    sum_ = linear(value)
    return None if sum_.terms else sum_.constant


def at_most(value: ir.Value) -> int | None:
    """A constant that an index never exceeds, or None when none is known."""
    op = definition(value)
    if op is not None and op.name == "affine.min":
        results = [_applied(op, i) for i in range(len(_map(op).results))]
        return min((r.constant for r in results if not r.terms), default=None)
    return constant(value)


def without(start: Linear, inside: Callable[[ir.Value], bool]) -> tuple[Linear, int]:
    """A lower bound of a sum, without the variables `inside` of loops with known ends, and how far beyond it the sum goes."""
    kept, least, most = {}, start.constant, start.constant
    for atom, factor in start.terms:
        ends = _ends(atom) if isinstance(atom, ir.Value) and factor > 0 and inside(atom) else None
        if ends is None:
            kept[atom] = factor
        else:
            least, most = least + factor * ends[0], most + factor * ends[1]
    return Linear(frozenset(kept.items()), least), most - least


def _ends(value: ir.Value) -> tuple[int, int] | None:
    """The first and the last that a loop's variable can be, when both are known."""
    if not isinstance(value.owner, ir.Block) or value.owner.owner.operation.name != "scf.for":
        return None
    loop = value.owner.owner.operation
    first, end, step = constant(loop.operands[0]), at_most(loop.operands[1]), constant(loop.operands[2])
    if value != value.owner.arguments[0] or first is None or end is None or step is None or end <= first:
        return None
    return first, first + (end - 1 - first) // step * step


def accesses(loop: ir.Operation) -> list[Access] | None:
    """Every access to memory in a loop or another op; None when an op may do more than its memref operands show."""
    found: list[Access] = []
    for op in walk(loop):
        memrefs = [operand for operand in op.operands if isinstance(operand.type, ir.MemRefType)]
        if op.name in _VIEWS or op.name in _HARMLESS:
            continue
        dialect = op.name.split(".")[0]
        if not memrefs:
            if dialect not in _PURE and not op.name.startswith("amx.tile") and not _computes(op):
                return None
            continue
        if dialect not in _KNOWN or any(isinstance(result.type, ir.MemRefType) for result in op.results):
            return None  # an op, or a view, of which nothing is known
        for memref in memrefs:
            access = _located(memref, op.name not in _READS)
            _add_own_slices(access, op, memref)
            found.append(access)
    return found


def _computes(op: ir.Operation) -> bool:
    """Whether it is an intrinsic that takes and gives numbers, and vectors of them, only."""
    numbers = (ir.VectorType, ir.IntegerType, ir.FloatType)
    return op.name == "llvm.call_intrinsic" and all(
        isinstance(each.type, numbers) for each in (*op.operands, *op.results)
    )


def walk(op: ir.Operation) -> Iterator[ir.Operation]:
    """The innermost ops below an op, or the op itself when it has no regions."""
    if not len(op.regions):
        yield op
    for region in op.regions:
        for block in region:
            for inner in block:
                yield from walk(inner.operation)


def _map(op: ir.Operation) -> ir.AffineMap:
    return ir.AffineMapAttr(op.attributes["map"]).value


def _applied(op: ir.Operation, result: int) -> Linear:
    """One result of an affine.apply or affine.min."""
    map_ = _map(op)
    operands = list(op.operands)
    whole = Linear(frozenset({(op.results[0], 1)}))

    def follow(expression: ir.AffineExpr) -> Linear | None:
        if isinstance(expression, ir.AffineConstantExpr):
            return Linear(constant=expression.value)
        if isinstance(expression, ir.AffineDimExpr):
            return linear(operands[expression.position])
        if isinstance(expression, ir.AffineSymbolExpr):
            return linear(operands[map_.n_dims + expression.position])
        assert isinstance(expression, ir.AffineBinaryExpr)
        left, right = follow(expression.lhs), follow(expression.rhs)
        if left is None or right is None:
            return None
        if isinstance(expression, ir.AffineAddExpr):
            return left + right
        if isinstance(expression, ir.AffineMulExpr) and not right.terms:
            return left.times(right.constant)
        if isinstance(expression, ir.AffineCeilDivExpr | ir.AffineFloorDivExpr):
            return _divided(left, right)
        return None

    return follow(map_.results[result]) or whole


def _divided(left: Linear, right: Linear) -> Linear | None:
    """A lone value over a constant."""
    if right.terms or left.constant or len(left.terms) != 1:
        return None
    ((atom, factor),) = left.terms
    if factor != 1 or not isinstance(atom, ir.Value):
        return None
    return Linear(frozenset({(Quotient(atom, right.constant), 1)}))


@dataclass
class _View:
    """What is known of a memref value: its buffer, and for each dimension the buffer's, with the offset in it."""

    buffer: ir.Value | None
    dimensions: list[tuple[int, Linear] | None]
    slices: list[Slice]


def _view(value: ir.Value) -> _View:
    op = definition(value)
    rank = ir.MemRefType(value.type).rank
    if op is None:
        # A block's argument: the function's own are buffers, others can be anything.
        owner = value.owner.owner  # pyright: ignore[reportAttributeAccessIssue]
        known = owner.operation.name == "func.func"
        return _View(value if known else None, [(d, Linear()) for d in range(rank)], [])
    if op.name in ("memref.alloc", "memref.alloca"):
        return _View(value, [(d, Linear()) for d in range(rank)], [])
    if op.name == "memref.cast":
        return _view(op.operands[0])
    if op.name == "memref.subview":
        return _subview(op)
    if op.name in _VIEWS:
        return _View(_view(op.operands[0]).buffer, [None] * rank, _view(op.operands[0]).slices)
    return _View(None, [None] * rank, [])


def _subview(op: ir.Operation) -> _View:
    source = _view(op.operands[0])
    strides = list(ir.DenseI64ArrayAttr(op.attributes["static_strides"]))
    offsets, sizes = offsets_of(op), sizes_of(op)
    shape = ir.MemRefType(op.results[0].type).shape
    if any(stride != 1 for stride in strides):
        return _View(source.buffer, [None] * len(shape), source.slices)
    dimensions: list[tuple[int, Linear] | None] = []
    slices = list(source.slices)
    for place, offset, size in zip(source.dimensions, offsets, sizes, strict=True):
        moved = None
        if place is not None:
            start = place[1] + (linear(offset) if isinstance(offset, ir.Value) else Linear(constant=offset))
            moved = (place[0], start)
            bound = at_most(size) if isinstance(size, ir.Value) else size
            if bound is not None:
                slices.append(Slice(place[0], start, bound))
        dimensions.append(moved)
    if len(shape) < len(dimensions):
        # Which of several dimensions of size one were dropped is not said. One that was kept has a single element, at
        # the start of any of them.
        dropped = [axis for axis, size in enumerate(sizes) if size == 1][: len(dimensions) - len(shape)]
        dimensions = [d for axis, d in enumerate(dimensions) if axis not in dropped]
    return _View(source.buffer, dimensions, slices)


def _located(memref: ir.Value, writes: bool) -> Access:
    view = _view(memref)
    return Access(view.buffer, writes, list(view.slices))


def _add_own_slices(access: Access, op: ir.Operation, memref: ir.Value) -> None:
    """Adds the slices that the indices of an op with memref[indices] say, where its vector is the innermost part."""
    operands = list(op.operands)
    rank = ir.MemRefType(memref.type).rank
    at = operands.index(memref)
    indices = operands[at + 1 : at + 1 + rank]
    if op.name in ("memref.load", "memref.store"):
        extents = [1] * rank
    elif op.name in ("vector.transfer_read", "vector.transfer_write"):
        vector = ir.VectorType((op.results[0] if op.name == "vector.transfer_read" else operands[0]).type)
        extents = _transferred(ir.AffineMapAttr(op.attributes["permutation_map"]).value, list(vector.shape), rank)
    else:
        return
    for place, index, extent in zip(_view(memref).dimensions, indices, extents, strict=True):
        if place is not None and extent is not None:
            access.slices.append(Slice(place[0], place[1] + linear(index), extent))


def _transferred(map_: ir.AffineMap, shape: list[int], rank: int) -> list[int | None]:
    """Elements along each dimension of the memref."""
    extents: list[int | None] = [1] * rank
    for result, size in zip(map_.results, shape, strict=True):
        if isinstance(result, ir.AffineDimExpr):
            extents[result.position] = size
    return extents


def buffer_of(memref: ir.Value) -> ir.Value | None:
    """The argument or allocation that a memref is a view of; None when that is not known."""
    return _view(memref).buffer
