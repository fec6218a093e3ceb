# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The libraries that we are compared with: one row each. A new peer is a class in libraries.py and a row here."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tilewright.bench.libraries import Library, Mkl, Numpy, mkl_path, openblas_core
from tilewright.errors import TilewrightError
from tilewright.targets.host import machine

EXTRA = "bench"
"""The optional dependency group of the package that brings the peers and matplotlib."""

_AVX512_CORES = frozenset({"SkylakeX", "Cooperlake", "Sapphirerapids"})  # OpenBLAS's names, its DYNAMIC_ARCH list


@dataclass(frozen=True, slots=True)
class Peer:
    """A library, and how to get it going.

    Attributes:
        name: What `--peers` and the JSON call it.
        library: What it is, for people.
        distribution: The package that brings it.
        make: Loads it; called in the peer's own process.
        missing: None when it can be loaded, else what is missing; looked up without loading it.
        dtypes: The element types that it multiplies.
        environment: From the number of threads to the variables its process needs, on top of `threads_environment`.
        applies: Whether it has anything to say on this machine; a row that does not apply is not listed.
    """

    name: str
    library: str
    distribution: str
    make: Callable[[], Library]
    missing: Callable[[], str | None]
    dtypes: frozenset[str]
    environment: Callable[[int], Mapping[str, str]] = field(default=lambda threads: {})
    applies: Callable[[], bool] = field(default=lambda: True)


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a peer can be measured here.

    Attributes:
        name: The peer's name.
        library: What it is.
        missing: None when it is there, else what is missing and how to install it.
    """

    name: str
    library: str
    missing: str | None


def threads_environment(threads: int) -> dict[str, str]:
    """The variables by which OpenMP, OpenBLAS and MKL take their number of threads, and keep it."""
    count = str(threads)
    return {
        "OMP_NUM_THREADS": count,
        "OMP_DYNAMIC": "FALSE",
        "OPENBLAS_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "MKL_DYNAMIC": "FALSE",
    }


def _missing_mkl() -> str | None:
    return None if mkl_path() else _install("no libmkl_rt in this Python environment")


def _missing_numpy() -> str | None:
    return None if importlib.util.find_spec("numpy") else _install("no numpy in this Python environment")


def _install(what: str) -> str:
    return f"{what}; install it with: pip install 'tilewright[{EXTRA}]'"


def _openblas_overlooks_avx512() -> bool:
    """Whether OpenBLAS, which decides by CPU name, chose lesser kernels than this machine could run."""
    _, flags = machine()
    return openblas_core() not in {None, *_AVX512_CORES} and "avx512f" in flags


_ROWS = (
    Peer(
        "numpy",
        "numpy.matmul, with the BLAS that numpy brings",
        "numpy",
        Numpy,
        _missing_numpy,
        frozenset({"f32", "f64"}),
    ),
    Peer(
        "numpy-avx512",
        "numpy.matmul, its OpenBLAS told to use AVX-512 where it does not by itself",
        "numpy",
        Numpy,
        _missing_numpy,
        frozenset({"f32", "f64"}),
        environment=lambda threads: {"OPENBLAS_CORETYPE": "SkylakeX"},
        applies=_openblas_overlooks_avx512,
    ),
    Peer(
        "mkl",
        "MKL's cblas_?gemm",
        "mkl",
        Mkl,
        _missing_mkl,
        frozenset({"f32", "f64"}),
        environment=lambda threads: {
            "MKL_INTERFACE_LAYER": "LP64",
            "MKL_THREADING_LAYER": "SEQUENTIAL" if threads == 1 else "INTEL",
        },
    ),
)

PEERS: Mapping[str, Peer] = MappingProxyType({row.name: row for row in _ROWS})
"""Every peer, by name."""


def known() -> list[Availability]:
    """Every peer that has anything to say on this machine, and whether it is there."""
    return [Availability(peer.name, peer.library, peer.missing()) for peer in PEERS.values() if peer.applies()]


def choose(names: Iterable[str] | None, dtype: str) -> tuple[list[Peer], dict[str, str]]:
    """The peers to measure, and why others are absent.

    Args:
        names: Those demanded; None: whatever is there.
        dtype: The element type to be measured.

    Returns:
        The peers in the order of the names (or of the table), and from the name of each absent one to what is missing.

    Raises:
        TilewrightError: A demanded peer is unknown, not installed, or does not do `dtype`.
    """
    if names is None:
        present, absent = [], {}
        for peer in PEERS.values():
            why = _why_not(peer, dtype) if peer.applies() else None
            if why:
                absent[peer.name] = why
            elif peer.applies():
                present.append(peer)
        return present, absent
    demanded = []
    for name in dict.fromkeys(names):
        if name not in PEERS:
            raise TilewrightError(f"unknown peer {name!r}", expected=f"some of {', '.join(PEERS)}")
        why = _why_not(PEERS[name], dtype)
        if why:
            raise TilewrightError(why, where=f"peer {name}")
        demanded.append(PEERS[name])
    return demanded, {}


def _why_not(peer: Peer, dtype: str) -> str | None:
    return peer.missing() or (None if dtype in peer.dtypes else f"it has no product of {dtype}")
