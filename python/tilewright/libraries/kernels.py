# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels that a library is asked for, and the C entries that each of them has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from tilewright.errors import SpecError
from tilewright.libraries import counting, tvm_ffi
from tilewright.libraries.counting import Count
from tilewright.libraries.dispatch import Function
from tilewright.operator_specs import OperatorSpec
from tilewright.payload import call_forms
from tilewright.payload.abi import (
    PACK_PROTOTYPES,
    PACK_SUFFIX,
    PACKED_BYTES_SUFFIX,
    TENSORS_SUFFIX,
    function_prototype,
    packers,
    prototype,
    require_name,
)
from tilewright.payload.signature import Parameter, Signature, renamed
from tilewright.spec import MatmulSpec
from tilewright.standalone import contents
from tilewright.standalone.contents import Entry

Source = Union[MatmulSpec, OperatorSpec, Path]  # noqa: UP007 - evaluated by Python 3.10
"""What a kernel computes: a spec, or the file of a module."""

_NO_SIZE = -1
"""What tells that there is no size."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a library.

    Attributes:
        name: What its C entry is called.
        source: What it computes.
        computed: What an operator or the functions of a module take and give; none for a product.
        shares: The product of any extents whose code serves it; None where it has its own.
        threads: Most threads that a call uses.
        traced: Whether a trace counts its calls.
        tvm_ffi: Whether programs of tvm-ffi can call it.
    """

    name: str
    source: Source
    computed: tuple[Signature, ...] = ()
    shares: MatmulSpec | None = None
    threads: int = 1
    traced: bool = True
    tvm_ffi: bool = True

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The same under the names of its C entries."""
        return renamed(self.computed, self.name)

    @property
    def title(self) -> str:
        """What it computes, in short."""
        return "; ".join(map(str, self.signatures)) or str(self.source)

    @property
    def functions(self) -> tuple[Function, ...]:
        """Its C entries: its own, or those of its functions, and those that pack what comes packed."""
        found: list[Function] = []
        for each in self.signatures:
            count, listed = (self._count(each, listed=listed) for listed in (False, True))
            found.append(Function(function_prototype(each), each.name.removeprefix(self.name), count=count))
            found.append(self._tensors(each.name, listed))
            for packer in packers(each):
                found += self._packing(packer)
        if isinstance(self.source, MatmulSpec):
            count, listed = (self._count(None, listed=listed) for listed in (False, True))
            found.append(Function(prototype(self.source, self.name), extents=self._extents, count=count))
            found += [self._tensors(self.name, listed)] if call_forms.operands(self.source) else []
            found += self._packing(self.name) if self.source.b_packed else ()
        return tuple(found)

    def _count(self, function: Signature | None, *, listed: bool) -> Count | None:
        """How calls of its entry, or of that of a function, are counted; `listed` where it takes tensors in an array."""
        if not self.traced:
            return None
        if function is not None:
            return counting.of_function(self.source, function, self.threads, listed=listed)
        assert isinstance(self.source, MatmulSpec)
        return counting.of_product(self.source, self.threads, listed=listed)

    def _packing(self, name: str) -> tuple[Function, Function]:
        """The entries called after `name` that pack a matrix, and tell the bytes that it then takes."""
        after = name.removeprefix(self.name)
        pack, size = (each.format(name=name) for each in PACK_PROTOTYPES)
        return Function(pack, f"{after}{PACK_SUFFIX}"), Function(size, f"{after}{PACKED_BYTES_SUFFIX}", _NO_SIZE)

    @property
    def entries(self) -> dict[str, Entry]:
        """What the library says of its C entries, by their names."""
        found = {
            each.name: Entry(
                self.name,
                str(each),
                function_prototype(each),
                call_forms.function(each),
                {argument.name: call_forms.packing_of(name, argument) for name, argument in packers(each).items()},
            )
            for each in self.signatures
        }
        if isinstance(self.source, MatmulSpec):
            spec, signature = self.source, _signature(self.source, self.name)
            packings = {"b": call_forms.packing(self.name, spec)} if spec.b_packed else {}
            call = call_forms.product(spec)
            found[self.name] = Entry(self.name, str(signature), prototype(spec, self.name), call, packings)
        return found

    @property
    def _extents(self) -> tuple[int, ...]:
        """The only M, N and K that its entry goes on with, where its code would take any."""
        spec = self.source
        return () if self.shares is None or not isinstance(spec, MatmulSpec) else (spec.m, spec.n, spec.k)

    def _tensors(self, name: str, count: Count | None) -> Function:
        """The entry called after `name` that takes an array of pointers to all tensors, results last: as calls from Python are made."""
        suffix = f"{name.removeprefix(self.name)}{TENSORS_SUFFIX}"
        return Function(f"int32_t {name}{TENSORS_SUFFIX}(const DLTensor *const *tensors)", suffix, count=count)

    @property
    def of_tvm_ffi(self) -> list[tvm_ffi.Exported]:
        """Its functions that programs of tvm-ffi can call."""
        product = _signature(self.source, self.name) if isinstance(self.source, MatmulSpec) else None
        return tvm_ffi.exported(self.source, self.name, self.signatures, product) if self.tvm_ffi else []

    @property
    def exported(self) -> tuple[str, ...]:
        """The names that the library gives it."""
        entries = (f"{self.name}{each.suffix}" for each in self.functions)
        return (*entries, f"{self.name}_selected", *(each.symbol for each in self.of_tvm_ffi))


def _signature(spec: MatmulSpec, name: str) -> Signature:
    """What a product takes and gives."""
    every = [
        Parameter(each.name, each.shape, each.type.name, names=each.names, packed=int(spec.b_packed and index == 1))
        for index, each in enumerate((*spec.operands, spec.result))
    ]
    return Signature(name, tuple(every[:-1]), (every[-1],))


def own_names(library: str) -> tuple[str, ...]:
    """What the functions of a library itself are called, and the text that says what it has."""
    return f"{library}_isa", f"{library}_selected", contents.symbol(library)


def named(kernels: Mapping[str, Source] | Sequence[Source]) -> dict[str, Source]:
    """The kernels by name; those without one are called after what they compute.

    Raises:
        SpecError: There are none, or one is no spec, or a name is no C identifier.
    """
    if not isinstance(kernels, Mapping):
        kernels = called(kernels)
    if not kernels:
        raise SpecError("no kernels", where="library", expected="one or more")
    for name, source in kernels.items():
        require_name(name, "library")
        _check(name, source)
    return dict(kernels)


def require_distinct(library: str, kernels: Iterable[Kernel]) -> None:
    """Checks that no two C entries of a library have one name.

    Raises:
        SpecError: Two have.
    """
    own = (*own_names(library), f"{library}_set_pool", f"{library}_run")
    seen = {library: "the library", **dict.fromkeys(own, "a function of the library")}
    for kernel in kernels:
        for name in kernel.exported:
            if name in seen:
                expected = f"another name than {name}, which is that of {seen[name]}"
                raise SpecError(f"the kernel {kernel.name}", where="library", expected=expected)
            seen[name] = f"an entry of the kernel {kernel.name}"


def _check(name: str, source: object) -> None:
    """Checks that a kernel is one that libraries can have."""
    where = f"library: {name}"
    if not isinstance(source, MatmulSpec | OperatorSpec | Path):
        expected = "a MatmulSpec, a Conv2dSpec, an AttentionSpec, or the Path of a .mlir file"
        raise SpecError(f"is a {type(source).__name__}", where=where, expected=expected)


def called(sources: Iterable[Source], taken: Collection[str] = ()) -> dict[str, Source]:
    """Sources by names for them, none of them one that is taken: those of one name are numbered, and equal ones are there once.

    Raises:
        SpecError: One is no spec.
    """
    found: dict[str, Source] = {}
    for source in dict.fromkeys(sources):
        _check("a kernel", source)
        name = base = _name(source)
        number = 1
        while name in found or name in taken:
            number += 1
            name = f"{base}_{number}"
        found[name] = source
    return found


def _name(source: Source) -> str:
    """What a kernel without a name is called: letters, digits and _ of what it computes."""
    if isinstance(source, Path):
        return source.stem
    text = f"{source.operator} {source}" if isinstance(source, OperatorSpec) else f"matmul {source}"
    return "_".join(
        "".join(each if each.isascii() and each.isalnum() else " " for each in text.replace("?", "any")).split()
    )
