# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products whose matrices are in blocks on a grid of MPI processes.

MLIR's shard dialect splits the payload: annotations say who has which blocks, propagation decides the rest, and the partition is the
program of one process, in which kernels of ours multiply and MPI moves blocks.
"""

from tilewright.distributed.grid import Grid as Grid
from tilewright.distributed.product import Product as Product
from tilewright.distributed.product import compile as compile
from tilewright.distributed.product import matmul as matmul
from tilewright.distributed.shardings import SCHEDULES as SCHEDULES
from tilewright.distributed.shardings import Sharding as Sharding
from tilewright.distributed.simulation import NETWORKS as NETWORKS
from tilewright.distributed.simulation import Network as Network
from tilewright.distributed.simulation import simulate as simulate
