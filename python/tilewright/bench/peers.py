# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of peers, the libraries that we are compared with: one row each."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType

from tilewright.bench import environments
from tilewright.bench.libraries import (
    Iree,
    Library,
    Libxsmm,
    Mkl,
    Numpy,
    OneDnn,
    OnnxRuntime,
    TorchCompile,
    TorchMm,
    Xla,
    libxsmm_missing,
    mkl_path,
    openblas_core,
)
from tilewright.bench.operands import Types, types_of
from tilewright.bench.suites import Shape
from tilewright.errors import TilewrightError
from tilewright.targets.host import machine

EXTRA = "bench"
"""The optional dependency group of the package that brings MKL and matplotlib."""

_AVX512_CORES = frozenset({"SkylakeX", "Cooperlake", "Sapphirerapids"})  # OpenBLAS's names, its DYNAMIC_ARCH list

Products = Mapping[tuple[str, str], str]
"""From the types of A and B to the type in which a library gives their product."""

_F32_F64: Products = MappingProxyType({("f32", "f32"): "f32", ("f64", "f64"): "f64"})
_EVERY_SIGN: Products = MappingProxyType({(a, b): "i32" for a in ("i8", "u8") for b in ("i8", "u8")})
_EVERYTHING: Products = MappingProxyType({**_F32_F64, ("bf16", "bf16"): "f32", ("f16", "f16"): "f32", **_EVERY_SIGN})
_BLAS = frozenset({"f32", "f64"})
_NOTHING: Products = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Peer:
    """A library, and how to get it going.

    Attributes:
        name: What `--peers` and the JSON call it.
        library: What it is, for people.
        environment: The Python environment that it is measured in.
        make: Loads it; called in the peer's own process.
        here: None when the running environment has it too, else what is missing there; looked up without loading it.
        products: What it multiplies when B comes in row-major order.
        packed: What it multiplies when it may pack B ahead of time.
        variables: From the number of threads to the variables its process needs, on top of `process_environment`.
        applies: Whether it has anything to say on this machine; a row that does not apply is not listed.
        fuses: Whether it is for products with an epilogue, and not for those without; otherwise the other way round.
        batches: The types of A and B of which it multiplies batches in one call.
        transposes: Whether it takes operands that are stored transposed as they are.
        system: None when the system has what no Python environment brings, else what is missing there.
    """

    name: str
    library: str
    environment: str
    make: Callable[[], Library]
    here: Callable[[], str | None]
    products: Products
    packed: Products = field(default_factory=lambda: _NOTHING)
    variables: Callable[[int], Mapping[str, str]] = field(default=lambda threads: {})
    applies: Callable[[], bool] = field(default=lambda: True)
    fuses: bool = False
    batches: frozenset[str] = frozenset()
    transposes: bool = False
    system: Callable[[], str | None] = field(default=lambda: None)

    def python(self) -> Path:
        """The interpreter that it is measured with: its own environment's when that is set up, else the running one."""
        return environments.python(self.environment) or Path(sys.executable)

    def missing(self) -> str | None:
        """None when it can be loaded, else what is missing and how to install it."""
        return self.system() or (None if environments.python(self.environment) else self.here())

    def cannot(self, shape: Shape, dtype: str, layout: str, *, packed: bool) -> str | None:
        """Why it does not multiply matrices of this shape that are stored so; None when it does."""
        if layout != "nn" and not self.transposes:
            return f"it takes no operands stored {layout}"
        if shape.batch and (packed or types_of(dtype)[0] not in self.batches):
            return "it has no batched product of " + dtype + (" with B packed ahead of time" if packed else "")
        return None

    def types(self, dtype: str, *, packed: bool) -> Types | None:
        """The types of A, B and its product for what `dtype` asks; None when it has no such product."""
        a, b, _ = types_of(dtype)
        c = (self.packed if packed else self.products).get((a, b))
        return None if c is None else (a, b, c)


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


def process_environment(threads: int) -> dict[str, str]:
    """The variables that every peer's process gets.

    They are those by which OpenMP, OpenBLAS and MKL take their number of threads and keep it; those that end a thread's busy
    waiting after a millisecond or so, as it would take time from whoever comes next; and those that let the C library
    keep the memory of large results in huge pages, instead of having it cleared by the system anew in each call.
    """
    count = str(threads)
    return {
        "OMP_NUM_THREADS": count,
        "OMP_DYNAMIC": "FALSE",
        "OPENBLAS_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "MKL_DYNAMIC": "FALSE",
        "KMP_BLOCKTIME": "1",
        "OPENBLAS_THREAD_TIMEOUT": "20",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(2**40),
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    }


def _needs(module: str) -> Callable[[], str | None]:
    """A look for a module in the running environment."""
    return lambda: None if importlib.util.find_spec(module) else _install(f"no {module} in this Python environment")


def _needs_mkl() -> str | None:
    return None if mkl_path() else _install("no libmkl_rt in this Python environment", extra=True)


def _install(what: str, extra: bool = False) -> str:
    pip = f"pip install 'tilewright[{EXTRA}]', or every peer with: " if extra else ""
    return f"{what}; install it with: {pip}tilewright bench setup"


def _openblas_overlooks_avx512() -> bool:
    """Whether OpenBLAS, which decides by CPU name, chose lesser kernels than this machine could run."""
    _, flags = machine()
    return openblas_core() not in {None, *_AVX512_CORES} and "avx512f" in flags


def _mkl_variables(threads: int) -> dict[str, str]:
    return {"MKL_INTERFACE_LAYER": "LP64", "MKL_THREADING_LAYER": "SEQUENTIAL" if threads == 1 else "INTEL"}


