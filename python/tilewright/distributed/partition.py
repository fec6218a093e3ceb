# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Splits the payload of a product over a grid of processes, by MLIR's shard dialect: annotations, propagation, partition.

What comes out is the program of one process: collectives around a product of local extents, which is read as a list of steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.distributed.shardings import Sharding, Split, block
from tilewright.errors import LoweringError, SpecError
from tilewright.lowering.run import run_passes
from tilewright.mlir import ir
from tilewright.mlir.dialects import func, shard
from tilewright.payload import matmul
from tilewright.spec import MatmulSpec

_PASSES = "builtin.module(func.func(sharding-propagation{traversal=backward},shard-partition,canonicalize,cse))"
_PRODUCTS = ("linalg.matmul", "linalg.generic")
_OPERANDS = ("a", "b", "c")
_LOCAL = frozenset(
    {
        "arith.cmpi",
        "arith.constant",
        "func.return",
        "linalg.fill",
        "scf.if",
        "shard.process_multi_index",
        "tensor.empty",
    }
)
"""Ops beside the product and collectives: they make the zeros that sums start from, which the kernel of the local product makes itself."""


@dataclass(frozen=True, slots=True)
class Gather:
    """Processes that differ along some axes of the grid exchange their blocks of an operand, so that each has all of them.

    Attributes:
        operand: "a" or "b".
        axes: The axes of the grid.
        dimension: Along which dimension of the matrix blocks are put together: 0 rows, 1 columns.
    """

    operand: str
    axes: tuple[int, ...]
    dimension: int


@dataclass(frozen=True, slots=True)
class Reduce:
    """Processes add their parts of sums.

    Attributes:
        axes: The axes of the grid along which they differ.
        scatter: The dimension along which each keeps its block of the sums; None: each gets all.
    """

    axes: tuple[int, ...]
    scatter: int | None


@dataclass(frozen=True, slots=True)
class Program:
    """What each process does: gathers, its product, and reductions, in this order.

    Attributes:
        gathers: Before the product.
        local: The product that a process computes.
        reduces: After it.
        blocks: The shapes of a process's blocks of A, B and C, by name.
        sharded: The payload with annotations, as text.
        partitioned: The program of one process, as text.
    """

    gathers: tuple[Gather, ...]
    local: MatmulSpec
    reduces: tuple[Reduce, ...]
    blocks: dict[str, tuple[int, int]]
    sharded: str
    partitioned: str


@lru_cache(maxsize=256)
def program(spec: MatmulSpec, sharding: Sharding, grid: tuple[int, ...]) -> Program:
    """The program of each process of a grid for a product.

    Raises:
        SpecError: The product is no plain one of static extents; or the grid does not split it into blocks of one size.
        LoweringError: MLIR splits it in a way for which there are no steps here.
    """
    _require_plain(spec)
    shapes = {"a": (spec.m, spec.k), "b": (spec.k, spec.n), "c": (spec.m, spec.n)}
    splits: dict[str, Split] = {"a": sharding.a, "b": sharding.b, "c": sharding.c}
    blocks = {name: block(shapes[name], splits[name], grid, name.upper()) for name in _OPERANDS}
    # All dialects are loaded: those that can be split say so where they are.
    with ir.Context() as context, ir.Location.unknown():
        context.enable_multithreading(False)
        module = matmul.build(spec, context)
        _annotate(module, sharding, grid)
        sharded = str(module)
        run_passes(module, _PASSES, "partition")
        gathers, m, n, k, reduces = _read(module)
        if [(m, k), (k, n)] != [_gathered(blocks[name], gathers, name, grid) for name in ("a", "b")]:
            raise LoweringError(f"a process's product is {m}x{n}x{k}\n{module}", stage="partition")
        local = replace(spec, m=m, n=n, k=k)
        return Program(gathers, local, reduces, blocks, sharded, str(module))


def _require_plain(spec: MatmulSpec) -> None:
    """Raises SpecError for what has no steps here."""
    plain = MatmulSpec.from_dtypes(spec.m, spec.n, spec.k, f"{spec.a},{spec.b},{spec.c}", layout=spec.layout)
    if spec.dynamic or spec.is_empty or replace(spec, deterministic=False) != replace(plain, acc=spec.acc):
        raise SpecError(
            f"{spec}",
            where="distributed",
            expected="one product of static extents above zero, without batch, epilogue, alpha, beta and packed B",
            remedy="Apply what follows it to each process's block of C",
        )


