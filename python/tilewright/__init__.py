# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tilewright: matrix-multiplication kernels from MLIR, by short Python schedules.

The names below are imported when they are first used, so that ``import tilewright`` costs little.
"""

from __future__ import annotations

from importlib import import_module

from tilewright import _interpreter

_interpreter.require_main()

TYPE_CHECKING = False  # Of `typing`, whose import would take longer than all else here.
if TYPE_CHECKING:
    from typing import Any

    from tilewright import math
    from tilewright.dims import Dim
    from tilewright.emit.claims import ClaimError
    from tilewright.entries import Epilogue
    from tilewright.errors import (
        LoweringError,
        OperandError,
        ScheduleError,
        SpecError,
        TargetError,
        TilewrightError,
    )
    from tilewright.gguf import Gguf, GgufTensor, read_gguf
    from tilewright.libraries.build import Library, library
    from tilewright.nibbles import pack_nibbles, unpack_nibbles
    from tilewright.operator_specs import AttentionSpec, Conv2dSpec
    from tilewright.payload.epilogues import (
        bias,
        cast,
        clamp,
        dequantize,
        exp,
        function,
        gather_rows,
        gelu,
        glu,
        hardswish,
        leaky_relu,
        multiply,
        quantize,
        relu,
        residual,
        row_max,
        row_sum,
        scale,
        scale_by,
        sigmoid,
        silu,
        softmax,
        tanh,
    )
    from tilewright.payload.operators import error_bound, reference
    from tilewright.quantized import Quantized, mx_quantize, quantize_weights
    from tilewright.runtime.asm_check import check_asm
    from tilewright.runtime.attention import attention
    from tilewright.runtime.bisect import Blame, bisect
    from tilewright.runtime.compile_all import compile_all
    from tilewright.runtime.compile_module import compile_chain, compile_module
    from tilewright.runtime.conv2d import conv2d
    from tilewright.runtime.coverage import Coverage, CoverageError, coverage
    from tilewright.runtime.kernel import Kernel
    from tilewright.runtime.matmul import matmul, matmul_each
    from tilewright.runtime.module import Module
    from tilewright.runtime.spec_trace import trace
    from tilewright.runtime.step_trace import Trace
    from tilewright.schedules.models.blocking import Blocking
    from tilewright.spec import MatmulSpec
    from tilewright.standalone.packed_b import PackedB
    from tilewright.targets import GpuTarget, Target
    from tilewright.tuning.calls import compile, tune

    targets: Any  # a package that can be called, for which there is no type

_NAMES = {
    "operator_specs": "AttentionSpec Conv2dSpec",
    "errors": "LoweringError OperandError ScheduleError SpecError TargetError TilewrightError",
    "dims": "Dim",
    "entries": "Epilogue",
    "payload.epilogues": "bias cast clamp dequantize exp function gather_rows gelu glu hardswish leaky_relu multiply quantize relu "
    "residual row_max row_sum scale scale_by sigmoid silu softmax tanh",
    "libraries.build": "Library library",
    "nibbles": "pack_nibbles unpack_nibbles",
    "payload.operators": "error_bound reference",
    "emit.claims": "ClaimError",
    "runtime.asm_check": "check_asm",
    "runtime.attention": "attention",
    "runtime.conv2d": "conv2d",
    "runtime.bisect": "Blame bisect",
    "runtime.coverage": "Coverage CoverageError coverage",
    "runtime.compile_all": "compile_all",
    "runtime.matmul": "matmul matmul_each",
    "runtime.compile_module": "compile_chain compile_module",
    "runtime.kernel": "Kernel",
    "runtime.module": "Module",
    "standalone.packed_b": "PackedB",
    "runtime.spec_trace": "trace",
    "runtime.step_trace": "Trace",
    "schedules.models.blocking": "Blocking",
    "gguf": "Gguf GgufTensor read_gguf",
    "quantized": "Quantized mx_quantize quantize_weights",
    "spec": "MatmulSpec",
    "targets": "GpuTarget Target",
    "tuning.calls": "compile tune",
}
"""By module, the names that are taken from it."""
_ORIGINS = {name: module for module, names in _NAMES.items() for name in names.split()}
"""By name, the module that has it."""

__all__ = [
    "AttentionSpec",
    "Blame",
    "Blocking",
    "ClaimError",
    "Conv2dSpec",
    "Coverage",
    "CoverageError",
    "Dim",
    "Epilogue",
    "Gguf",
    "GgufTensor",
    "GpuTarget",
    "Kernel",
    "Library",
    "LoweringError",
    "MatmulSpec",
    "Module",
    "OperandError",
    "PackedB",
    "Quantized",
    "ScheduleError",
    "SpecError",
    "Target",
    "TargetError",
    "TilewrightError",
    "Trace",
    "attention",
    "bias",
    "bisect",
    "cast",
    "check_asm",
    "clamp",
    "compile",
    "compile_all",
    "compile_chain",
    "compile_module",
    "conv2d",
    "coverage",
    "dequantize",
    "error_bound",
    "exp",
    "function",
    "gather_rows",
    "gelu",
    "glu",
    "hardswish",
    "leaky_relu",
    "library",
    "math",
    "matmul",
    "matmul_each",
    "multiply",
    "mx_quantize",
    "pack_nibbles",
    "quantize",
    "quantize_weights",
    "read_gguf",
    "reference",
    "relu",
    "residual",
    "row_max",
    "row_sum",
    "scale",
    "scale_by",
    "sigmoid",
    "silu",
    "softmax",
    "tanh",
    "targets",
    "trace",
    "tune",
    "unpack_nibbles",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as a module's __getattr__ is
    """Imports the public name `name`, or a stage of the package."""
    if name == "__version__":
        return import_module("tilewright.version").VERSION
    if name in ("distributed", "math", "targets"):
        return import_module(f"tilewright.{name}")
    if name not in _ORIGINS:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    return getattr(import_module(f"tilewright.{_ORIGINS[name]}"), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
