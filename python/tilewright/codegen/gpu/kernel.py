# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A thread's function as the kernel of a GPU module, and the module in the dialect of LLVM."""

from __future__ import annotations

import re
from math import prod

from tilewright.build.constants import bits_of
from tilewright.build.usedef import body, named, replace, terminator
from tilewright.lowering import pipelines, run
from tilewright.mlir import ir
from tilewright.mlir.dialects import gpu, llvm, memref
from tilewright.mlir.dialects.transform import vector
from tilewright.payload.abi import ENTRY
from tilewright.schedules import steps

MODULE = "kernels"
"""The name of the GPU module."""
ALIGNMENT = 1024
"""Bytes to which tiles in shared memory are aligned: after so many the pattern of a swizzle repeats."""
_SHARED = "shared_memory"
_MAP_BYTES, _MAP_ALIGNMENT = 128, 64
"""Of a tensor map. Source: CUDA Driver API, CUtensorMap."""

TO_NVVM = """builtin.module(
    convert-nvgpu-to-nvvm, convert-scf-to-cf, expand-strided-metadata, lower-affine,
    gpu.module(convert-gpu-to-nvvm), convert-vector-to-llvm, convert-ub-to-llvm, convert-cf-to-llvm, convert-index-to-llvm,
    convert-arith-to-llvm, finalize-memref-to-llvm, gpu.module(convert-nvvm-to-llvm), canonicalize, cse,
    reconcile-unrealized-casts
)"""
"""A GPU module to the NVVM dialect, every memref parameter in parts: two pointers, an offset, extents and strides."""


TO_ROCDL = """builtin.module(
    convert-scf-to-cf, expand-strided-metadata, lower-affine,
    gpu.module(convert-amdgpu-to-rocdl{{chipset={chip}}}, convert-gpu-to-rocdl{{chipset={chip}}}),
    convert-vector-to-llvm, convert-ub-to-llvm, convert-cf-to-llvm, convert-index-to-llvm, convert-arith-to-llvm,
    finalize-memref-to-llvm, canonicalize, cse, reconcile-unrealized-casts
)"""
"""The same to the ROCDL dialect, for AMD's GPUs."""


def lower_vectors(module: ir.Module, lanes: int) -> None:
    """Takes a thread's vectors to single registers of `lanes` elements.

    Raises:
        LoweringError: It failed.
    """
    run.run_own_script(module, pipelines.lower_vectors(lanes, (), fold_views=False), "threads")
    with module.context, ir.Location.unknown():
        run.run_own_script(module, _drop_rows(), "threads")


def _drop_rows() -> ir.Module:
    """The script that makes vectors of one row vectors."""
    with steps.script() as script:
        steps.apply(script.functions, _one_row)
        steps.clean(script.functions)
    return script.module


def _one_row() -> None:
    vector.apply_patterns_vector_cast_away_vector_leading_one_dim()
    vector.apply_patterns_vector_lower_shape_cast()


def outline(module: ir.Module, threads: int, *, variables: bool = True) -> ir.Module:
    """The module with the one function as a kernel for blocks of `threads` threads.

    Its tiles in shared memory become variables, or else stay allocations.
    """
    (function,) = (op for op in module.body.operations if op.operation.name == "func.func")
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    with module.context, function.location:
        outlined = ir.Module.create()
        outlined.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
        with ir.InsertionPoint(outlined.body):
            container = gpu.GPUModuleOp(MODULE)
        inside = container.bodyRegion
        top = inside.blocks[0] if inside.blocks else inside.blocks.append()
        with ir.InsertionPoint(top):
            kernel = gpu.GPUFuncOp(kind, ENTRY, kernel=True, known_block_size=[threads, 1, 1])
        block = body(function)
        block.append_to(kernel.body)
        end = terminator(block)
        with ir.InsertionPoint(end):
            gpu.return_([])
        end.erase()
        if variables:
            _place_tiles(kernel.operation, top)
    return outlined


def _place_tiles(kernel: ir.Operation, container: ir.Block) -> None:
    """Makes each tile in shared memory a variable of the module."""
    for number, tile in enumerate(named(kernel, "memref.alloc")):
        kind, name = tile.results[0].type, f"tile_{number}"
        with tile.location:
            with ir.InsertionPoint.at_block_begin(container):
                memref.global_(
                    sym_name=name,
                    type_=ir.TypeAttr.get(kind),
                    sym_visibility="private",
                    initial_value=ir.UnitAttr.get(),
                    alignment=ALIGNMENT,
                )
            with ir.InsertionPoint(tile):
                variable = memref.get_global(kind, name)
        replace(tile, variable)


