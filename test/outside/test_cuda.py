# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels in CUDA C++ by others in the emulator: their numbers, and what is found."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import cuda_sources
import ml_dtypes
import numpy as np
import pytest
from tilewright.runtime import checked_kernels
from tilewright.runtime.checked_kernels import argument
from tilewright.runtime.launches import Launch

M, N, K = 300, 200, 192


def test_deep_gemm(tmp_path: Path) -> None:
    """Its last bulk store is not waited for, which is all that is found."""
    file = tmp_path / "k.ptx"
    file.write_text(cuda_sources.deep_gemm(tmp_path))
    kernel = checked_kernels.read(file)
    maps = (f"map:bf16[{M}x{K}]/128x64/128", f"map:bf16[{N}x{K}]/128x64/128", f"out:map:bf16[{M}x{N}]/128x64/128")
    given = [argument(each) for each in ("i64=0", f"i32={M}", f"i32={N}", f"i32={K}", *maps)]
    launch = Launch((4, 1, 1), (384, 1, 1), (2, 1, 1), dynamic_shared=cuda_sources.DEEP_SHARED)
    told = checked_kernels.run(kernel, launch, given, (0,), 120.0)
    assert told.findings == ("unwaited: a bulk store is not waited for before the kernel ends",)
    found = checked_kernels.run(kernel, launch, given, (0, 1), 120.0, ("unwaited",))
    assert not found.findings
    (output,) = found.outputs.values()
    a, b = (
        np.random.default_rng(number).uniform(-1, 1, shape).astype(ml_dtypes.bfloat16).astype(np.float64)
        for number, shape in ((4, (M, K)), (5, (N, K)))
    )
    exact = a @ b.T
    bound = 2.0**-8 * abs(exact) + 2.0**-23 * (K + 2) * (abs(a) @ abs(b.T))
    assert (abs(output.astype(np.float64) - exact) <= bound).all()


CANONICAL = re.compile(
    r"^\* LayoutType::(\w+)\s*: Swizzle<(\d),4,3> o smem_ptr o (\(\(.*\)\)):(\(\(.*\)\))\s*$", re.MULTILINE
)
PATTERNS = {"INTERLEAVE": 0, "B32": 32, "B64": 64, "B128": 128}


def ours() -> ModuleType:
    """The test that has our account of the layouts."""
    file = Path(__file__).parents[1] / "python" / "test_gpu_wgmma_layouts.py"
    about = importlib.util.spec_from_file_location("layouts", file)
    assert about is not None
    assert about.loader is not None
    module = importlib.util.module_from_spec(about)
    about.loader.exec_module(module)
    return module


def numbers(text: str, **known: int) -> object:
    """A shape or stride of the header's comments, such as ((1T,SBO),(1,LBO)), with numbers for its names."""
    spelled = re.sub(r"(\d*)\s*T\b", lambda found: str(int(found[1] or 1) * known["T"]), text)
    return ast.literal_eval(re.sub(r"[A-Za-z]+", lambda found: str(known[found[0]]), spelled))


def test_layouts_by_cutlass_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every size of element, number of rows, order and swizzle: the canonical layouts of CUTLASS' header, evaluated by its Python, are
    those that test_gpu_wgmma_layouts.py compares the emulator with."""
    folder = cuda_sources.sources("cutlass") / "cutlass"
    monkeypatch.syspath_prepend(str(folder / "python"))
    pycute = importlib.import_module("pycute")
    text = (folder / "include" / "cute" / "atom" / "mma_traits_sm90_gmma.hpp").read_text()
    layouts = CANONICAL.findall(text)
    assert len(layouts) == 8
    placed, compared = ours().placed, 0
    for number, (name, bits, shape, stride) in enumerate(layouts):
        across, swizzle = number < 4, PATTERNS[name]
        for size in (1, 2, 4):
            unit, depth = 16 // size, 32 // size
            pattern = unit * swizzle // 16
            for rows in range(8, 257, 8):
                if across and (size != 2 or not swizzle or rows % pattern):
                    continue  # There is no such operand, or none that our kernels have.
                found, leading, apart = placed(rows, depth, size, swizzle, across, 0)
                known = {"T": unit, "SBO": apart // size, "LBO": leading // size}
                known |= {"m": rows // pattern if across else rows // 8, "k": depth // 8}
                layout = pycute.Layout(numbers(shape, **known), numbers(stride, **known))
                swizzled = pycute.Swizzle(int(bits), 4, 3)
                wanted = [[swizzled(layout(row, k) * size) for k in range(depth)] for row in range(rows)]
                np.testing.assert_array_equal(found, wanted, err_msg=f"{name} {size} {rows}")
                compared += 1
    assert compared == 4 * 3 * 32 + sum(256 // pattern for pattern in (16, 32, 64))
