# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the steps of a bundle on a card's machine, and records each outcome."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TextIO

from tilewright.bench.card import bundle, peers, plan, tools
from tilewright.bench.card.plan import Step
from tilewright.bench.card.worker import Broken, Worker
from tilewright.errors import TargetError
from tilewright.processes.command import command

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
        """Runs a step without some choices; returns its outcome, or what ended it."""
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
    """The steps without a record, and, with `again`, those that failed."""
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
    quick: bool = False,
    without: Sequence[str] = (),
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
        quick: Whether only the steps of a quick run are done.
        without: Peers that are left out, by name.

    Raises:
        TilewrightError: There is no bundle, no card, or, for timings, no torch, or the card does not go on.
    """
    file_of_records = to or folder / RECORDS
    steps, records = bundle.read_steps(folder), read(folder)
    if quick:
        steps = [step for step in steps if step.quick]
    if file_of_records.resolve() != (folder / RECORDS).resolve():
        records += read_file(file_of_records)
    records = current(steps, records)
    left = pending(steps, records, again=again)
    if again:
        records = [each for each in records if each["kind"] != "broken"]
    if not left:
        return records
    with file_of_records.open("a") as file:
        _end_a_line(file_of_records, file)
        if bench is not None:
            _Run(folder, steps, left, records, bench, file, without=without).go(budget, progress, clock)
            return current(steps, records)
        worker, ahead = Worker(folder), None if quick or peers.COMPILED in without else _ahead()
        try:
            _Run(folder, steps, left, records, worker, file, ahead, without).go(budget, progress, clock)
        finally:
            worker.close()
            if ahead is not None:
                ahead.kill()
    return current(steps, records)


class _Run:
    """A run: what is left of the steps, and the records, to which it adds."""

    def __init__(
        self,
        folder: Path,
        steps: Sequence[Step],
        left: list[Step],
        records: list[dict[str, Any]],
        runner: Runner,
        file: TextIO,
        ahead: subprocess.Popen[bytes] | None = None,
        without: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self._steps, self._left, self._records = steps, left, records
        self._runner, self._file, self._ahead = runner, file, ahead
        self._without = without
        self._in_a_row = self._of_step = 0

    def go(self, budget: float | None, progress: Callable[[int, int, str], object], clock: Callable[[], float]) -> None:
        """Does what is left, as `run` has it."""
        start, longest = clock(), 0.0
        while self._left:
            step, before = self._left[0], clock()
            if budget is not None and before - start + longest > budget:
                return
            progress(len(self._steps) - len(self._left), len(self._steps), step.key)
            if step.kind in plan.TIMES and self._ahead is not None:
                _awaited(self._ahead)
                self._ahead = None
            broken = [*self._without, *(each["what"] for each in self._records if each["kind"] == "broken")]
            outcome = tools.run(self._folder, step) if step.kind in plan.TOOLS else self._runner.run(step, broken)
            if isinstance(outcome, Broken):
                self._broke(step, outcome)
                continue
            self._note(step, outcome)
            self._left, self._in_a_row, self._of_step = self._left[1:], 0, 0
            longest = max(longest, clock() - before)

    def _note(self, step: Step, outcome: dict[str, Any]) -> None:
        about = {"step": step.key, "kind": step.kind, "shape": str(step.shape), "code": step.code}
        record = {**about, **outcome}
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        self._records.append(record)

    def _broke(self, step: Step, outcome: Broken) -> None:
        """Notes what ended the process: as the outcome of a step of one kernel, else apart, so that the step is done again."""
        self._in_a_row, self._of_step = self._in_a_row + 1, self._of_step + 1
        if step.kind in plan.TIMES and outcome.what:
            named = {"step": f"broken {outcome.what}", "kind": "broken", "what": outcome.what, "at": step.key}
            self._note(step, {**named, "error": outcome.text})
        else:
            self._note(step, {"error": outcome.text})
            self._left, self._of_step = self._left[1:], 0
        if self._of_step >= _MOST_OF_A_STEP:
            self._left, self._of_step = [*self._left[1:], step], 0
        if self._in_a_row >= _MOST_IN_A_ROW:
            raise TargetError(
                f"{self._in_a_row} processes ended one after the other: {outcome.text}",
                where="bench card",
                remedy="See what nvidia-smi says of the card; another run goes on behind these steps",
            )


def _end_a_line(path: Path, file: TextIO) -> None:
    """Ends a truncated last line, so that it does not spoil the next one."""
    text = path.read_bytes()
    if text and not text.endswith(b"\n"):
        file.write("\n")


def _ahead() -> subprocess.Popen[bytes]:
    """Compiles Triton's kernels into its cache meanwhile, on this machine's other cores."""
    workers = max(1, (os.cpu_count() or 2) - 2)
    words = command("tilewright.bench.card.triton_peer", "--workers", str(workers))
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _awaited(process: subprocess.Popen[bytes]) -> None:
    """Waits until nothing else keeps the machine busy."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_AHEAD_SECONDS)
    process.kill()
