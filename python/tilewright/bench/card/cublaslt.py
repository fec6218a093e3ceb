# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cuBLASLt as a peer: times every algorithm that its heuristic proposes for a product, and keeps the fastest.

Sources of numbers and structures: cublasLt.h, cublas_api.h and library_types.h of CUDA 13. Matrices are column-major there, so
the product is Cᵀ = Bᵀ·Aᵀ.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

_MOST_ALGORITHMS = 12
_WORKSPACE_BYTES = 64 << 20
_STATUS_OK = 0
_OP_N, _OP_T = 0, 1
_MAX_WORKSPACE = 1
"""An attribute of preferences."""
_TRANSA, _TRANSB, _EPILOGUE, _BIAS_POINTER, _FAST_ACCUM, _BIAS_TYPE = 3, 4, 7, 8, 25, 26
"""Attributes of a product."""
_BIAS, _GELU_BIAS = 4, 36
"""Epilogues."""
_DATA: Mapping[str, int] = MappingProxyType(
    {
        "float32": 0,
        "float16": 2,
        "int8": 3,
        "int32": 10,
        "bfloat16": 14,
        "float8_e4m3fn": 28,
        "float8_e5m2": 29,
    }
)
"""cudaDataType by torch's names."""
_COMPUTE_32F, _COMPUTE_32I, _COMPUTE_TF32 = 68, 72, 77

EPILOGUES: Mapping[str, int] = MappingProxyType({"": 0, "bias": _BIAS, "bias, gelu": _GELU_BIAS})
"""What can follow a product, by name. Its GELU is the approximation by tanh."""


