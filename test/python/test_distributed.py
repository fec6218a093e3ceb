# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products over processes: what MLIR's partition leaves for each process, and, where MPI is installed, results on two processes."""

import json
import math
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright import distributed
from tilewright.bench import environments
from tilewright.distributed.partition import Gather, Reduce, program
from tilewright.distributed.shardings import SCHEDULES, Sharding

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SPEC = tw.MatmulSpec(m=64, n=48, k=32)


@pytest.mark.parametrize(
    ("schedule", "grid", "local", "steps"),
    [
        ("summa", (2, 2), (32, 24, 32), [Gather("b", (0,), 0), Gather("a", (1,), 1)]),
        ("summa", (4, 1), (16, 48, 32), [Gather("b", (0,), 0), Gather("a", (1,), 1)]),
        ("rows", (4,), (16, 48, 32), [Gather("b", (0,), 0)]),
        ("columns", (4,), (64, 12, 32), [Gather("a", (0,), 1)]),
        ("weights", (4,), (64, 12, 32), []),
        ("k", (4,), (64, 48, 8), [Reduce((0,), 0)]),
        ("k_all", (4,), (64, 48, 8), [Reduce((0,), None)]),
    ],
)
@pytest.mark.parametrize("spec", [SPEC, replace(SPEC, layout="tt"), tw.MatmulSpec.from_dtypes(64, 48, 32, "u8,i8,i32")])
def test_what_a_process_does(schedule, grid, local, steps, spec):
    found = program(spec, SCHEDULES[schedule], grid)
    assert found.local == replace(spec, m=local[0], n=local[1], k=local[2])
    assert [*found.gathers, *found.reduces] == steps
    assert "shard.sharding" in found.sharded
    assert found.partitioned.count("shard.all_gather") == len(found.gathers)


def test_sharding_along_both_axes_of_a_grid():
    """Eight blocks of rows of A on a grid of 2 by 4; who has which B, propagation finds."""
    own = Sharding(((0, 1), ()), ((), ()), ((0, 1), ()))
    found = program(SPEC, own, (2, 4))
    assert (found.local.m, found.gathers, found.reduces) == (8, (), ())


@pytest.mark.parametrize(
    ("spec", "sharding", "grid", "said"),
    [
        (replace(SPEC, beta=1), SCHEDULES["summa"], (2, 2), "expected one product of static extents"),
        (replace(SPEC, epilogue=(tw.relu(),)), SCHEDULES["summa"], (2, 2), "expected one product"),
        (tw.MatmulSpec(m=None, n=8, k=8), SCHEDULES["rows"], (2,), "expected one product"),
        (tw.MatmulSpec(8, 8, 8, b="i4"), SCHEDULES["rows"], (2,), "multiplied as they are"),
        (SPEC, SCHEDULES["summa"], (3, 2), "an extent of 64 of A over 3 processes; expected blocks of one size"),
        (SPEC, SCHEDULES["summa"], (4,), "axes of the grid, 0 to 0"),
        (SPEC, Sharding(((0,), (0,)), ((), ()), ((), ())), (2,), "A is split twice by one axis"),
    ],
)
def test_what_cannot_be_split_is_refused(spec, sharding, grid, said):
    with pytest.raises(tw.SpecError, match=said):
        program(spec, sharding, grid)


def test_a_partition_without_steps_is_refused():
    with pytest.raises(tw.LoweringError, match=r"no step for shard\.all_to_all"):
        program(SPEC, Sharding(((), (0,)), ((0,), ()), ((0,), ())), (4,))


class Alone:
    """A communicator of one process, or what says that it has more."""

    def __init__(self, size=1):
        self.size = size

    def Get_size(self):  # noqa: N802 - mpi4py's name
        return self.size

    def Get_rank(self):  # noqa: N802
        return 0

    def Split(self, _color, _key):  # noqa: N802
        return self