def tile_bytes(module: ir.Module) -> int:
    """Bytes of the tiles in shared memory of a thread's function."""
    kinds = [ir.MemRefType(each.results[0].type) for each in named(module.operation, "memref.alloc")]
    return sum(prod(kind.shape) * bits_of(kind.element_type) // 8 for kind in kinds)


def order_shared_memory_only(module: ir.Module) -> None:
    """Lets threads of AMD's GPUs that meet wait for what they did in shared memory only: loads may be under way meanwhile.

    What is in memory no two threads of a block touch.
    """
    for barrier in named(module.operation, "gpu.barrier"):
        with ir.InsertionPoint(barrier), barrier.location:
            ir.Operation.create("amdgpu.lds_barrier")
        barrier.erase()


def hold_registers(module: ir.Module, cluster: int = 1, resident: int = 1) -> None:
    """Says of the kernel, in the dialect of LLVM, that `resident` blocks at a time are enough: then registers are moved between warps.

    Blocks are in clusters of `cluster`.
    """
    with module.context:
        for function in named(module.operation, "llvm.func"):
            if "nvvm.kernel" in function.attributes:
                function.attributes["nvvm.minctasm"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), resident)
                if cluster > 1:
                    function.attributes["nvvm.cluster_dim"] = ir.DenseI32ArrayAttr.get([cluster, 1, 1])


def follows(module: ir.Module) -> bool:
    """Whether threads wait for the kernels before by themselves."""
    return any(True for _ in named(module.operation, "nvvm.griddepcontrol"))


def pass_by_value(module: ir.Module, maps: int) -> None:
    """Makes the last `maps` parameters of the kernel, in the dialect of LLVM, tensor maps that lie among its parameters.

    In memory that may be written they would need a fence before their first use, and a copy to the card before every launch.
    Source: CUDA C++ Programming Guide, "Using TMA to transfer multi-dimensional arrays".
    """
    if not maps:
        return
    with module.context:
        given = ir.DictAttr.get(
            {
                "llvm.byval": ir.TypeAttr.get(ir.Type.parse(f"!llvm.array<{_MAP_BYTES} x i8>")),
                "llvm.align": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _MAP_ALIGNMENT),
                "nvvm.grid_constant": ir.UnitAttr.get(),
            }
        )
        for function in named(module.operation, "llvm.func"):
            if "nvvm.kernel" in function.attributes:
                others = len(body(function).arguments) - maps
                function.attributes["arg_attrs"] = ir.ArrayAttr.get([*[ir.DictAttr.get({})] * others, *[given] * maps])


def join_tiles(module: ir.Module) -> int:
    """Puts all variables in shared memory, in the dialect of LLVM, behind one another in one of open size. Returns their bytes.

    A block may have more shared memory than variables of fixed size may take; how much it has is then said with each launch.
    """
    container = module.body.operations[0].operation
    offsets: dict[str, int] = {}
    end = 0
    with module.context, container.location:
        for variable in named(container, "llvm.mlir.global"):
            name = ir.StringAttr(variable.attributes["sym_name"]).value
            end = -(-end // ALIGNMENT) * ALIGNMENT
            offsets[name] = end
            end += _bytes(ir.TypeAttr(variable.attributes["global_type"]).value)
            variable.erase()
        shared = ir.Operation.parse(
            f"llvm.mlir.global external @{_SHARED}() {{addr_space = 3 : i32, alignment = {ALIGNMENT} : i64}} "
            ": !llvm.array<0 x i8>"
        )
        ir.InsertionPoint.at_block_begin(body(container)).insert(shared)
        pointer, byte = ir.Type.parse("!llvm.ptr<3>"), ir.TypeAttr.get(ir.IntegerType.get_signless(8))
        for use in named(container, "llvm.mlir.addressof"):
            offset = offsets[ir.FlatSymbolRefAttr(use.attributes["global_name"]).value]
            with ir.InsertionPoint(use):
                base = llvm.mlir_addressof(pointer, _SHARED)
                place = llvm.getelementptr(pointer, base, [], [offset], byte, None)
            replace(use, place)
    return end


def _bytes(kind: ir.Type) -> int:
    """Bytes of nested arrays of numbers, as LLVM's dialect writes their type."""
    text = str(kind)
    extents = [int(extent) for extent in re.findall(r"array<(\d+) x", text)]
    return prod(extents) * int(re.findall(r"\d+", text)[-1]) // 8