_NUMPY = _needs("numpy")
_MKL: Products = MappingProxyType({**_F32_F64, ("bf16", "bf16"): "f32", ("f16", "f16"): "f32", ("u8", "i8"): "i32"})
_COMPILED: Products = MappingProxyType({("f32", "f32"): "f32", ("bf16", "bf16"): "bf16"})
_ROWS = (
    Peer(
        "numpy",
        "numpy.matmul, with the BLAS that numpy brings",
        "numpy",
        Numpy,
        _NUMPY,
        _F32_F64,
        batches=_BLAS,
        transposes=True,
    ),
    Peer(
        "numpy-avx512",
        "numpy.matmul, its OpenBLAS told to use AVX-512 where it does not by itself",
        "numpy",
        Numpy,
        _NUMPY,
        _F32_F64,
        variables=lambda threads: {"OPENBLAS_CORETYPE": "SkylakeX"},
        applies=_openblas_overlooks_avx512,
        batches=_BLAS,
        transposes=True,
    ),
    Peer(
        "mkl",
        "MKL's cblas_?gemm, and cblas_?gemm_batch_strided",
        "mkl",
        Mkl,
        _needs_mkl,
        _MKL,
        packed=_MKL,
        variables=_mkl_variables,
        batches=_BLAS,
        transposes=True,
    ),
    Peer(
        "onednn",
        "oneDNN, through torch",
        "torch",
        OneDnn,
        _needs("torch"),
        MappingProxyType({("f32", "f32"): "f32", ("bf16", "bf16"): "bf16", ("u8", "i8"): "i32", ("i8", "i8"): "i32"}),
        packed=MappingProxyType({("f32", "f32"): "f32", ("bf16", "bf16"): "bf16", ("u8", "i8"): "f32"}),
        batches=frozenset({"bf16"}),
        transposes=True,
    ),
    Peer(
        "torch",
        "torch.mm and torch.bmm: MKL in torch's own builds, its own loops for f16",
        "torch",
        TorchMm,
        _needs("torch"),
        MappingProxyType({**_F32_F64, ("f16", "f16"): "f16"}),
        batches=frozenset({"f32", "f64", "f16"}),
        transposes=True,
    ),
    *(
        Peer(
            name,
            f"torch.compile{how}",
            "torch",
            make,
            _needs("torch"),
            _COMPILED,
            packed=_COMPILED,
            variables=lambda threads: {"TORCHINDUCTOR_COMPILE_THREADS": "1"},
            fuses=True,
        )
        for name, how, make in (
            ("torch-compile", "", TorchCompile),
            ("torch-autotune", ", with max-autotune", partial(TorchCompile, autotune=True)),
        )
    ),
    Peer(
        "libxsmm",
        "libxsmm's kernels for small products, and libxsmm_gemm_batch",
        "numpy",
        Libxsmm,
        _NUMPY,
        _F32_F64,
        packed=MappingProxyType({("bf16", "bf16"): "f32"}),
        batches=_BLAS,
        system=libxsmm_missing,
    ),
    Peer("xla", "XLA's dot on the CPU, through JAX", "jax", Xla, _needs("jax"), _EVERYTHING),
    Peer("iree", "IREE's compiler for the CPU", "iree", Iree, _needs("iree"), _EVERYTHING),
    Peer(
        "onnxruntime",
        "onnxruntime's MatMul and MatMulInteger",
        "onnxruntime",
        OnnxRuntime,
        _needs("onnxruntime"),
        MappingProxyType({**_F32_F64, ("f16", "f16"): "f16", **_EVERY_SIGN}),
        packed=MappingProxyType({**_F32_F64, ("f16", "f16"): "f16", **_EVERY_SIGN}),
    ),
    Peer(
        "ggml",
        "ggml's products by blocks of Q4_0 and Q8_0: bench weights",
        "ggml",
        Library,
        _needs("llama_cpp"),
        _NOTHING,
    ),
)

PEERS: Mapping[str, Peer] = MappingProxyType({row.name: row for row in _ROWS})
"""Every peer, by name."""


def known() -> list[Availability]:
    """Every peer that has anything to say on this machine, and whether it is there."""
    return [Availability(peer.name, peer.library, peer.missing()) for peer in PEERS.values() if peer.applies()]


def choose(names: Iterable[str] | None, dtype: str, epilogue: str = "") -> tuple[list[Peer], dict[str, str]]:
    """The peers to measure, and why others are absent.

    Args:
        names: Those demanded; None: whatever is there.
        dtype: The element type to be measured, or those of A, B and C.
        epilogue: What is done to the sums.

    Returns:
        The peers in the order of the names (or of the table), and from the name of each absent one to what is missing.

    Raises:
        TilewrightError: A demanded peer is unknown, not installed, or does not do `dtype`.
    """
    present, absent = [], {}
    for name in dict.fromkeys(PEERS if names is None else names):
        if name not in PEERS:
            raise TilewrightError(f"unknown peer {name!r}", expected=f"some of {', '.join(PEERS)}")
        peer = PEERS[name]
        fits = peer.fuses == bool(epilogue)
        if names is None and not (fits and peer.applies() and peer.products):
            continue
        why = _why_not(peer, dtype)
        if not fits:
            why = "it is for products with an epilogue" if peer.fuses else "it does nothing to the sums"
        if why and names is not None:
            raise TilewrightError(why, where=f"peer {name}")
        if why:
            absent[name] = why
        else:
            present.append(peer)
    return present, absent


def _why_not(peer: Peer, dtype: str) -> str | None:
    a, b, _ = types_of(dtype)
    return peer.missing() or (None if (a, b) in {*peer.products, *peer.packed} else f"it has no product of {a} and {b}")
