# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The libraries that we are compared with, one module each; none is imported before its class is made."""

from __future__ import annotations

from tilewright.bench.libraries.base import Call, Library
from tilewright.bench.libraries.iree import Iree
from tilewright.bench.libraries.libxsmm import Libxsmm
from tilewright.bench.libraries.libxsmm import missing as libxsmm_missing
from tilewright.bench.libraries.mkl import Mkl, mkl_path
from tilewright.bench.libraries.onnx_runtime import OnnxRuntime
from tilewright.bench.libraries.openblas import Numpy, openblas_core
from tilewright.bench.libraries.torch_compile import TorchCompile
from tilewright.bench.libraries.torch_cpu import OneDnn, TorchMm
from tilewright.bench.libraries.xla import Xla

__all__ = [
    "Call",
    "Iree",
    "Library",
    "Libxsmm",
    "Mkl",
    "Numpy",
    "OneDnn",
    "OnnxRuntime",
    "TorchCompile",
    "TorchMm",
    "Xla",
    "libxsmm_missing",
    "mkl_path",
    "openblas_core",
]