def test_grids_have_the_processes_of_their_communicator():
    for shape in ((2, 2), (0,), ()):
        with pytest.raises(tw.SpecError, match="grid"):
            distributed.Grid(Alone(), shape)
    assert distributed.Grid(Alone(6), (2, 3)).count((1,)) == 3
    with pytest.raises(tw.SpecError, match="expected a Sharding, or summa, rows"):
        distributed.compile(SPEC, comm=Alone(), schedule="cannon")
    with pytest.raises(tw.SpecError, match="expected C of f32"):
        distributed.compile(tw.MatmulSpec.from_dtypes(8, 8, 8, "bf16,bf16,bf16"), comm=Alone(4), schedule="k")


def test_one_process_needs_no_other():
    product = distributed.compile(SPEC, comm=Alone(), schedule="summa")
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, product.shapes[name]).astype(np.float32) for name in "ab")
    assert (product(a, b) == tw.compile(SPEC)(a, b)).all()
    assert product.bytes_sent == 0
    assert (distributed.matmul(a, b, grid=distributed.Grid(Alone(), (1, 1))) == product(a, b)).all()
    for wrong in (a.T, a[:, :8], a.astype(np.float64), a.tolist()):
        with pytest.raises(tw.OperandError):
            product(wrong, b)
    with pytest.raises(tw.OperandError, match="cannot be written"):
        product(a, b, out=np.broadcast_to(np.float32(0), (64, 48)))
    with pytest.raises(tw.OperandError, match="expected one K"):
        distributed.matmul(a, b[:8], grid=distributed.Grid(Alone(), (1, 1)))


@pytest.mark.parametrize("grid", [(1, 4), (2, 2), (4, 1), (4, 4)])
def test_bytes_follow_the_grid(grid):
    """SUMMA sends a process's block of A to the others in its row, and that of B to those in its column."""
    product = distributed.compile(SPEC, comm=Alone(math.prod(grid)), grid=grid)
    a, b = (4 * math.prod(product.shapes[name]) for name in "ab")
    assert product.bytes_sent == a * (grid[1] - 1) + b * (grid[0] - 1)


