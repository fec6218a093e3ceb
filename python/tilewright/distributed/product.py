# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products over many processes: each computes its block of C with a kernel of ours, and MPI moves blocks."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from tilewright.distributed import dask_arrays
from tilewright.distributed.grid import Comm, Grid, gathered_bytes, reduced_bytes
from tilewright.distributed.partition import Program, program
from tilewright.distributed.shardings import Sharding, named
from tilewright.dtypes import from_numpy, to_numpy
from tilewright.errors import OperandError, SpecError, TilewrightError
from tilewright.runtime.kernel import Kernel
from tilewright.spec import MatmulSpec
from tilewright.tuning.calls import compile as compile_one

Array = np.ndarray[Any, Any]
_SUMMED = ("f32", "f64", "i32", "i64", "c64", "c128")


class Product:
    """A product whose matrices are in blocks on a grid of processes. Every process makes its own, and calls it, together.

    Attributes:
        spec: The whole product.
        program: What each process does.
        kernel: The kernel of a process's product.
    """

    def __init__(self, spec: MatmulSpec, grid: Grid, schedule: str | Sharding, threads: int) -> None:
        """As `compile`."""
        self.spec, self._grid = spec, grid
        sharding = named(schedule)
        if sharding.sums is not None and spec.c_type.name not in _SUMMED:
            raise SpecError(
                f"{spec}: sums in {spec.c_type.name} over processes",
                where="distributed",
                expected=f"C of {', '.join(_SUMMED)}, where K is split",
                remedy="Take a schedule that does not split K",
            )
        self.program: Program = program(spec, sharding, grid.shape)
        self.kernel: Kernel = compile_one(self.program.local, threads=threads)
        self._blocks = {
            name: _stored(shape, transposed)
            for (name, shape), transposed in zip(
                self.program.blocks.items(), (spec.a_transposed, spec.b_transposed, False), strict=True
            )
        }
        for step in (*self.program.gathers, *self.program.reduces):
            grid.along(step.axes)

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """The shapes of this process's blocks, by "a", "b" and "c", as they are stored."""
        return dict(self._blocks)

    @property
    def bytes_sent(self) -> int:
        """Bytes that each process sends in a call, by the model: what every algorithm sends at least."""
        blocks, total = dict(self.program.blocks), 0
        for step in self.program.gathers:
            count = self._grid.count(step.axes)
            rows, columns = blocks[step.operand]
            bits = (self.spec.a_type if step.operand == "a" else self.spec.b_type).bits
            total += gathered_bytes(rows * columns * bits // 8, count)
            blocks[step.operand] = (rows * count, columns) if step.dimension == 0 else (rows, columns * count)
        local = self.program.local
        for step in self.program.reduces:
            part = local.m * local.n * self.spec.c_type.bits // 8
            total += reduced_bytes(part, self._grid.count(step.axes), scatter=step.scatter is not None)
        return total

    def __call__(self, a: Array, b: Array, out: Array | None = None) -> Array:
        """Computes this process's block of C. All processes of the grid call it together.

        Args:
            a: This process's block of A, contiguous.
            b: That of B.
            out: Where its block of C goes, contiguous; None: a new array.

        Raises:
            OperandError: An operand has another shape or type, or is not contiguous.
        """
        types = {"a": self.spec.a_type, "b": self.spec.b_type, "c": self.spec.c_type}
        if out is None:
            out = np.empty(self._blocks["c"], to_numpy(types["c"]))
        given = {"a": a, "b": b, "c": out}
        for name, each in given.items():
            _require(name, each, self._blocks[name], to_numpy(types[name]))
        turned = {"a": self.spec.a_transposed, "b": self.spec.b_transposed}
        for step in self.program.gathers:
            block = given[step.operand]
            count = self._grid.count(step.axes)
            if count > 1:
                dimension = 1 - step.dimension if turned[step.operand] else step.dimension
                shape = tuple(
                    extent * count if axis == dimension else extent for axis, extent in enumerate(block.shape)
                )
                given[step.operand] = whole = np.empty(shape, block.dtype)
                self._grid.gather(block, step.axes, dimension, whole)
        if not self.program.reduces:
            self.kernel(given["a"], given["b"], out=out)
            return out
        part = self.kernel(given["a"], given["b"])
        for step in self.program.reduces:
            self._grid.reduce(part, step.axes, step.scatter, out)
        return out


def compile(
    spec: MatmulSpec,
    *,
    comm: Comm | None = None,
    grid: tuple[int, ...] | None = None,
    schedule: str | Sharding = "summa",
    threads: int = 1,
) -> Product:
    """Makes a product over the processes of an MPI communicator. All of them call it together, with the same arguments.

    Args:
        spec: The whole product: plain, of static extents.
        comm: An ``mpi4py`` communicator, or the `Grid` that other products are on; None: all processes.
        grid: How many processes each axis of the grid has; None: one axis, or, for "summa", two that are as equal as can be.
        schedule: A name of `SCHEDULES`, or a `Sharding`.
        threads: Most threads of a process.

    Raises:
        SpecError: The product, the grid or the schedule do not fit each other.
        LoweringError: MLIR splits the product in a way for which there are no steps here.
        TilewrightError: mpi4py is not installed; or as `tilewright.compile`.
    """
    if isinstance(comm, Grid):
        if grid not in (None, comm.shape):
            raise SpecError(f"grid {grid} on a Grid of {comm.shape}", where="distributed", expected="one of them")
        return Product(spec, comm, schedule, threads)
    processes: Comm = _mpi().COMM_WORLD if comm is None else comm
    size: int = processes.Get_size()
    if grid is None:
        rows = max(each for each in range(1, size + 1) if size % each == 0 and each * each <= size)
        grid = (rows, size // rows) if schedule == "summa" else (size,)
    return Product(spec, Grid(processes, tuple(grid)), schedule, threads)


def matmul(
    a: Any,  # noqa: ANN401 - an array of numpy or of Dask
    b: Any,  # noqa: ANN401
    *,
    grid: Grid | None = None,
    schedule: str | Sharding = "summa",
    threads: int = 1,
    out: Array | None = None,
) -> Any:  # noqa: ANN401
    """This process's block of A·B, of its blocks of A and B; or the product of two Dask arrays.

    A product over processes is compiled at the first call of its shapes, and kept with the grid. That of Dask arrays is a Dask array,
    which its scheduler computes chunk by chunk; it needs no MPI.

    Args:
        a: This process's block of A, row-major; or a Dask array, M by K.
        b: That of B; or a Dask array, K by N.
        grid: The processes, which all call it together; None for Dask arrays.
        schedule: As for `compile`; Dask's chunks say it themselves.
        threads: As for `compile`.
        out: Where its block of C goes; not of Dask arrays.

    Raises:
        OperandError: An operand is no matrix of a type that kernels multiply, or is not contiguous.
        SpecError: There is no grid for arrays of numpy, or one for those of Dask.
        TilewrightError: As `compile`.
    """
    of_dask = dask_arrays.is_dask(a) or dask_arrays.is_dask(b)
    if of_dask != (grid is None) or (of_dask and out is not None):
        raise SpecError(
            f"matmul of {type(a).__name__} and {type(b).__name__}, {'a' if grid else 'no'} grid",
            where="distributed",
            expected="blocks in numpy arrays with a Grid, or Dask arrays without grid and out",
        )
    if grid is None:
        return dask_arrays.matmul(a, b, threads=threads)
    sharding = named(schedule)
    for name, each in (("a", a), ("b", b)):
        if not isinstance(each, np.ndarray) or each.ndim != 2:
            raise OperandError("it is no two-dimensional array of numpy", where=name, expected="a block of a matrix")
    m, k = (extent * grid.count(axes) for extent, axes in zip(a.shape, sharding.a, strict=True))
    k_of_b, n = (extent * grid.count(axes) for extent, axes in zip(b.shape, sharding.b, strict=True))
    if k != k_of_b:
        raise OperandError(f"blocks {a.shape} and {b.shape} are of K {k} and {k_of_b}", where="b", expected="one K")
    spec = MatmulSpec(m=m, n=n, k=k, a=from_numpy(a.dtype).name, b=from_numpy(b.dtype).name)
    return grid.kept((spec, sharding, threads), lambda: Product(spec, grid, sharding, threads))(a, b, out)


def _stored(shape: tuple[int, int], transposed: bool) -> tuple[int, int]:
    return (shape[1], shape[0]) if transposed else shape


def _require(name: str, given: object, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    """Raises OperandError where a block does not fit: collectives read and write memory, whatever there is."""
    if not isinstance(given, np.ndarray) or given.shape != shape or given.dtype != dtype:
        said = f"{given.dtype} {given.shape}" if isinstance(given, np.ndarray) else type(given).__name__
        raise OperandError(said, where=name, expected=f"a numpy array of {dtype} {shape}, this process's block")
    if not given.flags.c_contiguous or (name == "c" and not given.flags.writeable):
        raise OperandError(
            "it is not contiguous, or cannot be written", where=name, remedy="Copy it: numpy.ascontiguousarray"
        )


def _mpi() -> Any:  # noqa: ANN401 - a module
    try:
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:  # RuntimeError: there is no MPI library
        raise TilewrightError(
            f"mpi4py cannot be imported: {error}",
            where="distributed",
            remedy="Install it, pip install 'tilewright[mpi]', and an MPI library",
        ) from None
