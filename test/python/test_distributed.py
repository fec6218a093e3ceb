# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products over processes: what MLIR's partition leaves for each process, and, where MPI is installed, results on two processes."""

import ctypes
import itertools
import json
import math
import os
import shutil
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright import distributed
from tilewright._runtime import Code
from tilewright.bench import environments
from tilewright.cli import main
from tilewright.distributed import measuring, native
from tilewright.distributed.partition import Gather, Reduce, program
from tilewright.distributed.shardings import SCHEDULES, Sharding
from tilewright.payload.abi import ENTRY
from tilewright.payload.samples import aligned
from tilewright.targets import resolve

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
        ("stationary_a", (2, 2), (32, 48, 16), [Gather("b", (0,), 1), Reduce((1,), 1)]),
        ("stationary_b", (2, 2), (64, 24, 16), [Gather("a", (1,), 0), Reduce((0,), 0)]),
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
        (tw.MatmulSpec(8, 8, 8, a="c64"), SCHEDULES["rows"], (2,), "expected real types"),
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
    with pytest.raises(tw.SpecError, match="expected an int above zero"):
        distributed.compile(SPEC, comm=Alone(), panels=0)
    with pytest.raises(tw.SpecError, match="expected a Sharding, or summa, stationary_a"):
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
    whole = np.ones((8, 8), np.float32)
    square = distributed.compile(tw.MatmulSpec(8, 8, 8), comm=Alone())
    with pytest.raises(tw.OperandError, match="shares memory"):
        square(np.eye(8, dtype=np.float32), whole, out=whole)
    with pytest.raises(tw.OperandError, match="expected one K"):
        distributed.matmul(a, b[:8], grid=distributed.Grid(Alone(), (1, 1)))


@pytest.mark.parametrize("grid", [(1, 4), (2, 2), (4, 1), (4, 4)])
def test_bytes_follow_the_grid(grid):
    """SUMMA sends a process's block of A to the others in its row, and that of B to those in its column."""
    found = program(SPEC, SCHEDULES["summa"], grid)
    a, b = (4 * math.prod(found.blocks[name]) for name in "ab")
    assert found.bytes_sent == a * (grid[1] - 1) + b * (grid[0] - 1)


@pytest.mark.parametrize(
    ("schedule", "grid", "panels", "kernels", "axes"),
    [
        ("summa", (2, 2), 1, {(32, 24, 16, 0), (32, 24, 16, 1)}, {(0,), (1,)}),
        ("summa", (1, 4), 2, {(64, 12, 4, 0), (64, 12, 4, 1)}, {(1,)}),
        ("summa", (1, 1), 4, {(64, 48, 32, 0)}, set()),
        ("rows", (4,), 8, {(16, 48, 1, 0), (16, 48, 1, 1)}, {(0,)}),
        ("weights", (4,), 4, {(64, 12, 32, 0)}, set()),
        ("stationary_a", (2, 2), 2, {(32, 12, 16, 0)}, {(0,), (1,)}),
        ("stationary_b", (2, 2), 1, {(32, 24, 16, 0)}, {(0,), (1,)}),
        ("k", (4,), 4, {(64, 12, 8, 0)}, {(0,)}),
        ("k", (4,), 1, {(64, 48, 8, 0)}, {(0,)}),
        ("k_all", (4,), 4, {(64, 12, 8, 0)}, {(0,)}),
        ("k_all", (4,), 1, {(64, 48, 8, 0)}, {(0,)}),
    ],
)
def test_one_function_calls_kernels_of_panels(schedule, grid, panels, kernels, axes):
    built = native.build(program(SPEC, SCHEDULES[schedule], grid), "OpenMPI", resolve("x86-64-v3"), panels=panels)
    assert {(each.m, each.n, each.k, each.beta) for each in built.kernels.values()} == kernels
    assert set(built.communicators) == axes
    assert "shard." not in built.texts["mpi"].replace("shard.grid", "")


def test_panels_are_as_deep_as_instructions_add_up():
    """Two numbers of bf16 are multiplied and added at once: blocks of three are gathered whole, and their order is that of one process."""
    spec, grid = tw.MatmulSpec.from_dtypes(8, 8, 12, "bf16,bf16,f32"), (1, 4)
    built = native.build(program(spec, SCHEDULES["summa"], grid), "MPICH", resolve("sapphirerapids"), panels=1)
    assert {each.k for each in built.kernels.values()} == {12}


