# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products over many processes: each computes its block of C in one compiled function, which calls MPI and kernels of ours."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tilewright import _runtime, targets
from tilewright.dims import MAX_EXTENT
from tilewright.distributed import dask_arrays, implementation, native
from tilewright.distributed.grid import Comm, Grid
from tilewright.distributed.native import Native
from tilewright.distributed.partition import Program, program
from tilewright.distributed.shardings import Sharding, named
from tilewright.dtypes import from_numpy, to_numpy
from tilewright.errors import OperandError, SpecError, TilewrightError
from tilewright.payload.abi import ENTRY, OUT_OF_MEMORY
from tilewright.payload.samples import aligned
from tilewright.spec import MatmulSpec
from tilewright.tuning.calls import compile as compile_one

Array = np.ndarray[Any, Any]
_SUMMED = ("f32", "f64", "i32", "i64")
_PANEL, _MOST_PANELS = 512, 4
"""A panel of 512 is as large as the blocks that kernels cut K into; the first of four is sent while nothing is computed."""


class Product:
    """A product whose matrices are in blocks on a grid of processes. Every process makes its own, and calls it, together.

    Attributes:
        spec: The whole product.
        program: What each process does.
        native: The function that it is compiled to.
        kernels: The kernels that this calls, by symbol.
    """

    def __init__(
        self, spec: MatmulSpec, grid: Grid, schedule: str | Sharding, threads: int, panels: int | None
    ) -> None:
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
        alone = all(each == 1 for each in grid.shape)
        target = targets.resolve("host")
        self.native: Native = native.build(
            self.program,
            "OpenMPI" if alone else implementation.loaded(),  # alone it calls neither
            target,
            panels=_panels(self.program) if panels is None else min(panels, MAX_EXTENT),
        )
        self.kernels = {symbol: compile_one(each, threads=threads) for symbol, each in self.native.kernels.items()}
        given = {symbol: kernel.c_function.address for symbol, kernel in self.kernels.items()}
        self._code = _runtime.Code(self.native.object, ENTRY, given=given)
        self._blocks = {
            name: _stored(shape, transposed)
            for (name, shape), transposed in zip(
                self.program.blocks.items(), (spec.a_transposed, spec.b_transposed, False), strict=True
            )
        }
        self._grid = grid
        self._handles = [implementation.handle(grid.along(axes)) for axes in self.native.communicators]
        self._memory = _memory(self.native.workspace, grid, spec)
        arguments = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * len(self._handles) + [ctypes.c_void_p] * 2
        self._function = ctypes.CFUNCTYPE(ctypes.c_int32, *arguments)(self._code.address)

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """The shapes of this process's blocks, by "a", "b" and "c", as they are stored."""
        return dict(self._blocks)

    @property
    def bytes_sent(self) -> int:
        """Bytes that each process sends in a call, by the model: what every algorithm sends at least."""
        return self.program.bytes_sent

    def __call__(self, a: Array, b: Array, out: Array | None = None) -> Array:
        """Computes this process's block of C. All processes of the grid call it together.

        Args:
            a: This process's block of A, contiguous.
            b: That of B.
            out: Where its block of C goes, contiguous; None: a new array.

        Raises:
            OperandError: An operand has another shape or type, is not contiguous, or `out` shares memory with another one.
            MemoryError: A kernel of this process had none for its panels; those of the others go on.
            TilewrightError: MPI refused a message; or the grid is closed.
        """
        if self._grid.is_closed:
            raise TilewrightError("its grid is closed", where="distributed", remedy="Make another Grid and product")
        types = {"a": self.spec.a_type, "b": self.spec.b_type, "c": self.spec.c_type}
        if out is None:
            out = np.empty(self._blocks["c"], to_numpy(types["c"]))
        for name, each in (("a", a), ("b", b), ("c", out)):
            _require(name, each, self._blocks[name], to_numpy(types[name]))
        if any(np.may_share_memory(out, each) for each in (a, b)):
            raise OperandError("it shares memory with an operand", where="c", remedy="Give another array")
        status = self._function(a.ctypes.data, b.ctypes.data, *self._handles, out.ctypes.data, self._memory.ctypes.data)
        if status == -OUT_OF_MEMORY:
            raise MemoryError(f"no memory for the panels of {self.spec}")
        if status < 0:
            raise TilewrightError(f"a kernel of {self.spec} ended with status {-status}", where="distributed")
        if status > 0:
            said = implementation.module().Get_error_string(status)
            raise TilewrightError(f"MPI: {said}", where="distributed", remedy="See what the other processes say")
        return out


