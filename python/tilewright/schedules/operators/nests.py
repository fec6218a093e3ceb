# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy for what stands between the products of a module: each linalg op becomes a loop nest over vectors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.build.usedef import body, in_block
from tilewright.mlir import ir
from tilewright.mlir.dialects import transform
from tilewright.mlir.dialects.transform import structured, vector
from tilewright.payload.modules.chains import PACKS
from tilewright.payload.modules.contractions import axes
from tilewright.payload.modules.open_extents import OPEN
from tilewright.payload.modules.places import STAND_IN
from tilewright.schedules import steps
from tilewright.targets.base import Target

_VECTORS = 4
"""Vectors of one step: enough independent operations to hide the latency of each, and few enough for the registers."""
_FEW = 64
"""Elements that are computed one by one in no time."""
_MARK = "nest"
_BODY = ("arith.", "math.", "linalg.index", "linalg.yield")
_REDUCTION = "reduction"
_COMBINERS = frozenset(
    {
        "arith.addf",
        "arith.addi",
        "arith.andi",
        "arith.maximumf",
        "arith.maxnumf",
        "arith.maxsi",
        "arith.maxui",
        "arith.minimumf",
        "arith.minnumf",
        "arith.minsi",
        "arith.minui",
        "arith.mulf",
        "arith.muli",
        "arith.ori",
        "arith.xori",
    }
)
"""What vectors can be reduced by."""


@dataclass(frozen=True, slots=True)
class Nest:
    """A linalg op that is to be tiled and vectorized.

    Attributes:
        extents: The extent of each of its dimensions; `OPEN` where it is dynamic.
        reductions: Those along which it reduces.
        across: The dimension whose elements lie side by side in the result, or, where the result has none, in what it reads.
        other: Another dimension along which elements of an operand lie side by side, so that both are tiled; -1 for none.
        width: The most elements of `across` that are computed in one step, a power of two.
    """

    extents: tuple[int, ...]
    reductions: tuple[int, ...]
    across: int
    other: int
    width: int


def nests(function: ir.Operation, target: Target) -> tuple[list[Nest], list[ir.Operation]]:
    """The linalg ops of `function` that stand for no product: those to be tiled, which are marked with their numbers, and others.

    What no vectors can be made of stays as it is, for loops over single elements. It is among the others where it has more than
    a few elements.
    """
    found: list[Nest] = []
    others: list[ir.Operation] = []
    for inner in in_block(body(function)):
        nest = _nest(inner, target)
        if nest is not None:
            inner.attributes[f"mark_{_MARK}{len(found)}"] = ir.UnitAttr.get()
            found.append(nest)
        elif inner.name == "linalg.generic" and _stays(inner):
            others.append(inner)
    return found, others


def schedule(found: Sequence[Nest], numbers: Collection[int]) -> ir.Module | None:
    """Builds the schedule of those nests that have the `numbers`; None without any.

    Each by itself; what is elementwise has been fused before. Before: ``C[m, n] = f(A[m, n], b[n])``. After, with L the
    elements of some vectors::

        for i in 0..M step 1:
          for j in 0..N step L:
            C[i, j:j+L] = f(A[i, j:j+L], b[j:j+L])

    What is left of N is an op of its own. A sum along rows has a vector of partial sums; one along columns is kept in vectors.
    """
    if not numbers:
        return None
    with steps.script() as script:
        for number in numbers:
            op = steps.match_marked(script.functions, f"{_MARK}{number}")
            if found[number].extents[found[number].across] == OPEN:
                _schedule_open(script, op, found[number], f"{_MARK}{number}")
            else:
                _schedule(op, found[number])
        steps.clean(script.functions)
        steps.keep_partial_sums(script.functions)
        _drop_unit_dimensions(script.functions)
    return script.module