class Pretended:
    """Symbols that the compiled function is linked with in place of MPI's and of kernels: what it calls, in its order.

    Attributes:
        events: Of each message the function and its tag; "product" of each call of a kernel.
        waits: Of each wait, how many of these were before it.
        failing: The function of MPI that fails, and the code that it returns then.
    """

    def __init__(self, built, *, rank=0, failing=("", 0)):
        self.events, self.waits, self.failing, self._kept = [], [], failing, []
        pointer, integer = ctypes.c_void_p, ctypes.c_int32
        message = (pointer, integer, integer, integer, integer, integer, pointer)
        leading = (ctypes.c_int64,) * 3 + (pointer, ctypes.c_int64) * 3

        def place(_comm, found):
            code = self.code("MPI_Comm_rank")
            # MPI promises nothing of what a call that failed has written.
            ctypes.cast(found, ctypes.POINTER(integer))[0] = 1 << 30 if code else rank
            return code

        given = {
            "MPI_Comm_rank": self.function(place, integer, pointer),
            "MPI_Wait": self.function(
                lambda *_: self.waits.append(len(self.events)) or self.code("MPI_Wait"), pointer, pointer
            ),
        }
        for name in ("MPI_Isend", "MPI_Irecv"):
            given[name] = self.function(partial(self.message, name), *message)
        for symbol in built.kernels:
            given[symbol] = self.function(lambda *_: self.events.append("product") or self.code("kernel"), *leading)
        self._code = Code(built.object, ENTRY, given=given)
        arguments = [pointer] * 2 + [ctypes.c_int64] * len(built.communicators) + [pointer] * 2
        self.call = ctypes.CFUNCTYPE(integer, *arguments)(self._code.address)

    def function(self, call, *arguments):
        """The address of a function of C."""
        self._kept.append(made := ctypes.CFUNCTYPE(ctypes.c_int32, *arguments)(call))
        return ctypes.cast(made, ctypes.c_void_p).value or 0

    def code(self, name):
        return self.failing[1] if name == self.failing[0] else 0

    def message(self, name, _start, _count, _type, partner, tag, _comm, _request):
        if partner >= 0:
            self.events.append((name, tag))
        return self.code(name)


def pretended(schedule="summa", grid=(1, 2), panels=2, **options):
    """The second of two processes; of "summa" in a row, whose partner has the first two of four panels of A."""
    steps = program(SPEC, SCHEDULES[schedule], grid)
    built = native.build(steps, "MPICH", resolve("host"), panels=panels)
    a, b, c = (np.zeros(steps.blocks[name], np.float32) for name in "abc")
    made = Pretended(built, rank=1, **options)
    memory = aligned((built.workspace,), np.dtype(np.uint8))
    return made, made.call(a.ctypes.data, b.ctypes.data, 7, c.ctypes.data, memory.ctypes.data)


def test_a_panel_is_on_its_way_while_the_one_before_is_multiplied():
    made, status = pretended()
    assert status == 0
    received, sent = [("MPI_Irecv", tag) for tag in (1, 2)], [("MPI_Isend", tag) for tag in (3, 4)]
    assert made.events == [*received, "product", sent[0], "product", sent[1], "product", "product"]


@pytest.mark.parametrize(
    ("schedule", "grid", "before"), [("k", (2,), 1), ("stationary_a", (1, 2), 2), ("stationary_b", (2, 1), 2)]
)
def test_sums_are_on_their_way_while_the_next_panel_is_multiplied(schedule, grid, before):
    """Of two panels of each process's block of C, or of the other dimension: `before` products make the first sums that are sent."""
    made, status = pretended(schedule, grid)
    assert status == 0
    first, second = ([("MPI_Irecv", tag), ("MPI_Isend", tag)] for tag in (1, 2))
    products = ["product"] * before
    assert made.events == [*products, *first, *products, *second]
    # The first sums are waited for after a product of the second ones, those only in the end.
    assert made.waits == [before + 3] * 2 + [len(made.events)] * 2


def test_sums_that_all_get_are_gathered_while_the_panel_after_the_next_is_multiplied():
    made, status = pretended("k_all", (2,), panels=3)
    assert status == 0
    of_first, of_second, gathered, *rest = ([("MPI_Irecv", tag), ("MPI_Isend", tag)] for tag in range(1, 7))
    begin = ["product", *of_first, "product", *of_second, *gathered, "product"]
    assert made.events == [*begin, *itertools.chain(*rest)]
    # After each product what was sent before it is waited for; what follows the last one, at once.
    at = len(begin)
    assert made.waits == [4] * 2 + [at] * 4 + [at + 2] * 2 + [at + 4] * 2 + [at + 6] * 2


@pytest.mark.parametrize("schedule", ["summa", "k"])
@pytest.mark.parametrize("name", ["MPI_Comm_rank", "MPI_Isend", "MPI_Irecv", "MPI_Wait"])
def test_what_mpi_returns_is_not_lost(name, schedule):
    grid = (1, 2) if schedule == "summa" else (2,)
    assert pretended(schedule, grid, failing=(name, 15))[1] == 15


