# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of Dask arrays: a kernel of ours for each pair of chunks, wherever Dask runs it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.dtypes import from_numpy, to_numpy
from tilewright.errors import OperandError
from tilewright.runtime.kernel import Kernel
from tilewright.spec import MatmulSpec
from tilewright.tuning.calls import compile as compile_one

Array = np.ndarray[Any, Any]


def is_dask(array: object) -> bool:
    """Whether it is a Dask array."""
    return type(array).__module__.partition(".")[0] == "dask" and hasattr(array, "dask")


def matmul(a: Any, b: Any, *, threads: int = 1) -> Any:  # noqa: ANN401 - Dask's arrays; the package need not be installed
    """The product of two Dask arrays, a Dask array that is not computed yet.

    Chunks of C have the rows of A's chunks and the columns of B's; K is split as A and B are, B's chunks being cut where A's are. A worker
    needs this package, and compiles a kernel for each shape of chunks, once.

    Args:
        a: M by K.
        b: K by N.
        threads: Most threads of a kernel.

    Raises:
        OperandError: One is no matrix of a type that kernels multiply, or no Dask array; or they are of different K.
    """
    for name, each in (("a", a), ("b", b)):
        if not is_dask(each) or each.ndim != 2:
            raise OperandError(
                "it is no two-dimensional Dask array",
                where=name,
                expected="two of them",
                remedy="dask.array.from_array",
            )
    # A chunk's extents are NaN before it is computed; such arrays are not compared.
    if a.shape[1] == a.shape[1] and b.shape[0] == b.shape[0] and a.shape[1] != b.shape[0]:
        raise OperandError(f"arrays {a.shape} and {b.shape}", where="b", expected="one K")
    types = from_numpy(a.dtype).name, from_numpy(b.dtype).name
    kind = to_numpy(MatmulSpec(m=1, n=1, k=1, a=types[0], b=types[1]).c_type)
    return importlib.import_module("dask.array").blockwise(
        _chunk, "ij", a, "ik", b, "kj", dtype=kind, meta=np.empty((0, 0), kind), concatenate=False, threads=threads
    )


def _chunk(a: Sequence[Array], b: Sequence[Array], threads: int) -> Array:
    """A chunk of C, of a row of chunks of A and a column of chunks of B: their products are added in their order."""
    out: Array | None = None
    for left, right in zip(a, b, strict=True):
        (m, k), n = left.shape, right.shape[1]
        types = from_numpy(left.dtype).name, from_numpy(right.dtype).name
        kernel = _kernel(MatmulSpec(m=m, n=n, k=k, a=types[0], b=types[1], beta=int(out is not None)), threads)
        out = kernel(np.ascontiguousarray(left), np.ascontiguousarray(right), out=out)
    assert out is not None, "K has a chunk"
    return out


@lru_cache(maxsize=1024)
def _kernel(spec: MatmulSpec, threads: int) -> Kernel:
    return compile_one(spec, threads=threads)