def numbers(function: ir.Operation) -> dict[int, ir.Operation]:
    """The ops of `function` that `nests` has marked, by their numbers."""
    found: dict[int, ir.Operation] = {}
    for op in in_block(body(function)):
        for name in op.attributes:
            if name.startswith(f"mark_{_MARK}"):
                found[int(name.removeprefix(f"mark_{_MARK}"))] = op
    return found


def _stays(op: ir.Operation) -> bool:
    """Whether it is worth a word that no vectors are made of an op."""
    if STAND_IN in op.attributes or PACKS in op.attributes:
        return False
    shapes = [kind.shape for each in op.operands if isinstance(kind := each.type, ir.RankedTensorType)]
    return any(OPEN in shape or prod(shape) > _FEW for shape in shapes)


def _nest(op: ir.Operation, target: Target) -> Nest | None:
    """How to tile an op; None for one that is left alone."""
    if op.name != "linalg.generic" or STAND_IN in op.attributes or PACKS in op.attributes or len(op.results) != 1:
        return None
    names = [each.name for each in in_block(body(op))]
    maps = [axes(each) for each in ir.ArrayAttr(op.attributes["indexing_maps"])]
    if not all(name.startswith(_BODY) for name in names) or any(
        each is None or len(set(each)) < len(each) for each in maps
    ):
        return None
    if not all(_is_vectorizable(value.type) for value in op.operands):
        return None
    iterators = [str(each) for each in ir.ArrayAttr(op.attributes["iterator_types"])]
    reductions = tuple(index for index, each in enumerate(iterators) if _REDUCTION in each)
    extents = _extents(op, maps, len(iterators))
    if extents is None or 0 in extents or (reductions and not _combines(op)):
        return None
    result, inputs = maps[-1] or (), [each for each in maps[:-1] if each]
    inner = [each[-1] for each in inputs if len(each) == max(map(len, inputs))]
    if reductions and (not inner or inner[0] in reductions):
        if not inner or len(op.operands) != 2 or len(reductions) > 1:
            return None
        across, other = inner[0], -1
    elif not result:
        return None
    else:
        across = result[-1]
        others = {each[-1] for each in inputs if across in each} - {across}
        other = min(others - set(reductions), default=-1)
    if other >= 0 and OPEN in (extents[across], extents[other]):
        return None
    bits = max(_bits(value.type) for value in op.operands)
    lanes = max(1, target.vector_bits // max(bits, 32))
    width = lanes if other >= 0 else lanes * _VECTORS
    return Nest(extents, reductions, across, other, width)


def _combines(op: ir.Operation) -> bool:
    """Whether the last thing that is done is to combine the result so far with something, in a type that is computed in."""
    block = op.regions[0].blocks[0]
    last = list(block.operations)[-1].operation.operands[0]
    if not isinstance(last, ir.OpResult) or last.owner.name not in _COMBINERS:
        return False
    # 16-bit floats are rounded after each step, which no combination of vectors says.
    return block.arguments[len(block.arguments) - 1] in last.owner.operands and _bits(last.type) >= 32


def _is_vectorizable(kind: ir.Type) -> bool:
    element = kind.element_type if isinstance(kind, ir.RankedTensorType) else kind
    return isinstance(element, (ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type)) or (
        isinstance(element, ir.IntegerType) and element.width in (8, 16, 32, 64)
    )


def _bits(kind: ir.Type) -> int:
    element = kind.element_type if isinstance(kind, ir.RankedTensorType) else kind
    return (ir.IntegerType if isinstance(element, ir.IntegerType) else ir.FloatType)(element).width


def _extents(op: ir.Operation, maps: Sequence[tuple[int, ...] | None], count: int) -> tuple[int, ...] | None:
    extents = [-1] * count
    for value, each in zip(op.operands, maps, strict=True):
        for axis, dimension in enumerate(each or ()):
            size = ir.ShapedType(value.type).shape[axis]
            extents[dimension] = size if extents[dimension] in (-1, OPEN) else extents[dimension]
    return None if -1 in extents else tuple(extents)


def _schedule(op: steps.Handle, nest: Nest) -> None:
    """Tiles and vectorizes one op."""
    for dimension in (nest.across, nest.other):
        if dimension < 0:
            continue
        extent = nest.extents[dimension]
        # A power of two, as there are registers of: LLVM cannot take apart all others of 16-bit floats.
        rest = extent % min(nest.width, 1 << (extent.bit_length() - 1))
        if rest:
            both = structured.SplitOp(op, dimension, extent - rest).result
            first, second = steps.split(both, 2)
            _schedule(first, replace(nest, extents=_replaced(nest.extents, dimension, extent - rest)))
            _schedule(second, replace(nest, extents=_replaced(nest.extents, dimension, rest)))
            return
    if nest.across in nest.reductions:
        _schedule_rows(op, nest)
        return
    order = [each for each in range(len(nest.extents)) if each not in nest.reductions] + list(nest.reductions)
    for dimension in order:
        size = min(nest.width, nest.extents[dimension]) if dimension in (nest.across, nest.other) else 1
        op = _tiled(op, nest, dimension, size)
    steps.vectorize(op)


def _schedule_open(script: steps.Script, op: steps.Handle, nest: Nest, mark: str) -> None:
    """Tiles and vectorizes an op with a dynamic number of elements side by side: the last ones one by one.

    Before: ``for each i: C[i, :] = f(A[i, :])``. After::

        for each i:
          for j in 0..N - N % L step L: C[i, j:j+L] = f(A[i, j:j+L])
          for j in N - N % L..N: C[i, j] = f(A[i, j])
    """
    count = len(nest.extents)
    for dimension in range(count):
        if dimension != nest.across:
            op = _tiled(op, nest, dimension, 1)
    _, loop = steps.tile(op, [nest.width if each == nest.across else 0 for each in range(count)])
    steps.peel(loop)
    steps.clean(script.functions)
    whole, rest = steps.split(steps.match_marked(script.functions, mark), 2)
    steps.vectorize(whole)
    rest, _ = steps.tile(rest, [int(each == nest.across) for each in range(count)])
    steps.vectorize(rest)


def _schedule_rows(op: steps.Handle, nest: Nest) -> None:
    """Tiles and vectorizes an op that reduces along rows."""
    for dimension in range(len(nest.extents)):
        if dimension != nest.across:
            op = _tiled(op, nest, dimension, 1)
    if nest.extents[nest.across] > nest.width:
        kind = transform.AnyOpType.get()
        sizes = [nest.width if each == nest.across else 0 for each in range(len(nest.extents))]
        made = structured.TileReductionUsingForOp([kind], kind, kind, kind, op, tile_sizes=sizes)
        for each in list(made.results)[:-1]:
            steps.vectorize(each)
        return
    steps.vectorize(op)


def _tiled(op: steps.Handle, nest: Nest, dimension: int, size: int) -> steps.Handle:
    """One loop, where there is more than one step."""
    if nest.extents[dimension] != OPEN and size >= nest.extents[dimension]:
        return op
    return steps.tile(op, [size if each == dimension else 0 for each in range(len(nest.extents))])[0]


def _replaced(extents: tuple[int, ...], dimension: int, extent: int) -> tuple[int, ...]:
    return tuple(extent if each == dimension else value for each, value in enumerate(extents))


def _drop_unit_dimensions(functions: steps.Handle) -> None:
    """Takes dimensions of extent one out of vectors, and turns reductions of rows into horizontal ones."""

    def patterns() -> None:
        vector.apply_patterns_vector_drop_unit_dims_with_shape_cast()
        transform.apply_patterns_canonicalization()

    def reductions() -> None:
        vector.apply_patterns_vector_lower_multi_reduction(
            lowering_strategy=vector.VectorMultiReductionLowering.InnerReduction
        )

    steps.apply(functions, patterns)
    steps.apply(functions, reductions)
    steps.clean(functions)