class _Result(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix as it is multiplied, in a card's memory.

    Attributes:
        address: Of its first element.
        rows: Its rows.
        columns: Its columns.
        strides: Elements from one to the next, down and to the right; one of them is 1.
        type: torch's name of its element type.
    """

    address: int
    rows: int
    columns: int
    strides: tuple[int, int]
    type: str


class CublasLt:
    """The library, loaded."""

    def __init__(self, name: str, workspace: int) -> None:
        """Loads it.

        Args:
            name: The library's file.
            workspace: The address of 64 MiB in the card's memory.

        Raises:
            OSError: It is not there.
            RuntimeError: It does not start.
        """
        self._library = ctypes.CDLL(name)
        self._workspace = workspace
        self._handle = self._made("cublasLtCreate")
        self._kept: list[object] = []

    @property
    def version(self) -> str:
        """Its release."""
        get = self._library.cublasLtGetVersion
        get.restype = ctypes.c_size_t
        return str(get())

    def products(
        self,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        epilogue: str = "",
        bias: int = 0,
        bias_type: str = "",
        *,
        fast: bool = True,
    ) -> list[Callable[[Matrix, Matrix, Matrix, int, int], None]]:
        """A function for each algorithm that the heuristic proposes, its first choice first.

        Each takes A, B and C, matrices like these, the address of their bias, and the handle of a stream.

        Args:
            a: M x K elements.
            b: K x N elements.
            c: M x N elements, the result.
            epilogue: A name in `EPILOGUES`.
            bias: The address of N elements, if it takes them.
            bias_type: torch's name of their type.
            fast: Whether 8-bit floats are summed with fewer bits than f32 has.

        Raises:
            RuntimeError: It has none.
        """
        whole, single = a.type == "int8", a.type == "float32"
        compute = _COMPUTE_32I if whole else _COMPUTE_TF32 if single else _COMPUTE_32F
        scale = ctypes.c_int32 if whole else ctypes.c_float
        product = self._made("cublasLtMatmulDescCreate", compute, _DATA["int32" if whole else "float32"])
        layouts = []
        for matrix, attribute in ((b, _TRANSA), (a, _TRANSB)):
            by_rows = matrix.strides[1] == 1 and (matrix.strides[0] >= matrix.columns or matrix.rows == 1)
            self._set(product, attribute, ctypes.c_int32(_OP_N if by_rows else _OP_T))
            layouts.append(self._layout(matrix, by_rows=by_rows))
        layouts.append(self._layout(c, by_rows=True))
        if a.type.startswith("float8"):
            self._set(product, _FAST_ACCUM, ctypes.c_int8(fast))
        if epilogue:
            self._set(product, _EPILOGUE, ctypes.c_uint32(EPILOGUES[epilogue]))
            self._set(product, _BIAS_POINTER, ctypes.c_void_p(bias))
            self._set(product, _BIAS_TYPE, ctypes.c_int32(_DATA[bias_type]))
        one, zero = scale(1), scale(0)

        def product_by(result: _Result) -> Callable[[Matrix, Matrix, Matrix, int, int], None]:
            def run(a: Matrix, b: Matrix, c: Matrix, bias: int, stream: int) -> None:
                if epilogue:
                    self._set(product, _BIAS_POINTER, ctypes.c_void_p(bias))
                pointers = [ctypes.c_void_p(each) for each in (b.address, a.address, c.address)]
                left, right, to = layouts
                self._call(
                    "cublasLtMatmul",
                    *(self._handle, product, ctypes.byref(one), pointers[0], left, pointers[1], right),
                    *(ctypes.byref(zero), pointers[2], to, pointers[2], to, ctypes.byref(result.algorithm)),
                    *(ctypes.c_void_p(self._workspace), ctypes.c_size_t(_WORKSPACE_BYTES), ctypes.c_void_p(stream)),
                )

            return run

        return [product_by(each) for each in self._proposed(product, layouts)]

    def _proposed(self, product: ctypes.c_void_p, layouts: list[ctypes.c_void_p]) -> list[_Result]:
        preference = self._made("cublasLtMatmulPreferenceCreate")
        size = ctypes.c_uint64(_WORKSPACE_BYTES)
        size_at = ctypes.byref(size), ctypes.c_size_t(8)
        self._call("cublasLtMatmulPreferenceSetAttribute", preference, _MAX_WORKSPACE, *size_at)
        results, count = (_Result * _MOST_ALGORITHMS)(), ctypes.c_int()
        left, right, to = layouts
        self._call(
            "cublasLtMatmulAlgoGetHeuristic",
            *(self._handle, product, left, right, to, to, preference, _MOST_ALGORITHMS, results, ctypes.byref(count)),
        )
        self._kept.append(results)
        found = [each for each in results[: count.value] if each.state == _STATUS_OK]
        if not found:
            raise RuntimeError("cuBLASLt proposes no algorithm")
        return found

    def _made(self, function: str, *given: Any) -> ctypes.c_void_p:  # noqa: ANN401 - numbers of Python and ctypes
        """The object that a function creates and writes to its first argument."""
        made = ctypes.c_void_p()
        self._call(function, ctypes.byref(made), *given)
        return made

    def _layout(self, matrix: Matrix, *, by_rows: bool) -> ctypes.c_void_p:
        """Of a matrix, or, by rows, of its transpose, column by column."""
        rows, columns = (matrix.columns, matrix.rows) if by_rows else (matrix.rows, matrix.columns)
        pitch = max(matrix.strides[0 if by_rows else 1], rows)
        extents = ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(pitch)
        return self._made("cublasLtMatrixLayoutCreate", _DATA[matrix.type], *extents)

    def _set(self, product: ctypes.c_void_p, attribute: int, value: Any) -> None:  # noqa: ANN401 - a number of ctypes
        value_at = ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))
        self._call("cublasLtMatmulDescSetAttribute", product, attribute, *value_at)

    def _call(self, function: str, *given: Any) -> None:  # noqa: ANN401 - numbers of Python and ctypes
        """Calls a function of the library.

        Raises:
            RuntimeError: It fails.
        """
        status = getattr(self._library, function)(*given)
        if status != _STATUS_OK:
            raise RuntimeError(f"{function} gives status {status}")
