# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""B packed ahead of time: what `Kernel.pack_b` returns, and what a kernel with `b_packed` takes in the place of B."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from ._native import PackCall
from .errors import OperandError
from .packing import HEADER_BYTES, PackedFormat

_ALIGNMENT = 64
"""Bytes, a cache line: the header fills the first one, so that panels start on a line too."""
_HUGE_PAGE = 1 << 21
"""Bytes that one entry of a TLB covers where the system has such pages."""


class PackedB:
    """A matrix B in the order in which a kernel reads it, which every kernel takes whose format is equal.

    It cannot be changed. Its bytes, the header first, say all there is to say: `save` writes them to a file, and
    `array` shows them. docs/reference/packed_b.md describes them.

    Attributes:
        format: How the elements lie, by which kernels tell whether it fits.
        array: Its bytes, as a read-only array of uint8.
        address: Where they are, for `Kernel.c_function`; valid while this object lives.
    """

    __slots__ = ("address", "array", "format")

    format: PackedFormat
    array: np.ndarray[Any, Any]
    address: int

    def __init__(self, data: Any) -> None:  # noqa: ANN401 - anything with a buffer
        """Copies the bytes of a packed B from a bytes-like object, such as the `array` of another one.

        Raises:
            OperandError: They are no packed B of this release's format, or not all of one.
        """
        source = np.frombuffer(data, np.uint8)
        form = PackedFormat.from_header(source[:HEADER_BYTES].tobytes())
        _require_size(form, source.size)
        array = room(form.nbytes)
        array[...] = source
        self._freeze(form, array)

    def _freeze(self, form: PackedFormat, array: np.ndarray[Any, Any]) -> None:
        array.flags.writeable = False
        for name, value in (("format", form), ("array", array), ("address", array.ctypes.data)):
            object.__setattr__(self, name, value)

    @classmethod
    def _adopt(cls, form: PackedFormat, array: np.ndarray[Any, Any]) -> PackedB:
        """A packed B in memory from `room`, which nobody else may change from now on."""
        self = cls.__new__(cls)
        self._freeze(form, array)
        return self

    @property
    def nbytes(self) -> int:
        """Bytes of memory, and of a file."""
        return self.format.nbytes

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a file, as it is in memory.

        Raises:
            OSError: The file cannot be written.
        """
        Path(path).write_bytes(self.array.data)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PackedB:
        """Reads what `save` wrote. Nothing in the file is run; what does not fit a kernel is refused by the kernel.

        Raises:
            OSError: The file cannot be read.
            OperandError: It is no packed B of this release's format, or not all of one.
        """
        with open(path, "rb") as file:
            try:
                return cls._read(file)
            except OperandError as e:
                raise OperandError(e.what, where=str(path), expected=e.expected, remedy=e.remedy) from None

    @classmethod
    def _read(cls, file: BinaryIO) -> PackedB:
        form = PackedFormat.from_header(file.read(HEADER_BYTES))
        # Before the memory is asked for: the header may be wrong.
        _require_size(form, os.fstat(file.fileno()).st_size)
        array = room(form.nbytes)
        file.seek(0)
        _require_size(form, file.readinto(array))  # type: ignore[attr-defined]
        return cls._adopt(form, array)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuses.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(f"a PackedB cannot be changed: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        """Refuses.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(f"a PackedB cannot be changed: {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles and copies by its bytes."""
        return type(self), (self.array.tobytes(),)

    def __repr__(self) -> str:
        """What it holds."""
        return f"<tilewright.PackedB {self.format}>"


def room(nbytes: int) -> np.ndarray[Any, Any]:
    """Memory for a packed B: an array of zeros of that many bytes, on a cache line; from 2 MiB on, on a huge page.

    Raises:
        MemoryError: There is not enough.
    """
    # NumPy asks for huge pages from 4 MiB on, which 2 MiB and room to align them are.
    alignment = _HUGE_PAGE if nbytes >= _HUGE_PAGE else _ALIGNMENT
    memory = np.zeros(nbytes + alignment, np.uint8)
    start = -memory.ctypes.data % alignment
    return memory[start : start + nbytes]


def _require_size(form: PackedFormat, found: int) -> None:
    if found != form.nbytes:
        raise OperandError(f"{found} bytes", where="packed B", expected=f"{form.nbytes}, as its header says")


@dataclass(frozen=True, slots=True)
class Packing:
    """How a kernel packs B, and what it takes for a packed B.

    Attributes:
        format: The format.
        function: The linked function.
    """

    format: PackedFormat
    function: PackCall

    type = PackedB
    """What the kernel takes for B."""

    def pack(self, b: Any) -> PackedB:  # noqa: ANN401 - an array of any library
        """Packs `b`.

        Raises:
            OperandError: It is no array of the kernel's shape and type.
            MemoryError: There is no memory for it.
        """
        array = room(self.format.nbytes)
        self.function.pack(b, array)
        return PackedB._adopt(self.format, array)

    def refuse(self, b: object) -> NoReturn:
        """Says why the kernel does not take `b` for B.

        Raises:
            OperandError: Always.
        """
        remedy = "Pass kernel.pack_b(b)"
        if isinstance(b, PackedB):
            what, expected = f"it is packed in another format: {b.format}", str(self.format)
            if b.format == self.format:
                what = "its bytes were changed since it was packed"
            remedy = "Pack B again with this kernel's pack_b"
        else:
            article = "an" if type(b).__name__[0] in "aeiouAEIOU" else "a"
            what, expected = f"{article} {type(b).__name__} is no packed B", f"a tilewright.PackedB with {self.format}"
        raise OperandError(what, operand="b", expected=expected, remedy=remedy)
