# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the program of one process to one function, which calls MPI and kernels of ours.

From the partitioned program: panels (`tilewright-shard-panels`), messages of the mpi dialect (`tilewright-shard-to-mpi`), bufferization,
calls of kernels in place of products, the LLVM dialect (`tilewright-mpi-to-llvm`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.build.views import metadata
from tilewright.distributed.partition import Program
from tilewright.emit import code, llvmir
from tilewright.lowering.entries import entry
from tilewright.lowering.run import run_passes
from tilewright.lowering.types import half_floats
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright
from tilewright.mlir.dialects import arith, func, linalg, memref
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_MESSAGES = """builtin.module(
    func.func(tilewright-shard-panels{{per-block={panels} multiple={depth}}}, tilewright-shard-to-mpi{{ahead={ahead}}}), canonicalize, cse
)"""
_BUFFERS = """builtin.module(
    one-shot-bufferize{bufferize-function-boundaries=true function-boundary-type-conversion=identity-layout-map},
    buffer-results-to-out-params{hoist-static-allocs=true modify-public-functions=true}, canonicalize, cse
)"""
_LOOPS = """builtin.module(
    convert-linalg-to-loops, expand-strided-metadata, lower-affine, convert-scf-to-cf, canonicalize, cse
)"""
_LLVM = "builtin.module(tilewright-mpi-to-llvm, reconcile-unrealized-casts)"
ALIGNMENT = 64
"""Of buffers, in bytes: a cache line."""


@dataclass(frozen=True, slots=True)
class Native:
    """A compiled program.

    Attributes:
        object: Its object, with the function `payload.abi.ENTRY`: ``int32_t matmul(const A *, const B *, int64_t comm..., C *, void *)``.
            It takes memory for panels last, and returns 0; MPI's error code; or less than zero, what a kernel returned.
        kernels: The products that it calls, by the symbol of each kernel.
        communicators: For each that it takes, the axes of the grid along which its processes differ.
        workspace: Bytes of that memory, which starts at a multiple of `ALIGNMENT`.
        texts: Its stages, by name: "mpi", "bufferized", "llvmir".
    """

    object: bytes
    kernels: dict[str, MatmulSpec]
    communicators: tuple[tuple[int, ...], ...]
    workspace: int
    texts: dict[str, str]


def build(program: Program, implementation: str, target: Target, *, panels: int, ahead: int = 1) -> Native:
    """Compiles a program.

    Args:
        program: What each process does.
        implementation: Of MPI: "OpenMPI" or "MPICH".
        target: This machine.
        panels: In how many panels a process's block of K is sent, at most.
        ahead: How many products before the one that takes it a panel is sent; 0: nothing is sent while anything is computed.

    Raises:
        LoweringError: A stage failed.
    """
    texts: dict[str, str] = {}
    with ir.Context() as context, ir.Location.unknown():
        context.enable_multithreading(False)
        module = ir.Module.parse(program.partitioned)
        module.operation.attributes["dlti.map"] = ir.Attribute.parse(
            f'#dlti.map<"MPI:Implementation" = "{implementation}">'
        )
        # Instructions that add up several products at once start anew with each panel.
        depth = max((dot.depth for dot in target.dots(*program.local.multiplied)), default=1)
        run_passes(module, _MESSAGES.format(panels=panels, ahead=ahead, depth=depth), "mpi")
        texts["mpi"] = str(module)
        next(op for op in module.body if op.operation.name == "shard.grid").operation.erase()
        run_passes(module, _BUFFERS, "bufferized")
        function = _function(module)
        communicators = _communicators(function)
        kernels = _call_kernels(module, function, program.local)
        _copy_in_loops(function)
        workspace = _place(function)
        texts["bufferized"] = str(module)
        run_passes(module, _LOOPS, "llvm")
        run_passes(module, half_floats.EXPAND_BF16, "llvm")
        if half_floats.CONVERTERS["f16"].isdisjoint(target.features):
            half_floats.expand_f16(module.operation)
        for name, text in entry.target_attributes(target).items():
            _tilewright.set_attribute(_function(module).operation, name, text)
        run_passes(module, _LLVM, "llvm")
        half_floats.move_as_integers(module.operation)
        texts["llvmir"] = code.optimize(llvmir.translated(module.operation), target)
    return Native(code.object_file(texts["llvmir"], target), kernels, communicators, workspace, texts)


def _function(module: ir.Module) -> func.FuncOp:
    return next(op for op in module.body if isinstance(op, func.FuncOp) and not op.is_external)


def _communicators(function: func.FuncOp) -> tuple[tuple[int, ...], ...]:
    """The axes of each communicator that the function takes."""
    marked = [each["tilewright.axes"] for each in map(ir.DictAttr, function.arg_attrs) if "tilewright.axes" in each]
    return tuple(tuple(ir.DenseI16ArrayAttr(each)) for each in marked)


def _call_kernels(module: ir.Module, function: func.FuncOp, local: MatmulSpec) -> dict[str, MatmulSpec]:
    """Replaces the products by calls of kernels, which are declared; returns these by symbol.

    The first product after a fill of its sums needs no sums; others add to what is there.
    """
    symbols: dict[MatmulSpec, str] = {}
    filled: dict[ir.Value, ir.Operation] = {}
    for op in [each.operation for each in function.entry_block.operations]:
        if op.name == "linalg.fill":
            filled[op.operands[1]] = op
        elif _is_product(op):
            fill = filled.pop(op.operands[2], None)
            spec = _spec(op, local, beta=int(fill is None))
            symbol = symbols.setdefault(spec, f"kernel{len(symbols)}")
            with ir.InsertionPoint(op), op.location:
                _return(function, _call(symbol, spec, list(op.operands)))
            op.erase()
            if fill is not None:
                fill.erase()
    kinds = [_int(64)] * 3 + [_pointer(), _int(64)] * 3
    with ir.InsertionPoint.at_block_begin(module.body):
        for symbol in symbols.values():
            func.FuncOp(symbol, ir.FunctionType.get(kinds, [_int(32)]), visibility="private")
    return {symbol: spec for spec, symbol in symbols.items()}


def _is_product(op: ir.Operation) -> bool:
    return op.name == "linalg.matmul" or (
        op.name == "linalg.generic" and "reduction" in str(op.attributes["iterator_types"])
    )


def _spec(op: ir.Operation, local: MatmulSpec, *, beta: int) -> MatmulSpec:
    """What a product computes: a panel of the local one, in the accumulator's type."""
    a, _, c = (ir.MemRefType(each.type).shape for each in op.operands)
    return replace(local, k=a[0 if local.a_transposed else 1], m=c[0], n=c[1], c=local.acc, beta=beta)


def _call(symbol: str, spec: MatmulSpec, operands: Sequence[ir.Value]) -> ir.Value:
    """A call of a kernel, as `payload.abi` has its entry; what it returns."""
    given = [arith.constant(_int(64), int(extent)) for extent in (spec.m, spec.n, spec.k)]
    for each, kind in zip(operands, (spec.a_type, spec.b_type, spec.c_type), strict=True):
        given += _address(each, kind.bits)
    return func.CallOp([_int(32)], ir.FlatSymbolRefAttr.get(symbol), given).results[0]


def _address(matrix: ir.Value, bits: int) -> list[ir.Value]:
    """Where the first element of a matrix is, and how many elements, of so many bits, its rows are apart."""
    _, offset, _, strides = metadata(matrix)
    bytes_ = arith.constant(ir.IndexType.get(), bits // 8)
    start = arith.addi(memref.extract_aligned_pointer_as_index(matrix), arith.muli(offset, bytes_))
    number = arith.index_cast(_int(64), start)
    pointer = ir.Operation.create("llvm.inttoptr", results=[_pointer()], operands=[number]).results[0]
    return [pointer, arith.index_cast(_int(64), strides[0])]


def _return(function: func.FuncOp, code_: ir.Value) -> None:
    """Lets the function return what a kernel returned, as less than zero, unless something else went wrong."""
    last = function.entry_block.operations[len(function.entry_block.operations) - 1]
    with ir.InsertionPoint(last), last.location:
        none = arith.constant(_int(32), 0)
        status = last.operands[0]
        fine = arith.cmpi(arith.CmpIPredicate.eq, status, none)
        last.operands[0] = arith.select(fine, arith.subi(none, code_), status)


def _copy_in_loops(function: func.FuncOp) -> None:
    """Replaces copies by ops that become loops: those of matrices with gaps between rows would call MLIR's runtime library."""
    for op in [each.operation for each in function.entry_block.operations]:
        if op.name == "memref.copy":
            with ir.InsertionPoint(op), op.location:
                linalg.copy(op.operands[0], outs=[op.operands[1]])
            op.erase()


def _place(function: func.FuncOp) -> int:
    """Puts all buffers into one further argument, each where no other is while it lives; returns how many bytes that has.

    Calls allocate nothing, so that none fails for want of memory while other processes wait for it. Buffers that nothing frees live until
    the end; the messages' own until they have been sent.
    """
    ops = [each.operation for each in function.entry_block.operations]
    frees = {op.operands[0]: number for number, op in enumerate(ops) if op.name == "memref.dealloc"}
    live: list[tuple[int, int, int]] = []
    places: dict[int, int] = {}
    total = 0
    for number, op in enumerate(ops):
        if op.name != "memref.alloc":
            continue
        live = [each for each in live if each[2] > number]
        start, size = 0, _bytes(ir.MemRefType(op.results[0].type))
        for first, last, _ in sorted(live):
            if first - start >= size:
                break
            start = max(start, last)
        live.append((start, start + size, frees.get(op.results[0], len(ops))))
        places[number], total = start, max(total, start + size)
    memory = function.entry_block.add_argument(ir.MemRefType.get([total], _int(8)), function.location)
    for number in frees.values():
        ops[number].erase()
    for number, start in places.items():
        op = ops[number]
        with ir.InsertionPoint(op), op.location:
            at = arith.constant(ir.IndexType.get(), start)
            op.results[0].replace_all_uses_with(memref.view(op.results[0].type, memory, at, []))
        op.erase()
    kinds, attributes = [each.type for each in function.entry_block.arguments], list(function.arg_attrs)
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, function.type.results))
    function.arg_attrs = [*attributes, ir.DictAttr.get({})]
    return total


def _bytes(buffer: ir.MemRefType) -> int:
    """The bytes of a buffer of static shape, whole lines of them."""
    element = buffer.element_type
    bits = (ir.IntegerType if isinstance(element, ir.IntegerType) else ir.FloatType)(element).width
    return -(-math.prod(buffer.shape) * bits // (8 * ALIGNMENT)) * ALIGNMENT


def _int(bits: int) -> ir.Type:
    return ir.IntegerType.get_signless(bits)


def _pointer() -> ir.Type:
    return ir.Type.parse("!llvm.ptr")
