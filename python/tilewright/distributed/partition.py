# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Splits a product over a grid of processes, by MLIR's shard dialect: annotations, propagation, partition.

What comes out is the program of one process: collectives around a product of local extents. Its steps are read, for models of it; `native`
compiles it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.distributed import annotated
from tilewright.distributed.shardings import Sharding, Split, block
from tilewright.errors import LoweringError
from tilewright.lowering.run import run_passes
from tilewright.mlir import ir
from tilewright.mlir.dialects import func
from tilewright.spec import MatmulSpec

_PASSES = """builtin.module(
    func.func(sharding-propagation{traversal=backward}, shard-partition), canonicalize, tilewright-simplify-shards, canonicalize, cse
)"""
_PRODUCTS = ("linalg.matmul", "linalg.generic")
_OPERANDS = ("a", "b", "c")
_LOCAL = frozenset({"arith.constant", "func.return", "linalg.fill", "tensor.empty"})
"""Ops beside the product and collectives: they make the zeros that sums start from."""


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
        grid: How many processes each axis of the grid has.
        gathers: Before the product.
        local: The product that a process computes.
        reduces: After it.
        blocks: The shapes of a process's blocks of A, B and C, by name.
        sharded: The payload with annotations, as text.
        partitioned: The program of one process, as text.
    """

    grid: tuple[int, ...]
    gathers: tuple[Gather, ...]
    local: MatmulSpec
    reduces: tuple[Reduce, ...]
    blocks: dict[str, tuple[int, int]]
    sharded: str
    partitioned: str

    def count(self, step: Gather | Reduce) -> int:
        """How many processes take part in a step together."""
        return math.prod(self.grid[axis] for axis in step.axes)

    @property
    def bytes_sent(self) -> int:
        """Bytes that each process sends in a call, at least.

        In a gather each block goes to all others, once. In a reduction a process sends a block of its sums to each other one, and for
        all of the sums the same again. Source: Chan, Heimlich, Purkayastha, van de Geijn, Collective communication: theory, practice, and
        experience, 2007.
        """
        blocks, total = dict(self.blocks), 0
        for step in self.gathers:
            count = self.count(step)
            rows, columns = blocks[step.operand]
            bits = (self.local.a_type if step.operand == "a" else self.local.b_type).bits
            total += rows * columns * bits // 8 * (count - 1)
            blocks[step.operand] = (rows * count, columns) if step.dimension == 0 else (rows, columns * count)
        for step in self.reduces:
            part, count = int(self.local.m) * int(self.local.n) * self.local.c_type.bits // 8, self.count(step)
            total += part * (count - 1) // count * (1 if step.scatter is not None else 2)
        return total


@lru_cache(maxsize=256)
def program(spec: MatmulSpec, sharding: Sharding, grid: tuple[int, ...]) -> Program:
    """The program of each process of a grid for a product.

    Raises:
        SpecError: The product is no plain one of static extents; or the grid does not split it into blocks of one size.
        LoweringError: MLIR splits it in a way for which there are no steps here.
    """
    shapes = {"a": (spec.m, spec.k), "b": (spec.k, spec.n), "c": (spec.m, spec.n)}
    # All dialects are loaded: those that can be split say so where they are.
    with ir.Context() as context, ir.Location.unknown():
        context.enable_multithreading(False)
        module = annotated.build(spec, sharding, grid)
        splits: dict[str, Split] = {"a": sharding.a, "b": sharding.b, "c": sharding.c}
        blocks = {name: block(shapes[name], splits[name], grid, name.upper()) for name in _OPERANDS}
        sharded = str(module)
        run_passes(module, _PASSES, "partition")
        gathers, m, n, k, reduces = _read(module, spec)
        local = replace(spec, m=m, n=n, k=k)
        made = Program(grid, gathers, local, reduces, blocks, sharded, str(module))
        if [(m, k), (k, n)] != [_gathered(made, name) for name in ("a", "b")]:
            raise LoweringError(f"a process's product is {m}x{n}x{k}\n{module}", stage="partition")
        return made


def _read(module: ir.Module, spec: MatmulSpec) -> tuple[tuple[Gather, ...], int, int, int, tuple[Reduce, ...]]:
    """The steps of a partitioned program, and the extents of its product.

    Raises:
        LoweringError: It has other ops than there are steps for.
    """
    function = next(op for op in module.body.operations if isinstance(op, func.FuncOp))
    block_ = function.regions[0].blocks[0]
    names = dict(zip(block_.arguments, "ab", strict=True))
    turned = dict(zip("ab", spec.transposed, strict=False))
    gathers: list[Gather] = []
    reduces: list[Reduce] = []
    extents: tuple[int, int, int] | None = None
    for op in block_.operations:
        name = op.name if isinstance(op.name, str) else op.operation.name
        if name == "shard.all_gather" and op.operands[0] in names and extents is None:
            operand = names[op.operands[0]]
            names[op.results[0]] = operand
            gathers.append(Gather(operand, _axes(op), _number(op, "gather_axis") ^ turned[operand]))
        elif name in _PRODUCTS and extents is None and [names.get(each) for each in op.operands[:2]] == ["a", "b"]:
            a, b = (
                ir.RankedTensorType(value.type).shape[:: -1 if turned[each] else 1]
                for value, each in zip(op.operands[:2], "ab", strict=True)
            )
            extents = a[0], b[1], a[1]
        elif name == "shard.all_reduce" and extents is not None and not reduces:
            reduces.append(Reduce(_axes(op), None))
        elif name == "shard.reduce_scatter" and extents is not None and not reduces:
            reduces.append(Reduce(_axes(op), _number(op, "scatter_axis")))
        elif name == "linalg.generic" and extents is not None and not reduces:
            continue  # It rounds complete sums to C's type, as the kernel does.
        elif name not in _LOCAL:
            raise LoweringError(
                f"there is no step for {name} here\n{module}", stage="partition", remedy="Choose another sharding"
            )
    if extents is None:
        raise LoweringError(f"a process has no product of A and B\n{module}", stage="partition")
    return tuple(gathers), *extents, tuple(reduces)


def _gathered(made: Program, operand: str) -> tuple[int, int]:
    """The shape of an operand once its blocks are gathered."""
    found = list(made.blocks[operand])
    for each in made.gathers:
        if each.operand == operand:
            found[each.dimension] *= made.count(each)
    return found[0], found[1]


def _axes(op: ir.OpView) -> tuple[int, ...]:
    return tuple(ir.DenseI16ArrayAttr(op.attributes["grid_axes"]))


def _number(op: ir.OpView, name: str) -> int:
    return ir.IntegerAttr(op.attributes[name]).value
