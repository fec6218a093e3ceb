# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the results of ``tilewright bench`` go: JSON that grows while it measures, pictures, a page."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.errors import TilewrightError
from tilewright.runtime.files import require_writable, write

if TYPE_CHECKING:
    from tilewright.bench import Row
    from tilewright.bench.operators.results import Result
    from tilewright.bench.results import Measurements


@dataclass(frozen=True, slots=True)
class Outputs:
    """The options that name files.

    Attributes:
        json_file: ``--json``; of a folder, a file in it that is named for this machine.
        plots: ``--plots``.
        report: ``--report``.
        command: ``--command``.
    """

    json_file: str | None
    plots: str | None
    report: str | None
    command: str

    @classmethod
    def of(cls, given: Mapping[str, Any], words: str = "") -> Outputs:
        """Those of the options of a verb, which `words` after ``bench`` ask for.

        Raises:
            click.UsageError: There is a command for a page, and no page.
        """
        command = given.get("command")
        if command is not None and given["report"] is None:
            raise click.UsageError("--command given without --report; expected both")
        usual = " ".join(("tilewright bench", *words.split()))
        return cls(_file(given.get("json_file")), given.get("plots"), given.get("report"), command or usual)

    @property
    def wanted(self) -> bool:
        """Whether anything is to be made of the results besides JSON."""
        return any((self.plots, self.report))

    def check(self) -> None:
        """Checks, ahead of minutes of measuring, that the results can be written.

        Raises:
            TilewrightError: They cannot.
        """
        files = {"--json": self.json_file, "--report": self.report}
        for option, name in files.items():
            if name is not None:
                require_writable(Path(name), option)
        places = [Path(name).resolve() for name in files.values() if name not in (None, "-")]
        if len(set(places)) < len(places):
            raise TilewrightError(f"{self.report} is also --json", where="--report", expected="another file")
        if self.plots is not None and Path(self.plots).exists() and not Path(self.plots).is_dir():
            raise TilewrightError(f"{self.plots} is no folder", where="--plots", expected="a folder")
        self._require_matplotlib()

    def _require_matplotlib(self) -> None:
        from importlib.util import find_spec

        if self.plots and find_spec("matplotlib") is None:
            raise TilewrightError(
                "matplotlib is not installed",
                where="--plots",
                remedy="Install it with: pip install 'tilewright[bench]'",
            )

    def earlier(self, resume: bool) -> Measurements:
        """What ``--resume`` keeps; nothing where the file is not there yet.

        Raises:
            click.UsageError: There is no file to resume.
            TilewrightError: The file is no result, or of another machine.
        """
        from tilewright.bench import machine, results

        if not resume:
            return {}
        if self.json_file in (None, "-"):
            raise click.UsageError("--resume without a file; expected --json FILE with it")
        return results.of_this_machine(Path(str(self.json_file)), machine.describe())

    def growing(self, measured: Measurements) -> Callable[[Row | Result], None]:
        """Writes the JSON file anew with each measurement, so that a run that is broken off can be resumed."""
        from tilewright.bench import results

        return results.growing(measured, lambda text: None if self.json_file in (None, "-") else self._write(text))

    def write_json(self, measured: Sequence[Row | Result]) -> None:
        """Prints JSON where that is asked for; and makes the file where nothing was measured, so that nothing has grown."""
        from tilewright.bench import results

        if self.json_file == "-" or (self.json_file is not None and not Path(self.json_file).exists()):
            self._write(results.text({each.key: each for each in measured}))

    def write(self, rows: Sequence[Row]) -> None:
        """Writes everything that was asked for of products.

        Raises:
            TilewrightError: A file cannot be written.
        """
        from tilewright import bench

        self.write_json(rows)
        if not rows:
            return
        drawn = [] if self.plots is None else bench.pictures.draw(rows, Path(self.plots))
        if self.report is not None:
            beside = Path(self.report).resolve().parent
            links = {path.stem: os.path.relpath(path.resolve(), beside) for path in drawn}
            self.write_page(bench.page.markdown(rows, command=self.command, pictures=links))

    def write_page(self, text: str) -> None:
        """Writes a page where ``--report`` says, if it is given."""
        if self.report is not None:
            write(Path(self.report), text.encode(), "--report")

    def _write(self, text: str) -> None:
        write(Path(str(self.json_file)), text.encode(), "--json")


def _file(name: str | None) -> str | None:
    """The file that ``--json`` means; of a folder it is the one of this machine."""
    if name in (None, "-") or not Path(str(name)).is_dir():
        return name
    from tilewright.bench import machine

    return str(Path(str(name)) / f"{machine.slug(machine.describe())}.json")
