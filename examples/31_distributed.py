# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A transformer's feed-forward network with its weights split over processes: relu(X·U)·D.

Each process has columns of U and the same rows of D, and all have X. The first product needs no other process; the second splits K, so
that its sums are added over the processes, once. Run it under MPI, with a Python that has mpi4py (`make setup-cluster` makes one):

    mpiexec -n 2 python examples/31_distributed.py
"""

import numpy as np
import tilewright as tw
from mpi4py import MPI  # pyright: ignore[reportMissingImports] - not in the project's own environment
from tilewright import distributed

TOKENS, WIDTH, HIDDEN = 32, 128, 512

comm = MPI.COMM_WORLD
grid = distributed.Grid(comm, (comm.Get_size(),))
up = distributed.compile(tw.MatmulSpec(m=TOKENS, n=HIDDEN, k=WIDTH), comm=grid, schedule="weights")
down = distributed.compile(tw.MatmulSpec(m=TOKENS, n=WIDTH, k=HIDDEN), comm=grid, schedule="k_all")

rng = np.random.default_rng(0)  # the same weights everywhere; a program would load its own blocks alone
x, u, d = (
    rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((TOKENS, WIDTH), (WIDTH, HIDDEN), (HIDDEN, WIDTH))
)
mine = slice(comm.Get_rank() * HIDDEN // comm.Get_size(), (comm.Get_rank() + 1) * HIDDEN // comm.Get_size())
own_u, own_d = np.ascontiguousarray(u[:, mine]), np.ascontiguousarray(d[mine])

hidden = np.maximum(up(x, own_u), 0)
y = down(hidden, own_d)

expected = np.maximum(x.astype(np.float64) @ u, 0) @ d
if comm.Get_rank() == 0:
    print(f"each process has {own_u.nbytes + own_d.nbytes} of {u.nbytes + d.nbytes} bytes of weights")
    print(f"and sends {up.bytes_sent + down.bytes_sent} bytes")
    print("right:", bool(np.allclose(y, expected, rtol=1e-4, atol=1e-3)))
