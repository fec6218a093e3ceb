# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts the instructions that OpenBLAS for AArch64 executes for a product, in the emulator.

`make setup-arm` fetches the library. It chooses its kernels by the processor, which is QEMU's "max": with it, and told to be a
NEOVERSEN1 or a NEOVERSEV1, Debian's 0.3.21 executes the same instructions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np

from tilewright import knobs, targets
from tilewright.dtypes import to_numpy
from tilewright.emit import code
from tilewright.errors import TargetError
from tilewright.payload.abi import ENTRY
from tilewright.runtime import emulators
from tilewright.runtime.emulated_call import Operand, Program
from tilewright.spec import MatmulSpec

_FUNCTIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"f32": ("cblas_sgemm", "float"), "f64": ("cblas_dgemm", "double")}
)
"""By element type, the function and LLVM's name of the type."""
_TARGET = "armv8-a"
_LOADER = "/lib/ld-linux-aarch64.so.1"
_LIBRARIES = ("libopenblas.so.0", "libc.so.6")

# Row-major and not transposed (101 and 111) are cblas.h's. What the library sets up in its first call is not counted.
_ENTRY = """
declare void @{function}(i32, i32, i32, i32, i32, i32, {type}, ptr, i32, ptr, i32, {type}, ptr, i32)
declare void @tilewright_begin()
define i32 @{entry}(i64 %m64, i64 %n64, i64 %k64, ptr %a, i64 %lda64, ptr %b, i64 %ldb64, ptr %c, i64 %ldc64) {{
  %m = trunc i64 %m64 to i32
  %n = trunc i64 %n64 to i32
  %k = trunc i64 %k64 to i32
  %lda = trunc i64 %lda64 to i32
  %ldb = trunc i64 %ldb64 to i32
  %ldc = trunc i64 %ldc64 to i32
  call void @{function}(i32 101, i32 111, i32 111, i32 1, i32 1, i32 1, {type} 1.0, ptr %a, i32 %lda, ptr %b, i32 %ldb,
                        {type} 0.0, ptr %c, i32 %ldc)
  call void @tilewright_begin()
  call void @{function}(i32 101, i32 111, i32 111, i32 %m, i32 %n, i32 %k, {type} 1.0, ptr %a, i32 %lda, ptr %b, i32 %ldb,
                        {type} 0.0, ptr %c, i32 %ldc)
  ret i32 0
}}
"""


def version() -> str:
    """Which OpenBLAS it is, as Debian counts.

    Raises:
        TargetError: It is not there.
    """
    return (_folder() / "version.txt").read_text(encoding="utf-8")


def computes(spec: MatmulSpec) -> bool:
    """Whether it computes `spec`, in one call and nothing more."""
    plain = MatmulSpec(spec.m, spec.n, spec.k, a=spec.a)
    return spec.a in _FUNCTIONS and spec == plain and 0 not in (spec.m, spec.n, spec.k)


def count(spec: MatmulSpec) -> int:
    """The instructions of one call for `spec`, which it has to compute.

    Raises:
        TargetError: OpenBLAS or the emulator is not there, or that cannot count.
    """
    program = _program(spec.a)
    element = to_numpy(spec.a_type)
    a, b, c = (np.ones(shape, element) for shape in ((spec.m, spec.k), (spec.k, spec.n), (spec.m, spec.n)))
    operands = [Operand(each.ctypes.data, (each.nbytes,), written=each is c) for each in (a, b, c)]
    arguments = (spec.m, spec.n, spec.k, operands[0], spec.k, operands[1], spec.n, operands[2], spec.n)
    counts: list[int] = []
    program.call(ENTRY, arguments, counts)
    if not (c == spec.k).all():
        raise TargetError(f"OpenBLAS {version()} computes {spec} wrongly", where="emulator")
    return counts[0]


@cache
def _program(element: str) -> Program:
    """A program that calls OpenBLAS as a kernel is called."""
    folder, target = _folder(), targets.get(_TARGET)
    found = emulators.find(target)
    paths = ("-L", str(folder), "-E", f"LD_LIBRARY_PATH={folder / 'lib'}", "-E", "LD_BIND_NOW=1")
    emulator = replace(found, options=(*found.options, *paths))
    function, kind = _FUNCTIONS[element]
    object_ = code.object_file(_ENTRY.format(function=function, type=kind, entry=ENTRY), target)
    libraries = [str(folder / "lib" / name) for name in _LIBRARIES]
    return Program(object_, [ENTRY], target, emulator, libraries, _LOADER)


def _folder() -> Path:
    peers = knobs.load().peers_dir
    folder = None if peers is None else peers / "openblas-arm64"
    if folder is None or not (folder / "version.txt").exists():
        raise TargetError(
            "OpenBLAS for AArch64 is not there",
            where="bench" if folder is None else str(folder),
            remedy="Run `make setup-arm`, which fetches it where apt can",
        )
    return folder
