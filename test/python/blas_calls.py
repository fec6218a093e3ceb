# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls every routine of a BLAS with random flags, strides and values, and compares with numpy."""

import ctypes
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LETTERS = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
ROUTINES = ("gemm", "gemmtr", "symm", "syrk", "syr2k", "trmm", "trsm", "gemv")
OF_COMPLEX = ("gemm", "gemmtr", "symm", "hemm", "syrk", "herk", "syr2k", "her2k", "trmm", "trsm")
FACTORS = (0, 1, -1, 0.7)
CBLAS = {"N": 111, "T": 112, "C": 113, "U": 121, "L": 122, "left": 141, "right": 142, "free": 131, "unit": 132}


@dataclass
class Call:
    """A routine's arguments, by Fortran's order, and what it has to leave in the last matrix.

    Attributes:
        flags: Letters, "left" and "right" for sides, "free" and "unit" for diagonals.
        extents: Integers.
        arguments: Factors and arrays, each array with its leading dimension or step after it.
        result: The array that the call writes.
        expected: What is right, in double precision.
        bound: The largest error of each element.
    """

    flags: list[str]
    extents: list[int]
    arguments: list
    result: np.ndarray
    expected: np.ndarray
    bound: np.ndarray | float


class Blas:
    """The routines of a library."""

    def __init__(self, path: Path):
        self.library = ctypes.CDLL(str(path))

    def call(self, letter: str, routine: str, call: Call, kind: str) -> None:
        """Calls a routine: kind is "fortran", "cblas rows" or "cblas columns", and with "64" has integers of 64 bits."""
        wide = "64" in kind
        integer = ctypes.c_int64 if wide else ctypes.c_int32
        real = routine in ("herk", "her2k")
        values, factors = [], 0
        for each in (*call.extents, *call.arguments):
            if isinstance(each, np.ndarray):
                values.append(each.ctypes.data_as(ctypes.c_void_p))
            elif isinstance(each, int):
                values.append(ctypes.byref(integer(each)) if "fortran" in kind else integer(each))
            else:
                factors += 1
                is_real = routine == "herk" or (real and factors == 2)
                values.append(_factor(letter, each, "fortran" in kind, is_real))
        if "fortran" in kind:
            name = f"{letter}{routine}_{'64_' if wide else ''}"
            flags = [
                {"left": b"l", "right": b"R", "free": b"N", "unit": b"u"}.get(each, each.encode())
                for each in call.flags
            ]
            getattr(self.library, name)(*flags, *values)
            return
        name = f"cblas_{letter}{routine}{'64_' if wide else ''}"
        getattr(self.library, name)(101 if "rows" in kind else 102, *(CBLAS[each] for each in call.flags), *values)


def _factor(letter, value, by_reference, is_real):
    kind = LETTERS[letter]
    real = ctypes.c_float if letter in "sc" else ctypes.c_double
    if letter in "sd" or is_real:
        return ctypes.byref(real(value.real)) if by_reference else real(value.real)
    return np.array([value], kind).ctypes.data_as(ctypes.c_void_p)


def draw(rng: np.random.Generator, letter: str, routine: str, by_row: bool, largest: int) -> Call:
    """A call with random shapes from 0 to `largest`, flags, strides and values; NaN stand wherever nothing is to be read."""
    return _Draw(rng, letter, by_row, largest).draw(routine)


