# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels that a library is asked for, and the C entries that each of them has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.errors import SpecError
from tilewright.libraries.dispatch import Function
from tilewright.libraries.objects import Source
from tilewright.operator_specs import OperatorSpec
from tilewright.payload.abi import (
    PACK_PROTOTYPES,
    PACK_SUFFIX,
    PACKED_BYTES_SUFFIX,
    function_prototype,
    prototype,
    require_name,
)
from tilewright.payload.signature import Signature
from tilewright.spec import MatmulSpec

_NO_SIZE = -1
"""What tells that there is no size."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a library.

    Attributes:
        name: What its C entry is called.
        source: What it computes.
        signature: What an operator or a function takes and gives; None for a product.
        shares: The product of any extents whose code serves it; None where it has its own.
    """

    name: str
    source: Source
    signature: Signature | None = None
    shares: MatmulSpec | None = None

    @property
    def title(self) -> str:
        """What it computes, in short."""
        return str(replace(self.signature, name=self.name) if self.signature is not None else self.source)

    @property
    def functions(self) -> tuple[Function, ...]:
        """Its C entries: its own, and those that pack B where it comes packed."""
        if self.signature is not None:
            return (Function(function_prototype(replace(self.signature, name=self.name))),)
        assert isinstance(self.source, MatmulSpec)
        own = Function(prototype(self.source, self.name), extents=self._extents)
        if not self.source.b_packed:
            return (own,)
        pack, size = (each.format(name=self.name) for each in PACK_PROTOTYPES)
        return own, Function(pack, PACK_SUFFIX), Function(size, PACKED_BYTES_SUFFIX, _NO_SIZE)

    @property
    def _extents(self) -> tuple[int, ...]:
        """The only M, N and K that its entry goes on with, where its code would take any."""
        spec = self.source
        return () if self.shares is None or not isinstance(spec, MatmulSpec) else (spec.m, spec.n, spec.k)

    @property
    def exported(self) -> tuple[str, ...]:
        """The names that the library gives it."""
        return (*(f"{self.name}{each.suffix}" for each in self.functions), f"{self.name}_selected")


def own_names(library: str) -> tuple[str, str]:
    """What the functions of a library itself are called."""
    return f"{library}_isa", f"{library}_selected"


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
    if getattr(source, "w_packed", False):
        remedy = "Leave w_packed out: C programs cannot pack filters yet"
        raise SpecError("filters come packed", where=where, expected="filters as they are", remedy=remedy)


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
