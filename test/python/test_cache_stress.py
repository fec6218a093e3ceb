# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Eight processes on one cache folder, some of them killed while they write: no reader ever sees anything but a whole entry."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import time
from multiprocessing.connection import Connection
from pathlib import Path

from tilewright.runtime.cache import KernelCache

PROCESSES = 8
KEYS = 12
LIMIT = 2 << 20
SECONDS = 3.0


def object_of(key: int, writer: int, size: int) -> bytes:
    """An object that says for which key it was made and checks itself, apart from the cache's own checksum."""
    body = f"{key} {writer} ".encode() + random.Random(size).randbytes(size)
    return hashlib.md5(body, usedforsecurity=False).digest() + body


def is_sound(key: int, object_: bytes) -> bool:
    digest, body = object_[:16], object_[16:]
    return hashlib.md5(body, usedforsecurity=False).digest() == digest and body.startswith(f"{key} ".encode())


def use(folder: Path, worker: int, until: float, report: Connection) -> None:
    """Reads and writes random entries, at least one of each, then reports how many that it read were unsound."""
    cache = KernelCache(folder, LIMIT)
    chance = random.Random(worker)
    hits = stored = unsound = 0
    while time.monotonic() < until or not (hits and stored):  # also on a machine that gives this process no time
        key = chance.randrange(KEYS)
        found = cache.get({"key": str(key)})
        if found is not None:
            hits += 1
            unsound += not is_sound(key, found.object)
        # More is written than the limit allows, so that entries are dropped all the time.
        if found is None or chance.random() < 0.3:
            stored += cache.put(
                {"key": str(key)}, object_of(key, worker, chance.randrange(1000, 400_000)), {"worker": worker}
            )
    report.send(unsound)


def write_for_ever(folder: Path) -> None:
    cache = KernelCache(folder, LIMIT)
    for turn in range(10**9):
        cache.put({"key": str(turn % KEYS)}, object_of(turn % KEYS, -1, 400_000))


def test_eight_processes_and_killed_writers(tmp_path):
    folder = tmp_path / "kernels"
    assert KernelCache(folder, LIMIT).problem() is None
    fork = multiprocessing.get_context("fork")
    until = time.monotonic() + SECONDS
    workers = []
    for worker in range(PROCESSES):
        ours, theirs = fork.Pipe(duplex=False)
        process = fork.Process(target=use, args=(folder, worker, until, theirs))
        process.start()
        workers.append((process, ours))

    killed = 0
    chance = random.Random(0)
    while time.monotonic() < until or killed < 5:
        victim = fork.Process(target=write_for_ever, args=(folder,))
        victim.start()
        time.sleep(chance.uniform(0.02, 0.2))
        victim.kill()
        victim.join()
        killed += 1

    results = []
    for process, report in workers:
        assert report.poll(60), "a worker died or hangs"
        results.append(report.recv())
        process.join(60)
        assert process.exitcode == 0
    assert sum(results) == 0

    # Afterwards every entry is sound, the size is within the limit, and what the dead left goes when its time has come.
    cache = KernelCache(folder, LIMIT)
    for leftover in folder.glob(".writing-*"):
        os.utime(leftover, (0, 0))
    assert cache.put({"key": "0"}, object_of(0, 0, 1000))
    assert list(folder.glob(".writing-*")) == []
    assert sum(file.stat().st_size for file in folder.iterdir()) <= LIMIT
    for key in range(KEYS):
        found = cache.get({"key": str(key)})
        assert found is None or is_sound(key, found.object)
