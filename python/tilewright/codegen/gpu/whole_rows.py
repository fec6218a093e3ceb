# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A kernel for what needs whole rows of C: softmax, and reductions of rows, of sums that another kernel has left in memory.

A block that had whole rows of C to itself would multiply alone for all of N, and where there are few rows few blocks would. So
the product has its own kernel, which shares M and N among blocks as ever; it does all that comes before in the epilogue, and this
one, launched behind it by the same call, the rest. Upstream maps no reduction to the threads of a block.

Of each block, as many threads as divide it have a row each::

    for each row of mine:                                 # four columns at once, lanes apart
        most  = reduce over threads, for n in mine..N step lanes: max(x[row, n])
        total = reduce over threads, for n in mine..N step lanes: exp(x[row, n] - most)
        for n in mine..N step lanes: c[row, n] = f(exp(x[row, n] - most) / total, ...)

Which thread adds up what depends on N alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tilewright.build.index import Index, add, div_rem, less, minimum, mul, sub, value
from tilewright.build.loops import Loop, loop, when
from tilewright.codegen.gpu.staging import SHARED
from tilewright.dims import least
from tilewright.dtypes import dtype
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, gpu, math, memref, scf
from tilewright.operand import OperandSpec
from tilewright.payload import batched, elementwise, rows
from tilewright.payload.abi import ENTRY
from tilewright.payload.row_pass import RowPass
from tilewright.spec import MatmulSpec

_THREADS, _LEAST_LANES = 256, 32
_AT_ONCE = 4
"""Columns of a thread that are loaded at once; so many it has at least, where a row has more threads than the least."""


@dataclass(frozen=True, slots=True)
class RowTile:
    """How rows are shared among threads.

    Attributes:
        lanes: Threads of a row: a power of two.
        bn: Rows of a block; they are along the grid's first axis, which has most.
        bm: One.
    """

    lanes: int
    bn: int
    bm: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes * self.bn


