# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tunes products twice, each time from nothing, and says how often both searches chose the same, or choices that tie with each other."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from spaces import specs
from tilewright import targets
from tilewright.cli import output
from tilewright.errors import TilewrightError
from tilewright.records.database import Database
from tilewright.records.trial import Trial
from tilewright.runtime import products
from tilewright.runtime.kernel import Kernel
from tilewright.spec import MatmulSpec
from tilewright.targets import Target
from tilewright.tuning import product
from tilewright.tuning.race import WORTH, Race, Times

RUNS = 2


def main() -> int:
    """Tunes and compares; 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(prog="python tools/tuned/again.py", description=__doc__)
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of a search (10)")
    parser.add_argument("--only", default="", help="a part of the products' texts")
    given = parser.parse_args()
    target = targets.resolve("host")
    said: dict[str, int] = {"same": 0, "tied": 0, "other": 0}
    try:
        wanted = [each for each in specs() if given.only in str(each)]
        with output.progress_bar() as tell:
            for number, spec in enumerate(wanted):
                tell(number, len(wanted), str(spec))
                first, second = (_tuned(spec, target, given.budget) for _ in range(RUNS))
                outcome, gain = _compared(spec, target, first, second)
                said[outcome] += 1
                print(f"{spec}: {outcome} {gain:.3f}: {_said(first)}; {_said(second)}", flush=True)
    except TilewrightError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 1
    right = said["same"] + said["tied"]
    print(f"{right} of {sum(said.values())} the same or tied: {said}")
    return 0


def _tuned(spec: MatmulSpec, target: Target, seconds: float) -> Trial:
    """The last comparison of a search that knows of no other."""
    with tempfile.TemporaryDirectory() as folder, Database(Path(folder) / "trials.sqlite") as database:
        return product.tune(spec, target, database, seconds=seconds)


def _choice(last: Trial) -> tuple[str, dict[str, int]]:
    """What is compiled after a search."""
    if last.verdict == "won":
        return last.strategy, dict(last.sizes)
    return last.model["strategy"], dict(last.model["sizes"])


def _said(last: Trial) -> str:
    strategy, sizes = _choice(last)
    return f"{last.verdict} {last.gain:.3f} {strategy} {output.sizes_text(sizes)}"


def _compared(spec: MatmulSpec, target: Target, first: Trial, second: Trial) -> tuple[str, float]:
    """Whether two searches chose the same, and how fast the second choice is beside the first one."""
    if _choice(first) == _choice(second):
        return "same", 1.0
    times: Times = Race(_kernel(spec, target, first)).time(_kernel(spec, target, second), final=True)
    # Neither would be taken in the other's place.
    is_tied = times.verdict == "tied" or 1 / WORTH <= times.gain <= WORTH
    return "tied" if is_tied else "other", times.gain


def _kernel(spec: MatmulSpec, target: Target, last: Trial) -> Kernel:
    strategy, sizes = _choice(last)
    return products.compile(spec, target, 1, strategy, parameters=sizes, cache=True, verify=False)


if __name__ == "__main__":
    sys.exit(main())
