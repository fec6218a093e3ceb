# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels of this process by the names under which programs of JAX call them.

A compiled or exported program holds a kernel's name and the text of its spec, and never an address: a process that runs it finds the
kernel by its name, or compiles it from the text, through the disk cache.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from tilewright.dtypes import from_numpy
from tilewright.errors import SpecError, TilewrightError
from tilewright.operator_specs import OperatorSpec
from tilewright.payload import call_forms, spec_tables
from tilewright.payload.abi import TENSORS_SUFFIX, dlpack_number
from tilewright.payload.spec_tables import Spec
from tilewright.runtime.compile import compile
from tilewright.spec import MatmulSpec
from tilewright.standalone import forms, library

TARGET = "tilewright_kernel"
"""What the handler is called in XLA's programs."""
_LIBRARY = "libtilewright_jax.so"
_FINDER = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)


@dataclass(frozen=True, slots=True)
class Named:
    """A kernel as a program of XLA's holds it.

    Attributes:
        name: Its name, a C identifier, the same in every process.
        text: Its spec and threads in JSON; empty where they cannot be written down, as with a Python function in an epilogue.
    """

    name: str
    text: str


@lru_cache(maxsize=4096)
def named(spec: Spec, threads: int) -> Named:
    """How a program holds the kernel of a spec for so many threads.

    Raises:
        SpecError: A program of JAX cannot call it.
    """
    _check(spec)
    table = spec_tables.table(spec)
    text = "" if table is None else json.dumps({"spec": table, "threads": threads}, sort_keys=True)
    digest = hashlib.sha256((text or f"{spec!r} {_programs(spec)} {threads}").encode()).hexdigest()
    operator = spec.operator if isinstance(spec, OperatorSpec) else "matmul"
    return Named(f"{operator}_{digest[:20]}", text)


def _programs(spec: Spec) -> list[str]:
    """What the entries of a spec do, which its own text only names."""
    entries = (*getattr(spec, "prologue_a", ()), *getattr(spec, "prologue_b", ()), *getattr(spec, "epilogue", ()))
    return [f"{each.operands} {each.program}" for each in entries]


def _check(spec: Spec) -> None:
    """Refuses what operands of JAX do not have.

    Raises:
        SpecError: The spec adds to a former result, has factors that calls tell, or takes packed operands.
    """
    if isinstance(spec, MatmulSpec):
        for name, value, usual in (("beta", spec.beta, 0), ("alpha", "arg" if spec.alpha == "arg" else 1, 1)):
            if value != usual:
                remedy = (
                    "Add the former result with the epilogue tw.residual()" if name == "beta" else "Scale an operand"
                )
                raise SpecError(f"{name} is {value!r}", where="tilewright.jax", expected=str(usual), remedy=remedy)
    if getattr(spec, "b_packed", False) or getattr(spec, "w_packed", False):
        raise SpecError(
            "an operand comes packed", where="tilewright.jax", expected="one of arrays", remedy="Pass it as it is"
        )


class Registry:
    """The handler in this process, and the kernels that it knows."""

    def __init__(self) -> None:
        """Registers the handler with JAX."""
        ffi: Any = import_module("jax.ffi")
        self._native = ctypes.CDLL(str(Path(__file__).parents[1] / _LIBRARY))
        self._lock = threading.Lock()
        self._kept: dict[str, object] = {}
        self._specs: dict[str, Spec] = {}
        # The library calls it, so it lives as long.
        self._finder = _FINDER(self._find)
        self._native.tilewright_jax_ask(self._finder)
        atexit.register(self._native.tilewright_jax_ask, None)
        ffi.register_ffi_target(TARGET, ffi.pycapsule(self._native.tilewright_jax_call), platform="cpu")

    def require(self, spec: Spec, threads: int) -> Named:
        """The name of a kernel that is compiled, or loaded, when this returns.

        Raises:
            TilewrightError: It cannot be compiled, or JAX cannot call it.
        """
        kernel = named(spec, threads)
        if kernel.name not in self._kept:
            self._compile(kernel.name, spec, threads)
        return kernel

    @property
    def specs(self) -> Mapping[str, Spec]:
        """What the kernels compute that were compiled here, by name."""
        with self._lock:
            return dict(self._specs)

    def load(self, path: str | PathLike[str]) -> list[str]:
        """Takes every kernel of a library under the name that it has there, and returns these.

        Raises:
            TilewrightError: It is no library that tilewright made for this machine.
        """
        loaded = library.load(path)
        for name, entry in loaded._loaded.contents.kernels.items():
            if not entry.packings:
                self._add(
                    name, entry.call, loaded[name].address, loaded._loaded.code.address_of(f"{name}{TENSORS_SUFFIX}")
                )
                with self._lock:
                    self._kept[name] = loaded
        return [name for name in loaded if name in self._kept]

    def _compile(self, name: str, spec: Spec, threads: int) -> None:
        kernel = compile(spec, threads=threads)
        form = call_forms.product(spec) if isinstance(spec, MatmulSpec) else call_forms.function(kernel.signature)
        entry = kernel.c_function
        self._add(name, form, entry.address, entry.tensors)
        with self._lock:
            self._kept[name], self._specs[name] = kernel, spec

    def _add(self, name: str, form: Mapping[str, Any], address: int, tensors: int) -> None:
        """Tells the handler where a kernel's entry is, and how it is called."""
        if tensors:
            self._native.tilewright_jax_add_tensors(name.encode(), ctypes.c_void_p(tensors))
            return
        types = [dlpack_number(from_numpy(forms.numpy_type(each)).name) for each in form["types"]]
        self._native.tilewright_jax_add_matrices(
            name.encode(),
            ctypes.c_void_p(address),
            (ctypes.c_uint32 * len(types))(*types),
            (ctypes.c_uint8 * len(form["transposed"]))(*form["transposed"]),
        )

    def _find(self, name: bytes, text: bytes) -> None:
        """Compiles a kernel that a program calls which was traced in another process, or says why it cannot."""
        try:
            if not text:
                raise TilewrightError(
                    "an entry of its epilogue is a Python function, which no file holds",
                    remedy="Trace the function in this process too, or give tilewright.jax.load a library that has the kernel",
                )
            given = json.loads(text)
            self._compile(name.decode(), spec_tables.read(given["spec"], "its spec"), int(given["threads"]))
        except Exception as error:
            self._native.tilewright_jax_refuse(name, str(error).encode())


@cache
def registry() -> Registry:
    """The one of this process, as XLA's table of handlers is."""
    return Registry()
