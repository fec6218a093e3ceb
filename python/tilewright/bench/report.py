# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tables and summaries that `tilewright bench` prints."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tilewright.bench.rows import Row
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

ABOVE = "*"
"""What marks a rate above the measured peak."""
WIDTH = 160
"""Columns that `table` needs with every peer."""
LOSS = 0.995
"""A ratio below this is a loss: rounded to two digits it is less than 1."""


def peer_names(rows: Iterable[Row]) -> list[str]:
    """The peers of all rows, in the order in which they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row.peers))


class Group(NamedTuple):
    """What the rows of one table have in common."""

    dtype: str
    target: str
    threads: int
    cold: bool
    packed: bool
    epilogue: str = ""
    layout: str = "nn"

    @property
    def slug(self) -> str:
        """A name for files: "f32-1t-hot"."""
        return f"{self.dtype.replace(',', '_')}-{self.way}"

    @property
    def way(self) -> str:
        """The same without the type, for what shows all types side by side: "1t-hot"."""
        layout = [] if self.layout == "nn" else [self.layout]
        packed = ["packed"] if self.packed else []
        epilogue = [re.sub(r"\W+", "_", self.epilogue)] if self.epilogue else []
        return "-".join([*layout, f"{self.threads}t", "cold" if self.cold else "hot", *packed, *epilogue])

    def title(self, target: str = "") -> str:
        """What the rows have in common, in words, the target among it where it is given."""
        layout = "" if self.layout == "nn" else self.layout
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        cache, packed = "cold" if self.cold else "hot", "B packed ahead" if self.packed else ""
        return ", ".join(filter(None, [self.dtype, layout, target, threads, cache, packed, self.epilogue]))


def groups(rows: Iterable[Row]) -> dict[Group, list[Row]]:
    """The rows of each table, in the order in which they first appear."""
    found: dict[Group, list[Row]] = {}
    for row in rows:
        what = Group(row.dtype, row.target, row.threads, row.cache == "cold", row.packed, row.epilogue, row.layout)
        found.setdefault(what, []).append(row)
    return found


def table(rows: Sequence[Row], *, title: str | None = None) -> Table:
    """A table with a line for each row: rate, percentages, ratio to each peer (above 1: we are faster), error, costs.

    Print it on a ``Console(width=WIDTH)`` where the output is no terminal, as rich assumes 80 columns there and would cut it.
    """
    from rich import box
    from rich.table import Table

    peers = peer_names(rows)
    made = Table(title=title or _title(rows), title_justify="left", header_style="bold", box=box.SIMPLE_HEAD)
    made.collapse_padding, made.pad_edge = True, False
    made.add_column("M×N×K", no_wrap=True)
    for heading in (
        *("GFLOP/s", "p20–p80", "%\npeak", "%\nroof"),
        *(f"times\n{name}" for name in peers),
        *("error", "compile\ns", "cached\nms", "bytes"),
    ):
        made.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        made.add_row(
            *rates(row),
            *(_ratio(row.ratio(name)) if name in row.peers else "" for name in peers),
            f"{row.rel_error:.1e}",
            f"{row.compile_seconds:.2f}",
            "" if row.cached_seconds is None else f"{row.cached_seconds * 1e3:.1f}",
            str(row.object_bytes),
        )
    return made


def rates(row: Row) -> tuple[str, str, str, str, str]:
    """The first cells of a row: shape, rate, its percentiles, percent of the peak and of the roofline."""
    percent = f"{row.percent_of_peak:.1f}{ABOVE if row.above_peak else ''}"
    return str(row.shape), f"{row.gflops:.1f}", row.ours.between(), percent, f"{row.percent_of_roofline:.1f}"


def _title(rows: Sequence[Row]) -> str:
    if not rows:
        return "nothing measured"
    peak = statistics.median(row.peak.median for row in rows)
    return f"{next(iter(groups(rows))).title(rows[0].target)}; measured peak {peak:.0f} GFLOP/s"


def _ratio(value: float) -> Text:
    """A ratio with a color: green when we are ahead, red when behind by more than 5 %."""
    from rich.text import Text

    return Text(f"{value:.2f}", style="green" if value >= 1 else "red" if value < 0.95 else "")


@dataclass(frozen=True, slots=True)
class Against:
    """All ratios to one peer.

    Attributes:
        peer: Its name, or "the best peer", whichever that is on each shape.
        geomean: Geometric mean of our speed over its, over the shapes.
        worst: The least ratio.
        worst_shape: Where that is.
        shapes: On how many shapes both were measured.
        version: What was measured; "" for the best peer.
    """

    peer: str
    geomean: float
    worst: float
    worst_shape: str
    shapes: int
    version: str


class Loss(NamedTuple):
    """A shape on which a peer was faster.

    Attributes:
        ratio: Our speed over its.
        shape: The shape.
        peer: The fastest of them.
    """

    ratio: float
    shape: str
    peer: str

    def __str__(self) -> str:
        """In words: "2048x8x2048 0.81 (xla)"."""
        return f"{self.shape} {self.ratio:.2f} ({self.peer})"


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in a few lines.

    Attributes:
        shapes: How many were measured.
        percent_of_peak: Median over the shapes.
        worst_percent: The least, and `worst_percent_shape` is where.
        worst_percent_shape: See there.
        against: One entry a peer.
        best: Against whichever peer is best on each shape; None without peers.
        absent: From the name of each peer that was left out of some shapes, or all, to why.
        losses: The shapes on which the best peer was faster, the worst first.
        above_peak: How many rates are above the measured peak.
    """

    shapes: int
    percent_of_peak: float
    worst_percent: float
    worst_percent_shape: str
    against: tuple[Against, ...]
    best: Against | None
    absent: Mapping[str, str]
    losses: tuple[Loss, ...]
    above_peak: int

    def text(self) -> str:
        """The summary as lines for people."""
        lines = [
            f"{self.shapes} shapes: median {self.percent_of_peak:.1f} % of the measured peak,"
            f" least {self.worst_percent:.1f} % at {self.worst_percent_shape}"
        ]
        if self.above_peak:
            lines.append(
                f"{ABOVE} above the measured peak, also when measured again: {self.above_peak} of {self.shapes}. The rate or the peak was"
                " disturbed by what else runs on the machine"
            )
        for each in (*self.against, *((self.best,) if self.best else ())):
            lines.append(
                f"times {each.peer}: geometric mean {each.geomean:.2f}, worst {each.worst:.2f} at {each.worst_shape}"
                + (f" ({each.version})" if each.version else "")
            )
        if self.best:
            where = f" on {len(self.losses)}: {', '.join(map(str, self.losses))}" if self.losses else " on none"
            lines.append(f"slower than the best peer{where}")
        for why in dict.fromkeys(self.absent.values()):
            names = [name for name, reason in self.absent.items() if reason == why]
            lines.append(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} absent: {why}")
        return "\n".join(lines)