class _Draw:
    def __init__(self, rng, letter, by_row, largest):
        self.rng, self.letter, self.by_row, self.largest = rng, letter, by_row, largest
        self.type = LETTERS[letter]
        self.eps = float(np.finfo(self.type).eps)
        self.complex = letter in "cz"

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def extent(self):
        return int(self.pick(0, 1, self.rng.integers(self.largest + 1), self.rng.integers(self.largest + 1)))

    def factor(self, real=False):
        value = self.pick(*FACTORS)
        value = value + 0.3j if self.complex and not real and value == 0.7 else value
        return self.type(value)

    def values(self, rows, columns):
        found = self.rng.uniform(-1, 1, (rows, columns))
        if self.complex:
            found = found + 1j * self.rng.uniform(-1, 1, (rows, columns))
        return found.astype(self.type)

    def stored(self, matrix):
        """A matrix in memory with rows, or columns, that are further apart, NaN between them; its leading dimension."""
        lines = matrix if self.by_row else matrix.T
        memory = np.full((max(lines.shape[0], 1), max(lines.shape[1], 1) + self.rng.integers(3)), np.nan, self.type)
        memory[: lines.shape[0], : lines.shape[1]] = lines
        return memory, memory.shape[1]

    def taken(self, memory, shape):
        """The matrix in such memory."""
        return memory[: shape[0], : shape[1]] if self.by_row else memory[: shape[1], : shape[0]].T

    def op(self, matrix, op):
        return {"N": matrix, "T": matrix.T, "C": matrix.conj().T}[op]

    def operand(self, rows, columns, op):
        """A matrix whose op has these extents, and what op makes of it, in double precision."""
        matrix = self.values(rows, columns) if op == "N" else self.values(columns, rows)
        return matrix, self.op(matrix.astype(np.complex128 if self.complex else np.float64), op)

    def wide(self, matrix):
        return matrix.astype(np.complex128 if self.complex else np.float64)

    def result(self, rows, columns, beta):
        """The former C: NaN where a factor of zero says that it is not read."""
        matrix = self.values(rows, columns)
        if beta == 0:
            matrix[...] = np.nan
        return matrix

    def sum(self, alpha, products, beta, former):
        """What products add up to, and a bound on the error of the sums."""
        alpha_, beta_ = (complex(each) if self.complex else float(each) for each in (alpha, beta))
        total = sum(products(np.asarray)) if alpha != 0 else 0
        size = sum(products(np.abs)) if alpha != 0 else 0
        kept = 0 if beta == 0 else self.wide(former)
        depth = self.depth + 8
        expected = alpha_ * total + beta_ * kept + np.zeros(former.shape)
        bound = 4 * depth * self.eps * (abs(alpha_) * size + abs(beta_) * np.abs(kept)) + np.zeros(former.shape)
        return expected, bound

    def draw(self, routine):
        return getattr(self, routine)() if hasattr(type(self), routine) else self.hermitian(routine)

    def finished(self, flags, extents, arguments, memory, shape, expected, bound, written=None):
        former = self.wide(self.taken(memory, shape))
        if written is not None:
            expected, bound = np.where(written, expected, former), np.where(written, bound, 0)
        whole = self.wide(memory)
        self.taken(whole, shape)[...] = expected
        error = np.zeros(memory.shape)
        self.taken(error, shape)[...] = bound
        return Call(flags, extents, arguments, memory, whole, error)

    def gemm(self):
        ta, tb, (m, n, k) = self.pick(*"NTC"), self.pick(*"NTC"), (self.extent() for _ in range(3))
        alpha, beta, self.depth = self.factor(), self.factor(), k
        (a, left), (b, right) = self.operand(m, k, ta), self.operand(k, n, tb)
        c = self.result(m, n, beta)
        if alpha == 0:
            a[...], b[...] = np.nan, np.nan
        expected, bound = self.sum(alpha, lambda f: [f(left) @ f(right)], beta, c)
        (a, lda), (b, ldb), (c, ldc) = map(self.stored, (a, b, c))
        return self.finished([ta, tb], [m, n, k], [alpha, a, lda, b, ldb, beta, c, ldc], c, (m, n), expected, bound)

    def gemmtr(self):
        uplo, ta, tb = self.pick(*"UL"), self.pick(*"NTC"), self.pick(*"NTC")
        n, k = self.extent(), self.extent()
        alpha, beta, self.depth = self.factor(), self.factor(), k
        (a, left), (b, right) = self.operand(n, k, ta), self.operand(k, n, tb)
        c = self.result(n, n, beta)
        expected, bound = self.sum(alpha, lambda f: [f(left) @ f(right)], beta, c)
        (a, lda), (b, ldb), (c, ldc) = map(self.stored, (a, b, c))
        return self.finished(
            [uplo, ta, tb], [n, k], [alpha, a, lda, b, ldb, beta, c, ldc], c, (n, n), expected, bound, half(n, uplo)
        )

    def triangle(self, order, uplo, hermitian):
        """A symmetric or Hermitian matrix, NaN in the other triangle, and the whole of it."""
        a = self.values(order, order)
        whole = self.wide(a) * half(order, uplo)
        mirrored = (whole.conj() if hermitian else whole).T
        whole = whole + mirrored * ~half(order, uplo)
        if hermitian:
            whole[np.diag_indices(order)] = whole.diagonal().real
        a[~half(order, uplo)] = np.nan
        return a, whole

    def symm(self, hermitian=False):
        side, uplo, m, n = self.pick("left", "right"), self.pick(*"UL"), self.extent(), self.extent()
        order = m if side == "left" else n
        alpha, beta, self.depth = self.factor(), self.factor(), order
        a, whole = self.triangle(order, uplo, hermitian)
        b, c = self.values(m, n), self.result(m, n, beta)
        other = self.wide(b)
        pair = (whole, other) if side == "left" else (other, whole)
        expected, bound = self.sum(alpha, lambda f: [f(pair[0]) @ f(pair[1])], beta, c)
        if alpha == 0:
            a[...], b[...] = np.nan, np.nan
        (a, lda), (b, ldb), (c, ldc) = map(self.stored, (a, b, c))
        return self.finished([side, uplo], [m, n], [alpha, a, lda, b, ldb, beta, c, ldc], c, (m, n), expected, bound)

    def hermitian(self, routine):
        return getattr(self, {"hemm": "symm", "herk": "syrk", "her2k": "syr2k"}[routine])(hermitian=True)

    def syrk(self, hermitian=False):
        uplo, n, k = self.pick(*"UL"), self.extent(), self.extent()
        op = self.pick("N", "C" if hermitian else "T")
        alpha, beta, self.depth = self.factor(hermitian), self.factor(hermitian), k
        a, left = self.operand(n, k, op)
        c = self.result(n, n, beta)
        return self.update(hermitian, [uplo, op], [n, k], alpha, [(a, left)], [(left, left)], beta, c)

    def syr2k(self, hermitian=False):
        uplo, n, k = self.pick(*"UL"), self.extent(), self.extent()
        op = self.pick("N", "C" if hermitian else "T")
        alpha, beta, self.depth = self.factor(), self.factor(hermitian), 2 * k
        (a, left), (b, right) = self.operand(n, k, op), self.operand(n, k, op)
        c = self.result(n, n, beta)
        turn = complex(alpha).conjugate() / complex(alpha) if hermitian and alpha != 0 else 1
        pairs = [(left, right), ((turn if self.complex else 1) * right, left)]
        return self.update(hermitian, [uplo, op], [n, k], alpha, [(a, left), (b, right)], pairs, beta, c)

    def update(self, hermitian, flags, extents, alpha, operands, pairs, beta, c):
        n = extents[0]
        if hermitian:
            c[np.diag_indices(n)] = c.diagonal().real
        flip = (lambda each: each.conj().T) if hermitian else (lambda each: each.T)
        expected, bound = self.sum(alpha, lambda f: [f(left) @ f(flip(right)) for left, right in pairs], beta, c)
        if hermitian and not (beta == 1 and (alpha == 0 or extents[1] == 0)):  # else C stays as it is
            c.imag[np.diag_indices(n)] = np.nan
        if alpha == 0:
            for each, _ in operands:
                each[...] = np.nan
        stored = [self.stored(each) for each, _ in operands]
        c, ldc = self.stored(c)
        arguments = [alpha, *(part for each in stored for part in each), beta, c, ldc]
        return self.finished(flags, extents, arguments, c, (n, n), expected, bound, half(n, flags[0]))

    def trmm(self, solve=False):
        side, uplo, op, unit = (
            self.pick("left", "right"),
            self.pick(*"UL"),
            self.pick(*"NTC"),
            self.pick("free", "unit"),
        )
        m, n, alpha = self.extent(), self.extent(), self.factor()
        order = self.depth = m if side == "left" else n
        a, b = self.values(order, order), self.values(m, n)
        a = a / max(order, 1) + 2 * np.eye(order, dtype=self.type)  # far from singular, of any order
        whole = self.wide(a) * half(order, uplo)
        if unit == "unit":
            whole[np.diag_indices(order)] = 1
            a[np.diag_indices(order)] = np.nan
        a[~half(order, uplo)] = np.nan
        whole = self.op(whole, op)
        other = self.wide(b)
        if alpha == 0:
            a[...], b[...] = np.nan, np.nan
        a, lda = self.stored(a.astype(self.type))
        b, ldb = self.stored(b)
        factor = complex(alpha) if self.complex else float(alpha)
        inverse = np.linalg.inv(whole) if solve else whole
        pair = (inverse, other) if side == "left" else (other, inverse)
        expected = factor * (pair[0] @ pair[1]) if alpha != 0 else np.zeros((m, n))
        # The inverse's elements bound how errors of a solution grow.
        size = abs(factor) * (np.abs(pair[0]) @ np.abs(pair[1])) * (np.abs(inverse).sum() if solve and order else 1)
        bound = 8 * (order + 8) * self.eps * size + np.zeros((m, n))
        return self.finished([side, uplo, op, unit], [m, n], [alpha, a, lda, b, ldb], b, (m, n), expected, bound)

    def trsm(self):
        return self.trmm(solve=True)

    def gemv(self):
        op, m, n, alpha, beta = self.pick(*"NTC"), self.extent(), self.extent(), self.factor(), self.factor()
        a = self.values(m, n)
        left = self.op(self.wide(a), op)
        rows, self.depth = left.shape
        x, y = self.values(self.depth, 1), self.result(rows, 1, beta)
        expected, bound = self.sum(alpha, lambda f: [f(left) @ f(self.wide(x))], beta, y)
        if m == 0 or n == 0:
            expected, bound = self.wide(y), np.zeros(y.shape)
        if alpha == 0:
            a[...], x[...] = np.nan, np.nan
        a, lda = self.stored(a)
        (x, incx, _), (y, incy, places) = self.spread(x), self.spread(y)
        whole, error = self.wide(y), np.zeros(y.shape)
        whole[places], error[places] = expected[:, 0], bound[:, 0]
        return Call([op], [m, n], [alpha, a, lda, x, incx, beta, y, incy], y, whole, error)

    def spread(self, vector):
        """A vector in memory, with a step, and where its elements are."""
        step = int(self.pick(1, 1, 2, -1, -3))
        memory = np.full(max(1, len(vector) * abs(step)), np.nan, self.type)
        places = np.arange(len(vector)) * abs(step)
        places = places[::-1] if step < 0 else places
        memory[places] = vector[:, 0]
        return memory, step, places


def half(order, uplo):
    """Where a triangle is."""
    found = np.tri(order, dtype=bool)
    return found if uplo == "L" else found.T


def check(blas: Blas, rng: np.random.Generator, letter: str, routine: str, kind: str, largest: int) -> None:
    """Draws a call, makes it, and compares every element of the memory of the result.

    Raises:
        AssertionError: An element is wrong, or one was written that is none of the result's.
    """
    call = draw(rng, letter, routine, "rows" in kind, largest)
    blas.call(letter, routine, call, kind)
    same = np.isnan(call.expected) & np.isnan(call.result)
    error = np.abs(call.result.astype(call.expected.dtype) - call.expected)
    wrong = ~(same | (error <= call.bound))
    assert not wrong.any(), (
        f"{letter}{routine} {kind} {call.flags} {call.extents} "
        f"{[each for each in call.arguments if not isinstance(each, np.ndarray)]}: {wrong.sum()} wrong, first at "
        f"{np.argwhere(wrong)[0]}: {call.result[wrong][0]}, expected {call.expected[wrong][0]}"
    )
