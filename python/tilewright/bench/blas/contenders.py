# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which BLAS libraries are measured beside ours, and why one is not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from tilewright.bench.blas.cases import PRODUCTS_ALONE
from tilewright.bench.libraries import Library
from tilewright.bench.peers import PEERS, Peer
from tilewright.errors import TilewrightError

LIBRARIES = ("numpy", "numpy-avx512", "mkl")
"""Rows of `bench.peers`."""


def rows(library: Path, absent: Collection[str]) -> list[Peer]:
    """Our BLAS, whose process runs the Python that runs this, and the libraries that are not absent."""
    ours = Peer(str(library), "ours", "", Library, lambda: None, {})
    return [ours, *(PEERS[name] for name in LIBRARIES if name not in absent)]


def absent(libraries: Sequence[str] | None, asked: str) -> dict[str, str]:
    """Why libraries do not take part.

    Raises:
        TilewrightError: One is unknown, or must take part and is not there.
    """
    for name in libraries or ():
        if name not in LIBRARIES:
            raise TilewrightError(f"no BLAS {name!r}", where="bench blas", expected=f"some of {', '.join(LIBRARIES)}")
        if missing := PEERS[name].missing():
            raise TilewrightError(missing, where=f"peer {name}")
    lacking = {name: f"it has no product of {asked}" for name in LIBRARIES if asked in PRODUCTS_ALONE and name != "mkl"}
    if libraries is not None:
        return {name: "not asked for" for name in LIBRARIES if name not in libraries} | lacking
    here = [name for name in LIBRARIES if PEERS[name].applies()]
    same = {name: "it is what numpy takes by itself" for name in LIBRARIES if name not in here}
    return {name: missing for name in here if (missing := PEERS[name].missing())} | same | lacking
