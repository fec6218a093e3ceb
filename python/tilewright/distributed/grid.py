# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A grid of MPI processes: its communicators, made once, and the collectives on blocks of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from tilewright.errors import SpecError

Comm = Any
"""An ``mpi4py.MPI.Intracomm``: the package need not be installed."""
_MOST_BYTES = 2**31 - 1
"""What a count of MPI 3 can hold."""


class Grid:
    """The processes of a communicator as a grid, the last axis going fastest. Every process of it makes its own, together."""

    def __init__(self, comm: Comm, shape: tuple[int, ...]) -> None:
        """Takes the processes.

        Args:
            comm: The communicator.
            shape: How many processes each axis has.

        Raises:
            SpecError: There are not as many processes.
        """
        if not shape or any(isinstance(each, bool) or not isinstance(each, int) or each < 1 for each in shape):
            raise SpecError(f"grid {shape!r}", where="distributed", expected="ints above zero")
        if math.prod(shape) != comm.Get_size():
            raise SpecError(
                f"a grid of {'x'.join(map(str, shape))} for {comm.Get_size()} processes",
                where="distributed",
                expected="as many processes as the grid has",
                remedy="Start so many with mpiexec -n, or give another grid",
            )
        self.comm, self.shape = comm, shape
        self._place = np.unravel_index(comm.Get_rank(), shape)
        self._along: dict[tuple[int, ...], Comm] = {}
        self._kept: dict[Hashable, Any] = {}

    def count(self, axes: tuple[int, ...]) -> int:
        """How many processes differ from this one in some axes alone, itself included."""
        return math.prod(self.shape[axis] for axis in axes)

    def along(self, axes: tuple[int, ...]) -> Comm:
        """Their communicator, which is made at the first call; all processes make it together."""
        if axes not in self._along:
            others = [axis for axis in range(len(self.shape)) if axis not in axes]

            def number(some: list[int] | tuple[int, ...]) -> int:
                found = 0
                for axis in some:
                    found = found * self.shape[axis] + int(self._place[axis])
                return found

            self._along[axes] = self.comm.Split(number(others), number(axes))
        return self._along[axes]

    def kept(self, key: Hashable, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - what is made
        """What was made for a key on this grid, or is made now."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def close(self) -> None:
        """Frees the communicators; all processes do so together."""
        for each in self._along.values():
            each.Free()
        self._along.clear()

    def gather(
        self, block: np.ndarray[Any, Any], axes: tuple[int, ...], dimension: int, out: np.ndarray[Any, Any]
    ) -> None:
        """Puts the blocks of the processes along some axes together.

        Args:
            block: This process's, contiguous.
            axes: The axes of the grid.
            dimension: Along which dimension of `out` blocks follow each other.
            out: Contiguous, and so many times as long along this dimension.

        Raises:
            SpecError: The block is too large for MPI's counts.
        """
        from mpi4py import MPI  # pyright: ignore[reportMissingImports] - an optional package

        count = self.count(axes)
        if block.nbytes * (count if dimension else 1) > _MOST_BYTES:
            raise SpecError(
                f"a block of {block.nbytes} bytes",
                where="distributed",
                expected=f"at most {_MOST_BYTES}",
                remedy="Split the matrix over more processes",
            )
        rows = math.prod(block.shape[:dimension])
        piece = block.nbytes // rows
        # A process's block lies in pieces, one in each row of the whole; the next process's starts one piece later.
        strided = MPI.BYTE.Create_vector(rows, piece, piece * count)
        placed = strided.Create_resized(0, piece).Commit()
        try:
            self.along(axes).Allgather([block.view(np.uint8), MPI.BYTE], [out.view(np.uint8), 1, placed])
        finally:
            placed.Free()
            strided.Free()

    def reduce(
        self, part: np.ndarray[Any, Any], axes: tuple[int, ...], scatter: int | None, out: np.ndarray[Any, Any]
    ) -> None:
        """Adds the parts of the processes along some axes.

        Args:
            part: This process's, contiguous.
            axes: The axes of the grid.
            scatter: The dimension along which each process gets its block of the sums; None: all get all.
            out: The sums, or the block, contiguous.
        """
        comm = self.along(axes)
        if scatter is None:
            comm.Allreduce(part, out)
        elif scatter == 0:
            comm.Reduce_scatter_block(part, out)
        else:
            # The blocks of one process have to be adjacent.
            blocks = np.ascontiguousarray(np.stack(np.split(part, self.count(axes), axis=scatter)))
            comm.Reduce_scatter_block(blocks, out)


def gathered_bytes(block: int, count: int) -> int:
    """Bytes that a process sends in a gather of blocks, at least: each block goes to all others, once."""
    return block * (count - 1)


def reduced_bytes(part: int, count: int, *, scatter: bool) -> int:
    """Bytes that a process sends in a reduction, at least: a block of the sums to each other, and for all of the sums the same again.

    Source: Chan, Heimlich, Purkayastha, van de Geijn, Collective communication: theory, practice, and experience, 2007.
    """
    once = part * (count - 1) // count
    return once if scatter else 2 * once
