# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs what MLIR may not survive in a child process, and says how it ended."""

from __future__ import annotations

import faulthandler
import json
import os
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tilewright import knobs
from tilewright.emit import reproducers
from tilewright.errors import LoweringError, ScheduleError, SpecError, TilewrightError
from tilewright.processes.child import Child, ChildEndedError
from tilewright.targets.base import Cache, Target

if TYPE_CHECKING:
    from tilewright.schedules.plan import Plan

_TOLD = "told"
"""The key of what the child sends before its answer."""
_STAGE = "stage"
"""What it is at."""
_MOST_PRINTED = 1 << 26
"""Bytes that a child may print, or write to any file."""
_ORPHAN_SECONDS = 20.0
"""A child whose parent is gone ends itself so long after its time."""
_NO_MEMORY = re.compile(
    r"bad_alloc|[Oo]ut of memory|[Aa]llocation .*failed|Allocation failed|MemoryError|annot allocate|failed to map segment"
)
_FRAME = re.compile(r'File "([^"]+)", line (\d+) in')
_PACKAGE = Path(__file__).resolve().parents[1]
Tell = Callable[..., None]
"""Tells that a stage, its argument, starts, and by name more of what there is then."""
_MOST_ANSWER = 1 << 29
"""Bytes of an answer that are read."""
_ERRORS = {each.__name__: each for each in (SpecError, ScheduleError, LoweringError)}
_FIELDS = ("what", "where", "expected", "remedy", "file", "line", "transform_op", "payload_op", "stage")


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a child process.

    Attributes:
        seconds: After so many it is ended.
        memory_mb: MiB of memory beyond what its libraries take; None for any amount.
    """

    seconds: float
    memory_mb: int | None = None

    @classmethod
    def of_compilation(cls) -> Limits:
        """The limits that the environment sets for input from users."""
        settings = knobs.load()
        return cls(settings.compile_timeout_s, settings.compile_memory_mb)

    @property
    def too_long(self) -> str:
        """The error text for a child that took too long."""
        return f"took more than {self.seconds:g} s, the limit that TILEWRIGHT_COMPILE_TIMEOUT_S sets"

    @property
    def too_much(self) -> str:
        """The error text for a child that ran out of memory."""
        return f"took more than {self.memory_mb} MiB of memory, the limit that TILEWRIGHT_COMPILE_MEMORY_MB sets"

    def apply(self) -> None:
        """Sets them for this process, which also prints where it is when it crashes or is asked to end."""
        faulthandler.enable()
        faulthandler.register(signal.SIGTERM, chain=True)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_MOST_PRINTED, _MOST_PRINTED))
        signal.setitimer(signal.ITIMER_REAL, self.seconds + _ORPHAN_SECONDS)
        if self.memory_mb is not None:
            most = _data_bytes() + (self.memory_mb << 20)
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _data_bytes() -> int:
    """The memory of this process that counts for its limit."""
    with open("/proc/self/status", encoding="utf-8") as status:
        return next((int(line.split()[1]) << 10 for line in status if line.startswith("VmData:")), 0)


class EndedError(Exception):
    """The child gave no answer.

    Attributes:
        reason: How it ended.
        stage: What it was at.
        output: What it had printed.
        told: What else it had told.
    """

    def __init__(self, reason: str, stage: str, output: str, told: Mapping[str, str] = MappingProxyType({})) -> None:
        """Takes the attributes."""
        super().__init__(reason)
        self.reason = reason
        self.stage = stage
        self.output = output
        self.told = told

    def as_error(self, files: Mapping[str, str], remedy: str) -> LoweringError:
        """The error, which names a folder with `files` that make it happen again; `remedy` is what to do with them."""
        folder = reproducers.keep({**files, "stderr.txt": self.output})
        return LoweringError(f"MLIR {self.reason}", stage=self.stage, reproducer=folder, remedy=f"{remedy} in {folder}")

    def as_schedule_error(self, name: str) -> ScheduleError:
        """The error of a schedule in Python, by its file and line where they are known."""
        frames = _FRAME.findall(self.output)
        users = [(file, int(line)) for file, line in frames if _is_users(file)]
        file, line = users[0] if users else (None, None)
        return ScheduleError(f"the schedule {self.reason}", where=None if file else name, file=file, line=line)


def is_needed(plan: Plan | None) -> bool:
    """Whether a compilation has to be in a child: the schedule is a user's, or the list of passes behind it is.

    Args:
        plan: The plan; None for plans of ours.
    """
    return (plan is not None and not plan.trusted) or knobs.load().passes is not None


def _is_users(file: str) -> bool:
    """Whether a file of a traceback is the user's: neither ours nor a library's."""
    path, libraries = Path(file), (_PACKAGE, Path(os.__file__).parent)
    installed = "site-packages" in path.parts or any(folder in path.parents for folder in libraries)
    return not file.startswith("<") and not installed


def ask(
    module: str,
    request: Mapping[str, Any],
    limits: Limits,
    started: Child | None = None,
    printed: Callable[[str], object] = lambda text: sys.stderr.write(text),
    heard: Callable[[Mapping[str, str]], object] = lambda told: None,
    *,
    needs: Sequence[str] = (),
) -> dict[str, Any]:
    """The answer of a worker module to `request`, which it gets as JSON.

    Args:
        module: What the child runs: its `main` calls `answer_with`.
        request: What it is asked.
        limits: What it may take.
        started: A child that runs the module already and waits for its request; it is ended after the answer.
        printed: Gets what the child printed.
        heard: Gets what the child tells before it answers, when it does.
        needs: What else it imports, where none is started already.

    Raises:
        TilewrightError: What the child answered with.
        EndedError: It gave no answer.
    """
    told, deadline = {_STAGE: "payload"}, time.monotonic() + limits.seconds
    try:
        child = started or Child(module, variables=knobs.overrides(), needs=needs)
    except ChildEndedError as ended:
        raise EndedError(ended.reason, told[_STAGE], ended.output) from None
    with child:
        try:
            child.send_bytes(json.dumps({"limits": asdict(limits), "request": request}).encode())
            while True:
                left = max(0.0, deadline - time.monotonic())
                answer = json.loads(child.receive_bytes(left, _MOST_ANSWER))
                if _TOLD not in answer:
                    break
                told |= answer[_TOLD]
                heard(answer[_TOLD])
        except ChildEndedError as ended:
            reason = ended.reason if ended.status is not None else limits.too_long
            if limits.memory_mb is not None and _NO_MEMORY.search(ended.output):
                reason = limits.too_much
            raise EndedError(reason, told[_STAGE], ended.output, told) from None
        except ValueError:
            raise EndedError("gave no answer that can be read", told[_STAGE], child.output(), told) from None
        if "no_memory" in answer:
            raise EndedError(limits.too_much, told[_STAGE], f"{child.output()}\n{answer['no_memory']}", told)
        printed(child.ended().output)  # What a schedule printed: MLIR keeps it until the end.
    error = answer.get("error")
    if error:
        raise _ERRORS[error.pop("class")](**error)
    return answer


def answer_with(make: Callable[[dict[str, Any], Tell], dict[str, Any]]) -> None:
    """The child: answers its parent's request with what `make` makes of it, within limits; `make` gets what tells the parent more."""
    with Connection(int(sys.argv[1])) as parent:

        def tell(stage: str, **more: str) -> None:
            parent.send_bytes(json.dumps({_TOLD: {_STAGE: stage, **more}}).encode())

        given = json.loads(parent.recv_bytes())
        Limits(**given["limits"]).apply()
        try:
            answer = json.dumps(make(given["request"], tell)).encode()
        except MemoryError as error:
            # In the form of `faulthandler`.
            lines = [f'File "{at.filename}", line {at.lineno} in' for at in traceback.extract_tb(error.__traceback__)]
            answer = json.dumps({"no_memory": "\n".join(reversed(lines))}).encode()
        sys.stdout.flush()
        sys.stderr.flush()
        parent.send_bytes(answer)


def target_as_json(target: Target) -> dict[str, object]:
    """A target as a request carries it."""
    return {**asdict(replace(target, emulation=None)), "features": sorted(target.features)}


def target_from_json(fields: Mapping[str, Any]) -> Target:
    """The target of which `target_as_json` made `fields`."""
    caches = {level: Cache(**fields[level]) for level in ("l1", "l2", "l3") if fields[level]}
    return Target(**{**fields, "features": frozenset(fields["features"]), **caches})


def error_as_json(error: TilewrightError, **replaced: str | None) -> dict[str, Any]:
    """An error as an answer carries it, with other values for some of its fields."""
    fields = {name: getattr(error, name) for name in _FIELDS if hasattr(error, name)} | replaced
    named = {name: str(value) if isinstance(value, Path) else value for name, value in fields.items()}
    return {"error": {"class": type(error).__name__, **named}}
