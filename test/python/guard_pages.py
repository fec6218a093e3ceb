# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs kernels on operands that end, or begin, at a guard page: an access out of bounds is a SIGSEGV. A program.

Usage: guard_pages.py TARGET SCHEDULE MxNxK[:LAYOUT]… (SCHEDULE "-": the one chosen). Each product is announced before it runs.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import sys
from dataclasses import dataclass

import numpy as np
import products
import tilewright as tw

TYPES = ("f32", "bf16", "u8,i8,i32", "f64", "f16", "i8", "bf16,bf16,bf16")
PAGE = mmap.PAGESIZE
_NONE, _READ, _WRITE = 0, mmap.PROT_READ, mmap.PROT_WRITE
_mprotect = ctypes.CDLL(None, use_errno=True).mprotect
_mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


@dataclass(frozen=True)
class Placing:
    """Where the elements of a matrix lie.

    Attributes:
        at_end: Each row, or the last one, ends right before a page that cannot be read; otherwise the first begins right
            after one.
        fenced: Each row has pages of its own, with such a page after it; otherwise rows follow one another.
        gap: Elements between the end of a row and the beginning of the next, where rows follow one another.
    """

    at_end: bool
    fenced: bool
    gap: int


PLACINGS = [
    *(Placing(at_end, fenced=False, gap=gap) for at_end, gap in itertools.product((False, True), (0, 5))),
    *(Placing(at_end, fenced=True, gap=0) for at_end in (False, True)),
]


class Guarded:
    """An array of any rank between pages that nobody may touch, its rows as a placing says."""

    def __init__(self, values: np.ndarray, placing: Placing) -> None:
        *outer, columns = values.shape or (1,)
        size = values.itemsize
        row_bytes = columns * size
        own_pages = -(-row_bytes // PAGE) * PAGE
        leading = own_pages + PAGE if placing.fenced else row_bytes + placing.gap * size
        strides = [size]
        for axis in reversed(range(len(outer))):
            # Where rows lie apart, so do matrices of a batch: by a row.
            apart = placing.gap > 0 and axis + 2 == len(outer)
            strides.insert(0, leading if len(strides) == 1 else strides[0] * (outer[axis + 1] + apart))
        used = sum((extent - 1) * stride for extent, stride in zip(outer, strides, strict=False)) + row_bytes
        used = 0 if 0 in values.shape else used
        inside = used + own_pages - row_bytes if placing.fenced and used else -(-used // PAGE) * PAGE
        self._memory = mmap.mmap(-1, inside + 2 * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        offset = PAGE + ((own_pages - row_bytes if placing.fenced else inside - used) if placing.at_end else 0)
        self._inside = start + PAGE, inside
        self._guards = [start, start + PAGE + inside]
        if placing.fenced:
            self._guards += range(start + PAGE + own_pages, start + PAGE + inside, own_pages + PAGE)
        whole = np.frombuffer(self._memory, values.dtype)
        whole[...] = products.foreign(values.dtype)
        self._place = offset // size, values.shape, tuple(strides) if values.ndim else ()
        self.matrix = self._within(whole)
        self.matrix[...] = values
        self._before = whole.copy()
        for guard in self._guards:
            self._protect(guard, PAGE, _NONE)

    def make_read_only(self) -> None:
        """Lets every write to it fault."""
        start, size = self._inside
        self._protect(start, size, _READ)
        for guard in self._guards:
            self._protect(guard, PAGE, _NONE)

    def is_written_around(self) -> bool:
        """Whether a bit has changed that is not the array's own. No page is guarded any more."""
        start, size = self._inside
        self._protect(start - PAGE, size + 2 * PAGE, _READ | _WRITE)
        self._within(self._before)[...] = self.matrix
        return self._before.tobytes() != self._memory[:]

    def _within(self, whole: np.ndarray) -> np.ndarray:
        start, shape, strides = self._place
        # NumPy makes no array of another kind of float of one byte.
        bits = whole.view(f"u{whole.itemsize}")
        return np.lib.stride_tricks.as_strided(bits[start:], shape, strides).view(whole.dtype)

    @staticmethod
    def _protect(start: int, size: int, how: int) -> None:
        if size and _mprotect(start, size, how) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")


def run(kernel: tw.Kernel, placings: tuple[Placing, Placing, Placing]) -> None:
    """Runs and checks `kernel` with A, B and C placed so."""
    operands = products.uniform(kernel.spec)
    former = operands[2] if kernel.spec.beta else np.full_like(operands[2], products.foreign(operands[2].dtype))
    guarded = [Guarded(each, placing) for each, placing in zip((*operands[:2], former), placings, strict=True)]
    a, b, c = (each.matrix for each in guarded)
    for each in guarded[:2]:
        each.make_read_only()
    kernel(a, b, out=c)
    products.assert_right(kernel.spec, operands, c)
    assert not guarded[2].is_written_around()


def main(target: str, schedule: str, shapes: list[str]) -> None:
    """Runs each shape, types and betas in turn, with all placings."""
    for number, shape in enumerate(shapes):
        extents, _, layout = shape.partition(":")
        m, n, k = map(int, extents.split("x"))
        # In turn, so that a part of the kernels is enough.
        spec = tw.MatmulSpec.from_dtypes(
            m, n, k, TYPES[number % len(TYPES)], layout=layout or "nn", beta=number // 2 % 2
        )
        kernel = tw.compile(spec, target=target, schedule=None if schedule == "-" else schedule, cache=False)
        for turn, placing in enumerate(PLACINGS):
            others = PLACINGS[(turn + 1) % len(PLACINGS)], PLACINGS[(turn + 2) % len(PLACINGS)]
            for placings in ((placing, placing, placing), (placing, *others)):
                sys.stdout.write(f"{spec} {placings}\n")
                sys.stdout.flush()
                run(kernel, placings)
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
