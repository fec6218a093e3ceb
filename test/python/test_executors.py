# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls on any executor: workers that are killed lose no call; searches on workers end as searches here; cores are leased to one alone."""

import operator
import os
import signal
import sys
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from functools import partial

import many_workers
import pytest
import tilewright as tw
from click.testing import CliRunner
from tilewright import targets
from tilewright.bench.lease import leased
from tilewright.cli.app import command
from tilewright.processes import calls, executors
from tilewright.processes.pool import Processes
from tilewright.records import lookup, machine
from tilewright.records.database import Database
from tilewright.records.trial import Trial
from tilewright.tuning import many, product, race
from tilewright.tuning.search import Search

SPECS = [tw.MatmulSpec(m=24, n=32, k=48), tw.MatmulSpec(m=8, n=16, k=24)]


def test_killed_workers_lose_no_call(tmp_path):
    with executors.opened("processes:2") as executor:
        found = dict(calls.each(many_workers.number, [(each, str(tmp_path)) for each in range(6)], executor))
    assert found == {each: each * each for each in range(6)}


def test_an_executor_outlives_its_workers():
    with Processes(1) as executor:
        first = executor.submit(many_workers.pid).result()
        assert executor.submit(many_workers.pid).result() == first != os.getpid()
        os.kill(first, signal.SIGKILL)
        while (error := executor.submit(many_workers.pid).exception()) is not None:
            assert str(error) == "crashed with SIGKILL"
        assert executor.submit(int, "11", base=2).result() == 3
        with pytest.raises(ValueError, match="invalid literal"):
            executor.submit(int, "x").result()


class Lossy(Executor):
    """Every first call of its arguments is lost as a remote executor says it."""

    def __init__(self, error):
        self.error, self.seen = error, set()

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        if args[2:] in self.seen:
            future.set_result(fn(*args, **kwargs))
        else:
            self.seen.add(args[2:])
            future.set_exception(self.error)
        return future


class KilledWorker(Exception):  # noqa: N818 - as Dask calls it
    __module__ = "distributed.scheduler"


@pytest.mark.parametrize("error", [KilledWorker(), CancelledError()])
def test_what_other_executors_lose_is_called_again(error):
    assert dict(calls.each(operator.add, [(1, 2), (3, 4)], Lossy(error))) == {0: 3, 1: 7}
    with pytest.raises(TypeError):
        list(calls.each(operator.add, [(1, "2")], Lossy(TypeError())))


def test_a_worker_of_another_version_is_refused():
    with pytest.raises(tw.TilewrightError, match=r"a worker has tilewright .* expected 0\.0\.1"):
        calls.call("0.0.1", operator.add, (1, 2))


def test_an_executor_that_is_shut_down_is_said():
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(tw.TilewrightError, match="takes no calls any more"):
        list(calls.each(operator.add, [(1, 2)], executor))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("threads:2", "expected N, processes:N, dask"),
        ("processes:0", "expected processes:N"),
        ("processes", "expected processes:N"),
        ("dask://here:1", r"distributed cannot be imported: .*pip install 'tilewright\[dask\]'"),
        ("ray", r"pip install 'tilewright\[ray\]'"),
        ("mpi", r"pip install 'tilewright\[mpi\]'"),
    ],
)
def test_texts_that_name_no_executor_are_refused(text, said, monkeypatch):
    for name in ("distributed", "ray", "mpi4py"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(tw.TilewrightError, match=said), executors.opened(text):
        pass
    done = CliRunner().invoke(command, ["tune", "--shape", "8x8x8", "--executor", text], standalone_mode=False)
    assert isinstance(done.exception, tw.TilewrightError)


def test_a_core_is_leased_to_one_alone():
    """Two threads of one process, as of two: locks are of open files."""
    inside, most = [], []

    def measure():
        with leased(1) as cores:
            assert os.sched_getaffinity(0) == set(cores)
            inside.append(cores)
            time.sleep(0.02)
            most.append(len(inside) - len(set(inside)))
            inside.remove(cores)

    allowed = os.sched_getaffinity(0)
    threads = [threading.Thread(target=measure) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [0] * 6
    assert os.sched_getaffinity(0) == allowed
    with pytest.raises(tw.TargetError, match="cannot measure"), leased(4096):
        pass


@pytest.fixture
def database(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "kernels"))
    with Database(tmp_path / "records.sqlite") as found:
        yield found


def quick(monkeypatch):
    """Searches of few trials, where the workers are threads of this process."""
    monkeypatch.setattr(race, "_PAIRS", 1)
    monkeypatch.setattr(race, "_FINAL_PLACES", 5)
    monkeypatch.setattr(product, "Search", partial(Search, patience=3))
    monkeypatch.setattr(product, "Race", partial(race.Race, min_seconds=1e-5))


def test_slices_make_one_search(database, monkeypatch):
    quick(monkeypatch)
    told = []
    with ThreadPoolExecutor(1) as executor:
        found = dict(
            many.tune(SPECS, database, executor, seconds=600, slice_s=0.05, tell=lambda count, *_: told.append(count))
        )
    assert set(found) == set(SPECS)
    assert all(isinstance(each, Trial) and each.final for each in found.values())
    trials = [
        trial for spec in SPECS for trial in database.of(machine.key(targets.resolve("host")), lookup.text(spec), 1)
    ]
    assert len(trials) == database.stats().trials == told[-1]
    tried = [(str(each.spec), each.strategy, str(each.sizes)) for each in trials if not each.final]
    # No slice tries again what another one tried; each search times its best ones once more, before the last comparison.
    counts = Counter(tried)
    assert len(counts) >= 6
    assert max(counts.values()) <= 2
    again = Counter(spec for (spec, *_), count in counts.items() if count > 1)
    assert max(again.values()) <= product._FINALISTS


def test_what_cannot_be_tuned_is_said_and_the_others_are_tuned(database, monkeypatch):
    quick(monkeypatch)
    dynamic = tw.MatmulSpec(m=None, n=8, k=8)
    with ThreadPoolExecutor(1) as executor:
        found = dict(many.tune([dynamic, SPECS[1]], database, executor, seconds=0.01))
    assert "cannot be tuned" in str(found[dynamic])
    assert isinstance(found[SPECS[1]], Trial)


def test_a_search_outlives_workers_that_are_killed(database):
    """Real workers; one is killed as soon as it works."""
    with Processes(2) as executor:
        killed = []

        def tell(count, spec, trial):
            if not killed:
                killed.append(executor.submit(many_workers.pid).result())
                os.kill(killed[0], signal.SIGKILL)

        found = dict(many.tune(SPECS[1:] * 2, database, executor, seconds=0.4, slice_s=0.1, tell=tell))
    assert killed
    assert isinstance(found[SPECS[1]], Trial)
    assert database.verify() == database.stats().trials


def test_library_takes_an_executor(tmp_path):
    kernels = {"small": tw.MatmulSpec(m=4, n=8, k=4)}
    with Processes(1) as executor:
        made = tw.library(kernels, targets=["x86-64-v3"], out=tmp_path, jobs=executor)
    assert made.contents.kernels
