# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands with hostile values around them, and the check of a kernel's results, for tests that run kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tilewright as tw
from tilewright.payload.reference import within_bound
from tilewright.payload.samples import values

TARGETS = [each.target.name for each in tw.targets() if each.runs]
"""Every target whose code this machine runs, the host first."""
_ROWS = [each.target for each in reversed(tw.targets()) if each.runs and each.target.name != "host"]
LEVELS = [*{(row.vector_bits, row.vector_registers): row.name for row in _ROWS}.values()]
"""The plainest of these rows for each kind of registers: others that share them get the same code for f32 and f64."""
NUMPY = {"f32": np.float32, "f64": np.float64}
"""The types that take the same path through the compiler whatever the target: those that are not extended."""
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class Bordered:
    """A matrix within a larger array of NaN, or of 77: rows before and after it, and elements beside it."""

    whole: np.ndarray
    inner: np.ndarray
    _before: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, gap: int = 3) -> Bordered:
        """Puts `values` into rows that are `gap` elements longer, the first few of them before the matrix."""
        rows, columns = values.shape
        whole = np.full((rows + 2, columns + gap), foreign(values.dtype), values.dtype)
        inner = whole[1 : rows + 1, gap // 2 : gap // 2 + columns]
        inner[...] = values
        return cls(whole, inner, whole.copy())

    def border_is_untouched(self) -> bool:
        """Whether every bit around the matrix is as it was."""
        rows, columns = self.inner.shape
        offset = (self.whole.shape[1] - columns) // 2
        now, before = (each.view(_BITS[each.itemsize]).copy() for each in (self.whole, self._before))
        for bits in (now, before):
            bits[1 : rows + 1, offset : offset + columns] = 0
        return bool((now == before).all())

    def is_untouched(self) -> bool:
        """Whether every bit is as it was."""
        bits = _BITS[self.whole.itemsize]
        return bool((self.whole.view(bits) == self._before.view(bits)).all())


def foreign(dtype: np.dtype) -> float:
    """What stands where a kernel has no business: what a sum shows."""
    return 77 if dtype.kind in "iu" else np.nan


def uniform(spec: tw.MatmulSpec, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and the former C of `spec`: floats uniform in [-1, 1], integers over their whole range."""
    random = np.random.default_rng(seed)
    shapes, types = (spec.a_shape, spec.b_shape, spec.c_shape), (spec.a_type, spec.b_type, spec.c_type)
    return tuple(values(random, shape, element) for shape, element in zip(shapes, types, strict=True))  # type: ignore[return-value]


def check(
    kernel: tw.Kernel,
    operands: tuple[np.ndarray, np.ndarray, np.ndarray],
    *,
    gaps: tuple[int, int, int] = (3, 3, 3),
    spec: tw.MatmulSpec | None = None,
) -> np.ndarray:
    """Runs `kernel` on (A, B, former C) and checks each element, and all around it. Returns the new C.

    `spec` is that of the call, where the kernel has dynamic extents.

    Rows of A, B and C are `gaps` elements longer than needed, all of them NaN, or 77 where there is none. With beta 0, C is
    full of that before the call.
    """
    spec = kernel.spec if spec is None else spec
    assert isinstance(spec, tw.MatmulSpec)
    former = operands[2] if spec.beta else np.full_like(operands[2], foreign(operands[2].dtype))
    a, b, c = (Bordered.of(each, gap) for each, gap in zip((*operands[:2], former), gaps, strict=True))
    assert kernel(a.inner, b.inner, out=c.inner) is c.inner
    assert a.is_untouched()
    assert b.is_untouched()
    assert c.border_is_untouched()
    assert_right(spec, operands, c.inner)
    return c.inner


def assert_right(spec: tw.MatmulSpec, operands: tuple[np.ndarray, np.ndarray, np.ndarray], result: np.ndarray) -> None:
    """Checks `result` against the reference of (A, B, former C), by the error bound."""
    given = operands if spec.beta else operands[:2]
    expected, bound = tw.reference(spec, *given), tw.error_bound(spec, *given)
    wrong = np.argwhere(~within_bound(result, expected, bound))
    assert len(wrong) == 0, (
        f"{len(wrong)} elements of {spec} are wrong, the first at {wrong[0]}: {result[tuple(wrong[0])]!r}, "
        f"expected {expected[tuple(wrong[0])]!r} ± {bound[tuple(wrong[0])]!r}"
    )
