# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Installs Dask, Ray, mpi4py, Open MPI and MPICH, for tests of searches on many workers and of products over many processes.

`make setup-cluster` calls it.
"""

from __future__ import annotations

import sys

import packages
from common import SetupError, say
from tilewright.bench import environments
from tilewright.errors import TilewrightError

MPI = [
    packages.Need(
        "Open MPI", lambda: packages.has_program("mpicc.openmpi"), ("openmpi-bin", "libopenmpi-dev"), required=False
    ),
    packages.Need("MPICH", lambda: packages.has_program("mpicc.mpich"), ("mpich", "libmpich-dev"), required=False),
]
"""Both, with the headers of a program that counts messages. Debian lets them stand side by side: mpiexec is Open MPI's."""


def main() -> int:
    """Makes the environment where it is missing; 0 also where it cannot, after a line that says why."""
    try:
        packages.provide(MPI)
        if environments.python(environments.CLUSTER) is None:
            say("making an environment with Dask, Ray and mpi4py, 100 MB to download")
        problem = environments.setup(environments.CLUSTER).problem
    except (SetupError, TilewrightError) as error:
        problem = str(error)
    if problem is not None:
        say(f"no environment of clusters: {problem}; its tests are skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
