# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The half that runs on a card's machine: steps of a bundle, one after the other, each with a record of what came out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from tilewright.bench.card import bundle
from tilewright.bench.card.plan import Step
from tilewright.bench.card.worker import Broken, Worker
from tilewright.errors import TargetError

RECORDS = "records.jsonl"
_MOST_IN_A_ROW = 8
"""Processes that end one after the other before a step is done: then it is not one kernel."""
_MOST_OF_A_STEP = 3
"""Choices of a step that may end the process before the step is put behind the others: each takes half a minute."""
_AHEAD_SECONDS = 120.0
"""For compiling the peer's kernels: some 20 s on 16 cores."""


class Runner(Protocol):
    """What runs steps: `worker.Worker`, or a test's."""

    def run(self, step: Step, without: Iterable[str] = ()) -> dict[str, Any] | Broken:
        """What comes of a step, without some choices, or what ended it."""
        ...


def current(steps: Sequence[Step], records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the records those of these steps with this code, of each step the last one, and of what broke with it."""
    codes = {step.key: step.code for step in steps}
    every = {*codes.values()}
    known = (
        each
        for each in records
        if each.get("code", "") == codes.get(each["step"])
        or (each["kind"] == "broken" and each.get("code", "") in every)
    )
    return list({each["step"]: each for each in known}.values())


def pending(steps: Sequence[Step], records: Iterable[Mapping[str, Any]], *, again: bool = False) -> list[Step]:
    """The steps that no record tells of, and, with `again`, those that failed."""
    done = {each["step"] for each in records if not (again and ("error" in each or each.get("right") is False))}
    return [step for step in steps if step.key not in done]


def read(folder: Path) -> list[dict[str, Any]]:
    """The records of a bundle so far."""
    return read_file(folder / RECORDS)


def read_file(file: Path) -> list[dict[str, Any]]:
    """The records of a file, if there is one; a line that was cut off is left out."""
    found = []
    with suppress(FileNotFoundError):
        for line in file.read_text().splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
    return found


def run(
    folder: Path,
    budget: float | None = None,
    progress: Callable[[int, int, str], object] = lambda done, total, what: None,
    clock: Callable[[], float] = time.monotonic,
    bench: Runner | None = None,
    to: Path | None = None,
    *,
    again: bool = False,
) -> list[dict[str, Any]]:
    """Runs the steps of a bundle that are left, and returns the records of all steps, of this code.

    A choice that ends the process, by a hang or an error that ends the card's context, is noted as broken, and left out of what is
    timed from then on, here and in later runs; the step is done again without it.

    Args:
        folder: The bundle's.
        budget: Seconds after which no further step begins, less what the longest one so far took; None: all steps.
        progress: Told before each step how many are done, how many there are, and which is next.
        clock: Tells the time.
        bench: What runs a step; None: a process of its own on the first card here.
        to: The file in which further records are written; None: the one in the folder.
        again: Whether steps are done again that failed.

    Raises:
        TilewrightError: There is no bundle, no card, or no torch, or the card does not go on.
    """
    file_of_records = to or folder / RECORDS
    steps, records = bundle.read_steps(folder), read(folder)
    if file_of_records.resolve() != (folder / RECORDS).resolve():
        records += read_file(file_of_records)
    records = current(steps, records)
    left = pending(steps, records, again=again)
    if again:
        records = [each for each in records if each["kind"] != "broken"]
    if not left:
        return records
    start, longest, in_a_row, of_step = clock(), 0.0, 0, 0
    worker = None if bench is not None else Worker(folder)
    runner = bench or worker
    assert runner is not None, "one of them is"
    ahead = _ahead() if worker is not None else None
    with file_of_records.open("a") as file:
        _end_a_line(file_of_records, file)

        def note(record: dict[str, Any]) -> None:
            file.write(json.dumps(record) + "\n")
            file.flush()
            records.append(record)

        try:
            while left:
                step, before = left[0], clock()
                if budget is not None and before - start + longest > budget:
                    break
                progress(len(steps) - len(left), len(steps), step.key)
                if step.kind == "time":
                    ahead = _awaited(ahead)
                about = {"step": step.key, "kind": step.kind, "shape": str(step.shape), "code": step.code}
                outcome = runner.run(step, [each["what"] for each in records if each["kind"] == "broken"])
                if not isinstance(outcome, Broken):
                    note({**about, **outcome})
                    left, in_a_row, of_step = left[1:], 0, 0
                    longest = max(longest, clock() - before)
                    continue
                in_a_row, of_step = in_a_row + 1, of_step + 1
                if step.kind == "time" and outcome.what:
                    named = {"step": f"broken {outcome.what}", "kind": "broken", "code": step.code}
                    note({**named, "what": outcome.what, "at": step.key, "error": outcome.text})
                else:
                    note({**about, "error": outcome.text})
                    left, of_step = left[1:], 0
                if of_step >= _MOST_OF_A_STEP:
                    left, of_step = [*left[1:], step], 0
                if in_a_row >= _MOST_IN_A_ROW:
                    raise TargetError(
                        f"{in_a_row} processes ended one after the other: {outcome.text}",
                        where="bench --card",
                        remedy="See what nvidia-smi says of the card; another run goes on behind these steps",
                    )
        finally:
            if worker is not None:
                worker.close()
            if ahead is not None:
                ahead.kill()
    return current(steps, records)


def _end_a_line(path: Path, file: Any) -> None:  # noqa: ANN401 - it is open
    """So that a line which was cut off does not take the next one with it."""
    text = path.read_bytes()
    if text and not text.endswith(b"\n"):
        file.write("\n")


def _ahead() -> subprocess.Popen[bytes]:
    """Compiles Triton's kernels into its cache meanwhile, on this machine's other cores."""
    workers = max(1, (os.cpu_count() or 2) - 2)
    command = [sys.executable, "-m", "tilewright.bench.card.triton_peer", "--workers", str(workers)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _awaited(process: subprocess.Popen[bytes] | None) -> None:
    """Waits until nothing else keeps the machine busy."""
    if process is not None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_AHEAD_SECONDS)
        process.kill()
