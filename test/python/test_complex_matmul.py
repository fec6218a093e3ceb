# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of complex matrices by kernels of real ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from numpy.typing import NDArray
from tilewright.errors import OperandError

TYPES = [np.complex64, np.complex128]


def matrix(*shape: int, dtype: type = np.complex64, seed: int = 0) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    return (rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)).astype(dtype)


def assert_right(a: NDArray[Any], b: NDArray[Any], got: NDArray[Any]) -> None:
    """Each part is a sum of 2 K products of reals: Higham, section 3.5, for the result and for numpy's own."""
    wide = a.astype(np.complex128), b.astype(np.complex128)
    expected, magnitudes = wide[0] @ wide[1], abs(wide[0]) @ abs(wide[1])
    bound = 2 * (a.shape[-1] + 1) * (np.finfo(a.dtype).eps / 2 + 2.0**-53) * magnitudes
    assert got.dtype == a.dtype
    assert got.shape == expected.shape
    assert (abs(np.real(got) - np.real(expected)) <= bound).all()
    assert (abs(np.imag(got) - np.imag(expected)) <= bound).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 19, 5), (40, 33, 70), (1, 40, 33), (33, 1, 40)], ids=str)
def test_numbers(shape, dtype):
    m, n, k = shape
    a, b = matrix(m, k, dtype=dtype), matrix(k, n, dtype=dtype, seed=1)
    assert_right(a, b, tw.matmul(a, b))
    assert_right(a, b, tw.matmul(np.asfortranarray(a), np.asfortranarray(b)))


def test_conjugates_views_and_threads():
    a, b = matrix(70, 40), matrix(66, 140, seed=1)
    for left, right in ((a.conj().T, b.T[::2]), (a[::2, 1:34], b[:33].conj()), (a[:, ::2], b[:20, ::-1])):
        assert_right(left, right, tw.matmul(left, right))
    assert_right(a, b[:40], tw.matmul(a, b[:40], threads=2))


def test_batches_are_broadcast():
    a, b = matrix(3, 1, 5, 7), matrix(4, 7, 6, seed=1)
    assert_right(a, b, tw.matmul(a, b))
    assert_right(a, b[0], tw.matmul(a, b[0]))


def test_nothing_to_add_up():
    assert not tw.matmul(matrix(3, 0), matrix(0, 4)).any()
    assert tw.matmul(matrix(0, 3), matrix(3, 4)).shape == (0, 4)


def test_infinities_stay_in_their_row_and_column():
    a, b = matrix(4, 5), matrix(5, 6, seed=1)
    a[1, 2], b[3, 4] = np.inf, np.nan
    finite = np.isfinite(tw.matmul(a, b))
    assert not finite[1].any()
    assert not finite[:, 4].any()
    assert finite[[0, 2, 3]][:, [0, 1, 2, 3, 5]].all()


def test_what_is_refused():
    a = matrix(3, 3)
    with pytest.raises(OperandError, match=r"operand b: is of complex128; expected complex64, as a\. Convert with"):
        tw.matmul(a, a.astype(np.complex128))
    with pytest.raises(OperandError, match="operand b: is of float32; expected complex64"):
        tw.matmul(a, np.real(a))
    with pytest.raises(OperandError, match="operand b: has 4 rows; expected 3, the columns of a"):
        tw.matmul(a, matrix(4, 3))
    with pytest.raises(OperandError, match=r"operand a: is of shape \(3,\)"):
        tw.matmul(a[0], a)