def test_buffers_share_memory_once_they_are_sent():
    """Of eight panels of A, three are on their way or being multiplied at the same time."""
    steps = program(SPEC, SCHEDULES["summa"], (1, 2))
    panel = 64 * 4 * 4
    assert native.build(steps, "MPICH", resolve("host"), panels=4).workspace <= 4 * panel < 64 * 32 * 4
    assert native.build(program(SPEC, SCHEDULES["summa"], (1, 1)), "MPICH", resolve("host"), panels=4).workspace == 0


def test_what_kernels_return_is_not_lost():
    assert pretended(failing=("kernel", 2))[1] == -2


def test_summa_is_within_a_constant_of_the_lower_bound():
    """Source: Irony, Toledo, Tiskin, Communication lower bounds for distributed-memory matrix multiplication, 2004, theorem 3.1."""
    for count in (4096, 16384):
        size, side = 4096, math.isqrt(count)
        words = program(tw.MatmulSpec(size, size, size), SCHEDULES["summa"], (side, side)).bytes_sent / 4
        memory = 3 * size**2 / count
        least = size**3 / (2 * math.sqrt(2) * count * math.sqrt(memory)) - memory
        assert least < words < 16 * least


@pytest.fixture
def mpiexec(tmp_path):
    """Runs a program on some processes; what it printed, by lines."""
    return lambda *words, **options: launched(OPEN_MPI, tmp_path, *words, **options)


OPEN_MPI = ("mpiexec.openmpi", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1")
MPICH = ("mpiexec.mpich",)


def launched(launcher, folder, count, program, arguments=(), preloaded=None):
    """Runs a program on some processes of an implementation of MPI; what it printed, by lines."""
    python = environments.python(environments.CLUSTER)
    if python is None or shutil.which(launcher[0]) is None:
        pytest.skip("there is no MPI with mpi4py (make setup-cluster installs it)")
    as_root = {f"OMPI_ALLOW_RUN_AS_ROOT{each}": "1" for each in ("", "_CONFIRM")}
    own = {"PYTHONPATH": str(ROOT / "python"), "TILEWRIGHT_CACHE_DIR": str(folder / "kernels")}
    if launcher == MPICH:
        # Debian's library has another name than mpi4py looks for.
        library = sorted(Path("/usr/lib").glob("*/libmpich.so.12"))[0]
        (folder / "libmpi.so.12").symlink_to(library)
        own |= {"MPI4PY_MPIABI": "mpich", "LD_LIBRARY_PATH": str(folder)}
    watched = ["env", f"LD_PRELOAD={preloaded}", f"COUNT_MESSAGES={folder}/count"] if preloaded else []
    command = [*launcher, "-n", str(count), *watched, str(python), "-W", "ignore", str(program), *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, **as_root, **own},
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


def counter(launcher, folder):
    """The library that counts messages, compiled for an implementation of MPI."""
    compiler = shutil.which(launcher[0].replace("mpiexec", "mpicc"))
    if compiler is None:
        pytest.skip("there is no mpicc (make setup-cluster installs it)")
    library = folder / "count_messages.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", library, ROOT / "test/Inputs/count_messages.c"], check=True
    )
    return library


def counted(folder, count):
    """Of each process, the bytes that it sent and the communicators that it has not freed."""
    return [tuple(map(int, (folder / f"count.{rank}").read_text().split())) for rank in range(count)]


def check(lines):
    """Every case is right, and has the bits of one process where K is not split or sums are exact."""
    cases = [json.loads(line) for line in lines]
    assert len(cases) > 15
    assert [each["case"] for each in cases if not each["right"]] == []
    assert {each["case"].split()[-2] for each in cases if not each["same"]} <= {
        "k",
        "k_all",
        "stationary_a",
        "stationary_b",
    }
    assert not any("i32" in each["case"] for each in cases if not each["same"])


def test_two_processes_have_the_bits_of_one(mpiexec):
    check(mpiexec(2, HERE / "on_processes.py"))


def test_no_process_waits_for_one_that_has_no_memory(mpiexec):
    (line,) = mpiexec(2, HERE / "on_processes.py", ("memory",))
    assert json.loads(line) == ["a process has no memory"] * 2


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
        ("stationary_a", (2, 8)),
        ("stationary_b", (8, 2)),
        ("rows", (8,)),
        ("columns", (8,)),
        ("weights", (4,)),
        ("k", (8,)),
        ("k_all", (8,)),
    ],
)
def test_simulated_bytes_are_those_of_the_model(schedule, grid):
    """Where links alone take time, a second a byte, each node is busy for the bytes that it sends."""
    sent = program(SPEC, SCHEDULES[schedule], grid).bytes_sent
    times = distributed.simulate(SPEC, grid, replace(NOTHING, per_byte=1.0), flops=1e30, schedule=schedule)
    (latency_alone,) = {
        round(distributed.simulate(SPEC, grid, replace(NOTHING, latency=1.0), flops=1e30, schedule=schedule).seconds)
    }
    # LogGP's first byte of each message is free.
    assert times.seconds == pytest.approx(sent - latency_alone)


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


