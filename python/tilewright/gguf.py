# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads GGUF files, the format of llama.cpp's models: tensors in place, and blocks of Q4_0, Q8_0, Q4_K and Q6_K as quantized weights.

The file is mapped into memory and never copied as a whole. Nothing in it is trusted: every count, length, type and offset is checked
against the size of the file before it is used. This module imports numpy only when it is used.

Source: the GGUF specification, docs/gguf.md of github.com/ggml-org/ggml, versions 2 and 3.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from os import PathLike, fspath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import dtype, to_numpy
from tilewright.errors import SpecError, TilewrightError
from tilewright.gguf_blocks import BLOCKS
from tilewright.quantized import Quantized

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAGIC, _VERSIONS = b"GGUF", (2, 3)
_ALIGNMENT = "general.alignment"
_DEFAULT_ALIGNMENT = 32
_MOST_ALIGNMENT = 1 << 16
_MOST_DIMENSIONS = 4
_MOST_NESTED = 4
"""Arrays in arrays at most."""
_STRING, _ARRAY = 8, 9
_NUMBERS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "<u1",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_BOOL = 7
_LEAST_PAIR, _LEAST_TENSOR = 13, 32
"""Bytes that a pair of key and value takes at least, and what describes a tensor."""
_AT_ONCE = 1 << 22
"""Elements that are repacked at once."""


@dataclass(frozen=True, slots=True)
class _Type:
    """A type of elements.

    Attributes:
        name: As ggml has it.
        block: Elements of a block.
        bytes: Of a block.
        element: Our element type, of plain elements, or of the codes of quantized ones.
    """

    name: str
    block: int
    bytes: int
    element: str