def sizes(spec: MatmulSpec) -> RowTile:
    """Those for rows of N columns."""
    lanes = _LEAST_LANES
    while lanes < _THREADS and lanes * 2 * _AT_ONCE <= least(spec.n):
        lanes *= 2
    return RowTile(lanes, _THREADS // lanes)


def build(spec: MatmulSpec, tile: RowTile, context: ir.Context) -> ir.Module:
    """The module of a thread's function, which takes the operands of a `RowPass` of `spec`."""
    pass_ = RowPass(spec)
    with context, ir.Location.name("rows", ir.Location.name(str(spec))):
        module = ir.Module.create()
        kinds = [_kind(each, spec) for each in (*pass_.operands, pass_.result)]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp(ENTRY, ir.FunctionType.get(kinds, []), visibility="private")
        with ir.InsertionPoint(function.add_entry_block()):
            _Thread(pass_, tile, list(function.arguments)).emit()
            func.return_([])
    return module


def _kind(operand: OperandSpec, spec: MatmulSpec) -> ir.MemRefType:
    dynamic, rank = ir.ShapedType.get_dynamic_size(), len(operand.looped(spec.batch))
    layout = ir.StridedLayoutAttr.get(0, batched.strides(rank))
    return ir.MemRefType.get([dynamic] * rank, ir.Type.parse(operand.type.mlir), layout)


class _Thread:
    """What a thread does."""

    def __init__(self, pass_: RowPass, tile: RowTile, arguments: Sequence[ir.Value]) -> None:
        self._pass, self._tile = pass_, tile
        self._block, *self._further, self._c = arguments
        spec = pass_.whole
        self._spec = spec
        self._entry = spec.chain.entries[rows.position(spec)]
        axes = len(spec.batch_axes)
        self._m, self._n = (memref.dim(self._block, value(axes + each)) for each in (0, 1))
        self._thread = gpu.thread_id(gpu.Dimension.x)
        self._group, self._lane = div_rem(self._thread, tile.lanes)
        self._row = add(mul(gpu.block_id(gpu.Dimension.x), tile.bn), self._group)
        self._entries = self._places(axes)
        self._inside = less(self._row, self._m)
        self._own = minimum(self._row, sub(self._m, 1))
        kind = ir.MemRefType(self._block.type).element_type
        space = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), SHARED)
        self._shared = memref.alloc(ir.MemRefType.get([tile.threads], kind, memory_space=space), [], [])

    def _places(self, axes: int) -> dict[int, Index]:
        """The number of the entry along each axis of the batch, which the grid's third axis tells."""
        found: dict[int, Index] = {}
        entry: Index = gpu.block_id(gpu.Dimension.z)
        for number in reversed(range(1, axes)):
            entry, found[self._spec.batch_axes[number]] = div_rem(entry, memref.dim(self._block, value(number)))
        if axes:
            found[self._spec.batch_axes[0]] = entry
        return found

    def emit(self) -> None:
        """Emits it."""
        if self._spec.reduces_rows:
            self._reduced()
        else:
            self._softmax()

    def _reduced(self) -> None:
        form, work = self._entry.entry.form, self._entry.result
        result = self._reduce(form, self._element)
        first = arith.andi(self._inside, arith.cmpi(arith.CmpIPredicate.eq, value(self._lane), value(0)))
        with when(first):
            spec = self._spec
            result = elementwise.converted(result, work, spec.c_type.name, spec.chain.compute)
            self._store(result, self._pass.result, 0)

    def _softmax(self) -> None:
        most = self._reduce("row_max", self._element)

        def part(column: ir.Value) -> ir.Value:
            return math.exp(arith.subf(self._element(column), most))

        total = self._reduce("row_sum", part)
        factor = arith.divf(arith.constant(total.type, 1.0), total)
        with self._over_columns([]) as (first, _, _):
            columns = self._columns(first)
            elements = []
            for column, _ in columns:
                given = [
                    self._load(view, operand, column)
                    for view, operand in zip(self._further, self._pass.operands[1:], strict=True)
                ]
                elements.append(rows.element_after(self._spec, arith.mulf(part(column), factor), given))
            for element, (column, is_one) in zip(elements, columns, strict=True):
                with when(arith.andi(self._inside, is_one)):
                    self._store(element, self._pass.result, column)

    def _reduce(self, form: str, element: Callable[[ir.Value], ir.Value]) -> ir.Value:
        """What a reduction makes of a row, in all of its threads."""
        kind = ir.MemRefType(self._block.type).element_type
        start, combine = rows.COMBINE[form, dtype(self._entry.result).kind == "float"]
        nothing = arith.constant(kind, start)
        with self._over_columns([nothing]) as (first, (result,), over):
            for column, is_one in self._columns(first):
                result = combine(result, arith.select(is_one, element(column), nothing))
            scf.yield_([result])
        gpu.barrier()  # Nobody reads what was reduced before.
        mine = value(self._thread)
        memref.store(over.results[0], self._shared, [mine])
        gpu.barrier()
        reach = self._tile.lanes
        while reach > 1:
            reach //= 2
            with when(less(self._lane, reach)):
                other = memref.load(self._shared, [value(add(mine, reach))])
                memref.store(combine(memref.load(self._shared, [mine]), other), self._shared, [mine])
            gpu.barrier()
        return memref.load(self._shared, [value(mul(self._group, self._tile.lanes))])

    def _over_columns(self, carried: Sequence[ir.Value]) -> AbstractContextManager[Loop]:
        """The loop over a thread's columns, some at a time."""
        return loop(self._lane, self._n, self._tile.lanes * _AT_ONCE, carried)

    def _columns(self, first: ir.Value) -> list[tuple[ir.Value, ir.Value]]:
        """Those that a thread has at once: of which nothing waits for another one's loads. Beside each is whether there is such a one."""
        last = sub(self._n, 1)
        columns = [add(first, each * self._tile.lanes) for each in range(_AT_ONCE)]
        return [(value(minimum(each, last)), less(each, self._n)) for each in columns]

    def _element(self, column: ir.Value) -> ir.Value:
        return self._load(self._block, self._pass.operands[0], column)

    def _load(self, view: ir.Value, operand: OperandSpec, column: Index) -> ir.Value:
        return memref.load(view, self._at(operand, column))

    def _store(self, element: ir.Value, operand: OperandSpec, column: Index) -> None:
        memref.store(element, self._c, self._at(operand, column))

    def _at(self, operand: OperandSpec, column: Index) -> list[ir.Value]:
        """Where an operand has its element for this row and a column."""
        place = {"m": self._own, "n": column}
        return [
            value(each)
            for each in (*(self._entries[axis] for axis in operand.loops), *(place[a] for a in operand.axes))
        ]
