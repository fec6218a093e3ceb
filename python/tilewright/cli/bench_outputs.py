# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the results of ``tilewright bench`` go: JSON that grows while it measures, pictures, a page."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli.output import replacing, require_writable, write
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.bench import Row
    from tilewright.bench.rows import Key


@dataclass(frozen=True, slots=True)
class Outputs:
    """The options that name files.

    Attributes:
        json_file: ``--json``.
        plot: ``--plot``.
        plots: ``--plots``.
        report: ``--report``.
        command: ``--command``.
    """

    json_file: str | None
    plot: str | None
    plots: str | None
    report: str | None
    command: str

    @property
    def wanted(self) -> bool:
        """Whether anything is to be made of the results besides JSON."""
        return any((self.plot, self.plots, self.report))

    def check(self) -> None:
        """Checks, ahead of minutes of measuring, that the results can be written.

        Raises:
            TilewrightError: They cannot.
        """
        files = {"--json": self.json_file, "--plot": self.plot, "--report": self.report}
        for option, name in files.items():
            if name is not None and not (option == "--plot" and name == "-"):
                if option == "--plot":
                    from tilewright.bench import plot as drawing

                    drawing.require_suffix(Path(name))
                require_writable(Path(name), option)
        if self.plot == "-":
            raise TilewrightError("a picture is not printed", where="--plot", expected="a file ending in .png or .svg")
        places = [(option, Path(name).resolve()) for option, name in files.items() if name not in (None, "-")]
        for index, (option, place) in enumerate(places):
            for other, taken in places[:index]:
                if place == taken:
                    raise TilewrightError(f"{files[option]} is also {other}", where=option, expected="another file")
        if self.plots is not None and Path(self.plots).exists() and not Path(self.plots).is_dir():
            raise TilewrightError(f"{self.plots} is no folder", where="--plots", expected="a folder")
        self._require_matplotlib()

    def _require_matplotlib(self) -> None:
        from importlib.util import find_spec

        if (self.plot or self.plots) and find_spec("matplotlib") is None:
            raise TilewrightError(
                "matplotlib is not installed",
                where="--plot" if self.plot else "--plots",
                remedy="Install it with: pip install 'tilewright[bench]'",
            )

    def earlier(self, resume: bool) -> dict[Key, Row]:
        """The rows that ``--resume`` keeps; none where the file is not there yet.

        Raises:
            click.UsageError: There is no file to resume.
            TilewrightError: The file is no result.
        """
        from tilewright.bench import Row, compare

        if not resume:
            return {}
        if self.json_file in (None, "-"):
            raise click.UsageError("--resume without a file; expected --json FILE with it")
        path = Path(str(self.json_file))
        if not path.exists():
            return {}
        rows = [Row.from_json(each) for each in compare.read(path, "--resume")]
        return {row.key: row for row in rows}

    def growing(self, finished: Mapping[Key, Row]) -> Callable[[Row], None]:
        """Writes the JSON file anew with each finished row, so that a run that is broken off can be resumed."""
        rows = dict(finished)

        def keep(row: Row) -> None:
            rows[row.key] = row
            if self.json_file not in (None, "-"):
                self._write_json(list(rows.values()))

        return keep

    def write(self, rows: Sequence[Row]) -> None:
        """Writes everything that was asked for.

        Raises:
            TilewrightError: A file cannot be written.
        """
        from tilewright import bench

        if self.json_file == "-":
            self._write_json(rows)
        elif self.json_file is not None and not Path(self.json_file).exists():
            self._write_json(rows)  # nothing was measured, so nothing has grown
        if self.plot is not None:
            if len(bench.report.groups(rows)) > 1:
                raise TilewrightError(
                    "several types or ways to measure in one picture",
                    where="--plot",
                    remedy="Draw all with --plots DIR",
                )
            with replacing(Path(self.plot), "--plot") as temporary:
                bench.plot.gflops(rows, temporary)
        drawn = [] if self.plots is None else bench.pictures.draw(rows, Path(self.plots))
        if self.report is not None:
            beside = Path(self.report).resolve().parent
            links = {path.stem: os.path.relpath(path.resolve(), beside) for path in drawn}
            write(
                Path(self.report), bench.page.markdown(rows, command=self.command, pictures=links).encode(), "--report"
            )

    def _write_json(self, rows: Sequence[Row]) -> None:
        text = json.dumps([row.as_json() for row in rows], indent=1)
        write(Path(str(self.json_file)), f"{text}\n".encode(), "--json")