def _annotate(module: ir.Module, sharding: Sharding, grid: tuple[int, ...]) -> None:
    """Says of the operands and of the result how they are split."""
    function = module.body.operations[0]
    with ir.InsertionPoint.at_block_begin(module.body):
        shard.GridOp("grid", list(grid))
    body = function.regions[0].blocks[0]
    # Where processes have parts of sums, these start from zeros of their own.
    splits = (sharding.a, sharding.b, sharding.sums or sharding.c)
    with ir.InsertionPoint.at_block_begin(body):
        for argument, split in zip(body.arguments, splits, strict=True):
            uses = list(argument.uses)
            marked = _marked(argument, split)
            for use in uses:
                use.owner.operands[use.operand_number] = marked
    last = body.operations[len(body.operations) - 1]
    with ir.InsertionPoint(last):
        result = _marked(last.operands[0], splits[2])
        if sharding.sums is not None:
            result = _marked(result, sharding.c, for_users=True)
        last.operands[0] = result


def _marked(value: ir.Value, split: Split, *, for_users: bool = False) -> ir.Value:
    axes = ", ".join(f"[{', '.join(map(str, each))}]" for each in split)
    how = shard.ShardingOp("grid", ir.Attribute.parse(f"#shard<axisarray[{axes}]>"), [], [])
    return shard.ShardOp(value, how.results[0], annotate_for_users=for_users).results[0]


def _read(module: ir.Module) -> tuple[tuple[Gather, ...], int, int, int, tuple[Reduce, ...]]:
    """The steps of a partitioned program, and the extents of its product.

    Raises:
        SpecError: Something comes between the operands and the product.
        LoweringError: It has other ops than there are steps for.
    """
    function = next(op for op in module.body.operations if isinstance(op, func.FuncOp))
    block_ = function.regions[0].blocks[0]
    names = dict(zip(block_.arguments, "ab", strict=False))
    gathers: list[Gather] = []
    reduces: list[Reduce] = []
    extents: tuple[int, int, int] | None = None
    for op in block_.operations:
        name = op.name if isinstance(op.name, str) else op.operation.name
        if name == "shard.all_gather" and op.operands[0] in names and extents is None:
            operand = names[op.operands[0]]
            names[op.results[0]] = operand
            gathers.append(Gather(operand, _axes(op), _number(op, "gather_axis")))
        elif name in _PRODUCTS and extents is None and [names.get(each) for each in op.operands[:2]] == ["a", "b"]:
            (m, k), (_, n) = (ir.RankedTensorType(each.type).shape for each in op.operands[:2])
            extents = m, n, k
        elif name == "shard.all_reduce" and extents is not None and not reduces:
            reduces.append(Reduce(_axes(op), None))
        elif name == "shard.all_slice" and reduces and reduces[-1] == Reduce(_axes(op), None):
            # Each keeps a block of what all have: so each needs that block alone.
            reduces[-1] = Reduce(_axes(op), _number(op, "slice_axis"))
        elif name == "linalg.generic" and extents is None:
            raise SpecError(
                "elements are widened before they are multiplied",
                where="distributed",
                expected="types that are multiplied as they are",
            )
        elif name == "linalg.generic" and not reduces:
            continue  # It rounds complete sums to C's type, as the kernel does.
        elif name not in _LOCAL:
            raise LoweringError(
                f"there is no step for {name} here\n{module}", stage="partition", remedy="Choose another sharding"
            )
    if extents is None:
        raise LoweringError(f"a process has no product of A and B\n{module}", stage="partition")
    return tuple(gathers), *extents, tuple(reduces)


def _gathered(
    shape: tuple[int, int], gathers: Sequence[Gather], operand: str, grid: tuple[int, ...]
) -> tuple[int, int]:
    """The shape of an operand once its blocks are gathered."""
    found = list(shape)
    for each in gathers:
        if each.operand == operand:
            found[each.dimension] *= math.prod(grid[axis] for axis in each.axes)
    return found[0], found[1]


def _axes(op: ir.OpView) -> tuple[int, ...]:
    return tuple(ir.DenseI16ArrayAttr(op.attributes["grid_axes"]))


def _number(op: ir.OpView, name: str) -> int:
    return ir.IntegerAttr(op.attributes[name]).value
