# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs functions of a linalg module by upstream's passes alone, loop by loop: a reference for any module. A program.

Usage: plain_module.py FILE.mlir FUNCTION IN.npz OUT.npz. IN has the arguments, OUT the results and then the arguments after the
call, in order, as ``arr_0`` and so on. A process of its own, since what cannot be lowered may end it.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
from tilewright.mlir import ir
from tilewright.mlir.execution_engine import ExecutionEngine
from tilewright.mlir.passmanager import PassManager
from tilewright.mlir.runtime import get_ranked_memref_descriptor

_PIPELINE = (
    "func.func(convert-elementwise-to-linalg)",
    "one-shot-bufferize{bufferize-function-boundaries=1 function-boundary-type-conversion=identity-layout-map}",
    "buffer-results-to-out-params{modify-public-functions=1}",
    "func.func(convert-linalg-to-loops)",
    "expand-strided-metadata",
    "lower-affine",
    "convert-scf-to-cf",
    "convert-math-to-libm",
    "arith-expand",
    "convert-to-llvm",
    "reconcile-unrealized-casts",
)
NUMPY = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32}
"""The types of elements that this is for."""


_LIBM = ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
"""Where the functions of math ops are found."""


def main(path: str, name: str, given: str, results: str) -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(Path(path).read_text())
        function = next(op for op in module.body.operations if ir.StringAttr(op.attributes["sym_name"]).value == name)
        function.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
        kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        outs = [_zeros(ir.ShapedType(each)) for each in kind.results]
        with np.load(given) as loaded:
            arguments = [loaded[f"arr_{number}"] for number in range(len(loaded.files))]
        PassManager.parse(f"builtin.module({','.join(_PIPELINE)})").run(module.operation)
        engine = ExecutionEngine(module, opt_level=0)
        called = [*arguments, *outs]
        pointers = [ctypes.pointer(ctypes.pointer(get_ranked_memref_descriptor(each))) for each in called]
        engine.invoke(name, *pointers)
        np.savez(results, *outs, *arguments)


def _zeros(shaped: ir.ShapedType) -> np.ndarray:
    return np.zeros(shaped.shape, NUMPY[str(shaped.element_type)])


if __name__ == "__main__":
    main(*sys.argv[1:])
