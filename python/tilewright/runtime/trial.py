# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One call of a kernel on random operands, and how far its result is from the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import to_numpy
from tilewright.payload.complex_reference import parts
from tilewright.payload.operators import known
from tilewright.payload.reference import relative_error, within_bound
from tilewright.payload.samples import aligned, of_operator, unwritten, values
from tilewright.payload.spec_tables import Spec
from tilewright.runtime.kernel import Kernel
from tilewright.runtime.operator_kernel import OperatorKernel
from tilewright.spec import MatmulSpec

_SIZES = (1, 13, 64, 257)
"""What dynamic extents are in turn, where they can be."""
_ENTRIES = (1, 2, 5, 3)
"""What those of a batch are meanwhile."""


def calls(spec: MatmulSpec, sizes: Sequence[int] = _SIZES) -> list[MatmulSpec]:
    """The calls to try: of a spec with dynamic extents, some of different `sizes`."""
    if not spec.open:
        return [spec]
    wanted: list[Mapping[str, int]] = [
        {name: size if name in spec.dynamic else entries for name in spec.open}
        for size, entries in zip(sizes, _ENTRIES, strict=False)
    ]
    found = [spec.sized({name: dim.nearest(each[name]) for name, dim in spec.open.items()}) for each in wanted]
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Difference:
    """How far a result is from the reference.

    Attributes:
        wrong: Elements that are not within their bound.
        elements: How many there are.
        worst: The largest error as a part of its bound; inf when an element that must be exact is not, or is NaN.
        relative: The relative Frobenius error.
        place: Where the largest error is; empty for a result without elements.
        got: The element there.
        expected: What the reference has there.
        bound: How far a right kernel may be from that.
    """

    wrong: int
    elements: int
    worst: float
    relative: float
    place: tuple[int, ...]
    got: float
    expected: float
    bound: float

    @classmethod
    def of(cls, c: NDArray[Any], expected: NDArray[Any], bound: NDArray[np.float64]) -> Difference:
        """The difference between a result and its reference, of the same shape as the bound of each element.

        Of complex numbers each part is an element.
        """
        if np.iscomplexobj(c):
            return cls.of(parts(c), parts(expected), np.repeat(bound[..., None], 2, axis=-1))
        wrong = int(np.count_nonzero(~within_bound(c, expected, bound)))
        relative = relative_error(c, expected)
        if not c.size:
            return cls(wrong, 0, 0.0, relative, (), 0.0, 0.0, 0.0)
        with np.errstate(all="ignore"):
            error = np.abs(c.astype(np.float64) - expected)
            part = np.where(error == 0, 0.0, error / bound)
        part = np.where(np.isnan(part), np.inf, part)
        place = tuple(map(int, np.unravel_index(int(part.argmax()), c.shape)))
        there = (float(array[place]) for array in (c, expected, bound))
        return cls(wrong, c.size, float(part[place]), relative, place, *there)

    @property
    def right(self) -> bool:
        """Whether every element is within its bound."""
        return self.wrong == 0

    def __str__(self) -> str:
        """The worst element, and how many are wrong."""
        off = abs(self.got - self.expected)
        times = f", {self.worst:.3g} times its bound" if np.isfinite(self.worst) else ""
        return f"C{list(self.place)} = {self.got:.9g} is off by {off:.3g}{times}; {self.wrong} of {self.elements} elements are wrong"


@dataclass(frozen=True, slots=True)
class Trial:
    """A kernel with the operands of one call, which can be repeated.

    Attributes:
        kernel: What is called.
        spec: What the call computes.
        inputs: The operands in the order of the call, as they are stored.
        former: What C holds before, when the spec adds to it.
        given: The operands as the kernel takes them.
        out: Where the result goes, filled with what no kernel computes, or with `former`.
    """

    kernel: Kernel
    spec: Spec
    inputs: tuple[NDArray[Any], ...]
    former: NDArray[Any] | None
    given: tuple[Any, ...]
    out: NDArray[Any]

    @classmethod
    def random(cls, kernel: Kernel, spec: Spec, seed: int) -> Trial:
        """The call of `kernel` that `spec`, of static extents, has, on operands that a seed decides."""
        random = np.random.default_rng(seed)
        if not isinstance(spec, MatmulSpec):
            inputs = dict(zip((each.name for each in spec.operands), of_operator(random, spec), strict=True))
            given = [kernel.pack(*each) if each[0] in _packed(kernel) else each[1] for each in inputs.items()]
            out = aligned(spec.result.shape, to_numpy(spec.result.type))
            out[...] = unwritten(spec.result.type)
            return cls(kernel, spec, tuple(inputs.values()), None, tuple(given), out)
        a, b, *further = (values(random, each.shape, each.type) for each in spec.operands)
        if spec.gathers:
            further[0] %= len(a)
        former = values(random, spec.c_shape, spec.c_type) if spec.beta else None
        out = aligned(spec.c_shape, to_numpy(spec.c_type))
        out[...] = unwritten(spec.c_type) if former is None else former
        given = (a, kernel.pack_b(b) if spec.b_packed else b, *further)
        return cls(kernel, spec, (a, b, *further), former, given, out)

    def __call__(self) -> None:
        """Calls the kernel."""
        self.kernel(*self.given, out=self.out)

    def difference(self) -> Difference:
        """How far the result of the first call is from the reference."""
        return Difference.of(self.out, *known(self.spec, *self.inputs, c=self.former))


def _packed(kernel: Kernel) -> frozenset[str]:
    """The operands of an operator that come packed."""
    return kernel.comes_packed if isinstance(kernel, OperatorKernel) else frozenset()