_TYPES: Mapping[int, _Type] = MappingProxyType(
    {
        0: _Type("F32", 1, 4, "f32"),
        1: _Type("F16", 1, 2, "f16"),
        **{
            number: _Type(name, BLOCKS[name].block, BLOCKS[name].bytes, BLOCKS[name].element)
            for number, name in ((2, "Q4_0"), (8, "Q8_0"), (12, "Q4_K"), (14, "Q6_K"))
        },
        24: _Type("I8", 1, 1, "i8"),
        26: _Type("I32", 1, 4, "i32"),
        28: _Type("F64", 1, 8, "f64"),
        30: _Type("BF16", 1, 2, "bf16"),
    }
)


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor of a GGUF file.

    Attributes:
        name: Its name.
        type: ggml's name of its type, such as "Q4_0".
        shape: Its extents, the contiguous one last: weights are N × K, as layout "nt" stores B.
        bytes: Its bytes in the file, which is mapped: read-only, not copied.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    bytes: NDArray[Any]

    def array(self) -> NDArray[Any]:
        """A tensor of plain elements, in place: read-only, not copied.

        Raises:
            SpecError: Its elements are quantized.
        """
        row = self._row
        if row.block > 1:
            raise SpecError(
                f"tensor {self.name} is of {row.name}",
                where="GgufTensor.array",
                expected="plain elements",
                remedy="Call quantized(), or floats()",
            )
        return self.bytes.view(to_numpy(dtype(row.element))).reshape(self.shape)

    def quantized(self) -> Quantized:
        """A matrix of quantized elements as codes, scales and zero points, repacked once: blocks in the file have them side by side.

        Of Q4_0 and Q8_0 the codes are of i4 and i8, with scales of f16 for each 32 elements along K, and no number changes. Of Q4_K they
        are of u4, with scales and zero points of f32 for each 32 elements; of Q6_K of i8, with scales of f32 for each 16. These scales
        are exact; an element of Q4_K is rounded as f32 rounds (q - m / s) · s.

        Raises:
            SpecError: It is no matrix of such blocks.
        """
        import numpy as np

        row = self._row
        if row.block == 1 or len(self.shape) != 2:
            raise SpecError(
                f"tensor {self.name} is of {row.name} and shape {self.shape}",
                where="GgufTensor.quantized",
                expected=f"a matrix of {', '.join(BLOCKS)}",
                remedy="Call array()",
            )
        n, k = self.shape
        of = BLOCKS[row.name]
        blocks = self.bytes.reshape(n, k // of.block, of.bytes)
        packed, kind = dtype(of.element).packed, to_numpy(dtype(of.scale))
        codes = np.empty((n, k // packed), np.uint8 if packed > 1 else to_numpy(dtype(of.element)))
        scales = np.empty((n, k // of.group), kind)
        zeros = np.empty_like(scales) if of.has_zero_points else None
        step = max(1, _AT_ONCE // max(1, k))
        for start in range(0, n, step):
            rows = slice(start, start + step)
            own, scales[rows], less = of.parts(blocks[rows])
            codes[rows] = own[:, ::2] | own[:, 1::2] << 4 if packed > 1 else own
            if zeros is not None:
                zeros[rows] = less
        return Quantized(codes, scales, zeros, of.element, (n, k), 1, of.group)

    def floats(self) -> NDArray[Any]:
        """The tensor as float32, dequantized where it is quantized.

        Raises:
            SpecError: It is quantized and no matrix.
        """
        import numpy as np

        return self.array().astype(np.float32) if self._row.block == 1 else self.quantized().floats()

    @property
    def _row(self) -> _Type:
        return next(row for row in _TYPES.values() if row.name == self.type)

    def __repr__(self) -> str:
        """Name, type and shape, and none of the elements."""
        return f"<tilewright.GgufTensor {self.name}: {'x'.join(map(str, self.shape))} {self.type}>"


@dataclass(frozen=True, slots=True)
class Gguf:
    """What a GGUF file holds.

    Attributes:
        metadata: By key: numbers, strings, lists of strings, and arrays of numbers.
        tensors: By name, in the order of the file.
        unknown: The tensors of types that are not read, by name: ggml's number of the type.
    """

    metadata: Mapping[str, Any]
    tensors: Mapping[str, GgufTensor]
    unknown: Mapping[str, int]

    def __repr__(self) -> str:
        """How much there is."""
        return f"<tilewright.Gguf {len(self.tensors)} tensors, {len(self.unknown)} of unknown types, {len(self.metadata)} keys>"


def read_gguf(path: str | PathLike[str]) -> Gguf:
    """Reads a GGUF file: its metadata, and its tensors in place.

    The file stays mapped for as long as a tensor of it is used, and must not be made shorter meanwhile.

    Raises:
        TilewrightError: It cannot be read, is cut off, or is no GGUF file of version 2 or 3.
    """
    import numpy as np

    where = fspath(path)
    try:
        whole = np.asarray(np.memmap(where, np.uint8, "r"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is empty"
        raise TilewrightError(f"cannot read the file: {reason}", where=where, expected="a GGUF file") from None
    return _Reader(whole, where).file()


class _Reader:
    """A position in a file, which no read goes beyond the end of."""

    def __init__(self, whole: NDArray[Any], where: str) -> None:
        self._whole, self._where, self._at = whole, where, 0

    def file(self) -> Gguf:
        """All of it.

        Raises:
            TilewrightError: Something in it is wrong.
        """
        if self._bytes(4) != _MAGIC:
            raise self._wrong("begins with other bytes", "GGUF")
        version = self._number("<I")
        if version not in _VERSIONS:
            raise self._wrong(f"is of version {version}", "version 2 or 3, in little-endian order")
        tensors, pairs = self._count(_LEAST_TENSOR, "tensors", later=8), self._count(_LEAST_PAIR, "keys")
        metadata: dict[str, Any] = {}
        for _ in range(pairs):
            key = self._string()
            if key in metadata:
                raise self._wrong(f"has key {key!r} twice", "each once")
            metadata[key] = self._value(self._number("<I"), _MOST_NESTED)
        described = [self._described() for _ in range(tensors)]
        alignment = metadata.get(_ALIGNMENT, _DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or not 0 < alignment <= _MOST_ALIGNMENT or alignment & (alignment - 1):
            raise self._wrong(f"has {_ALIGNMENT} {alignment!r}", f"a power of two up to {_MOST_ALIGNMENT}")
        start = -(-self._at // alignment) * alignment
        found: dict[str, GgufTensor] = {}
        unknown: dict[str, int] = {}
        for name, shape, number, offset in described:
            if name in found or name in unknown:
                raise self._wrong(f"has tensor {name!r} twice", "each once")
            if number in _TYPES:
                found[name] = self._tensor(name, shape, _TYPES[number], start, offset, alignment)
            else:
                unknown[name] = number
        return Gguf(MappingProxyType(metadata), MappingProxyType(found), MappingProxyType(unknown))

    def _tensor(
        self, name: str, shape: tuple[int, ...], row: _Type, start: int, offset: int, alignment: int
    ) -> GgufTensor:
        if shape[-1] % row.block:
            raise self._wrong(f"has rows of {shape[-1]} {row.name} in tensor {name!r}", f"whole blocks of {row.block}")
        size = prod(shape) // row.block * row.bytes
        if offset % alignment:
            raise self._wrong(f"has tensor {name!r} at {offset}", f"a multiple of {alignment}")
        if start + offset + size > len(self._whole):
            raise self._wrong(f"ends within tensor {name!r}", f"{start + offset + size} bytes, not {len(self._whole)}")
        return GgufTensor(name, row.name, shape, self._whole[start + offset : start + offset + size])

    def _described(self) -> tuple[str, tuple[int, ...], int, int]:
        """Name, shape, type and offset of a tensor."""
        name, count = self._string(), self._number("<I")
        if not 1 <= count <= _MOST_DIMENSIONS:
            raise self._wrong(f"has {count} dimensions in tensor {name!r}", f"1 to {_MOST_DIMENSIONS}")
        extents = [self._number("<Q") for _ in range(count)]
        if prod(extents) > 8 * len(self._whole) or max(extents) > 8 * len(self._whole):
            raise self._wrong(f"has extents {extents} in tensor {name!r}", "as many elements as fit it")
        return name, tuple(reversed(extents)), self._number("<I"), self._number("<Q")

    def _value(self, kind: int, nested: int) -> Any:  # noqa: ANN401 - whatever it is
        if kind == _STRING:
            return self._string()
        if kind in _NUMBERS:
            (found,) = self._numbers(kind, 1).tolist()
            return bool(found) if kind == _BOOL else found
        if kind != _ARRAY:
            raise self._wrong(f"has a value of type {kind}", "types 0 to 12")
        of = self._number("<I")
        if of in _NUMBERS:
            return self._numbers(of, self._number("<Q"))
        if of not in (_STRING, _ARRAY) or not nested:
            raise self._wrong(
                f"has an array of type {of}", f"types 0 to 12, and {_MOST_NESTED} arrays in each other at most"
            )
        count = self._count(8, "elements of an array")
        return [self._string() if of == _STRING else self._value(_ARRAY, nested - 1) for _ in range(count)]

    def _numbers(self, kind: int, count: int) -> NDArray[Any]:
        import numpy as np

        element = np.dtype(_NUMBERS[kind])
        found = np.frombuffer(self._bytes(count * element.itemsize), element)
        return found != 0 if kind == _BOOL else found

    def _string(self) -> str:
        try:
            return self._bytes(self._number("<Q")).decode()
        except UnicodeDecodeError:
            raise self._wrong("has a string of other bytes", "UTF-8") from None

    def _count(self, least: int, what: str, later: int = 0) -> int:
        """How many of something follow, each of which takes `least` bytes, after `later` bytes more."""
        count = self._number("<Q")
        if count * least > len(self._whole) - self._at - later:
            raise self._wrong(f"has {count} {what} in {len(self._whole)} bytes", "as many as fit")
        return count

    def _number(self, format: str) -> int:
        return struct.unpack(format, self._bytes(struct.calcsize(format)))[0]

    def _bytes(self, count: int) -> bytes:
        if count > len(self._whole) - self._at:
            raise self._wrong(f"ends at byte {len(self._whole)}", f"{count} bytes from {self._at} on")
        self._at += count
        return self._whole[self._at - count : self._at].tobytes()

    def _wrong(self, what: str, expected: str) -> TilewrightError:
        return TilewrightError(f"the file {what}", where=self._where, expected=expected)
