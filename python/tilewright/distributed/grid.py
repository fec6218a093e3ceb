# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A grid of MPI processes, and its communicators, made once."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from tilewright.errors import SpecError

Comm = Any
"""An ``mpi4py.MPI.Intracomm``: the package need not be installed."""


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
        given: object = shape
        if (
            not isinstance(given, (tuple, list))
            or not given
            or any(type(each) is not int or each < 1 for each in given)
        ):
            raise SpecError(f"grid {shape!r}", where="distributed", expected="a tuple of ints above zero")
        if math.prod(shape) != comm.Get_size():
            raise SpecError(
                f"a grid of {'x'.join(map(str, shape))} for {comm.Get_size()} processes",
                where="distributed",
                expected="as many processes as the grid has",
                remedy="Start so many with mpiexec -n, or give another grid",
            )
        self.comm, self.shape = comm, tuple(shape)
        self._place = np.unravel_index(comm.Get_rank(), shape)
        self._along: dict[tuple[int, ...], Comm] = {}
        self._kept: dict[Hashable, Any] = {}
        self.is_closed = False

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

    def all_agree(self, fine: bool) -> bool:
        """Whether all processes say so, which they do together."""
        return fine if math.prod(self.shape) == 1 else all(self.comm.allgather(fine))

    def kept(self, key: Hashable, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - what is made
        """What was made for a key on this grid, or is made now."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def close(self) -> None:
        """Frees the communicators, and forgets what was made; all processes do so together. Its products are not called any more."""
        self.is_closed = True
        for each in self._along.values():
            each.Free()
        self._along.clear()
        self._kept.clear()
