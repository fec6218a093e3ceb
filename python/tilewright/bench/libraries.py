# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the libraries that we are compared with are called. Loaded in each peer's own process, so the environment is set already."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np

from tilewright.bench.operands import Operands

Call = Callable[[], object]
"""One product of operands that were bound ahead; calling it is all that is timed."""


class Library(Protocol):
    """A library that multiplies matrices."""

    @property
    def version(self) -> str:
        """What is measured, exactly: versions, and the kernels chosen where the library tells."""
        ...

    def bind(self, operands: Operands) -> Call:
        """A call that computes ``c = a·b``, with nothing left to convert, and nothing allocated by the caller."""
        ...


class Numpy:
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


class Mkl:
    """MKL's cblas_sgemm and cblas_dgemm through ctypes, every argument converted ahead of time.

    What is timed includes a call through ctypes, about half a microsecond.
    """

    _ROW_MAJOR, _NO_TRANSPOSE = 101, 111  # the CBLAS enumerations, netlib's cblas.h
    _ROUTINES: Mapping[str, tuple[str, Callable[[float], object]]] = MappingProxyType(
        {"float32": ("cblas_sgemm", ctypes.c_float), "float64": ("cblas_dgemm", ctypes.c_double)}
    )

    def __init__(self) -> None:
        """Loads the library.

        Raises:
            OSError: It is not installed, or cannot be loaded.
        """
        path = mkl_path()
        if path is None:
            raise OSError("no libmkl_rt in this Python environment")
        openmp = next(_installed("intel-openmp", r"libiomp5\.so"), None)
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
        (m, k), n = operands.a.shape, operands.b.shape[1]
        routine, scalar = self._ROUTINES[operands.a.dtype.name]
        order, plain = ctypes.c_int(self._ROW_MAJOR), ctypes.c_int(self._NO_TRANSPOSE)
        rows, columns, depth = ctypes.c_int(m), ctypes.c_int(n), ctypes.c_int(k)
        a, b, c = (ctypes.c_void_p(x.ctypes.data) for x in (operands.a, operands.b, operands.c))
        return partial(
            getattr(self._library, routine),
            *(order, plain, plain, rows, columns, depth),
            *(scalar(1.0), a, depth, b, columns, scalar(0.0), c, columns),
        )


def mkl_path() -> Path | None:
    """Where MKL's single dynamic library is: in the `mkl` wheel, below MKLROOT, or in the environment's lib; or None."""
    wheel = next(_installed("mkl", r"libmkl_rt\.so(\.\d+)*"), None)
    if wheel is not None:
        return wheel
    roots = [Path(os.environ["MKLROOT"])] if os.environ.get("MKLROOT") else []
    for root in (*roots, Path(sys.prefix)):
        for found in sorted((*root.glob("lib/libmkl_rt.so*"), *root.glob("lib/intel64/libmkl_rt.so*"))):
            return found
    return None


def _installed(distribution: str, pattern: str) -> Iterator[Path]:
    """The files of an installed distribution whose names match, wherever its wheel put them."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for file in files:
        path = Path(str(file.locate()))
        if re.fullmatch(pattern, file.name) and path.is_file():
            yield path.resolve()


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
