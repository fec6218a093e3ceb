# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a suite of other people's tests is, and how its programs run on one BLAS or another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LAST_LINES = 5
"""Of a program that fails, those that its failure quotes."""


@dataclass(frozen=True)
class Blas:
    """A BLAS under which programs run.

    Attributes:
        name: What reports call it.
        library: The file that is loaded before all others; None for the one that a program is linked with.
        emulator: The command, if any, that runs programs of another processor, which get the library by its option ``-E``.
        report: The file to which our library appends, for each process, what it served.
    """

    name: str
    library: Path | None = None
    emulator: tuple[str, ...] = ()
    report: Path | None = None

    def run(
        self,
        command: Sequence[str | Path],
        folder: Path,
        *,
        given: Path | str = "",
        minutes: float = 60,
        **variables: str,
    ) -> tuple[int, str]:
        """Runs a program in `folder`; its exit status, negative for a signal, and all that it prints.

        `given` is its standard input, as text or a file. A program that takes longer than `minutes` is ended, with all that it
        started, and counts as ended by SIGKILL.
        """
        words = [str(word) for word in command]
        environment = {**os.environ, **variables}
        if self.report:
            environment["TILEWRIGHT_BLAS_REPORT"] = str(self.report)
        if self.library and self.emulator:
            words = [*self.emulator, "-E", f"LD_PRELOAD={self.library}", *words]
        elif self.emulator:
            words = [*self.emulator, *words]
        elif self.library:
            environment["LD_PRELOAD"] = str(self.library)
        text = given.read_bytes() if isinstance(given, Path) else given.encode()
        with subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                printed, _ = process.communicate(text, timeout=minutes * 60)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                printed, _ = process.communicate()
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
        return process.returncode, printed.decode(errors="replace")

    def served(self) -> int:
        """How many calls our library served so far."""
        lines = self.report.read_text().splitlines() if self.report and self.report.is_file() else []
        return sum(sum(json.loads(line)["calls"].values()) for line in lines)


@dataclass
class Outcome:
    """What a suite found.

    Attributes:
        tests: How many tests ran.
        failures: A line for each that failed, the same one for the same failure in every run.
        details: What the programs said of failures, for a person.
        served: How many calls our library served.
    """

    tests: int = 0
    failures: set[str] = field(default_factory=set)
    details: list[str] = field(default_factory=list)
    served: int = 0

    def add(self, name: str, tests: int, failures: Iterable[str], status: int = 0, text: str = "") -> None:
        """Adds what the program `name` found; a program that ends by a signal, or finds nothing and fails, is a failure itself."""
        found = {f"{name}: {failure}" for failure in failures}
        if status < 0:
            found.add(f"{name}: ended by {signal.Signals(-status).name}")
        elif status and not found:
            found.add(f"{name}: exit status {status}")
        elif not tests:
            found.add(f"{name}: tested nothing")
        self.tests += tests
        self.failures |= found
        if found:
            lines = text.strip().splitlines()[-_LAST_LINES:]
            self.details += [*sorted(found), *(f"    {line}" for line in lines)]


@dataclass(frozen=True)
class Suite:
    """A suite of tests.

    Attributes:
        name: What the command line and the table call it.
        about: What it is, in a few words.
        run: Runs it on a BLAS in an empty folder.
        missing: What has to be installed first; None when nothing.
        beside: Whether it also runs on the system's BLAS, to tell whose its failures are.
    """

    name: str
    about: str
    run: Callable[[Blas, Path], Outcome]
    missing: Callable[[], str | None]
    beside: bool = True


def needs(what: str, *patterns: str) -> Callable[[], str | None]:
    """A function that says `what` is missing unless each pattern, of absolute paths, matches a file."""

    def missing() -> str | None:
        found = all(any(Path("/").glob(pattern.removeprefix("/"))) for pattern in patterns)
        return None if found else f"{what} is not installed: make setup-outside"

    return missing


def built(command: Sequence[str | Path], folder: Path) -> None:
    """Builds something.

    Raises:
        RuntimeError: The command fails; the text is what it printed.
    """
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words[:3])} … failed:\n{done.stderr[-3000:]}")


def build(folder: Path, targets: Sequence[str] = ()) -> Path:
    """Our BLAS, made by `tilewright blas build` for these targets, by default those of this machine's kind.

    Raises:
        RuntimeError: It cannot be built; the text is what was printed.
    """
    program = Path(sys.executable).with_name("tilewright")
    built(
        [program, "blas", "build", "-o", folder, *(["--targets", ",".join(targets)] if targets else [])], folder.parent
    )
    return folder / "libtilewright_blas.so"
