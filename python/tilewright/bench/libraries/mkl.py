# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Peer: MKL through ctypes, with a table of its routines by element types."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.bench.libraries.base import Call, Library, installed
from tilewright.bench.operands import Operands
from tilewright.payload.samples import aligned

# The CBLAS enumerations: netlib's cblas.h, and MKL's mkl_cblas.h for the last three.
_ROW_MAJOR, _NO_TRANSPOSE, _TRANSPOSE = (ctypes.c_int(value) for value in (101, 111, 112))
_PACKED, _B_MATRIX, _FIX_OFFSET = ctypes.c_int(151), ctypes.c_int(162), ctypes.c_int(173)


@dataclass(frozen=True, slots=True)
class _Routine:
    """A family of MKL's routines.

    Attributes:
        name: What follows ``cblas_`` and stands before ``_pack`` and ``_compute``.
        scalar: The C type of alpha and beta.
        scales_when_packing: Whether alpha is given to the packing, as in the plain BLAS types, and not to the product.
        offsets: Whether A, B and C come with offsets, as for integers.
    """

    name: str
    scalar: Callable[[float], Any]
    scales_when_packing: bool = False
    offsets: bool = False


_ROUTINES: Mapping[tuple[str, str], _Routine] = MappingProxyType(
    {
        ("float32", "float32"): _Routine("sgemm", ctypes.c_float, scales_when_packing=True),
        ("float64", "float64"): _Routine("dgemm", ctypes.c_double, scales_when_packing=True),
        ("bfloat16", "bfloat16"): _Routine("gemm_bf16bf16f32", ctypes.c_float),
        ("float16", "float16"): _Routine("gemm_f16f16f32", ctypes.c_float),
        # In row-major order A is the unsigned one.
        ("uint8", "int8"): _Routine("gemm_s8u8s32", ctypes.c_float, offsets=True),
    }
)


