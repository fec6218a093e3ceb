# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Peer: libxsmm, which compiles a kernel for each small product, through ctypes."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.bench.libraries.base import Call, Library
from tilewright.bench.operands import Operands
from tilewright.errors import TilewrightError
from tilewright.payload.samples import aligned

# libxsmm_typedefs.h, version 1.17: precisions, and the flag of a first operand whose pairs are interleaved.
_PRECISIONS: Mapping[str, int] = MappingProxyType({"float64": 0, "float32": 1})
_INTERLEAVED = 32768
_SCALARS: Mapping[str, Callable[[float], Any]] = MappingProxyType(
    {"float64": ctypes.c_double, "float32": ctypes.c_float, "bfloat16": ctypes.c_float}
)
_DISPATCHERS: Mapping[str, str] = MappingProxyType({"float64": "dmm", "float32": "smm", "bfloat16": "bsmm"})
_ROOT = "LIBXSMMROOT"
_MOST_PER_BYTE = 4
"""Operations for each byte of A, B and twice C up to which its call for batches compiles kernels (LIBXSMM_SMM_AI of libxsmm_frontend.h);
other matrices it gives to a BLAS, which is not linked here."""


class Libxsmm(Library):
    """A kernel of libxsmm's own for each product, and its call for batches.

    It stores matrices column by column: what is multiplied is Cᵀ = Bᵀ·Aᵀ. Products of bf16 take B with pairs of rows interleaved.
    """

    def __init__(self) -> None:
        """Links the archive of Debian's package as a shared library, and loads it.

        Raises:
            OSError: It is not there, cannot be linked, or does not load.
        """
        lacks = missing()
        if lacks:
            raise OSError(lacks)
        place = _place()
        archives = [str(place / "lib" / f"{name}.a") for name in ("libxsmm", "libxsmmnoblas")]
        with tempfile.TemporaryDirectory() as folder:
            shared = str(Path(folder) / "libxsmm.so")
            whole = ["-Wl,--whole-archive", archives[0], "-Wl,--no-whole-archive", archives[1]]
            command = ["cc", "-shared", "-o", shared, *whole, "-lpthread", "-lm", "-ldl"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise OSError(f"cannot link {archives[0]}: {done.stderr.strip().splitlines()[-1]}")
            self._library = ctypes.PyDLL(shared)  # keeps the GIL, as for MKL
        self._library.libxsmm_init()

    @property
    def version(self) -> str:
        """The release, and the instruction set for which it compiles here."""
        header = (_place() / "include" / "libxsmm_version.h").read_text(encoding="utf-8")
        found = re.search(r'LIBXSMM_CONFIG_VERSION "([^"]+)"', header)
        target = self._library.libxsmm_get_target_arch
        target.restype = ctypes.c_char_p
        return f"{found[1] if found else 'unknown'} ({(target() or b'').decode()})"

    def bind(self, operands: Operands) -> Call:
        """See `Library.bind`."""
        if operands.a.ndim > 2:
            return self._batch(operands) if _is_small(operands) else self._one_by_one(operands)
        return self._product(operands, operands.b, 0)

    def bind_packed(self, operands: Operands) -> Call:
        """See `Library.bind_packed`."""
        k, n = operands.b.shape
        if k % 2:
            raise TilewrightError("its products of bf16 take an even K")
        pairs = aligned((k // 2, n, 2), operands.b.dtype)
        pairs[...] = operands.b.reshape(k // 2, 2, n).swapaxes(1, 2)
        return self._product(operands, pairs, _INTERLEAVED)

    def _product(self, operands: Operands, b: np.ndarray, flags: int) -> Call:
        """The call of the kernel that it compiles for one product."""
        call = partial(
            self._kernel(operands, flags), *(ctypes.c_void_p(each.ctypes.data) for each in (b, operands.a, operands.c))
        )
        call.__dict__["arrays"] = (b, operands)  # the arguments are addresses: these must live as long
        return call

    def _one_by_one(self, operands: Operands) -> Call:
        """Calls of one kernel, one for each matrix of a batch."""
        kernel, each = self._kernel(operands, 0), (operands.b, operands.a, operands.c)
        matrices = [array.reshape(-1, *array.shape[-2:]) for array in each]
        addresses = [tuple(ctypes.c_void_p(at.ctypes.data) for at in those) for those in zip(*matrices, strict=True)]

        def call() -> None:
            for those in addresses:
                kernel(*those)

        call.__dict__["arrays"] = operands
        return call

    def _kernel(self, operands: Operands, flags: int) -> Callable[..., None]:
        """The kernel that it compiles for a matrix of these operands; it takes the addresses of B, A and C."""
        name = operands.a.dtype.name
        dispatch = getattr(self._library, f"libxsmm_{_DISPATCHERS[name]}dispatch")
        dispatch.restype = ctypes.c_void_p
        alpha, beta = (_SCALARS[name](value) for value in (1, 0))
        extents, leading = _extents(operands)
        references = [ctypes.byref(each) for each in (*leading, alpha, beta, ctypes.c_int(flags))]
        address = dispatch(*extents, *references, None)
        if not address:
            raise TilewrightError("it compiles no kernel for this product")
        return ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 3)(address)

    def _batch(self, operands: Operands) -> Call:
        """The call for a batch, each matrix told by the index of its first element."""
        name = operands.a.dtype.name
        precision, scalar = ctypes.c_int(_PRECISIONS[name]), _SCALARS[name]
        (m, k), n = operands.a.shape[-2:], operands.b.shape[-1]
        matrices = operands.c.size // (m * n)
        firsts = [np.arange(matrices, dtype=np.int32) * np.int32(size) for size in (k * n, m * k, m * n)]
        extents, leading = _extents(operands)
        plain = ctypes.c_char(b"N")
        by_b, by_a, by_c = map(ctypes.byref, leading)
        at_b, at_a, at_c = (ctypes.c_void_p(each.ctypes.data) for each in (operands.b, operands.a, operands.c))
        arguments = (
            *(precision, precision, ctypes.byref(plain), ctypes.byref(plain), *extents, ctypes.byref(scalar(1))),
            *(at_b, by_b, at_a, by_a, ctypes.byref(scalar(0)), at_c, by_c, ctypes.c_int(0)),
            *(ctypes.c_int(firsts[0].itemsize), *(ctypes.c_void_p(each.ctypes.data) for each in firsts)),
            ctypes.c_int(-matrices),  # below zero: no two write the same C, so that it takes no locks
        )
        function = self._library.libxsmm_gemm_batch
        function.restype = None
        call = partial(function, *arguments)
        call.__dict__["arrays"] = (firsts, operands)
        return call


def missing() -> str | None:
    """None where it can be linked, else what is missing and how to install it."""
    if not (_place() / "lib" / "libxsmm.a").is_file():
        return f"no libxsmm.a; install Debian's libxsmm-dev, or set {_ROOT} to a folder with its lib and include"
    return None if shutil.which("cc") else "no C compiler, which links libxsmm.a; install gcc"


def _place() -> Path:
    """The folder that has its lib and include."""
    return Path(os.environ.get(_ROOT) or "/usr")


def _is_small(operands: Operands) -> bool:
    """Whether its call for batches multiplies matrices of these operands."""
    (m, k), n = operands.a.shape[-2:], operands.b.shape[-1]
    return 2 * m * n * k <= _MOST_PER_BYTE * operands.a.itemsize * (m * k + k * n + 2 * m * n)


def _extents(operands: Operands) -> tuple[list[ctypes.c_int], list[ctypes.c_int]]:
    """M, N and K, and the leading dimensions, of the transposed product."""
    (m, k), n = operands.a.shape[-2:], operands.b.shape[-1]
    return [ctypes.c_int(each) for each in (n, m, k)], [ctypes.c_int(each) for each in (n, k, n)]
