# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernel of a product for a processor."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright._runtime import Code
from tilewright.dims import Dim, Extent
from tilewright.dtypes import stored_numpy, to_numpy
from tilewright.payload.abi import TENSORS_SUFFIX, dlpack_code, prototype
from tilewright.runtime.kernel import About, CFunction, Kernel, native
from tilewright.spec import MatmulSpec, OperandSpec
from tilewright.standalone import _native
from tilewright.standalone.packed_b import PackedB, Packing
from tilewright.standalone.packing import PackedFormat

if TYPE_CHECKING:

    class _Call(_native.MatmulCall, Kernel): ...
else:
    _Call = native(_native.MatmulCall)


class Product(_Call):
    """A matmul compiled for one spec and target.

    ``kernel(a, b, *further, out=None)`` computes A·B of numpy arrays, and what the spec's epilogue makes of it with the
    further operands, which may be passed by name too, and returns the result: a new array, or `out`. The arrays are
    used where they lie and never copied. They need the spec's element types and shapes (an extent of None takes any);
    elements of a row adjacent; rows any distance apart, but in order and without overlap; and natural alignment. `out` must
    be writable and share no element with `a` or `b`. With beta 1 in the spec, `out` is what is added to, and must be given.
    With `b_packed` in the spec, `b` is what `pack_b` returned.
    A subclass of ndarray is taken for the memory that it describes.

    Other Python threads run meanwhile, except beside very small products.
    """

    __slots__ = ("_code", "_packing")

    def __init__(self, code: Code, about: About, packing: Packing | None = None) -> None:
        """Makes a kernel of linked code, which was compiled from `about.spec`; `packing` is how it packs B, when B comes packed."""
        spec: MatmulSpec = about.spec
        a, b, c = (to_numpy(element) for element in (spec.a_stored, spec.b_stored, spec.c_type))
        super().__init__(
            code,
            *(None if isinstance(extent, Dim) else extent for extent in (spec.m, spec.n, spec.k)),
            a=a,
            b=b,
            c=c,
            a_transposed=spec.a_transposed,
            b_transposed=spec.b_transposed,
            accumulate=bool(spec.beta),
            packed=packing,
            tensor_entry=f"{code.entry}{TENSORS_SUFFIX}",
            operands=tensors(spec),
            limits=[_limits(extent) for extent in spec.extents.values()],
        )
        self._about, self._code, self._packing = about, code, packing

    def pack(self, name: str, b: np.ndarray[Any, Any]) -> PackedB:
        """Packs `b`, as `Kernel.pack` says."""
        return super().pack(name, b) if self._packing is None or name != "b" else self._packing.pack(b)

    @property
    def packed_format(self) -> PackedFormat | None:
        """The format of the packed B that the kernel takes; None when it takes B as it is."""
        return None if self._packing is None else self._packing.format

    @property
    def c_function(self) -> CFunction:
        """The entry itself, for callers in C."""
        return CFunction(self._code.address, prototype(self.spec, self._code.entry), self._code)


def tensors(spec: MatmulSpec) -> list[tuple[str, tuple[int, ...], np.dtype[Any], int, int, int]]:
    """All operands of a kernel that has others than A and B, as `MatmulCall` takes them; none for other kernels."""
    if not (spec.takes_tensors or spec.scalars):
        return []
    operands = (*spec.operands, replace(spec.result, name="out"))
    return [
        (each.name, _shape(each, spec), stored_numpy(each.type), *dlpack_code(each.type.name), each.batch)
        for each in operands
    ]


_OPEN = -2
"""How `MatmulCall` takes the first one of the spec's extents in a shape, where it is dynamic; others are below it."""


def _shape(operand: OperandSpec, spec: MatmulSpec) -> tuple[int, ...]:
    """The shape of an operand as the native base class takes it."""
    number = {name: index for index, name in enumerate(spec.extents)}
    pairs = zip(operand.stored, operand.names, strict=True)
    return tuple(_OPEN - number[name] if isinstance(extent, Dim) else extent for extent, name in pairs)


def _limits(extent: Extent) -> tuple[int, int, int]:
    """The least and the most that an extent can be, and what divides it."""
    return (extent.min, extent.max, extent.multiple) if isinstance(extent, Dim) else (extent, extent, 1)