@pytest.mark.parametrize("launcher", [OPEN_MPI, MPICH], ids=["openmpi", "mpich"])
def test_a_call_sends_the_bytes_of_the_model_and_leaves_no_communicator(launcher, tmp_path):
    """Two calls, on two processes, of every schedule; the communicators of each grid are freed with it."""
    (model,) = launched(
        launcher, tmp_path, 2, HERE / "on_processes.py", ("count", "2", *COUNTED), preloaded=counter(launcher, tmp_path)
    )
    assert counted(tmp_path, 2) == [(2 * int(model), 0)] * 2
    assert int(model) > 0


COUNTED = ("summa:1x2", "summa:2x1", "stationary_a:2x1", "stationary_b:1x2", "rows:2", "columns:2", "k:2", "k_all:2")


@needs_minutes
@pytest.mark.parametrize("launcher", [OPEN_MPI, MPICH], ids=["openmpi", "mpich"])
@pytest.mark.parametrize(
    "case", ["summa:2x2", "summa:1x4", "summa:4x1", "stationary_a:2x2", "stationary_b:2x2", "rows:4", "k:4", "k_all:4"]
)
def test_four_processes_send_the_bytes_of_the_model(case, launcher, tmp_path):
    library = counter(launcher, tmp_path)
    (model,) = launched(launcher, tmp_path, 4, HERE / "on_processes.py", ("count", "3", case), preloaded=library)
    assert counted(tmp_path, 4) == [(3 * int(model), 0)] * 4


@needs_minutes
def test_a_hundred_thousand_calls_leave_no_communicator(tmp_path):
    library = counter(OPEN_MPI, tmp_path)
    arguments = ("count", "100000", "summa:1x2")
    (model,) = launched(OPEN_MPI, tmp_path, 2, HERE / "on_processes.py", arguments, preloaded=library)
    assert counted(tmp_path, 2) == [(100000 * int(model), 0)] * 2


@needs_minutes
def test_mpich_has_the_bits_of_one_process(tmp_path):
    check(launched(MPICH, tmp_path, 4, HERE / "on_processes.py"))


# `bench distributed`.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--dtype", "bf16"], "ScaLAPACK has f32 and f64"),
        (["--schedule", "k"], "ScaLAPACK has f32 and f64"),
        (["--grid", "1x2x3"], "is no grid"),
        (["--mpi", "lam"], "'lam' is not one of"),
        (["--shape", "?x64x64"], "expected static extents above zero"),
        (["--shape", "0x64x64"], "expected static extents above zero"),
        (["--bar", "1.1", "--no-scalapack", "--threads", "0"], "--bar compares ours with others"),
        (["--shape", "63x64x64", "--grid", "2x1"], "63"),
    ],
)
def test_what_is_not_measured(words, said, capsys):
    assert main(["bench", "distributed", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("bar", "status"), [("1.2", 0), ("1.6", 1)])
def test_the_bar_is_for_others(bar, status, monkeypatch, capsys):
    ratios = {"2 processes": 1.0, "2 threads": 1.5}
    found = [measuring.Result(name, 1.0, 1.0, (1.0,), True, ratio) for name, ratio in ratios.items()]
    monkeypatch.setattr(measuring, "run", lambda *given, **named: found)
    assert main(["bench", "distributed", "--shape", "64x64x64", "--bar", bar]) == status
    assert "2 threads" in capsys.readouterr().out


@needs_minutes
@pytest.mark.parametrize("mpi", measuring.IMPLEMENTATIONS)
def test_a_measurement(mpi):
    """Four contenders of right numbers; on a busy machine their times say nothing."""
    blocks = (16,) if mpi == "openmpi" else ()
    wanted = {"grid": (2, 1), "schedule": "summa", "panels": 2, "threads": 2, "blocks": blocks, "rounds": 1, "mpi": mpi}
    found = measuring.run((64, 48, 80), "f64", **wanted)
    assert [each.name for each in found] == [
        "2 processes",
        *(f"ScaLAPACK, blocks of {each}" for each in blocks),
        "2 threads",
    ]
    assert all(each.right for each in found)
    assert found[0].ratio == 1
