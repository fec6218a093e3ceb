# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tunes a suite on real clusters of several workers here, of which one is killed every few seconds; run where these are installed.

Called with "dask" or "ray" and a folder for the database. Prints a line of JSON: how many workers were killed, and the trials and the
outcome of each product.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tilewright as tw
from tilewright.processes import executors
from tilewright.records.database import Database
from tilewright.records.trial import Trial
from tilewright.tuning import many

WORKERS = 3
BETWEEN = 4
"""Calls that end between two kills at least, so that one of three tries of a call comes through on a busy machine too."""
SHAPES = ((64, 64, 64), (96, 160, 128), (33, 70, 50), (8, 256, 256))
PACKAGE = str(Path(tw.__file__).parents[1])
BIN = Path(sys.executable).parent
PATIENT = {"health_check_period_ms": 5_000, "health_check_timeout_ms": 60_000, "health_check_failure_threshold": 30}
"""Minutes for Ray's node to answer that it is there, on a machine that has much else to do."""


@contextmanager
def dask(folder: Path) -> Iterator[tuple[str, str]]:
    """A scheduler and workers, each its own process: what an executor is called, and a pattern of the command lines of workers."""
    place = folder / "scheduler.json"
    log = (folder / "dask.log").open("wb")
    started = [
        subprocess.Popen(
            [
                BIN / "dask",
                "scheduler",
                "--host",
                "127.0.0.1",
                "--port",
                "0",
                "--no-dashboard",
                "--scheduler-file",
                place,
            ],
            stdout=log,
            stderr=log,
        )
    ]
    while not place.exists() or not place.read_text():
        time.sleep(0.1)
    # Each worker has a nanny, which starts another process where that ends.
    worker = [BIN / "dask", "worker", "--scheduler-file", place, "--nworkers", str(WORKERS), "--nthreads", "1"]
    started.append(
        subprocess.Popen(
            [*worker, "--no-dashboard", "--local-directory", folder],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": PACKAGE},
        )
    )
    try:
        yield json.loads(place.read_text())["address"].replace("tcp://", "dask://"), ".*spawn_main"
    finally:
        for each in reversed(started):
            each.terminate()
            each.wait()
        log.close()


@contextmanager
def ray(folder: Path) -> Iterator[tuple[str, str]]:
    """As `dask`, of Ray."""
    import ray as package  # pyright: ignore[reportMissingImports] - of the environment that runs this

    package.init(
        num_cpus=WORKERS,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": PACKAGE}},
        _temp_dir=str(folder),
        _system_config=PATIENT,
    )
    try:
        yield "ray", "ray::(?!.*Agent)"  # A node ends with the agents that it has beside its workers.
    finally:
        package.shutdown()


def children(of: int) -> list[int]:
    """All processes that a process has started, and those have."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == of:
            found += [int(folder.name), *children(int(folder.name))]
    return found


def watched(executor: Executor) -> list[bool]:
    """A list to which each call adds an entry that ends on the executor from now on, and does not fail."""
    submit, ended = executor.submit, list[bool]()

    def watching(*given: Any, **named: Any) -> Future[Any]:
        future = submit(*given, **named)
        future.add_done_callback(lambda each: None if each.cancelled() or each.exception() else ended.append(True))
        return future

    executor.submit = watching
    return ended


def kill(what: str, every_s: float, over: threading.Event, killed: list[int], ended: list[bool]) -> None:
    """Kills one of the workers now and then: not before some calls have ended since, so that none is hit whoever tries it."""
    wanted = BETWEEN
    while not over.wait(every_s):
        if len(ended) < wanted:
            continue
        wanted = len(ended) + BETWEEN
        workers = []
        for each in children(os.getpid()):
            try:
                line = Path(f"/proc/{each}/cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if re.match(what, line):
                workers.append(each)
        if workers:
            killed.append(random.choice(workers))
            os.kill(killed[-1], signal.SIGKILL)


def main(name: str, into: str, seconds: float, every_s: float) -> None:
    """Tunes, and prints what came of it."""
    specs = [tw.MatmulSpec(m, n, k) for m, n, k in SHAPES]
    over, killed = threading.Event(), list[int]()
    with (
        tempfile.TemporaryDirectory(prefix="tw-", dir="/tmp") as folder,
        {"dask": dask, "ray": ray}[name](Path(folder)) as (
            text,
            what,
        ),
    ):
        try:
            with executors.opened(text) as executor, Database(Path(into)) as database:
                killer = threading.Thread(target=kill, args=(what, every_s, over, killed, watched(executor)))
                killer.start()
                found = dict(many.tune(specs, database, executor, seconds=seconds, slice_s=seconds / 4))
                trials = database.verify()
                over.set()
                killer.join()
        finally:
            over.set()
    outcomes = {
        str(spec): [each.verdict, each.gain, each.strategy, dict(each.sizes)] if isinstance(each, Trial) else str(each)
        for spec, each in found.items()
    }
    print(json.dumps({"killed": len(killed), "trials": trials, "outcomes": outcomes}))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
