# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A program in C forks between calls of a kernel of two threads, down to grandchildren, and calls it from several threads.

What OpenBLAS tests of itself, and a kernel on GNU's OpenMP runtime does not survive. `test_threads.py` does the same in Python.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from tilewright.cli import main
from tilewright.runtime.openmp import openmp_file

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "outside"))

import suite

COMPILER = shutil.which("clang-22") or shutil.which("cc")
SOURCE = Path(__file__).with_name("fork.c")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fork")
    (folder / "product.mlir").write_text("""
    func.func @product(%a: tensor<300x320xf64>, %b: tensor<320x310xf64>) -> tensor<300x310xf64> {
      %zero = arith.constant 0.0 : f64
      %e = tensor.empty() : tensor<300x310xf64>
      %start = linalg.fill ins(%zero : f64) outs(%e : tensor<300x310xf64>) -> tensor<300x310xf64>
      %c = linalg.matmul ins(%a, %b : tensor<300x320xf64>, tensor<320x310xf64>)
        outs(%start : tensor<300x310xf64>) -> tensor<300x310xf64>
      return %c : tensor<300x310xf64>
    }
    """)
    names = [str(folder / f"product.{suffix}") for suffix in ("mlir", "o", "h")]
    assert main(["compile", names[0], "--threads", "2", "-o", names[1], "--header", names[2]]) == 0
    openmp = Path(openmp_file())
    libraries = [openmp, f"-Wl,-rpath,{openmp.parent}", "-lpthread"]
    command = [COMPILER or "cc", "-O1", "-Wall", "-Werror", f"-I{folder}", SOURCE, names[1], *libraries]
    suite.built([*command, "-o", folder / "program"], folder)
    return folder / "program"


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("first_call", ["early", "late"])
def test_children_compute_too(program, first_call, tmp_path):
    assert suite.Blas("none").run([program, first_call], tmp_path, OMP_NUM_THREADS="2") == (0, "done\n")
