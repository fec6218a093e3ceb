# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels that ops of torch call, by name: adds them, keeps their code, and says what shapes their results have."""

from __future__ import annotations

import hashlib
import json
import pickle
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.dims import Dim
from tilewright.errors import SpecError, TilewrightError
from tilewright.payload import call_forms
from tilewright.payload.abi import TENSORS_SUFFIX
from tilewright.runtime.kernel import Kernel
from tilewright.runtime.module import Function, Module
from tilewright.runtime.product import Product
from tilewright.torch import native
from tilewright.torch.types import torch_type


@dataclass(frozen=True, slots=True)
class Result:
    """A result of a kernel: its shape, in which a name is that of a dynamic extent, and its type."""

    shape: tuple[int | str, ...]
    type: Any


@dataclass(frozen=True, slots=True)
class Registered:
    """What is known in Python of a kernel that ops call.

    Attributes:
        kernel: The kernel, whose code lives as long as this.
        arguments: The shape of each operand, as in `Result`; None for one that comes packed.
        results: Its results.
    """

    kernel: Kernel
    arguments: tuple[tuple[int | str, ...] | None, ...]
    results: tuple[Result, ...]

    def shapes(self, operands: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The shapes of the results for operands that have a shape, whose extents may be symbols."""
        extents: dict[str, Any] = {}
        for wanted, given in zip(self.arguments, operands, strict=True):
            for name, size in zip(wanted or (), given.shape if wanted else (), strict=True):
                if isinstance(name, str):
                    extents.setdefault(name, size)
        return [tuple(extents[each] if isinstance(each, str) else each for each in one.shape) for one in self.results]


class _Registry:
    """Kernels by name; what was replaced is kept too, since a call may be using it."""

    def __init__(self) -> None:
        self._named: dict[str, Registered] = {}
        self._replaced: list[Registered] = []
        self._lock = threading.Lock()

    def add(self, name: str, registered: Registered) -> None:
        with self._lock:
            if name in self._named:
                self._replaced.append(self._named[name])
            self._named[name] = registered

    def get(self, name: str) -> Registered | None:
        return self._named.get(name)

    def names(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._named)


_KERNELS = _Registry()


def register(kernel: Kernel, name: str | None = None) -> str:
    """Lets ops call a kernel of this machine by a name, and returns the name.

    Args:
        kernel: What `tilewright.compile` or `tilewright.compile_module` returned; of a module, one with one function.
        name: Its name, which graphs that call it have in them. A kernel that has it is replaced. None for a kernel of a spec: a name that
            follows from spec, target, schedule and threads, and so is the same in every process.

    Raises:
        SpecError: A kernel without a spec needs a name, or the kernel is none that ops can call.
        TilewrightError: The ops are not built, or refuse the kernel.
    """
    if isinstance(kernel, Module):
        kernel = kernel._only()
    if name is None:
        name = _name_of(kernel)
    if isinstance(kernel, Product):
        form, registered, packed = call_forms.product(kernel.spec), _of_product(kernel), ()
        packed = ("b",) if kernel.packed_format is not None else ()
    elif isinstance(kernel, Function):
        form, registered = call_forms.function(kernel.signature), _of_function(kernel)
        packed = tuple(each.name for each in kernel.signature.arguments if each.packed)
    else:
        raise SpecError(
            f"{kernel!r} cannot be called by ops", where="tilewright.torch.register", expected="a kernel of this CPU"
        )
    code = kernel._code
    entry = kernel.signature.name if isinstance(kernel, Function) else code.entry
    addresses = {each: code.address_of(each) for each in (entry, f"{entry}{TENSORS_SUFFIX}")}
    addresses[code.entry] = code.address
    native.add(name, json.dumps(form), packed, entry, {each: start for each, start in addresses.items() if start})
    _KERNELS.add(name, registered)
    return name


def registered(name: str) -> Registered:
    """What is known of the kernel of a name.

    Raises:
        TilewrightError: There is none.
    """
    found = _KERNELS.get(name)
    if found is None:
        raise TilewrightError(
            f"no kernel is called {name!r} in this process",
            where="tilewright.torch",
            expected="one that tilewright.torch.register was given",
        )
    return found


def names() -> tuple[str, ...]:
    """The names of all kernels that Python added, in their order."""
    return _KERNELS.names()


def pack(kernel: Kernel, b: Any, operand: str = "b") -> Any:  # noqa: ANN401 - a tensor
    """An operand that comes packed, as ops take it: a tensor of uint8 in one dimension.

    Args:
        kernel: The kernel that takes it, or another one whose format is equal.
        b: The tensor that is packed.
        operand: The operand's name.

    Raises:
        SpecError: The kernel takes that operand as it is.
        OperandError: `b` does not fit.
    """
    packed = torch.empty(0, dtype=torch.uint8)
    array = kernel.pack(operand, b).array.view()
    array.flags.writeable = True  # which torch wants; nobody else has the memory
    return torch.from_numpy(array) if array.size else packed


def _name_of(kernel: Kernel) -> str:
    if kernel.spec is None:
        raise SpecError(f"{kernel!r} has no spec", where="tilewright.torch.register", expected="a name for it")
    about = kernel.metadata
    how = (about.target, about.features, about.schedule, sorted(about.parameters.items()), about.threads, about.version)
    digest = hashlib.sha256(pickle.dumps((kernel.spec, how))).hexdigest()[:16]
    return f"{kernel.spec} #{digest}"


def _of_product(kernel: Product) -> Registered:
    spec = kernel.spec
    arguments = tuple(_named(each.stored, each.names) for each in spec.operands)
    if kernel.packed_format is not None:
        arguments = (arguments[0], None, *arguments[2:])
    result = spec.result
    return Registered(kernel, arguments, (Result(_named(result.stored, result.names), torch_type(result.type)),))


def _of_function(kernel: Function) -> Registered:
    signature = kernel.signature
    shapes = {each.name: _named(each.shape, each.names or each.shape) for each in signature.parameters}
    return Registered(
        kernel,
        tuple(None if each.packed else shapes[each.name] for each in signature.arguments),
        tuple(Result(shapes[each.name], torch_type(each.type)) for each in signature.results),
    )


def _named(shape: Sequence[Any], names: Sequence[Any]) -> tuple[int | str, ...]:
    return tuple(str(name) if isinstance(size, Dim) else int(size) for size, name in zip(shape, names, strict=True))
