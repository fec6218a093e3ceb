# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Coverage of kernels: which blocks and masks of their code a set of calls ran, by instrumented builds."""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
import os
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from tilewright import knobs
from tilewright._runtime import Code
from tilewright.emit.coverage import COPY, MASKS, Block, Table, read
from tilewright.errors import TilewrightError
from tilewright.runtime import files
from tilewright.runtime.kernel import About, origin

_SUFFIX = ".coverage.json"
_PLACES = 3
"""How many places of code that never ran an error names."""
_LABELS = 4
"""How many blocks of one place are named."""


class CoverageError(TilewrightError, AssertionError):
    """Calls ran less of the code of kernels than was asked for."""


@dataclass(frozen=True, slots=True)
class Covered:
    """What ran of one kernel.

    Attributes:
        title: What it computes, for which target, and under which schedule.
        table: Its blocks and masks.
        recorded: What it recorded: a byte for each block, and then one for each thing that each mask may be; 0 for what was not.
    """

    title: str
    table: Table
    recorded: bytes

    @property
    def instructions(self) -> int:
        """Instructions of LLVM IR in all of its code."""
        return sum(each.instructions for each in self.table.blocks)

    @property
    def ran(self) -> int:
        """Those in blocks that ran."""
        return sum(each.instructions for each, ran in zip(self.table.blocks, self.recorded, strict=False) if ran)

    @property
    def missed(self) -> tuple[Block, ...]:
        """The blocks that never ran."""
        return tuple(each for each, ran in zip(self.table.blocks, self.recorded, strict=False) if not ran)

    def masks(self, what: str) -> list[bool]:
        """Of each mask, whether it was "empty", "partial" or "full"."""
        return [byte > 0 for byte in self.recorded[len(self.table.blocks) :][MASKS.index(what) :: len(MASKS)]]

    def lines(self) -> Iterator[str]:
        """The report, for people."""
        blocks, masks = self.table.blocks, self.table.masks
        total, ran = self.instructions, sum(map(bool, self.recorded[: len(blocks)]))
        yield f"{self.title}: {_percent(self.ran, total)} of {total} instructions, {ran} of {len(blocks)} blocks"
        if masks:
            full, partial = (sum(self.masks(what)) for what in ("full", "partial"))
            yield f"  of {len(masks)} masks, {full} were full, and {partial} partial"
        for function in dict.fromkeys(each.function for each in blocks):
            yield from self._function(function)

    def _function(self, function: str) -> Iterator[str]:
        """What never ran of one function, by the line of the schedule and the loops."""
        own = [
            (each, ran)
            for each, ran in zip(self.table.blocks, self.recorded, strict=False)
            if each.function == function
        ]
        total = sum(each.instructions for each, _ in own)
        yield f"  {function}: {_percent(sum(each.instructions for each, ran in own if ran), total)} of {total}"
        for place in dict.fromkeys(each.origin for each, ran in own if not ran):
            missed = [each for each, ran in own if not ran and each.origin == place]
            labels = ", ".join(f"%{each.label}" for each in missed[:_LABELS])
            more = ", …" if len(missed) > _LABELS else ""
            count = sum(each.instructions for each in missed)
            yield f"    never ran: {place or 'no line of a schedule'}: {count} instructions ({labels}{more})"
        for what in ("full", "partial"):
            never: Counter[tuple[str, str]] = Counter()
            for mask, seen in zip(self.table.masks, self.masks(what), strict=True):
                block = self.table.blocks[mask.block]
                if block.function == function and self.recorded[mask.block] and not seen:
                    never[mask.op, block.origin] += 1
            for (op, place), count in never.items():
                yield f"    never {what}: {count} masks of {op}: {place or 'no line of a schedule'}"