def compile(
    spec: MatmulSpec,
    *,
    comm: Comm | None = None,
    grid: tuple[int, ...] | None = None,
    schedule: str | Sharding = "summa",
    threads: int = 1,
    panels: int | None = None,
) -> Product:
    """Makes a product over the processes of an MPI communicator. All of them call it together, with the same arguments.

    Args:
        spec: The whole product: plain, of static extents.
        comm: An ``mpi4py`` communicator, or the `Grid` that other products are on; None: all processes.
        grid: How many processes each axis of the grid has; None: one axis, or, where the schedule has two, two that are as equal as can be.
        schedule: A name of `SCHEDULES`, or a `Sharding`.
        threads: Most threads of a process.
        panels: In how many panels a process's block is sent, at most: of A or B, the next one while one is computed; of sums that are cut,
            the one before. None: as many as a model says; one where sums alone are sent.

    Raises:
        SpecError: The product, the grid or the schedule do not fit each other; or `panels` is no int above zero.
        LoweringError: MLIR splits the product in a way for which there are no steps here.
        TilewrightError: mpi4py is not installed; or as `tilewright.compile`.
        MemoryError: A process has no memory for the panels that are sent; all of them raise it. Calls allocate none for these.
    """
    if panels is not None and (isinstance(panels, bool) or not isinstance(panels, int) or panels < 1):
        raise SpecError(f"panels={panels!r}", where="distributed", expected="an int above zero, or None")
    if isinstance(comm, Grid):
        if grid not in (None, comm.shape):
            raise SpecError(f"grid {grid} on a Grid of {comm.shape}", where="distributed", expected="one of them")
        return Product(spec, comm, schedule, threads, panels)
    processes: Comm = implementation.module().COMM_WORLD if comm is None else comm
    size: int = processes.Get_size()
    if grid is None:
        rows = max(each for each in range(1, size + 1) if size % each == 0 and each * each <= size)
        grid = (rows, size // rows) if named(schedule).axes > 1 else (size,)
    return Product(spec, Grid(processes, grid), schedule, threads, panels)


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
    if sharding.axes > len(grid.shape):
        raise SpecError(
            f"schedule {schedule!r} on a grid of {grid.shape}", where="distributed", expected=f"{sharding.axes} axes"
        )
    for name, each in (("a", a), ("b", b)):
        if not isinstance(each, np.ndarray) or each.ndim != 2:
            raise OperandError("it is no two-dimensional array of numpy", where=name, expected="a block of a matrix")
    m, k = (extent * grid.count(axes) for extent, axes in zip(a.shape, sharding.a, strict=True))
    k_of_b, n = (extent * grid.count(axes) for extent, axes in zip(b.shape, sharding.b, strict=True))
    if k != k_of_b:
        raise OperandError(f"blocks {a.shape} and {b.shape} are of K {k} and {k_of_b}", where="b", expected="one K")
    spec = MatmulSpec(m=m, n=n, k=k, a=from_numpy(a.dtype).name, b=from_numpy(b.dtype).name)
    return grid.kept((spec, sharding, threads), lambda: Product(spec, grid, sharding, threads, None))(a, b, out)


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


def _memory(size: int, grid: Grid, spec: MatmulSpec) -> Array:
    """Memory for a product's panels. Raises MemoryError in every process where one has none: nobody waits for it then."""
    try:
        made = aligned((size,), np.dtype(np.uint8))
    except MemoryError:
        made = None
    if not grid.all_agree(made is not None) or made is None:
        raise MemoryError(f"a process has no memory for the panels of {spec}: {size} bytes")
    return made


def _panels(made: Program) -> int:
    """In how many panels a block is sent: each so large that kernels are fast, few for the ends of the pipeline to be short."""
    extents = [made.blocks[each.operand][each.dimension] for each in made.gathers if made.count(each) > 1]
    if (
        not extents
    ):  # Sums alone are cheaper to send at once, unless the network moves them by itself, which nobody says.
        return 1
    return max(1, min([_MOST_PANELS, *(extent // _PANEL for extent in extents)]))
