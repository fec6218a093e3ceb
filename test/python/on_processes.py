# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products over the processes of mpiexec, compared with one process; every process runs it. The first one prints a line of JSON a case."""

from __future__ import annotations

import json
import sys

import numpy as np
import tilewright as tw
from mpi4py import MPI  # pyright: ignore[reportMissingImports] - of the environment that runs this
from tilewright import distributed
from tilewright.distributed import product

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()
GRIDS = [(1, SIZE), (SIZE, 1)] + [(2, SIZE // 2)] * (SIZE % 2 == 0 and SIZE > 2)
TYPES = ["f32", "f64", "bf16,bf16,f32", "u8,i8,i32", "bf16,bf16,bf16"]
LAYOUTS = ["nt", "tn", "tt"]


def operands(spec):
    """All of A and B, the same in every process."""
    rng = np.random.default_rng(7)
    made = []
    for shape, kind in ((spec.a_shape, spec.a_type), (spec.b_shape, spec.b_type)):
        dtype = tw.dtypes.to_numpy(kind)
        values = rng.uniform(-1, 1, shape) if kind.kind == "float" else rng.integers(0, 100, shape)
        made.append(values.astype(dtype))
    return made


def block(whole, split, turned, grid):
    """This process's block of a matrix."""
    place = np.unravel_index(RANK, grid)
    split = split[::-1] if turned else split
    for dimension, axes in enumerate(split):
        for axis in axes:
            size = whole.shape[dimension] // grid[axis]
            whole = np.take(whole, range(place[axis] * size, (place[axis] + 1) * size), axis=dimension)
    return np.ascontiguousarray(whole)


def case(spec, schedule, grid, panels=None):
    """Whether every process has its block of the result of one process, bit for bit, and within the error bound."""
    sharding = distributed.SCHEDULES[schedule]
    made = distributed.compile(spec, comm=COMM, grid=grid, schedule=schedule, panels=panels)
    a, b = operands(spec)
    mine = made(block(a, sharding.a, spec.a_transposed, grid), block(b, sharding.b, spec.b_transposed, grid))
    whole = tw.compile(spec)(a, b)
    expected = block(whole, sharding.c, False, grid)
    error = np.abs(mine.astype("f8") - block(tw.reference(spec, a, b), sharding.c, False, grid).astype("f8"))
    bound = block(np.broadcast_to(tw.error_bound(spec, a, b), whole.shape), sharding.c, False, grid)
    found = COMM.gather((mine.tobytes() == expected.tobytes(), bool((error <= bound).all()), made.bytes_sent))
    if RANK == 0:
        same, right, sent = zip(*found, strict=True)
        name = f"{spec} {schedule} {'x'.join(map(str, grid))}"
        print(json.dumps({"case": name, "same": all(same), "right": all(right), "sent": sum(sent)}), flush=True)  # noqa: T201


def main() -> None:
    """All cases."""
    for grid in GRIDS:
        # Two processes are run by every check: one type and one layout are enough for their second grid.
        for types in TYPES if SIZE > 2 or grid[0] == 1 else TYPES[:1]:
            case(tw.MatmulSpec.from_dtypes(8 * SIZE, 12 * SIZE, 20 * SIZE, types, deterministic=True), "summa", grid)
        for layout in LAYOUTS if SIZE > 2 or grid[0] == 1 else LAYOUTS[-1:]:
            case(tw.MatmulSpec(8 * SIZE, 12 * SIZE, 20 * SIZE, layout=layout, deterministic=True), "summa", grid)
    for schedule in ("stationary_a", "stationary_b"):
        spec = tw.MatmulSpec.from_dtypes(8 * SIZE, 12 * SIZE, 20 * SIZE, "u8,i8,i32", layout="nt")
        case(spec, schedule, GRIDS[-1], panels=2)
    for schedule in ("rows", "columns", "weights", "k", "k_all"):
        for types in ("f32", "u8,i8,i32"):
            spec = tw.MatmulSpec.from_dtypes(8 * SIZE, 12 * SIZE, 20 * SIZE, types, deterministic=True)
            case(spec, schedule, (SIZE,), panels=2)
    in_panels()
    many_calls()


def in_panels() -> None:
    """Sums that are sent panel by panel are the bits of those that are sent at once."""
    spec = tw.MatmulSpec(8 * SIZE, 12 * SIZE, 20 * SIZE, deterministic=True)
    for schedule, grid in (("k", (SIZE,)), ("stationary_a", GRIDS[-1]), ("stationary_b", GRIDS[-1])):
        sharding = distributed.SCHEDULES[schedule]
        a, b = operands(spec)
        given = block(a, sharding.a, False, grid), block(b, sharding.b, False, grid)
        made = [
            distributed.compile(spec, comm=COMM, grid=grid, schedule=schedule, panels=panels)(*given).tobytes()
            for panels in (1, 2, 3)
        ]
        same = COMM.gather(len(set(made)) == 1)
        if RANK == 0:
            print(json.dumps({"case": f"{schedule} in panels", "same": all(same), "right": True, "sent": 0}))  # noqa: T201


def without_memory() -> None:
    """The last process has no memory for panels: all of them say so, and none waits."""

    def none(*_):
        raise MemoryError

    if RANK == SIZE - 1:
        product.aligned = none
    said = ""
    try:
        distributed.compile(tw.MatmulSpec(16, 24, 32), comm=COMM, grid=(SIZE, 1))
    except MemoryError as error:
        said = str(error).partition(" for")[0]
    every = COMM.gather(said)
    if RANK == 0:
        print(json.dumps(every))  # noqa: T201


def many_calls() -> None:
    """Communicators are made once: MPI has some ten thousands at most, and calls of `matmul` take none."""
    grid = distributed.Grid(COMM, (SIZE, 1))
    a, b = np.ones((4, 4), np.float32), np.ones((4 // SIZE, 8), np.float32)
    c = np.zeros((4, 8), np.float32)
    for _ in range(1000):
        distributed.matmul(a, b, grid=grid, out=c)
    made = len(grid._along)
    grid.close()
    if RANK == 0:
        print(json.dumps({"case": "1000 calls", "same": made == 1, "right": bool((c == 4).all()), "sent": 0}))  # noqa: T201


def count(calls: int, cases: list[str]) -> None:
    """Calls products some times each, and prints the bytes that each process sends in a call of all of them, by the model."""
    total = 0
    for case_ in cases:
        schedule, shape = case_.split(":")
        grid = distributed.Grid(COMM, tuple(map(int, shape.split("x"))))
        made = distributed.compile(tw.MatmulSpec(16, 24, 32), comm=grid, schedule=schedule, panels=2)
        a, b = (np.ones(made.shapes[name], np.float32) for name in "ab")
        c = np.empty(made.shapes["c"], np.float32)
        for _ in range(calls):
            made(a, b, out=c)
        total += made.bytes_sent
        grid.close()
    if RANK == 0:
        print(total)  # noqa: T201


if sys.argv[1:2] == ["count"]:
    count(int(sys.argv[2]), sys.argv[3:])
elif sys.argv[1:] == ["memory"]:
    without_memory()
else:
    main()
