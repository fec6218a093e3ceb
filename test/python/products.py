# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands in hostile surroundings, and the check of a kernel's numbers, for tests that run compiled kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tilewright as tw
from tilewright.payload.reference import within_bound

TARGETS = [each.target.name for each in tw.targets() if each.runs]
"""Every target whose code this machine runs, the host first."""
NUMPY = {"f32": np.float32, "f64": np.float64}
_BITS = {np.dtype(np.float32): np.uint32, np.dtype(np.float64): np.uint64}


@dataclass(frozen=True)
class Bordered:
    """A matrix within a larger array of NaN: rows before and after it, and elements beside it."""

    whole: np.ndarray
    inner: np.ndarray
    _before: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, gap: int = 3) -> Bordered:
        """Puts `values` into rows that are `gap` elements longer, the first few of them before the matrix."""
        rows, columns = values.shape
        whole = np.full((rows + 2, columns + gap), np.nan, values.dtype)
        inner = whole[1 : rows + 1, gap // 2 : gap // 2 + columns]
        inner[...] = values
        return cls(whole, inner, whole.copy())

    def border_is_untouched(self) -> bool:
        """Whether every bit around the matrix is as it was."""
        rows, columns = self.inner.shape
        offset = (self.whole.shape[1] - columns) // 2
        now, before = (each.view(_BITS[each.dtype]).copy() for each in (self.whole, self._before))
        for bits in (now, before):
            bits[1 : rows + 1, offset : offset + columns] = 0
        return bool((now == before).all())

    def is_untouched(self) -> bool:
        """Whether every bit is as it was."""
        bits = _BITS[self.whole.dtype]
        return bool((self.whole.view(bits) == self._before.view(bits)).all())


def uniform(spec: tw.MatmulSpec, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and the former C of `spec`, uniform in [-1, 1]."""
    random = np.random.default_rng(seed)
    a, b, c = (random.uniform(-1, 1, shape) for shape in (spec.a_shape, spec.b_shape, spec.c_shape))
    return tuple(each.astype(NUMPY[spec.a]) for each in (a, b, c))  # type: ignore[return-value]


def check(
    kernel: tw.Kernel,
    operands: tuple[np.ndarray, np.ndarray, np.ndarray],
    *,
    gaps: tuple[int, int, int] = (3, 3, 3),
) -> np.ndarray:
    """Runs `kernel` on (A, B, former C) and checks each element, and all around it. Returns the new C.

    Rows of A, B and C are `gaps` elements longer than needed, all of them NaN. With beta 0, C is NaN before the call.
    """
    spec = kernel.spec
    former = operands[2] if spec.beta else np.full_like(operands[2], np.nan)
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
