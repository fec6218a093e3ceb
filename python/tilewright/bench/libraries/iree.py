# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Peer: IREE's compiler and runtime on the CPU."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.bench.libraries.base import Call, Library
from tilewright.bench.operands import Operands

_MLIR: Mapping[str, str] = MappingProxyType(
    {
        "float32": "f32",
        "float64": "f64",
        "float16": "f16",
        "bfloat16": "bf16",
        "int8": "i8",
        "uint8": "i8",
        "int32": "i32",
    }
)
_EXTENSION: Mapping[str, str] = MappingProxyType({"int8": "arith.extsi", "uint8": "arith.extui"})
_FLAGS = (
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O3",
    "--iree-input-demote-f64-to-f32=false",
)


class Iree(Library):
    """The same linalg operation as ours, compiled for this machine at IREE's highest level of optimization.

    What is timed includes a call through IREE's virtual machine from Python, some tens of microseconds, and the allocation of
    the result. One thread: the local-sync driver; several: local-task, with a worker for each core of the process.
    """

    def __init__(self) -> None:
        """Loads the compiler and the runtime."""
        import iree.compiler  # type: ignore[import-not-found]
        import iree.runtime  # type: ignore[import-not-found]

        self._compiler: Any = iree.compiler
        self._runtime: Any = iree.runtime
        workers = len(os.sched_getaffinity(0))
        if workers > 1:
            iree.runtime.flags.parse_flags("--task_topology_group_count=" + str(workers))
        self._config = iree.runtime.Config("local-sync" if workers == 1 else "local-task")

    @property
    def version(self) -> str:
        """The compiler's version."""
        return importlib.metadata.version("iree-base-compiler")

    def bind(self, operands: Operands) -> Call:
        """See `Library.bind`."""
        runtime = self._runtime
        module = self._compiler.compile_str(
            matmul(operands), target_backends=["llvm-cpu"], extra_args=[*_FLAGS], input_type="auto"
        )
        context = runtime.SystemContext(config=self._config)
        context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, module))
        function = context.modules.module["main"]
        a, b = (runtime.asdevicearray(self._config.device, _signless(x)) for x in (operands.a, operands.b))
        return lambda: function(a, b)

    def fetch(self, returned: Any, operands: Operands) -> np.ndarray:  # noqa: ANN401
        """See `Library.fetch`."""
        return returned.to_host()


def _signless(array: np.ndarray) -> np.ndarray:
    """The array as IREE takes it: MLIR's integers have no sign."""
    return array.view(np.int8) if array.dtype == np.uint8 else array


def matmul(operands: Operands) -> str:
    """The module of one product: linalg.matmul for floats, for integers the same with each operand's own extension."""
    (m, k), n = operands.a.shape, operands.b.shape[1]
    a, b, c = (_MLIR[x.dtype.name] for x in (operands.a, operands.b, operands.c))
    a_is, b_is, c_is = f"tensor<{m}x{k}x{a}>", f"tensor<{k}x{n}x{b}>", f"tensor<{m}x{n}x{c}>"
    inputs = f"ins(%a, %b : {a_is}, {b_is}) outs(%zeros : {c_is})"
    if operands.a.dtype.kind == "f" or a == "bf16":
        zero, body = "0.0", f"linalg.matmul {inputs} -> {c_is}"
    else:
        zero = "0"
        maps = "affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>"
        body = (
            f'linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel", "reduction"]}} {inputs} {{\n'
            f"  ^bb0(%x: {a}, %y: {b}, %sum: {c}):\n"
            f"    %xe = {_EXTENSION[operands.a.dtype.name]} %x : {a} to {c}\n"
            f"    %ye = {_EXTENSION[operands.b.dtype.name]} %y : {b} to {c}\n"
            f"    %product = arith.muli %xe, %ye : {c}\n    %new = arith.addi %sum, %product : {c}\n"
            f"    linalg.yield %new : {c}\n  }} -> {c_is}"
        )
    return (
        f"func.func @main(%a: {a_is}, %b: {b_is}) -> {c_is} {{\n"
        f"  %zero = arith.constant {zero} : {c}\n  %empty = tensor.empty() : {c_is}\n"
        f"  %zeros = linalg.fill ins(%zero : {c}) outs(%empty : {c_is}) -> {c_is}\n"
        f"  %c = {body}\n  return %c : {c_is}\n}}\n"
    )
