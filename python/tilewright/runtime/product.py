# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernel of a product for a processor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright._runtime import Code
from tilewright.dtypes import to_numpy
from tilewright.payload import call_forms
from tilewright.payload.abi import TENSORS_SUFFIX, prototype
from tilewright.runtime.kernel import About, CFunction, Kernel
from tilewright.spec import MatmulSpec
from tilewright.standalone import _native, forms
from tilewright.standalone.native_class import native
from tilewright.standalone.packed_b import PackedB, Packing
from tilewright.standalone.packing import PackedFormat

if TYPE_CHECKING:

    class _Call(_native.MatmulCall, Kernel): ...
else:
    _Call = native(_native.MatmulCall, Kernel)


class Product(_Call):
    """A matmul compiled for one spec and target.

    ``kernel(a, b, *further, out=None)`` computes A·B of arrays, and what the spec's epilogue makes of it with the
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
        tensors = f"{code.entry}{TENSORS_SUFFIX}"
        super().__init__(code, **forms.product(call_forms.product(spec), tensors, packing))
        self._about, self._code, self._packing = about, code, packing

    def pack(self, name: str, b: Any) -> PackedB:  # noqa: ANN401 - an array of any library
        """Packs `b`, as `Kernel.pack` says."""
        return super().pack(name, b) if self._packing is None or name != "b" else self._packing.pack(b)

    @property
    def packed_format(self) -> PackedFormat | None:
        """The format of the packed B that the kernel takes; None when it takes B as it is."""
        return None if self._packing is None else self._packing.format

    @property
    def c_function(self) -> CFunction:
        """The entry itself, for callers in C."""
        entry = self._code.entry
        tensors = self._code.address_of(f"{entry}{TENSORS_SUFFIX}")
        return CFunction(self._code.address, prototype(self.spec, entry), self._code, tensors)


def packing(code: Code, packer: str, spec: MatmulSpec, packed: PackedFormat) -> Packing:
    """How B of a product is packed: in the format `packed`, by the function `packer` of linked code."""
    call = _native.PackCall(code, packer, spec.n, spec.k, b=to_numpy(spec.b_stored), b_transposed=spec.b_transposed)
    return Packing(packed, call)
