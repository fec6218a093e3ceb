# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Searches on real clusters of Dask and Ray, workers killed every few seconds, and under MPI: `make check-clusters`, some minutes."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import tilewright as tw
from tilewright.bench import environments

HERE = Path(__file__).parent
PACKAGE = str(Path(tw.__file__).parents[1])
pytestmark = pytest.mark.skipif(
    "TILEWRIGHT_CLUSTERS" not in os.environ, reason="clusters take minutes: make check-clusters"
)


@pytest.fixture
def run(tmp_path):
    """Runs a command of the environment that has the packages."""
    python = environments.python(environments.CLUSTER)
    if python is None:
        pytest.skip("there is no environment of clusters (make setup-cluster installs it)")
    as_root = {f"OMPI_ALLOW_RUN_AS_ROOT{each}": "1" for each in ("", "_CONFIRM")}
    own = {"PYTHONPATH": PACKAGE, "TILEWRIGHT_CACHE_DIR": str(tmp_path / "kernels"), "RAY_AUTH_MODE": "disabled"}

    def run(*command):
        words = [str(python) if each == "python" else str(each) for each in command]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=900, env={**os.environ, **own, **as_root}, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    return run


@pytest.mark.parametrize("cluster", ["dask", "ray"])
def test_a_search_ends_though_workers_are_killed(cluster, run, tmp_path):
    said = json.loads(run("python", HERE / "on_cluster.py", cluster, tmp_path / "records.sqlite", 16, 20))
    assert said["killed"] >= 1
    assert len(said["outcomes"]) == 4
    assert {each[0] for each in said["outcomes"].values()} <= {"won", "tied", "lost"}, said


def test_a_search_under_mpi(run, tmp_path):
    if shutil.which("mpiexec") is None:
        pytest.skip("there is no mpiexec (make setup-cluster installs it)")
    tune = ("tune", "--shape", "24x32x48", "--shape", "8x16x24", "--budget", "2", "--executor", "mpi")
    mpiexec = ("mpiexec", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n", "3")
    database = ("--database", tmp_path / "records.sqlite")
    said = run(*mpiexec, "python", "-m", "mpi4py.futures", "-m", "tilewright", *tune, *database)
    assert len(said.splitlines()) == 2
