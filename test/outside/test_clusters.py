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
from tilewright.tuning.race import Race

HERE = Path(__file__).parent
ALIKE = 1.05
"""How much faster one of two choices may be that searches on a busy machine chose among."""
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
            words, capture_output=True, text=True, timeout=2400, env={**os.environ, **own, **as_root}, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    return run


@pytest.fixture(scope="module")
def winners():
    """What each cluster's search chose, by product."""
    return {}


@pytest.mark.parametrize("cluster", ["dask", "ray"])
def test_a_search_ends_though_workers_are_killed(cluster, run, tmp_path, winners):
    # Ray writes of workers that died to the same stream.
    *_, last = run("python", HERE / "on_cluster.py", cluster, tmp_path / "records.sqlite", 16, 20).splitlines()
    said = json.loads(last)
    assert said["killed"] >= 1
    assert len(said["outcomes"]) == 4
    assert {each[0] for each in said["outcomes"].values()} <= {"won", "tied", "lost"}, said
    winners[cluster] = {
        shape: tuple(each[2:4]) if each[0] == "won" else (None, None) for shape, each in said["outcomes"].items()
    }


def test_both_searches_end_with_the_same_winners_or_ties(winners):
    """What differs is timed in turn: one of the two choices is hardly faster than the other."""
    if len(winners) < 2:
        pytest.skip("both searches have to be run")
    for shape, (strategy, sizes) in winners["dask"].items():
        other = winners["ray"][shape]
        if (strategy, sizes) == other:
            continue
        m, n, k = map(int, shape.split()[0].split("x"))
        first, second = (
            tw.compile(tw.MatmulSpec(m, n, k), schedule=name, parameters=each)
            for name, each in ((strategy, sizes), other)
        )
        times = Race(first).time(second, final=True)
        assert times.verdict == "tied" or 1 / ALIKE < times.gain < ALIKE, (shape, times.gain, winners)


def test_a_search_under_mpi(run, tmp_path):
    if shutil.which("mpiexec") is None:
        pytest.skip("there is no mpiexec (make setup-cluster installs it)")
    tune = ("tune", "--shape", "24x32x48", "--shape", "8x16x24", "--budget", "2", "--executor", "mpi")
    mpiexec = ("mpiexec", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n", "3")
    database = ("--database", tmp_path / "records.sqlite")
    said = run(*mpiexec, "python", "-m", "mpi4py.futures", "-m", "tilewright", *tune, *database)
    assert len(said.splitlines()) == 2
