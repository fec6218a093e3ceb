# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of ScaLAPACK, psgemm and pdgemm, on the processes of MPI: what products over processes are compared with."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError

LIBRARIES: Mapping[str, str] = MappingProxyType(
    {"OpenMPI": "libscalapack-openmpi.so.2.2", "MPICH": "libscalapack-mpich.so.2.2"}
)
"""Debian's, by the implementation of MPI that each is linked with."""
_ROUTINES: Mapping[str, str] = MappingProxyType({"f32": "psgemm_", "f64": "pdgemm_"})
_DESCRIPTOR = 9
"""Integers of an array descriptor."""


def load(implementation: str) -> ctypes.CDLL:
    """The library for an implementation of MPI.

    Raises:
        TilewrightError: It is not installed.
    """
    try:
        return ctypes.CDLL(LIBRARIES[implementation])
    except OSError as error:
        raise TilewrightError(
            f"ScaLAPACK cannot be loaded: {error}",
            where="bench distributed",
            remedy="make setup-cluster installs it; on Debian it is libscalapack-openmpi2.2 or libscalapack-mpich2.2",
        ) from None


class Gemm:
    """C = A·B with matrices in square blocks that go around a grid of processes, column-major, as ScaLAPACK has them."""

    def __init__(
        self, library: ctypes.CDLL, shape: tuple[int, int, int], element: str, grid: tuple[int, int], block: int
    ) -> None:
        """Makes the grid of all processes, the last axis going fastest; all of them do so together.

        Args:
            library: What `load` gave.
            shape: M, N and K.
            element: "f32" or "f64".
            grid: Rows and columns of processes.
            block: Rows and columns of a block.
        """
        self._library, self._routine = library, library[_ROUTINES[element]]
        context = ctypes.c_int()
        library.Cblacs_get(0, 0, ctypes.byref(context))
        library.Cblacs_gridinit(ctypes.byref(context), b"Row", *grid)
        self._context = context
        place = [ctypes.c_int() for _ in range(4)]
        library.Cblacs_gridinfo(context, *map(ctypes.byref, place))
        self._grid, self._place, self._block = grid, (place[2].value, place[3].value), block
        m, n, k = shape
        self._shape = shape
        kind = np.float32 if element == "f32" else np.float64
        self.a, self.b, self.c = (self._matrix(*extents, kind) for extents in ((m, k), (k, n), (m, n)))

    def rows(self, extent: int, axis: int) -> np.ndarray[Any, Any]:
        """The indices along a dimension of a matrix, split by an axis of the grid, that this process has."""
        every = np.arange(extent)
        return every[every // self._block % self._grid[axis] == self._place[axis]]

    def _matrix(self, rows: int, columns: int, kind: Any) -> tuple[np.ndarray[Any, Any], Any]:  # noqa: ANN401 - a type of numpy
        """This process's part of a matrix, of zeros, and the descriptor of the whole."""
        part = np.zeros((len(self.rows(rows, 0)), len(self.rows(columns, 1))), kind, order="F")
        made, problem = (ctypes.c_int * _DESCRIPTOR)(), ctypes.c_int()
        numbers = (rows, columns, self._block, self._block, 0, 0, self._context.value, max(1, part.shape[0]))
        self._library.descinit_(made, *(ctypes.byref(ctypes.c_int(each)) for each in numbers), ctypes.byref(problem))
        if problem.value:
            raise TilewrightError(f"descinit of {rows}x{columns}: {problem.value}", where="bench distributed")
        return part, made

    def __call__(self) -> None:
        """Computes C; all processes call it together."""
        scalar = ctypes.c_float if self._routine.__name__ == _ROUTINES["f32"] else ctypes.c_double
        one, plain, first = scalar(1), ctypes.c_char(b"N"), ctypes.byref(ctypes.c_int(1))
        extents = [ctypes.byref(ctypes.c_int(each)) for each in self._shape]
        # Fortran's compilers pass the lengths of texts behind everything else.
        matrices = [(each.ctypes.data_as(ctypes.c_void_p), first, first, how) for each, how in (self.a, self.b, self.c)]
        a, b, c = matrices
        self._routine(
            *(ctypes.byref(plain), ctypes.byref(plain), *extents, ctypes.byref(one)),
            *(*a, *b, ctypes.byref(scalar(0)), *c),
            *(ctypes.c_size_t(1), ctypes.c_size_t(1)),
        )

    def close(self) -> None:
        """Frees the grid; all processes do so together."""
        self._library.Cblacs_gridexit(self._context)
