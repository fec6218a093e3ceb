# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times the likely candidates of products on this machine, hundreds of each, for the tests that replay the search.

Each space is written as soon as it has been measured, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import warnings
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tilewright import knobs, targets
from tilewright.bench.machine import describe
from tilewright.bench.suites import parse_shape
from tilewright.cli import output
from tilewright.errors import SlowScheduleWarning, TilewrightError
from tilewright.payload import spec_tables
from tilewright.runtime.kernel import Kernel
from tilewright.schedules import make
from tilewright.spec import MatmulSpec
from tilewright.targets import Target
from tilewright.tuning import candidates
from tilewright.tuning.candidates import Candidate, Space
from tilewright.tuning.race import Race

FILE = Path(__file__).resolve().parents[2] / "test" / "Inputs" / "tuning_spaces.json"
MOST = 400
"""Candidates of a space, the likely winners by the model of costs; then the neighbors of the best ones, until none is new."""
HILLS = 5
SHAPES = {
    "f32": (
        *("5x512x512", "96x97x96", "200x200x200", "33x7x1024", "64x512x512", "128x300x70", "2048x8x512", "16x1024x256"),
        *("700x65x128", "64x64x8192"),
    ),
    "f64": ("96x97x96", "24x512x512"),
    "bf16,bf16,f32": ("200x200x200", "16x512x1024", "4096x64x64"),
    "u8,i8,i32": ("64x64x512", "5x1024x512", "128x256x64"),
}
"""By types; some are products that `make tuned` ships too."""


def main() -> int:
    """Measures what the file does not have; 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(prog="python tools/tuned/spaces.py", description=__doc__)
    parser.parse_args()
    try:
        with knobs.overridden(TILEWRIGHT_NO_CACHE="1"):
            _measure(json.loads(FILE.read_text(encoding="utf-8")), targets.resolve("host"))
    except TilewrightError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 1
    return 0


def _measure(known: dict[str, Any], target: Target) -> None:
    """Measures the spaces that are not known, each of which is then written."""
    have = [each["spec"] for each in known["spaces"]]
    for spec in specs():
        table = spec_tables.table(spec)
        if table in have:
            continue
        measured = f"{describe()}, {datetime.now(timezone.utc).date()}"
        space = {"spec": table, "measured": measured, "gains": dict(_gains(spec, target))}
        known["spaces"].append(space)
        _write(known)
        best = max(space["gains"].items(), key=lambda each: each[1])
        print(f"{spec}: {len(space['gains'])} candidates, best {best[1]} {best[0]}", flush=True)


def specs() -> Iterator[MatmulSpec]:
    """The products of the spaces."""
    for types, shapes in SHAPES.items():
        for text in shapes:
            shape = parse_shape(text)
            yield MatmulSpec.from_dtypes(shape.m, shape.n, shape.k, types)


def _gains(spec: MatmulSpec, target: Target) -> Iterator[tuple[str, float]]:
    """What each candidate gains over the model's choice, the first one; those whose values do not fit the registers are left out."""
    space = candidates.of(spec, target, make.make(spec, target))
    first = _compiled(space, space.start)
    if first is None:
        raise TilewrightError(f"the model's choice for {spec} does not compile", where="spaces")
    race = Race(first)
    gains: dict[Candidate, float] = {}

    def measure(some: Iterator[Candidate] | list[Candidate], total: int) -> None:
        with output.progress_bar() as tell:
            for number, each in enumerate(some):
                tell(number, total, str(spec))
                if each in gains:
                    continue
                kernel = _compiled(space, each)
                gains[each] = race.time(kernel).gain if kernel is not None else 0.0

    measure([space.start, *itertools.islice(space.ordered, MOST)], MOST + 1)
    while True:
        best = sorted(gains, key=lambda each: -gains[each])[:HILLS]
        new = [each for hill in best for each in space.near(hill) if each not in gains]
        if not new:
            break
        measure(new, len(new))
    for each, gain in gains.items():
        if gain:
            sizes = dict(each.sizes)
            yield (
                " ".join([each.strategy, *(str(sizes[name]) for name in ("mr", "nr", "mc", "nc", "kc"))]),
                round(gain, 3),
            )


def _compiled(space: Space, candidate: Candidate) -> Kernel | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if candidate == space.start else "error", SlowScheduleWarning)
            return space.compile(candidate)
    except (TilewrightError, SlowScheduleWarning):
        return None


def _write(known: dict[str, Any]) -> None:
    """One line a space."""
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in known["spaces"])
    FILE.write_text(f'{{\n"about": {json.dumps(known["about"])},\n"spaces": [\n{lines}\n]\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