@pytest.fixture
def mpiexec(tmp_path):
    """Runs a program on some processes; what it printed, by lines."""
    python = environments.python(environments.CLUSTER)
    if python is None or shutil.which("mpiexec") is None:
        pytest.skip("there is no MPI with mpi4py (make setup-cluster installs it)")
    as_root = {f"OMPI_ALLOW_RUN_AS_ROOT{each}": "1" for each in ("", "_CONFIRM")}
    own = {"PYTHONPATH": str(ROOT / "python"), "TILEWRIGHT_CACHE_DIR": str(tmp_path / "kernels")}

    def run(count, program, *options, arguments=()):
        words = ("mpiexec", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", *options, "-n", str(count))
        command = [*words, str(python), "-W", "ignore", str(program), *arguments]
        environment = {**os.environ, **as_root, **own}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, check=False, env=environment, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout.splitlines()

    return run


def check(lines):
    """Every case is right, and has the bits of one process where K is not split or sums are exact."""
    cases = [json.loads(line) for line in lines]
    assert len(cases) > 20
    assert [each["case"] for each in cases if not each["right"]] == []
    assert {each["case"].split()[-2] for each in cases if not each["same"]} <= {"k", "k_all"}
    assert not any("i32" in each["case"] for each in cases if not each["same"])


def test_two_processes_have_the_bits_of_one(mpiexec):
    check(mpiexec(2, HERE / "on_processes.py"))


def test_the_example(mpiexec):
    printed = mpiexec(2, ROOT / "examples" / "31_distributed.py")
    assert printed[-1] == "right: True"


def test_dask_arrays(tmp_path, monkeypatch):
    python = environments.python(environments.CLUSTER)
    if python is None:
        pytest.skip("there is no environment with Dask (make setup-cluster installs it)")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "kernels"))
    done = subprocess.run([python, HERE / "on_dask.py"], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["right"], done.stderr


def test_blocks_of_numpy_need_a_grid():
    with pytest.raises(tw.SpecError, match="expected blocks in numpy arrays with a Grid, or Dask arrays"):
        distributed.matmul(np.ones((4, 4)), np.ones((4, 4)))


# The simulation.

NOTHING = distributed.Network(0.0, 0.0, 0.0, 0.0, "no network")


@pytest.mark.parametrize(
    ("schedule", "grid"),
    [
        ("summa", (2, 8)),
        ("summa", (16, 1)),
        ("rows", (8,)),
        ("columns", (8,)),
        ("weights", (4,)),
        ("k", (8,)),
        ("k_all", (8,)),
    ],
)
def test_simulated_bytes_are_those_of_the_model(schedule, grid):
    """Where links alone take time, a second a byte, each node is busy for the bytes that it sends."""
    count = math.prod(grid)
    product = distributed.compile(SPEC, comm=Alone(count), grid=grid, schedule=schedule)
    times = distributed.simulate(SPEC, grid, replace(NOTHING, per_byte=1.0), flops=1e30, schedule=schedule)
    (latency_alone,) = {
        round(distributed.simulate(SPEC, grid, replace(NOTHING, latency=1.0), flops=1e30, schedule=schedule).seconds)
    }
    # LogGP's first byte of each message is free.
    assert times.seconds == pytest.approx(product.bytes_sent - latency_alone)


def test_simulated_times():
    network = distributed.Network(latency=3.0, overhead=0.5, gap=0.0, per_byte=0.25, source="made up")
    times = distributed.simulate(SPEC, (2, 2), network, flops=64.0)
    block_of_a, block_of_b = 32 * 16 * 4, 16 * 24 * 4
    computing = 2 * 32 * 24 * 32 / 64
    assert times.computing == computing
    assert times.seconds == pytest.approx(
        computing + sum(0.5 + (block - 1) * 0.25 + 3.0 + 0.5 for block in (block_of_a, block_of_b))
    )
    assert times.efficiency == pytest.approx(computing / times.seconds)
    assert distributed.simulate(SPEC, (2, 2), NOTHING, flops=64.0).efficiency == pytest.approx(1.0)
    with pytest.raises(tw.SpecError, match="expected a number above zero"):
        distributed.simulate(SPEC, (2, 2), network, flops=0)


needs_minutes = pytest.mark.skipif(
    "TILEWRIGHT_CLUSTERS" not in os.environ, reason="four processes: make check-clusters"
)


@needs_minutes
def test_four_processes_have_the_bits_of_one(mpiexec):
    check(mpiexec(4, HERE / "on_processes.py"))


@needs_minutes
@pytest.mark.parametrize(
    ("schedule", "grid"), [("summa", "2x2"), ("summa", "1x4"), ("summa", "4x1"), ("rows", "4"), ("k", "4")]
)
def test_open_mpi_counts_the_bytes_of_the_model(schedule, grid, mpiexec, tmp_path):
    """Its monitoring counts what every process sends; of three calls more than of one, twice the model."""
    counting = [("pml_monitoring_enable", "2"), ("pml_monitoring_enable_output", "3")]
    options = [word for name, value in counting for word in ("--mca", name, value)]

    def sent(calls):
        name = f"calls{calls}"
        (model,) = mpiexec(
            4,
            HERE / "on_processes.py",
            *options,
            *("--mca", "pml_monitoring_filename", name),
            arguments=("count", schedule, grid, str(calls)),
        )
        files = sorted(tmp_path.glob(f"{name}.*.prof"))
        assert len(files) == 4
        lines = [line.split() for file in files for line in file.read_text().splitlines()]
        return int(model), sum(int(words[3]) for words in lines if words and words[0] in ("I", "E"))

    (model, few), (_, many) = sent(1), sent(3)
    assert many - few == 2 * model > 0
