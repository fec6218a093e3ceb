# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Starts measurements of products over processes, under mpiexec, in the environment that has mpi4py."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tilewright import knobs
from tilewright.bench import environments
from tilewright.distributed.partition import program
from tilewright.distributed.shardings import named
from tilewright.errors import TilewrightError
from tilewright.processes.command import command
from tilewright.spec import MatmulSpec

_LAUNCHERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "openmpi": ("mpiexec.openmpi", "--oversubscribe", "--bind-to", "none"),
        "mpich": ("mpiexec.mpich", "-bind-to", "none"),
    }
)
IMPLEMENTATIONS = tuple(_LAUNCHERS)
"""Of MPI, by name."""
_OPENBLAS = Path("openblas") / "lib" / "libopenblas.so.0"
"""Debian's OpenBLAS of one thread, which `make setup-cluster` puts below the folder of the peers."""
_MPICH = "libmpi.so.12"
"""What mpi4py calls the library of MPICH, which has another name on Debian."""


@dataclass(frozen=True, slots=True)
class Result:
    """A contender.

    Attributes:
        name: What it is.
        seconds: Of a call, the median.
        gflops: 10⁹ operations a second.
        samples: Seconds of each round.
        right: Whether its numbers are right.
        ratio: The rate of our product over processes to its own.
    """

    name: str
    seconds: float
    gflops: float
    samples: tuple[float, ...]
    right: bool
    ratio: float

    def as_json(self) -> dict[str, Any]:
        """As `--json` writes it."""
        return asdict(self)

    def __str__(self) -> str:
        """One line."""
        wrong = "" if self.right else "  WRONG"
        return (
            f"{self.name:28} {self.seconds * 1e3:10.2f} ms {self.gflops:9.1f} GFLOP/s  ours/it {self.ratio:.2f}{wrong}"
        )


def run(
    shape: tuple[int, int, int],
    dtype: str,
    *,
    grid: tuple[int, ...],
    schedule: str,
    panels: int | None,
    threads: int,
    blocks: Sequence[int],
    rounds: int,
    mpi: str,
) -> list[Result]:
    """Measures one product.

    Args:
        shape: M, N and K.
        dtype: As `MatmulSpec.from_dtypes` takes it; with `blocks`, f32 or f64.
        grid: How many processes each axis has.
        schedule: A name of `shardings.SCHEDULES`.
        panels: As `product.compile` takes it.
        threads: Of our product in one process; 0: it is not measured.
        blocks: The blocks of ScaLAPACK's products.
        rounds: Samples of each contender.
        mpi: One of `IMPLEMENTATIONS`.

    Returns:
        Ours first.

    Raises:
        TilewrightError: Something is not installed, or a process failed.
    """
    # What does not fit is said once, and not by each process.
    program(MatmulSpec.from_dtypes(*shape, dtype), named(schedule), grid)
    python = environments.python(environments.CLUSTER)
    launcher = _LAUNCHERS[mpi]
    if python is None or shutil.which(launcher[0]) is None:
        raise TilewrightError(
            f"there is no {launcher[0]}, or no mpi4py", where="bench distributed", remedy="make setup-cluster"
        )
    count = math.prod(grid)
    wanted = {
        "shape": shape,
        "dtype": dtype,
        "grid": grid,
        "schedule": schedule,
        "panels": panels,
        "threads": threads,
        "blocks": list(blocks),
        "rounds": rounds,
    }
    fast = blas()
    # Of the processes alone: mpiexec does not need it.
    preloaded = [] if fast is None else ["env", f"LD_PRELOAD={fast}"]
    words = [
        *launcher,
        "-n",
        str(count),
        *preloaded,
        *command("tilewright.distributed.measured", json.dumps(wanted), python=python),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **_variables(mpi)})
    if done.returncode:
        raise TilewrightError(done.stderr.strip()[-2000:] or f"status {done.returncode}", where="bench distributed")
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    ours = found[0]["seconds"]
    return [Result(**{**each, "samples": tuple(each["samples"])}, ratio=each["seconds"] / ours) for each in found]


def blas() -> Path | None:
    """The BLAS under ScaLAPACK; None: the system's, which on Debian may be netlib's."""
    peers = knobs.load().peers_dir
    return peers / _OPENBLAS if peers is not None and (peers / _OPENBLAS).exists() else None


def _variables(mpi: str) -> dict[str, str]:
    """What processes need beside this one's environment."""
    found = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OPENBLAS_NUM_THREADS": "1"}
    if "avx512f" in Path("/proc/cpuinfo").read_text():
        found["OPENBLAS_CORETYPE"] = (
            "SkylakeX"  # Debian's release decides by a processor's name, and knows none of the last years
        )
    if mpi == "mpich":
        folder = (knobs.load().peers_dir or Path()) / "mpich"
        found |= {"MPI4PY_MPIABI": "mpich", "LD_LIBRARY_PATH": str(folder)}
        if not (folder / _MPICH).exists():
            raise TilewrightError(
                f"there is no {folder / _MPICH}", where="bench distributed", remedy="make setup-cluster"
            )
    return found