def summary(rows: Sequence[Row]) -> Summary:
    """Sums up rows of one run.

    Raises:
        TilewrightError: There are none.
    """
    if not rows:
        raise TilewrightError("nothing was measured", where="bench", expected="at least one shape")
    percent = {str(row.shape): row.percent_of_peak for row in rows}
    lowest = min(percent, key=lambda shape: percent[shape])
    best = [(row, ratio) for row in rows if (ratio := row.ratio_to_best) is not None]
    return Summary(
        shapes=len(rows),
        percent_of_peak=statistics.median(percent.values()),
        worst_percent=percent[lowest],
        worst_percent_shape=lowest,
        against=tuple(
            _against(name, [(row, row.ratio(name)) for row in rows if name in row.peers]) for name in peer_names(rows)
        ),
        best=_against("the best peer", best) if best else None,
        absent=_absent(rows),
        losses=losses(rows),
        above_peak=sum(row.above_peak for row in rows),
    )


def losses(rows: Sequence[Row]) -> tuple[Loss, ...]:
    """The shapes on which the best peer was faster, the worst first."""
    found = ((row.best_peer, row.ratio_to_best, row) for row in rows)
    return tuple(
        sorted(Loss(ratio, str(row.shape), peer) for peer, ratio, row in found if peer and ratio and ratio < LOSS)
    )


def _absent(rows: Sequence[Row]) -> dict[str, str]:
    """Why a peer is not there; where it is there on other shapes, from how many it is missing."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(name for row in rows for name in row.absent):
        without = [row for row in rows if name in row.absent]
        first = without[0]
        where = "" if len(without) == len(rows) else f"on {len(without)} shapes, the first {first.shape}: "
        found[name] = where + first.absent[name]
    return found


def _against(peer: str, ratios: Sequence[tuple[Row, float]]) -> Against:
    worst, at = min((ratio, str(row.shape)) for row, ratio in ratios)
    first = ratios[0][0]
    return Against(
        peer=peer,
        geomean=statistics.geometric_mean(ratio for _, ratio in ratios),
        worst=worst,
        worst_shape=at,
        shapes=len(ratios),
        version=first.peers[peer].version if peer in first.peers else "",
    )
