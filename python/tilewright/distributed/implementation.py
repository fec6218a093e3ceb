# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The MPI library of this process, as mpi4py found it: which implementation it is, and its symbols for compiled code."""

from __future__ import annotations

import ctypes
import importlib
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError

_KNOWN = (("Open MPI", "OpenMPI"), ("MPICH", "MPICH"), ("Intel(R) MPI", "MPICH"), ("MVAPICH", "MPICH"))
"""What a library says of itself, and the name of its numbers in MLIR: others have those of MPICH."""
_FILE = re.compile(r"\s(/\S*/libmpi(?:ch)?\.so\S*)$", re.MULTILINE)


def module() -> Any:  # noqa: ANN401 - a module
    """``mpi4py.MPI``.

    Raises:
        TilewrightError: It is not installed, or there is no MPI library.
    """
    try:
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:  # RuntimeError: there is no MPI library
        raise TilewrightError(
            f"mpi4py cannot be imported: {error}",
            where="distributed",
            remedy="Install it, pip install 'tilewright[mpi]', and an MPI library",
        ) from None


@lru_cache(maxsize=1)
def loaded() -> str:
    """The implementation of MPI in this process, "OpenMPI" or "MPICH"; its symbols can be linked with from then on.

    Raises:
        TilewrightError: There is none, or another one.
    """
    said = str(module().Get_library_version())
    found = next((name for text, name in _KNOWN if text in said), None)
    if found is None:
        raise TilewrightError(
            f"the MPI library is {said.splitlines()[0]}", where="distributed", expected="Open MPI, or one like MPICH"
        )
    files = set(_FILE.findall(Path("/proc/self/maps").read_text()))
    if len(files) != 1:
        raise TilewrightError(f"MPI libraries in this process: {sorted(files)}", where="distributed", expected="one")
    # Whoever loaded it need not have made its names global. A library that was preloaded to watch calls keeps going before it.
    ctypes.CDLL(files.pop(), mode=ctypes.RTLD_GLOBAL | os.RTLD_NOLOAD)
    return found


def handle(comm: Any) -> int:  # noqa: ANN401 - a communicator of mpi4py
    """The number or the pointer that MPI's C type of a communicator holds."""
    return int(module()._handleof(comm))
