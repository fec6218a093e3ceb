# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Installs Dask, Ray, mpi4py, Open MPI and MPICH, for tests of searches on many workers and of products over many processes.

ScaLAPACK, which these are measured beside, gets an OpenBLAS of one thread, unpacked and not installed: the system's BLAS stays what it is.

`make setup-cluster` calls it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import packages
from common import SetupError, run, say
from tilewright.bench import environments
from tilewright.errors import TilewrightError

MPI = [
    packages.Need(
        "Open MPI", lambda: packages.has_program("mpicc.openmpi"), ("openmpi-bin", "libopenmpi-dev"), required=False
    ),
    packages.Need("MPICH", lambda: packages.has_program("mpicc.mpich"), ("mpich", "libmpich-dev"), required=False),
]
"""Both, with the headers of a program that counts messages. Debian lets them stand side by side: mpiexec is Open MPI's."""

SCALAPACK = packages.Need(
    "ScaLAPACK",
    lambda: all(any(Path("/usr/lib").glob(f"*/libscalapack-{each}.so.2.2")) for each in ("openmpi", "mpich")),
    ("libscalapack-openmpi2.2", "libscalapack-mpich2.2"),
    required=False,
)


def fetch_openblas(peers: Path) -> None:
    """Puts Debian's OpenBLAS of one thread below the folder of the peers, unless it is there.

    Raises:
        SetupError: apt has no such package.
    """
    into = peers / "openblas" / "lib"
    if (into / "libopenblas.so.0").exists() or not packages.has_program("apt-get"):
        return
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=into.parent) as scratch:
        run(["apt-get", "-q", "download", "libopenblas0-serial"], what="downloading OpenBLAS", cwd=Path(scratch))
        for archive in Path(scratch).glob("*.deb"):
            run(["dpkg-deb", "-x", archive, scratch], what=f"unpacking {archive.name}")
        found = sorted(Path(scratch).glob("usr/lib/*/openblas-serial/libopenblas.so.0"))
        if not found:
            raise SetupError("libopenblas0-serial has no libopenblas.so.0")
        (made := Path(scratch) / "lib").mkdir()
        shutil.copyfile(found[0], made / "libopenblas.so.0")
        os.replace(made, into)


def name_mpich(peers: Path) -> None:
    """Gives Debian's library of MPICH the name that mpi4py looks for, in a folder below that of the peers."""
    for library in sorted(Path("/usr/lib").glob("*/libmpich.so.12"))[:1]:
        (peers / "mpich").mkdir(parents=True, exist_ok=True)
        if not (name := peers / "mpich" / "libmpi.so.12").exists():
            name.unlink(missing_ok=True)
            name.symlink_to(library)


def main() -> int:
    """Makes the environment where it is missing; 0 also where it cannot, after a line that says why."""
    try:
        packages.provide([*MPI, SCALAPACK])
        if environments.python(environments.CLUSTER) is None:
            say("making an environment with Dask, Ray and mpi4py, 100 MB to download")
        problem = environments.setup(environments.CLUSTER).problem
        if (peers := environments.folder()) is not None:
            fetch_openblas(peers)
            name_mpich(peers)
    except (SetupError, TilewrightError) as error:
        problem = str(error)
    if problem is not None:
        say(f"no environment of clusters: {problem}; its tests are skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
