# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels in CUDA C++ by others, compiled to PTX by nvcc: those of fast.cu, and one of DeepGEMM's.

Nothing of them is here. TILEWRIGHT_CUDA_SOURCES names a folder with checkouts: ``fast.cu`` (38eb642), ``DeepGEMM`` (54e2261) and
``cutlass`` (7107b05).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

_FAST = """
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda/barrier>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
typedef __nv_bfloat16 bf16;
#define CEIL_DIV(M, N) (((M) + (N) - 1) / (N))
#define cudaCheck(call) (call)
#include "examples/matmul/matmul_{number}.cuh"
"""
_DEEP = """
#include <deep_gemm/impls/sm90_bf16_gemm.cuh>
using namespace deep_gemm;
static void instantiate() {
  auto pointer = reinterpret_cast<void *>(&sm90_bf16_gemm_impl<
      cute::UMMA::Major::K, cute::UMMA::Major::K, 0, 0, 0, 1, 128, 128, 64, 128, 128, 128, 4, 128, 256, 2, false, 4,
      GemmType::Normal, false, cutlass::bfloat16_t>);
}
"""
DEEP_SHARED = 128 * 128 * 2 + 4 * 2 * 128 * 64 * 2 + 2 * 4 * 8
"""Bytes of the sums, the slots, and the barrier objects of DeepGEMM's kernel."""


def sources(*names: str) -> Path:
    """The folder with checkouts of those names; skips the test without it, or without nvcc."""
    folder = os.environ.get("TILEWRIGHT_CUDA_SOURCES")
    if folder is None:
        pytest.skip("TILEWRIGHT_CUDA_SOURCES names no folder with checkouts of fast.cu, DeepGEMM and cutlass")
    missing = [name for name in names if not (Path(folder) / name).is_dir()]
    if missing or shutil.which("nvcc") is None:
        pytest.skip(f"there is no {', '.join(missing) or 'nvcc'}")
    return Path(folder)


def _compiled(text: str, into: Path, includes: Sequence[Path], standard: str) -> str:
    (into / "kernel.cu").write_text(text)
    paths = [f"-I{each}" for each in includes]
    words = ["nvcc", f"-std={standard}", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr", "--use_fast_math", "-w"]
    subprocess.run([*words, "-arch=sm_90a", "-ptx", *paths, "kernel.cu", "-o", "kernel.ptx"], check=True, cwd=into)
    return (into / "kernel.ptx").read_text()


def fast(number: int, into: Path) -> str:
    """PTX of a kernel of fast.cu."""
    return _compiled(_FAST.replace("{number}", str(number)), into, [sources("fast.cu") / "fast.cu"], "c++17")


def deep_gemm(into: Path) -> str:
    """PTX of DeepGEMM's kernel for bf16: 128x128 tiles of clusters of two, in four blocks."""
    folder = sources("DeepGEMM", "cutlass")
    return _compiled(
        _DEEP, into, [folder / "DeepGEMM" / "deep_gemm" / "include", folder / "cutlass" / "include"], "c++20"
    )


def matrix(rows: int, columns: int) -> np.ndarray[Any, Any]:
    """One of zeros in bf16, at an address that a driver could have given."""
    memory = np.zeros(rows * columns * 2 + 256, np.uint8)
    return np.ndarray((rows, columns), ml_dtypes.bfloat16, memory, -memory.ctypes.data % 256)


def in_boxes(whole: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A matrix as fast.cu's tensor maps have it: by 64 columns."""
    rows, columns = whole.shape
    return as_strided(whole, (columns // 64, rows, 64), (128, whole.strides[0], 2))
