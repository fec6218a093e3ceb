# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Peer: ggml on the CPU, llama.cpp's library, as llama-cpp-python brings it: a graph of one product by blocks of Q4_0 or Q8_0."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
from collections.abc import Callable
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError

_F32, Q4_0, Q8_0 = 0, 2, 8
"""ggml's numbers of types."""
_BLOCK = 32
_ARENA = 1 << 20
"""Bytes for what describes tensors and a graph."""
_LIBRARIES = ("libggml-base.so", "libggml-cpu.so")
_POINTERS = frozenset(
    {
        "ggml_backend_alloc_ctx_tensors",
        "ggml_backend_alloc_ctx_tensors_from_buft",
        "ggml_backend_cpu_init",
        "ggml_backend_dev_backend_reg",
        "ggml_backend_get_device",
        "ggml_backend_reg_get_proc_address",
        "ggml_init",
        "ggml_mul_mat",
        "ggml_new_graph",
        "ggml_new_tensor_2d",
    }
)
"""Functions that give a pointer; others give nothing that is used, or whether something is so."""


class _Arena(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("memory", ctypes.c_void_p), ("no_alloc", ctypes.c_bool))


class Ggml:
    """Products of float32 by blocks, with weights in the order that ggml chooses for this machine, where it has one.

    It rounds each 32 elements of a row of A to 8-bit integers first, in each call.
    """

    def __init__(self) -> None:
        """Loads the libraries."""
        found = importlib.util.find_spec("llama_cpp")
        places = [Path(each) / "lib" for each in (found.submodule_search_locations or [])] if found else []
        folder = next((each for each in places if (each / _LIBRARIES[1]).exists()), None)
        if folder is None:
            raise TilewrightError("llama_cpp has no libggml-cpu.so", remedy="Run: tilewright bench setup")
        self._results: dict[int, int] = {}
        libraries = [ctypes.CDLL(str(folder / name), ctypes.RTLD_GLOBAL) for name in _LIBRARIES]
        self._base, self._cpu = libraries
        self._backend = self._call("ggml_backend_cpu_init")
        self._device = self._call("ggml_backend_get_device", self._backend)
        self._call("ggml_backend_cpu_set_n_threads", self._backend, ctypes.c_int(len(os.sched_getaffinity(0))))

    @property
    def version(self) -> str:
        """That of llama-cpp-python."""
        try:
            return f"llama-cpp-python {importlib.metadata.version('llama-cpp-python')}"
        except importlib.metadata.PackageNotFoundError:
            return "of a llama.cpp that was built by hand"

    def product(self, x: np.ndarray, codes: np.ndarray, scales: np.ndarray, out: np.ndarray) -> Callable[[], object]:
        """A call that computes ``x·wᵀ``, which `fetch` then takes into `out`.

        Args:
            x: M × K of f32.
            codes: N × K of i8; of Q4_0 from -8 to 7.
            scales: One for each 32 codes, N × K / 32.
            out: M × N of f32.
        """
        (m, k), n = x.shape, len(codes)
        kind = Q4_0 if codes.max() < 8 and codes.min() >= -8 else Q8_0
        made = (self._made(kind, (m, n, k), order) for order in (*self._orders(), None))
        rest, w, given, result = next(each for each in made if each is not None)
        graph = self._call("ggml_new_graph", rest)
        self._call("ggml_build_forward_expand", graph, result)
        self._call("ggml_backend_alloc_ctx_tensors", rest, self._backend)
        self._set(w, blocks(codes, scales, kind))
        self._set(given, np.ascontiguousarray(x))
        self._results[out.ctypes.data] = result
        compute = self._function("ggml_backend_graph_compute")
        return partial(compute, ctypes.c_void_p(self._backend), ctypes.c_void_p(graph))

    def fetch(self, out: np.ndarray) -> np.ndarray:
        """The result of the product whose result is for `out`."""
        data = ctypes.c_void_p(out.ctypes.data)
        size = ctypes.c_size_t(out.nbytes)
        self._call("ggml_backend_tensor_get", self._results[out.ctypes.data], data, ctypes.c_size_t(0), size)
        return out

    def _made(self, kind: int, shape: tuple[int, int, int], order: int | None) -> tuple[int, int, int, int] | None:
        """Tensors, with weights in memory that keeps them in an order of its own; None where ggml has no such product.

        Returns:
            What describes all but the weights, the weights, the activations and the product.
        """
        m, n, k = shape
        weights, rest = (self._call("ggml_init", _Arena(_ARENA, None, True)) for _ in range(2))
        w, given = self._matrix(weights, kind, k, n), self._matrix(rest, _F32, k, m)
        result = self._call("ggml_mul_mat", rest, w, given)
        if order is None:
            self._call("ggml_backend_alloc_ctx_tensors", weights, self._backend)
            return rest, w, given, result
        self._call("ggml_backend_alloc_ctx_tensors_from_buft", weights, order)
        return (rest, w, given, result) if self._call("ggml_backend_dev_supports_op", self._device, result) else None

    def _orders(self) -> list[int]:
        """The kinds of memory in which ggml keeps weights in an order of its own."""
        registry = self._call("ggml_backend_dev_backend_reg", self._device)
        get = self._call("ggml_backend_reg_get_proc_address", registry, b"ggml_backend_dev_get_extra_bufts")
        if not get:
            return []
        kinds = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)(get)(self._device)
        return list(takewhile(bool, (kinds[at] for at in count())))

    def _matrix(self, arena: int, kind: int, k: int, rows: int) -> int:
        shape = (ctypes.c_int64(k), ctypes.c_int64(rows))
        return self._call("ggml_new_tensor_2d", arena, ctypes.c_int(kind), *shape)

    def _set(self, tensor: int, data: np.ndarray) -> None:
        size = ctypes.c_size_t(data.nbytes)
        self._call("ggml_backend_tensor_set", tensor, ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(0), size)

    def _call(self, name: str, *arguments: Any) -> Any:  # noqa: ANN401
        given = [ctypes.c_void_p(each) if isinstance(each, int) else each for each in arguments]
        return self._function(name)(*given)

    def _function(self, name: str) -> Any:  # noqa: ANN401
        function = getattr(self._base if hasattr(self._base, name) else self._cpu, name)
        function.restype = ctypes.c_void_p if name in _POINTERS else ctypes.c_bool
        return function


def blocks(codes: np.ndarray, scales: np.ndarray, kind: int) -> np.ndarray:
    """Codes and scales side by side, as ggml has them."""
    n, k = codes.shape
    parts = codes.reshape(n, k // _BLOCK, _BLOCK)
    if kind == Q4_0:
        nibbles = (parts + 8).astype(np.uint8)
        stored = nibbles[..., :16] | nibbles[..., 16:] << 4
    else:
        stored = parts.view(np.uint8)
    each = np.ascontiguousarray(scales.astype(np.float16)).view(np.uint8).reshape(n, k // _BLOCK, 2)
    return np.ascontiguousarray(np.concatenate([each, stored], -1))
