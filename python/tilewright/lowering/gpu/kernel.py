# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A thread's function as the kernel of a GPU module, and the module in the dialect of LLVM."""

from __future__ import annotations

from tilewright.lowering import driver, pipelines
from tilewright.mlir import ir
from tilewright.mlir.dialects import gpu, memref
from tilewright.payload.abi import ENTRY

MODULE = "kernels"
"""The name of the GPU module."""

TO_NVVM = """builtin.module(
    convert-scf-to-cf, expand-strided-metadata, lower-affine,
    gpu.module(convert-gpu-to-nvvm), convert-vector-to-llvm, convert-ub-to-llvm, convert-cf-to-llvm, convert-index-to-llvm,
    convert-arith-to-llvm, finalize-memref-to-llvm, gpu.module(convert-nvvm-to-llvm), canonicalize, cse,
    reconcile-unrealized-casts
)"""
"""A GPU module to the NVVM dialect, every memref parameter in parts: two pointers, an offset, extents and strides."""


def lower_vectors(module: ir.Module, lanes: int) -> None:
    """Takes a thread's vectors to single registers of `lanes` elements.

    Raises:
        LoweringError: It failed.
    """
    driver.run_own_script(module, pipelines.lower_vectors(lanes, ()), "threads")


def outline(module: ir.Module, threads: int) -> ir.Module:
    """The module with the one function as a kernel for blocks of `threads` threads, its tiles in static shared memory."""
    (function,) = (op for op in module.body.operations if op.operation.name == "func.func")
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    with module.context, function.location:
        outlined = ir.Module.create()
        outlined.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
        with ir.InsertionPoint(outlined.body):
            container = gpu.GPUModuleOp(MODULE)
        body = (
            container.bodyRegion.blocks.append() if not container.bodyRegion.blocks else container.bodyRegion.blocks[0]
        )
        with ir.InsertionPoint(body):
            kernel = gpu.GPUFuncOp(kind, ENTRY, kernel=True, known_block_size=[threads, 1, 1])
        block = function.regions[0].blocks[0]
        block.append_to(kernel.body)
        terminator = block.operations[len(block.operations) - 1]
        with ir.InsertionPoint(terminator):
            gpu.return_([])
        terminator.operation.erase()
        _place_tiles(kernel.operation, body)
    return outlined


def _place_tiles(kernel: ir.Operation, container: ir.Block) -> None:
    """Makes each tile in shared memory a variable of the module."""
    tiles: list[ir.Operation] = []

    def note(op: ir.Operation) -> ir.WalkResult:
        if op.name == "memref.alloc":
            tiles.append(op)
        return ir.WalkResult.ADVANCE

    kernel.walk(note, ir.WalkOrder.PRE_ORDER)
    for number, tile in enumerate(tiles):
        kind, name = tile.results[0].type, f"tile_{number}"
        with tile.location:
            with ir.InsertionPoint.at_block_begin(container):
                memref.global_(
                    sym_name=name,
                    type_=ir.TypeAttr.get(kind),
                    sym_visibility="private",
                    initial_value=ir.UnitAttr.get(),
                    alignment=16,
                )
            with ir.InsertionPoint(tile):
                variable = memref.get_global(kind, name)
        tile.results[0].replace_all_uses_with(variable)
        tile.erase()