class Coverage:
    """What ran of the kernels that were compiled inside `coverage`, so far.

    ``str`` of it is a report: of each kernel and each function in it, such as one case of a kernel with dynamic extents, the part
    that ran, and the schedule lines and loops of what never did.
    """

    def __init__(self) -> None:
        """Starts with no kernel."""
        self._kernels: list[tuple[str, Table, Callable[[], bytes]]] = []

    def __repr__(self) -> str:
        """How many kernels it has seen; ``str`` is the report."""
        return f"<tilewright.Coverage: {len(self._kernels)} kernels>"

    @property
    def kernels(self) -> tuple[Covered, ...]:
        """What ran of each kernel; kernels that were compiled twice count once."""
        merged: dict[tuple[str, Table], bytes] = {}
        for title, table, recorded in self._kernels:
            before = merged.get((title, table), bytes(table.nbytes))
            merged[title, table] = bytes(a | b for a, b in zip(before, recorded(), strict=True))
        return tuple(Covered(title, table, recorded) for (title, table), recorded in merged.items())

    @property
    def percent(self) -> float:
        """The share of all instructions of LLVM IR that are in blocks that ran, in percent.

        Raises:
            TilewrightError: There are no kernels.
        """
        kernels = self._some()
        return 100 * sum(each.ran for each in kernels) / sum(each.instructions for each in kernels)

    def check(self, least: float = 95) -> None:
        """Checks that calls ran enough of the code.

        Args:
            least: The least share of the instructions of all kernels together, in percent.

        Raises:
            CoverageError: They ran less; it names most of what never ran. It is an AssertionError too, so that tests show it as a failure.
            TilewrightError: There are no kernels.
        """
        percent = self.percent
        if percent < least:
            missed: Counter[str] = Counter()
            for each in self.kernels:
                for block in each.missed:
                    missed[block.origin or block.function] += block.instructions
            most = ", ".join(f"{count} instructions of {place}" for place, count in missed.most_common(_PLACES))
            raise CoverageError(
                f"{percent:.1f} % of the code ran",
                where="coverage",
                expected=f"{least:g} %",
                remedy=f"Call the kernels with operands for what never ran, which str() of the coverage lists; most of it: {most}",
            )

    def __str__(self) -> str:
        """The report."""
        kernels = self.kernels
        total, ran = (sum(getattr(each, name) for each in kernels) for name in ("instructions", "ran"))
        lines = [line for each in kernels for line in each.lines()]
        return "\n".join([*lines, f"{len(kernels)} kernels: {_percent(ran, total)} of {total} instructions ran"])

    def watch(self, title: str, table: Table, recorded: Callable[[], bytes]) -> None:
        """Takes a kernel; `recorded` gives what it has recorded when it is called."""
        self._kernels.append((title, table, recorded))

    def write(self, folder: Path) -> None:
        """Writes what ran so far to a new file in a folder, which is made where there is none.

        Raises:
            TilewrightError: It cannot be written.
        """
        said = [[each.title, each.table.as_json(), each.recorded.hex()] for each in self.kernels]
        if said:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise TilewrightError(f"cannot make the folder {folder}: {error.strerror}", where="coverage") from None
            path = folder / f"{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}"
            files.write(path, json.dumps(said).encode(), "coverage")

    def read(self, folder: Path) -> None:
        """Adds what processes wrote to a folder.

        Raises:
            TilewrightError: A file of it cannot be read.
        """
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            try:
                for title, table, recorded in json.loads(path.read_text()):
                    known, seen = Table.from_json(table), bytes.fromhex(recorded)
                    if len(seen) != known.nbytes:
                        raise ValueError(f"{len(seen)} bytes are recorded of {known.nbytes}")
                    self.watch(str(title), known, functools.partial(bytes, seen))
            except (OSError, ValueError, TypeError) as error:
                raise TilewrightError(f"cannot read {path}: {error}", where="coverage") from None

    def _some(self) -> Sequence[Covered]:
        """The kernels, of which there is at least one."""
        kernels = self.kernels
        if not kernels:
            raise TilewrightError(
                "no kernel was compiled that records",
                where="coverage",
                remedy="Compile kernels, or load them from the cache, inside `with tw.coverage()`",
            )
        return kernels


_INSIDE: ContextVar[Coverage | None] = ContextVar("coverage that is recorded here", default=None)


@contextmanager
def coverage(into: str | PathLike[str] | None = None) -> Iterator[Coverage]:
    """Records which code of the kernels runs that this thread compiles inside.

    For example::

        with tw.coverage() as seen:
            kernel = tw.compile(tw.MatmulSpec(None, None, None))
            for m, n, k in shapes:
                kernel(np.ones((m, k), np.float32), np.ones((k, n), np.float32))
        seen.check(least=95)

    Their objects are instrumented: each block of their code stores a byte, and each vector mask what it is. Calls count later too. Kernels
    that an emulator runs are recorded as well, those of GPUs from their first call on; on a device they are not.
    ``TILEWRIGHT_COVERAGE`` does the same for all of a process, and ``tilewright coverage`` for a program with all its processes.

    Args:
        into: A folder to write it to at the end, to be read by `Coverage.read` or ``tilewright coverage``; None for none.

    Raises:
        TilewrightError: It cannot be written.
    """
    seen = Coverage()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        token = _INSIDE.set(seen)
        try:
            with knobs.overridden(TILEWRIGHT_COVERAGE=folder):
                yield seen
        finally:
            _INSIDE.reset(token)
        seen.read(Path(folder))  # Of child processes.
    if into is not None:
        seen.write(Path(into))


def title(about: About) -> str:
    """What a kernel computes, for which target, and under which schedule."""
    return f"{about.spec or 'a module'} {origin(about.metadata)}"


def linked(object_: bytes, entry: str, further: Sequence[str], title: str) -> Code:
    """Links functions of an object into this process; where it is wanted, what of them runs is recorded under a title."""
    if _wanted() is None or read(object_) is None:
        return Code(object_, entry, further)
    code = Code(object_, entry, [*further, COPY])
    copy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address_of(COPY))

    def recorded() -> bytes:
        assert code.address_of(COPY)  # The code stays as long as this function.
        table = read(object_)
        assert table is not None
        bytes_ = (ctypes.c_uint8 * table.nbytes)()
        copy(ctypes.addressof(bytes_))
        return bytes(bytes_)

    watch(title, object_, recorded)
    return code


def watch(title: str, object_: bytes, recorded: Callable[[], bytes]) -> None:
    """Has what of an object runs recorded under a title, where that is wanted; `recorded` gives it when it is called."""
    seen = _wanted()
    table = None if seen is None else read(object_)
    if seen is not None and table is not None:
        seen.watch(title, table, recorded)


def _wanted() -> Coverage | None:
    """Where this thread records, or else the process; None where nothing is recorded."""
    folder = knobs.load().coverage
    return _INSIDE.get() or (None if folder is None else _of_process(folder))


@functools.cache
def _of_process(folder: Path) -> Coverage:
    """What ran of the kernels of this process, which is written when it ends."""
    seen = Coverage()
    atexit.register(_write, seen, folder)
    return seen


def _write(seen: Coverage, folder: Path) -> None:
    """Writes at the end of a process. What cannot be written is said, and ends nothing."""
    try:
        seen.write(folder)
    except TilewrightError as error:
        sys.stderr.write(f"tilewright: {error}\n")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole if whole else 100:.1f} %"