class Mkl(Library):
    """MKL's cblas routines, every argument converted ahead of time, and its pack interface.

    What is timed includes a call through ctypes, about half a microsecond.
    """

    def __init__(self) -> None:
        """Loads the library.

        Raises:
            OSError: It is not installed, or cannot be loaded.
        """
        path = mkl_path()
        if path is None:
            raise OSError("no libmkl_rt in this Python environment")
        openmp = next(installed("intel-openmp", r"libiomp5\.so"), None)
        if openmp is not None:  # libmkl_rt looks for it by name alone
            ctypes.CDLL(str(openmp), mode=ctypes.RTLD_GLOBAL)
        self._library = ctypes.PyDLL(str(path))  # keeps the GIL: 50 ns a call less

    @property
    def version(self) -> str:
        """The release, out of the sentence that MKL says about itself."""
        text = ctypes.create_string_buffer(256)
        self._library.mkl_get_version_string(text, len(text))
        sentence = text.value.decode(errors="replace").strip()
        found = re.search(r"Version (\d[\d.]*\d)", sentence)
        return found[1] if found else sentence

    def bind(self, operands: Operands) -> Call:
        """See `Library.bind`."""
        routine = self._routine(operands)
        if operands.a.ndim > 2:
            return self._batch(routine, operands)
        return self._product(routine, routine.name, operands, operands.b, _stored(operands.b)[0], alpha=True)

    def bind_packed(self, operands: Operands) -> Call:
        """See `Library.bind_packed`."""
        routine = self._routine(operands)
        (m, k), n = operands.a.shape, operands.b.shape[1]
        extents = [ctypes.c_int(extent) for extent in (m, n, k)]
        size = self._function(f"{routine.name}_pack_get_size", ctypes.c_size_t)(_B_MATRIX, *extents)
        packed = aligned((max(size, 1),), np.dtype(np.uint8))
        alpha = [routine.scalar(1)] if routine.scales_when_packing else []
        transposed, leading = _stored(operands.b)
        place = (ctypes.c_void_p(operands.b.ctypes.data), leading, ctypes.c_void_p(packed.ctypes.data))
        pack = self._function(f"{routine.name}_pack")
        pack(_ROW_MAJOR, _B_MATRIX, transposed, *extents, *alpha, *place)
        compute = f"{routine.name}_compute"
        return self._product(routine, compute, operands, packed, _PACKED, alpha=not routine.scales_when_packing)

    def _routine(self, operands: Operands) -> _Routine:
        return _ROUTINES[operands.a.dtype.name, operands.b.dtype.name]

    def _function(self, name: str, returns: type[ctypes.c_size_t] | None = None) -> Callable[..., Any]:
        function = getattr(self._library, f"cblas_{name}")
        function.restype = returns
        return function

    def _product(
        self, routine: _Routine, name: str, operands: Operands, b: np.ndarray, b_is: ctypes.c_int, *, alpha: bool
    ) -> Call:
        """The call of a routine with beta 0."""
        (m, k), n = operands.a.shape, operands.b.shape[1]
        rows, columns, depth = (ctypes.c_int(extent) for extent in (m, n, k))
        zero = [ctypes.c_int8(0)] if routine.offsets else []
        no_offset = np.zeros(1, np.int32)
        a_is, a_leading = _stored(operands.a)
        arguments = (
            *(_ROW_MAJOR, a_is, b_is, *([_FIX_OFFSET] if routine.offsets else []), rows, columns, depth),
            *([routine.scalar(1)] if alpha else []),
            *(ctypes.c_void_p(operands.a.ctypes.data), a_leading, *zero),
            *(ctypes.c_void_p(b.ctypes.data), columns if b is not operands.b else _stored(b)[1], *zero),
            *(routine.scalar(0), ctypes.c_void_p(operands.c.ctypes.data), columns),
            *([ctypes.c_void_p(no_offset.ctypes.data)] if routine.offsets else []),
        )
        call = partial(self._function(name), *arguments)
        call.__dict__["arrays"] = (b, no_offset, operands)  # the arguments are addresses: these must live as long
        return call

    def _batch(self, routine: _Routine, operands: Operands) -> Call:
        """The call for a batch, all of whose matrices are as far apart as they are large."""
        (m, k), n = operands.a.shape[-2:], operands.b.shape[-1]
        a_is, a_leading = _stored(operands.a)
        b_is, b_leading = _stored(operands.b)
        matrices = operands.c.size // (m * n)
        arguments = (
            *(_ROW_MAJOR, a_is, b_is, *(ctypes.c_int(extent) for extent in (m, n, k)), routine.scalar(1)),
            *(ctypes.c_void_p(operands.a.ctypes.data), a_leading, ctypes.c_int(m * k)),
            *(ctypes.c_void_p(operands.b.ctypes.data), b_leading, ctypes.c_int(k * n), routine.scalar(0)),
            *(ctypes.c_void_p(operands.c.ctypes.data), ctypes.c_int(n), ctypes.c_int(m * n), ctypes.c_int(matrices)),
        )
        call = partial(self._function(f"{routine.name}_batch_strided"), *arguments)
        call.__dict__["arrays"] = operands  # the arguments are addresses: these must live as long
        return call


def _stored(matrix: np.ndarray) -> tuple[ctypes.c_int, ctypes.c_int]:
    """Whether a matrix is stored transposed, as CBLAS says it, and its leading dimension."""
    rows, columns = matrix.shape[-2:]
    # Along an extent of one any stride will do.
    transposed = columns > 1 and matrix.strides[-1] != matrix.itemsize
    return (_TRANSPOSE, ctypes.c_int(rows)) if transposed else (_NO_TRANSPOSE, ctypes.c_int(columns))


def mkl_path() -> Path | None:
    """Where MKL's single dynamic library is: in the `mkl` wheel, below MKLROOT, or in the environment's lib; or None."""
    wheel = next(installed("mkl", r"libmkl_rt\.so(\.\d+)*"), None)
    if wheel is not None:
        return wheel
    roots = [Path(os.environ["MKLROOT"])] if os.environ.get("MKLROOT") else []
    for root in (*roots, Path(sys.prefix)):
        for found in sorted((*root.glob("lib/libmkl_rt.so*"), *root.glob("lib/intel64/libmkl_rt.so*"))):
            return found
    return None
