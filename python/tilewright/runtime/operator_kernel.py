# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernel of an operator: what `tilewright.compile` returns for a spec that is no product."""

from __future__ import annotations

from typing import Any

from tilewright.errors import OperandError
from tilewright.runtime.arrays import view
from tilewright.runtime.kernel import Kernel
from tilewright.runtime.module import Function
from tilewright.standalone.packed_b import PackedB


class OperatorKernel(Function):
    """An operator compiled for one spec and target.

    ``kernel(*operands, out=None)`` takes the operands of `OperatorSpec.operands`, in that order or by name, as arrays,
    and returns the result: a new array, or `out`. Arrays are used where they lie and never copied; they need the types and
    shapes of the spec and no gaps between their elements, those of up to two dimensions none in a row.
    """

    __slots__ = ()

    @property
    def comes_packed(self) -> frozenset[str]:
        """The operands that calls take as `pack` packed them, by name."""
        return frozenset(self._packings)

    def pack(self, name: str, b: Any) -> PackedB:  # noqa: ANN401 - an array of any library
        """Packs an operand that the spec says comes packed: an array of its shape and type, without gaps.

        Raises:
            SpecError: That operand is taken as it is.
            OperandError: `b` does not fit; the error says why, and what to do.
            MemoryError: There is no memory for it.
        """
        wanted = next((each for each in self.spec.operands if each.name == name), None)
        if wanted is None or name not in self._packings:
            return super().pack(name, b)
        b = view(name, b)
        if b.shape != wanted.shape or not b.flags.c_contiguous:
            raise OperandError(
                f"has shape {b.shape} and strides {b.strides}",
                operand=name,
                expected=f"{wanted.shape} without gaps",
                remedy="Pass np.ascontiguousarray(...)",
            )
        form, parameter = self._packings[name].format, next(p for p in self.signature.arguments if p.name == name)
        return super().pack(name, b.reshape((form.n, form.k) if parameter.transposed else (form.k, form.n)))

    def __repr__(self) -> str:
        """What it computes, for which target and by which schedule."""
        return Kernel.__repr__(self)
