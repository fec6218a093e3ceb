# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels of a loaded library, which are called on arrays."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from . import forms
from ._native import FunctionCall, MatmulCall, PackCall, SharedLibrary, array_view
from .contents import Contents, Entry
from .errors import NotRunnableError, OperandError, TilewrightError
from .native_class import native
from .packed_b import PackedB, room
from .packing import HEADER_BYTES, PackedFormat

_TENSORS, _PACK, _PACKED_BYTES, _SELECTED = "_tensors", "_pack_b", "_packed_b_bytes", "_selected"
"""What is added to the names of entries in those of others."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A library in this process.

    Attributes:
        path: The file that it came from.
        contents: What it has.
        code: The library.
    """

    path: str
    contents: Contents
    code: SharedLibrary


@dataclass(frozen=True, slots=True)
class _Code:
    """A kernel's code, as native calls take it."""

    entry: str
    library: SharedLibrary

    def address_of(self, name: str) -> int:
        """Where the function of that name starts; 0 where there is none."""
        return self.library.address_of(name)


@dataclass(frozen=True, slots=True)
class _About:
    """All that there is of a kernel but its calls."""

    name: str
    entry: Entry
    loaded: Loaded
    packings: Mapping[str, _Packing]


class Kernel(ABC):
    """A kernel of a library.

    ``kernel(a, b, *further, out=None)`` takes the operands in order or by name, and returns the result: a new array, or `out`; a tuple of
    several. Arrays are used where they lie and never copied. They need the types and shapes of the signature; elements of a row adjacent;
    rows any distance apart, in order and without overlap (convolutions, attention and modules may want no gaps at all); and natural
    alignment. `out` is writable and shares no element with an operand. Where the kernel adds to the result, `out` must be given. Any number
    of threads may call a kernel at once.

    Raises (the call):
        OperandError: An operand does not fit; the error says which, why, and what to do.
        TypeError: Operands are missing, or too many.
        MemoryError: There is no memory for the result or for scratch memory.
        NotRunnableError: No code of the kernel fits this processor, or the cap.
    """

    __slots__ = ()
    _about: _About

    @abstractmethod
    def __call__(self, *operands: Any, out: Any = None, **named: Any) -> Any:  # noqa: ANN401 - arrays of any library
        """Computes the result, as the class says."""

    @property
    def name(self) -> str:
        """Its name, which is that of the C entry."""
        return self._about.name

    @property
    def signature(self) -> str:
        """What it takes and gives: "gemm(a: 8x8 f32, b: 8x8 f32) -> 8x8 f32"."""
        return self._about.entry.signature

    @property
    def prototype(self) -> str:
        """The declaration of its C entry."""
        return self._about.entry.prototype

    @property
    def address(self) -> int:
        """Where its C entry starts, valid while this object lives."""
        return self._about.loaded.code.address_of(self.name)

    def selected(self) -> str | None:
        """The target whose code serves, under the cap that there is now; None where none does."""
        return self._about.loaded.code.call_text(f"{self._about.entry.kernel}{_SELECTED}")

    def pack(self, name: str, b: Any) -> PackedB:  # noqa: ANN401 - an array of any library
        """Packs `b` for the operand `name`, which comes packed, by the code that serves now; code of another target may refuse it.

        It is a matrix; an array of more dimensions, such as the filters of a convolution, is one if it has no gaps.

        Raises:
            TilewrightError: The kernel takes that operand as it is.
            OperandError: `b` does not fit; the error says why, and what to do.
            NotRunnableError: No code of the kernel fits this processor, or the cap.
            MemoryError: There is no memory for it.
        """
        packing = self._about.packings.get(name)
        if packing is None:
            raise TilewrightError(
                f"{self!r} takes {name} as it is",
                where="kernel.pack",
                expected=f"one of {', '.join(self._about.packings) or 'none'}",
                remedy="Pass the operand itself",
            )
        return packing.pack(b)

    def pack_b(self, b: Any) -> PackedB:  # noqa: ANN401 - an array of any library
        """Packs the operand "b", as `pack` says."""
        return self.pack("b", b)

    def __repr__(self) -> str:
        """What it takes and gives."""
        return f"<tilewright_runtime.Kernel {self.signature}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:  # noqa: ANN401 - as in object
        """Refuses: a kernel is machine code in this process.

        Raises:
            TilewrightError: Always.
        """
        raise TilewrightError(
            f"{self!r} cannot be pickled or copied: it is machine code in this process",
            remedy="Load the library in the other process too",
        )


if TYPE_CHECKING:

    class _Product(MatmulCall, Kernel): ...

    class _Function(FunctionCall, Kernel): ...
else:
    _Product, _Function = (native(each, Kernel) for each in (MatmulCall, FunctionCall))


def kernel(loaded: Loaded, name: str) -> Kernel:
    """A kernel of a library.

    Raises:
        TilewrightError: The package that brings an element type is not installed.
    """
    entry = loaded.contents.kernels[name]
    code, tensors = _Code(name, loaded.code), f"{name}{_TENSORS}"
    packings = {operand: _Packing(operand, loaded.code, how) for operand, how in entry.packings.items()}
    if entry.call["kind"] == "function":
        made = _Function(code, **forms.function(entry.call, tensors, packings))
    else:
        made = _Product(code, **forms.product(entry.call, tensors, packings.get("b")))
    made._about = _About(name, entry, loaded, packings)
    return made


class _Packing:
    """How an operand is packed, and what is taken for it."""

    type = PackedB

    def __init__(self, operand: str, library: SharedLibrary, how: Mapping[str, Any]) -> None:
        self._operand, self._library, self._how = operand, library, how
        entry = f"{how['entry']}{_PACK}"
        facts = {"b": forms.numpy_type(how["type"]), "b_transposed": how["transposed"]}
        self._shape = (how["n"], how["k"]) if how["transposed"] else (how["k"], how["n"])
        self._call = PackCall(_Code(entry, library), entry, how["n"], how["k"], **facts)

    def pack(self, b: Any) -> PackedB:  # noqa: ANN401 - an array of any library
        """Packs `b`, as `Kernel.pack` says."""
        b = array_view(b, "b")
        array = room(self._size())
        if (
            isinstance(b, np.ndarray)
            and b.ndim > len(self._shape)
            and b.flags.c_contiguous
            and b.size == math.prod(self._shape)
        ):
            b = b.reshape(self._shape)
        self._call.pack(b, array)
        return PackedB._adopt(PackedFormat.from_header(array[:HEADER_BYTES].tobytes()), array)

    def _size(self) -> int:
        """The bytes of a packed B.

        Raises:
            NotRunnableError: No code fits.
        """
        how = self._how
        size = self._library.call_with_extents(f"{how['entry']}{_PACKED_BYTES}", how["k"], how["n"])
        if size < 0:
            raise NotRunnableError(
                "no code of the kernel fits this processor",
                where=f"kernel entry {how['entry']}",
                expected="a processor with the features of one of its targets, and a cap that allows them",
            )
        return size

    def refuse(self, b: object) -> NoReturn:
        """Says why the kernel does not take `b` for the operand.

        Raises:
            OperandError: Always.
        """
        what = (
            f"it is packed in another format: {b.format}"
            if isinstance(b, PackedB)
            else f"{type(b).__name__} is not packed"
        )
        name = self._operand
        expected = "what this kernel packed for the same target"
        raise OperandError(what, operand=name, expected=expected, remedy=f"Pass kernel.pack({name!r}, {name})")
