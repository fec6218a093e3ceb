# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The arguments and results of a compiled module's function, without MLIR, for code that only calls it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tilewright.dims import Dim
from tilewright.dtypes import DType, dtype


@dataclass(frozen=True, slots=True)
class Parameter:
    """A tensor that a function takes or gives.

    Attributes:
        name: Its name in calls and errors.
        shape: Its extents, each an int, or a `Dim` where it is dynamic.
        element: The name of its element type.
        written: Whether the function writes to it: a result, or an argument that it changes in place.
        compact: Whether its elements follow one another without gaps; otherwise outer dimensions may be any distance apart.
        packed: 0; or, where it is a B that comes packed, the number of the product that takes it, from 1.
        format: The header of a B that comes packed, in hexadecimal.
        transposed: Whether that B is stored transposed before it is packed.
        batch: How many of its extents, the first ones, are of a batch: their strides may be any.
        names: What each extent is, where one of them is a `Dim`: "m", "n" or "k" where it is open.
    """

    name: str
    shape: tuple[Any, ...]
    element: str
    written: bool = False
    compact: bool = False
    packed: int = 0
    format: str = ""
    transposed: bool = False
    batch: int = 0
    names: tuple[str, ...] = ()

    @property
    def type(self) -> DType:
        """Its element type."""
        return dtype(self.element)

    def __str__(self) -> str:
        """Name, extents and type: "x: 128x768 f32", "x: d0x768 f32" where the first extent can be any."""
        if self.packed:
            return f"{self.name}: packed"
        named = zip(self.shape, self.names or self.shape, strict=True)
        extents = [str(name if size == Dim() else size) for size, name in named]
        return f"{self.name}: {'x'.join(extents) or 'scalar'} {self.element}"


@dataclass(frozen=True, slots=True)
class Signature:
    """The tensors of one function.

    Attributes:
        name: The function's name, which is that of its C entry too.
        arguments: What it is given, in its order.
        results: What it returns, in its order; the C entry takes them after the arguments.
        operations: Additions and multiplications of its matrix products.
        products: Its matrix products, as text.
        workspace: Bytes of scratch memory that a call needs.
        slow: The ops of which no vectors are made, each by its line, column and name: "3:8: linalg.reduce".
    """

    name: str
    arguments: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    operations: int = 0
    products: tuple[str, ...] = ()
    workspace: int = 0
    slow: tuple[str, ...] = ()

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All tensors, in the order of the C entry."""
        return self.arguments + self.results

    @property
    def is_open(self) -> bool:
        """Whether a tensor has a dynamic extent."""
        return any(isinstance(size, Dim) for each in self.parameters for size in each.shape)

    def with_workspace(self, workspace: int) -> Signature:
        """The same, with the bytes of scratch memory that a call needs."""
        return replace(self, workspace=workspace)

    def with_slow(self, ops: Iterable[str]) -> Signature:
        """The same, with more ops that are not vectorized."""
        return replace(self, slow=(*self.slow, *ops))

    def with_formats(self, formats: Mapping[int, bytes]) -> Signature:
        """The same, with the headers of those of its arguments that come packed, by the number of the product."""
        arguments = tuple(
            replace(each, format=formats[each.packed - 1].hex()) if each.packed else each for each in self.arguments
        )
        return replace(self, arguments=arguments)

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON has them; `from_json` reads them."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Signature:
        """The signature of which `as_json` made `fields`."""
        arguments, results = (
            tuple(
                Parameter(**{**each, "shape": tuple(map(_extent, each["shape"])), "names": tuple(each["names"])})
                for each in fields[which]
            )
            for which in ("arguments", "results")
        )
        rest = {"operations": fields["operations"], "workspace": fields["workspace"]}
        lists = {each: tuple(fields[each]) for each in ("products", "slow")}
        return cls(fields["name"], arguments, results, **lists, **rest)

    def __str__(self) -> str:
        """As a function: "mlp(x: 128x768 f32, …) -> 128x768 f32"."""
        given = ", ".join(map(str, self.arguments))
        returned = ", ".join(str(each).split(": ", 1)[1] for each in self.results)
        return f"{self.name}({given}){f' -> {returned}' if returned else ''}"

    def __repr__(self) -> str:
        """As a function."""
        return f"<tilewright.Signature {self}>"


def renamed(functions: tuple[Signature, ...], name: str) -> tuple[Signature, ...]:
    """The functions under other names: the only one is called `name`, and of several, each ``NAME_FUNCTION``.

    They keep their names where `name` is empty.
    """
    if not name:
        return functions
    if len(functions) == 1:
        return (replace(functions[0], name=name),)
    return tuple(replace(each, name=f"{name}_{each.name}") for each in functions)


def _extent(given: Any) -> int | Dim:  # noqa: ANN401 - as JSON has it
    """An extent, of which `Signature.as_json` made `given`."""
    return Dim(**given) if isinstance(given, dict) else given
