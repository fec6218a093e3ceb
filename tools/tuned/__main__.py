# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tunes products on this machine, and writes what won into the package: the defaults of machines just like it.

The database with all trials is build/tuned.sqlite. Products that it has a last comparison of, by the same compiler, are done: an
interrupted run goes on where it was, and a machine that is free for minutes only is tuned in pieces.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tilewright import targets
from tilewright.bench.suites import parse_shape
from tilewright.cli import output
from tilewright.emit import versions
from tilewright.errors import TilewrightError
from tilewright.records import lookup, machine
from tilewright.records.database import Database, read_lines
from tilewright.spec import MatmulSpec
from tilewright.targets import Target
from tilewright.tuning import product

ROOT = Path(__file__).resolve().parents[2]
DATABASE = ROOT / "build" / "tuned.sqlite"
PRODUCTS = {
    "f32": (
        *("2048x8x2048", "1536x24x6144", "33x7x4096", "32768x8x512", "64x64x65536", "65536x64x64", "24x4096x1024"),
        *("5x2048x2048", "128x3072x768", "384x1024x1024", "96x640x2720", "700x65x700", "96x97x96", "128x4096x4096"),
    ),
    "bf16,bf16,f32": ("65536x64x64", "64x64x65536", "200x200x200", "24x4096x1024", "128x768x768"),
    "u8,i8,i32": ("64x64x65536", "5x2048x2048", "24x4096x1024", "512x512x512"),
    "f64": ("96x97x96", "512x512x512", "2048x8x2048"),
}
"""By types, shapes where the model of sizes is known to lose, and usual ones beside them."""


def main() -> int:
    """Tunes and writes; 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(prog="make tuned", description=__doc__)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds a product (60)")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="how long to begin with further products (no end)"
    )
    parser.add_argument("--only", default="", help="a part of the products' texts")
    given = parser.parse_args()
    try:
        target = targets.resolve("host")
        with Database(DATABASE) as database:
            left = _tune(database, target, given.budget, given.seconds, given.only)
            path = _ship(database, target)
    except TilewrightError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 1
    print(f"wrote {path.relative_to(ROOT)}{f'; {left} products are left, for the next run' if left else ''}")
    return 0


def _specs() -> Iterator[MatmulSpec]:
    for types, shapes in PRODUCTS.items():
        for text in shapes:
            shape = parse_shape(text)
            yield MatmulSpec.from_dtypes(shape.m, shape.n, shape.k, types)


def _tune(database: Database, target: Target, budget: float, seconds: float, only: str) -> int:
    """Tunes what is not done, and returns of how many products there was no time for that."""
    wanted = [each for each in _specs() if only in str(each) and not _is_done(database, target, each)]
    start = time.monotonic()
    with output.progress_bar() as tell:
        for number, spec in enumerate(wanted):
            if time.monotonic() - start > seconds:
                return len(wanted) - number
            tell(number, len(wanted), str(spec))
            last = product.tune(spec, target, database, seconds=budget)
            print(f"{spec}: {last.verdict} {last.gain:.3f} {last.strategy} {output.sizes_text(last.sizes)}", flush=True)
    return 0


def _is_done(database: Database, target: Target, spec: MatmulSpec) -> bool:
    """Whether the last comparison of a product is one by this compiler."""
    text = lookup.text(spec)
    last = None if text is None else database.latest(machine.key(target), text, 1)
    return last is not None and last.versions.get("compiler") == versions.fingerprint()


def _ship(database: Database, target: Target) -> Path:
    """Writes the last comparisons that were won; those of other runs stay where this database has none."""
    key = machine.key(target)
    path = lookup.SHIPPED / f"{key}.jsonl"
    known = {str(each.computed): each for each in read_lines(path)} if path.exists() else {}
    for spec in _specs():
        text = lookup.text(spec)
        last = None if text is None else database.latest(key, text, 1)
        if last is not None:
            known[str(spec)] = last
    lines = sorted(each.line for each in known.values() if each.verdict == "won")
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


if __name__ == "__main__":
    sys.exit(main())
