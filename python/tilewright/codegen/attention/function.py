# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Carries out an online softmax: the function of attention as loops on memrefs, its tasks shared between threads.

No transform of upstream's fuses the reductions of a softmax with the products around it into one pass. So the loops are written out
here: the payload's ops say what is computed, and a `#tilewright.online_softmax` in which blocks.
"""

from __future__ import annotations

from math import prod

from tilewright.build import index
from tilewright.build.index import Index
from tilewright.build.loops import repeat
from tilewright.build.usedef import body, parent, terminator
from tilewright.codegen.attention import chain, checks
from tilewright.codegen.attention.blocks import Blocks
from tilewright.codegen.attention.chain import Chain
from tilewright.codegen.attention.code import Code
from tilewright.codegen.attention.decode import Decode
from tilewright.codegen.attention.problem import Head, Problem
from tilewright.codegen.attention.vectors import Vectors
from tilewright.lowering.passes import parallel
from tilewright.mlir import ir
from tilewright.mlir.dialects import func, memref
from tilewright.payload.attention_numbers import DEGREE
from tilewright.schedules.decisions import OnlineSoftmax
from tilewright.schedules.models import online_softmax
from tilewright.schedules.models.online_softmax import Tiling
from tilewright.targets.base import Target

_STACK_BITS = 128
"""What a stack is aligned to where nothing else is asked for."""
_ALIGNED = "stackrealign"
"""LLVM's attribute of functions whose stack is aligned to what they keep there. Where it finds only while it allocates registers that
vectors have to be kept, it cannot align it any more, and each vector of 512 bits is in two cache lines: four queries by 128 elements took
1.4 times as long on Zen 4."""


def expand(function: func.FuncOp, softmax: ir.Operation, decision: OnlineSoftmax, target: Target, threads: int) -> int:
    """Replaces a function on tensors by one on memrefs: its arguments, the result, and scratch memory.

    Args:
        function: The function, which computes nothing but the chain around `softmax`.
        softmax: The softmax that carries the decision.
        decision: The blocks.
        target: For which target.
        threads: Between how many threads its tasks are shared at most.

    Returns:
        The bytes of scratch memory.

    Raises:
        ScheduleError: The ops around the softmax are no attention, or the decision does not fit them or the target.
    """
    found = chain.read(function, softmax)
    tiling = online_softmax.of(decision, found, target)
    offsets, share = online_softmax.offsets(found, tiling)
    scratch = ir.MemRefType.get([share * threads], ir.IntegerType.get_signless(8))
    operands = [_memref(each) for each in (*function.type.inputs, *function.type.results)]
    name = function.name.value
    with ir.InsertionPoint(function.operation):
        made = func.FuncOp(name, ir.FunctionType.get([*operands, scratch], []))
    function.operation.erase()
    if target.vector_bits > _STACK_BITS and tiling.along_head:
        made.attributes["passthrough"] = ir.ArrayAttr.get([ir.StringAttr.get(_ALIGNED)])
    *arguments, out, memory = made.add_entry_block().arguments
    with ir.InsertionPoint(made.entry_block):
        vectors = Vectors(tiling.lanes, target, DEGREE[tiling.multiplied])
        problem = Problem.of(found, tiling, arguments, out)
        slots, unit = problem.slots, tiling.rows * tiling.columns
        blocks = 1 if tiling.along_head else index.ceil_div(problem.rows, unit) if slots is None else slots.count
        tasks = index.mul(blocks, prod(found.batch) * problem.task_heads)

        def run(part: Index, parts: Index) -> None:
            def task(number: ir.Value) -> None:
                place = index.add(index.mul(number, parts), part)
                own = _buffers(found, tiling, memory, index.mul(part, share), offsets)
                block = index.rem(place, blocks)
                sequence, block = (None, block) if slots is None else slots.find(block)
                head = Head.at(problem, index.value(index.div(place, blocks)), sequence)
                code = Code(head.problem, vectors, own)
                if tiling.along_head:
                    after = index.signed_min(index.add(place, parts), index.sub(tasks, 1))
                    rows = online_softmax.rows_along_head(found, tiling)
                    Decode(code, head, Head.at(problem, index.value(after)), rows).run()
                else:
                    Blocks(code).block(head, index.value(block))

            # Neighboring blocks go to different threads: of those that are causal, later ones take longer.
            mine = index.div(index.add(index.sub(tasks, part), index.sub(parts, 1)), parts)
            repeat(index.signed_max(mine, 0), 1, task)

        if threads == 1 and not found.is_empty:
            run(0, 1)
        func.ReturnOp([])
    if found.packed or found.lengths:
        with ir.InsertionPoint(body(parent(made.operation))):
            checks.define(found, operands)
    if threads > 1 and not found.is_empty:
        cap = parallel.cap(made, threads)
        with ir.InsertionPoint(terminator(made.entry_block)):
            _, part, end = parallel.region(cap, threads)
        with ir.InsertionPoint(end):
            run(part.arguments[0], threads)
    return share * threads


def _memref(tensor: ir.Type) -> ir.Type:
    """The type of an operand as calls pass it: any strides, but rows are contiguous."""
    kind = ir.RankedTensorType(tensor)
    any_stride = ir.ShapedType.get_dynamic_stride_or_offset()
    layout = ir.StridedLayoutAttr.get(0, [any_stride] * (kind.rank - 1) + [1])
    return ir.MemRefType.get(kind.shape, kind.element_type, layout)


def _buffers(
    found: Chain, tiling: Tiling, scratch: ir.Value, start: Index, offsets: dict[str, int]
) -> dict[str, ir.Value]:
    """The buffers of a thread, whose scratch memory starts at byte `start`."""
    made = {}
    for name, (shape, element) in online_softmax.buffers(found, tiling).items():
        kind = ir.MemRefType.get(shape, ir.Type.parse(element))
        made[name] = memref.view(kind, scratch, index.value(index.add(start, offsets[name])), [])
    return made
