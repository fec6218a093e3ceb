# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A thread's function as a compute shader in SPIR-V."""

from __future__ import annotations

from tilewright.build.usedef import body, named
from tilewright.codegen.gpu import flat, kernel, words
from tilewright.errors import LoweringError
from tilewright.lowering import line_tables, run
from tilewright.lowering.types import half_floats
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright

_TO_SPIRV = """builtin.module(
    convert-math-to-spirv, map-memref-spirv-storage-class{client-api=vulkan}, convert-gpu-to-spirv,
    spirv.module(spirv-lower-abi-attrs, spirv-update-vce)
)"""
_ENVIRONMENT = (
    "#spirv.target_env<#spirv.vce<v1.3, [Shader, Float64], [SPV_KHR_storage_buffer_storage_class]>, "
    "#spirv.resource_limits<>>"
)


def shader(module: ir.Module, function: ir.Operation, threads: int) -> tuple[str, bytes]:
    """The shader of the one function of a module, for blocks of `threads` threads: its text, and its binary.

    Its buffers are the extents and strides of all operands, and then the operands, in descriptor set 0.

    Raises:
        LoweringError: A pass failed, or it cannot be written as SPIR-V.
    """
    words.through_f32(function)
    run.run_passes(module, half_floats.EXPAND_BF16, "spirv")
    flat.flatten(function)
    words.expand(function)
    run.run_passes(module, "builtin.module(lower-affine, canonicalize, cse)", "spirv")
    words.settle(function)
    run.run_passes(module, "builtin.module(canonicalize, cse)", "spirv")
    outlined = kernel.outline(module, threads, variables=False)
    with outlined.context:
        outlined.operation.attributes["spirv.target_env"] = ir.Attribute.parse(_ENVIRONMENT)
        container = outlined.body.operations[0].operation
        entry = body(container).operations[0].operation
        size = f"#spirv.entry_point_abi<workgroup_size = [{threads}, 1, 1]>"
        entry.attributes["spirv.entry_point_abi"] = ir.Attribute.parse(size)
    run.run_passes(outlined, _TO_SPIRV, "spirv")
    _forbid_rearranging(outlined)
    made = next(op.operation for op in outlined.body.operations if op.operation.name == "spirv.module")
    try:
        text = str(made.get_asm(enable_debug_info=line_tables.wanted()))
        return text, _tilewright.serialize_spirv(made)
    except RuntimeError as e:
        raise LoweringError(str(e), stage="spirv") from None


def _forbid_rearranging(module: ir.Module) -> None:
    """Lets no driver simplify sums: (x + c) - c is how a number is rounded to a whole one."""
    for op in named(module.operation, *_SUMS):
        op.attributes["no_contraction"] = ir.UnitAttr.get(module.context)


_SUMS = frozenset({"spirv.FAdd", "spirv.FSub", "spirv.FMul", "spirv.FDiv"})
