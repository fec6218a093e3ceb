# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Multithreaded kernels in other programs: shared libraries, objects, and callers with threads of their own."""

import shutil
import subprocess

import pytest
from processes import in_new_process
from tilewright.cli import main

CLANG = shutil.which("clang-22")
SHAPE = "300x310x320"

PROGRAM = """
#include "mm.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <dirent.h>

static int tasks(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/task");
  for (struct dirent *entry; (entry = readdir(folder));)
    count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

static float *ones(long count) {
  float *matrix = malloc(count * sizeof(float));
  for (long i = 0; i < count; ++i)
    matrix[i] = 1;
  return matrix;
}

int main(void) {
  float *a = ones(300 * 320), *b = ones(320 * 310);
  int wrong = 0, before = 0, after = 0;
  omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2) reduction(+ : wrong)
  {
#pragma omp barrier
#pragma omp single
    before = tasks();
    float *c = ones(300 * 310);
    wrong += mm(300, 310, 320, a, 320, b, 310, c, 310) != 0;
    for (long i = 0; i < 300 * 310; ++i)
      wrong += c[i] != 320;
#pragma omp barrier
#pragma omp single
    after = tasks();
  }
  printf("%d %d\\n", wrong, after - before);
  return 0;
}
"""


@pytest.fixture
def source(tmp_path):
    (tmp_path / "mm.mlir").write_text("""
    func.func @mm(%a: tensor<300x320xf32>, %b: tensor<320x310xf32>, %c: tensor<300x310xf32>) -> tensor<300x310xf32> {
      %zero = arith.constant 0.0 : f32
      %start = linalg.fill ins(%zero : f32) outs(%c : tensor<300x310xf32>) -> tensor<300x310xf32>
      %r = linalg.matmul ins(%a, %b : tensor<300x320xf32>, tensor<320x310xf32>)
        outs(%start : tensor<300x310xf32>) -> tensor<300x310xf32>
      return %r : tensor<300x310xf32>
    }
    """)
    (tmp_path / "main.c").write_text(PROGRAM)
    return tmp_path


def run(*command):
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_header_says_what_to_link(tmp_path):
    for threads, expected in ((1, False), (2, True)):
        path = tmp_path / f"mm{threads}.h"
        assert main(["compile", "--shape", SHAPE, "--threads", str(threads), "-o", str(path)]) == 0
        assert ("libomp" in path.read_text()) is expected


@pytest.mark.skipif(not (shutil.which("ld.lld-22") or shutil.which("cc")), reason="no linker")
@pytest.mark.parametrize("linker", ["ld.lld-22", "cc"])
def test_a_shared_library_finds_openmp_by_itself(tmp_path, linker, monkeypatch):
    from tilewright.emit import shared

    if not shutil.which(linker):
        pytest.skip(f"no {linker}")
    monkeypatch.setattr(shared, "_LINKERS", (linker,))
    path = tmp_path / "mm.so"
    assert main(["compile", "--shape", SHAPE, "--threads", "2", "-o", str(path)]) == 0
    in_new_process(f"""
        import ctypes
        import numpy as np

        assert "libomp" not in open("/proc/self/maps").read()
        library = ctypes.CDLL({str(path)!r})
        assert "libomp" in open("/proc/self/maps").read()
        a, b, c = (np.ones(shape, np.float32) for shape in ((300, 320), (320, 310), (300, 310)))
        numbers = [ctypes.c_int64(each) for each in (300, 310, 320)]
        operands = []
        for array in (a, b, c):
            operands += [ctypes.c_void_p(array.ctypes.data), ctypes.c_int64(array.shape[1])]
        assert library.matmul(*numbers, *operands) == 0
        assert (c == 320).all()
    """)


@pytest.mark.skipif(not CLANG, reason="no clang-22, which links libomp")
def test_no_more_threads_in_a_callers_parallel_region(source):
    # Although the caller lets regions be nested.
    header = ["--header", str(source / "mm.h")]
    assert main(["compile", str(source / "mm.mlir"), "--threads", "4", "-o", str(source / "mm.o"), *header]) == 0
    run(CLANG, "-fopenmp", "-O1", source / "main.c", source / "mm.o", "-o", source / "program")
    assert run(source / "program") == "0 0\n"
