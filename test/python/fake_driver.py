# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A folder with a fake of NVIDIA's driver, compiled from ``test/emulators/cuda.c``, for processes that are given it as LD_LIBRARY_PATH."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

COMPILER = shutil.which("cc") or shutil.which("clang-22")


def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder, of libcuda.so.1; skips the test where it cannot be made."""
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.core") is None:
        pytest.skip("there is no cuda-core (make setup-gpu installs it)")
    if COMPILER is None:
        pytest.skip("there is no C compiler for the fake driver")
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).parent.parent / "emulators" / "cuda.c"
    library = folder / "libcuda.so.1"
    subprocess.run([COMPILER, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source], check=True)
    return folder
