# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The function of attention: its tasks, shared between threads, each with scratch memory of its own.

No transform of upstream's makes one pass of the reductions of a softmax and of the products around it, so that what the payload
says is written out here, with the sizes of `schedules.attention`.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.dims import Dim
from tilewright.lowering import parallel
from tilewright.lowering.attention import build
from tilewright.lowering.attention.blocks import Blocks
from tilewright.lowering.attention.code import Code
from tilewright.lowering.attention.decode import Decode
from tilewright.lowering.attention.problem import Head, Problem
from tilewright.lowering.attention.vectors import Vectors
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref, openmp
from tilewright.operand import OperandSpec
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.payload.attention_numbers import DEGREE
from tilewright.schedules import attention as schedule
from tilewright.schedules.attention import AttentionPlan
from tilewright.targets.base import Target


def written_out(spec: AttentionSpec, plan: AttentionPlan, target: Target, threads: int) -> tuple[ir.Module, int]:
    """A module with the function, on memrefs, and the bytes of scratch memory that it takes as its last argument.

    Needs an active `ir.Context` and location.
    """
    offsets, share = schedule.offsets(spec, plan)
    module = ir.Module.create()
    dynamic = ir.ShapedType.get_dynamic_size()
    scratch = ir.MemRefType.get([share * threads], ir.IntegerType.get_signless(8))
    with ir.InsertionPoint(module.body):
        inputs = [*(_memref(each, dynamic) for each in (*spec.operands, spec.result)), scratch]
        function = func.FuncOp(spec.operator, ir.FunctionType.get(inputs, []))
    vectors = Vectors(plan.lanes, target.architecture != "x86_64" or "fma" in target.features, DEGREE[plan.multiplied])
    arguments = list(function.add_entry_block().arguments)
    with ir.InsertionPoint(function.entry_block):
        problem = Problem.of(spec, plan, arguments)
        blocks = 1 if plan.strategy == "decode" else build.steps(problem.rows, plan.rows * plan.columns)
        batch = 1
        for each in spec.batch:
            batch *= each
        tasks = build.multiply(blocks, batch * problem.task_heads)

        def run(part: build.Size, parts: build.Size) -> None:
            def task(number: ir.Value) -> None:
                place = build.multiply(number, parts)
                place = build.add(place, part)
                own = _buffers(spec, plan, arguments[-1], build.multiply(part, share), offsets)
                head = Head.at(problem, build.at(build.divide(place, blocks)))
                code = Code(problem, vectors, own)
                if plan.strategy == "decode":
                    Decode(code, head, spec.queries * spec.group).run()
                else:
                    Blocks(code).block(head, build.at(build.rest(place, blocks)))

            # Neighbouring blocks go to different threads: of those that are causal, later ones take longer.
            mine = build.divide(build.add(build.subtract(tasks, part), build.subtract(parts, 1)), parts)
            build.loop(build.most(mine, 0), 1, task)

        empty = 0 in spec.result.shape
        if threads == 1 and not empty:
            run(0, 1)
        func.ReturnOp([])
    if threads > 1 and not empty:
        _share(function, threads, run)
    return module, share * threads


def _memref(operand: OperandSpec, dynamic: int) -> ir.Type:
    """The type of an operand: rows anywhere, elements of a row side by side."""
    shape = [dynamic if isinstance(each, Dim) else each for each in operand.shape]
    any_stride = ir.ShapedType.get_dynamic_stride_or_offset()
    layout = ir.StridedLayoutAttr.get(0, [any_stride] * (len(shape) - 1) + [1])
    return ir.MemRefType.get(shape, ir.Type.parse(operand.type.mlir), layout)


def _buffers(
    spec: AttentionSpec, plan: AttentionPlan, scratch: ir.Value, start: build.Size, offsets: dict[str, int]
) -> dict[str, ir.Value]:
    """The buffers of a thread, whose scratch memory starts at byte `start`."""
    found = {}
    for name, (shape, element) in schedule.scratch(spec, plan).items():
        kind = ir.MemRefType.get(shape, ir.Type.parse(element))
        found[name] = memref.view(kind, scratch, build.at(build.add(start, offsets[name])), [])
    return found


def _share(function: func.FuncOp, threads: int, run: Callable[[build.Size, build.Size], None]) -> None:
    """Runs `run(part, parts)` for each part, one for each thread of those that OpenMP grants.

    After::

        cap = omp_in_parallel() ? 1 : min(threads, omp_get_max_threads())
        omp.parallel num_threads(cap): omp.wsloop: for part in 0..threads: run(part, threads)
    """
    cap = parallel.cap(function, threads)
    block = function.entry_block
    with ir.InsertionPoint(block.operations[len(block.operations) - 1]):
        index = ir.IndexType.get()
        zero, one, count = (arith.constant(index, each) for each in (0, 1, threads))
        region = openmp.ParallelOp([], [], [], [], num_threads=cap)
    with ir.InsertionPoint(region.region.blocks.append()):
        loop = openmp.WsloopOp([], [], [], [], [], [], nowait=True)  # the region's end waits
        openmp.TerminatorOp()
    with ir.InsertionPoint(loop.region.blocks.append()):
        nest = openmp.LoopNestOp([zero], [count], [one])
    body = nest.region.blocks.append(index)
    with ir.InsertionPoint(body):
        run(body.arguments[0], threads)
        openmp.YieldOp([])
