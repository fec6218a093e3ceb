# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Peer: numpy with the BLAS of its wheel."""

from __future__ import annotations

import ctypes
from functools import partial
from pathlib import Path

import numpy as np

from tilewright.bench.libraries.base import Call, Library
from tilewright.bench.operands import Operands


class Numpy(Library):
    """numpy.matmul, which hands large products to the BLAS that numpy came with (OpenBLAS in numpy's own wheels).

    What is timed includes numpy's dispatch on the arguments, about half a microsecond.
    """

    @property
    def version(self) -> str:
        """Numpy's version, its BLAS, and which of OpenBLAS's kernels were chosen for this machine."""
        core = openblas_core()
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]  # type: ignore[index]
        name = "OpenBLAS" if "openblas" in blas["name"].lower() else blas["name"]
        return f"{np.__version__}, {name} {blas['version']}" + (f" ({core} kernels)" if core else "")

    def bind(self, operands: Operands) -> Call:
        """See `Library.bind`."""
        return partial(np.matmul, operands.a, operands.b, operands.c)


def openblas_core(maps: Path = Path("/proc/self/maps")) -> str | None:
    """The processor type whose kernels the OpenBLAS of this process uses ("Haswell"), or None when there is no OpenBLAS.

    Its getter is exported under one of four names: numpy's wheels add a prefix and a suffix.
    """
    try:
        loaded = {line.split(maxsplit=5)[5].strip() for line in maps.read_text().splitlines() if "openblas" in line}
    except OSError:
        return None
    for path in sorted(loaded):
        library = ctypes.CDLL(path)
        for name in (f"{prefix}openblas_get_corename{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "")):
            getter = getattr(library, name, None)
            if getter is not None:
                getter.restype = ctypes.c_char_p
                return (getter() or b"").decode() or None
    return None
