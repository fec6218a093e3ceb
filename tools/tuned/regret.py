# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Says how much what ships loses on products that it was not tuned for: its choices beside the best candidates of the searched spaces.

These are timed anew, in turn with the choice, since code has changed since the spaces were measured. What was best on a machine with other
registers says little here: there, ``--search`` compares with what a search from nothing finds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from spaces import FILE
from tilewright import targets
from tilewright.errors import SlowScheduleWarning, TilewrightError
from tilewright.payload import spec_tables
from tilewright.records import lookup
from tilewright.records.database import Database
from tilewright.records.trial import Trial
from tilewright.runtime import products
from tilewright.runtime.kernel import Kernel
from tilewright.spec import MatmulSpec
from tilewright.targets import Target
from tilewright.tuning import product
from tilewright.tuning.race import Race

_SIZES = ("mr", "nr", "mc", "nc", "kc")


def main() -> int:
    """Compares and prints; 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(prog="python tools/tuned/regret.py", description=__doc__)
    parser.add_argument("--best", type=int, default=5, help="candidates of each space (5)")
    parser.add_argument("--compile", action="store_true", help="compile everything, and time nothing")
    parser.add_argument("--search", type=float, default=0.0, help="seconds of a search whose winner is the best (none)")
    parser.add_argument("--only", default="", help="a part of the products' texts")
    given = parser.parse_args()
    target = targets.resolve("host")
    lost: list[float] = []
    try:
        for space in json.loads(FILE.read_text(encoding="utf-8"))["spaces"]:
            spec = spec_tables.read(space["spec"], str(FILE))
            assert isinstance(spec, MatmulSpec), "spaces are of products"
            if given.only not in str(spec) or lookup.find(spec, target, 1) is not None:
                continue
            chosen = _chosen(spec, target)
            if given.search:
                last = _tuned(spec, target, given.search)
                lost.append(last.gain if last.verdict == "won" else 1.0)
                print(
                    f"{spec}: {lost[-1]:.3f} {_said(chosen)}; {last.verdict} {last.strategy} {last.sizes}", flush=True
                )
                continue
            ranked = sorted(space["gains"], key=lambda each: -space["gains"][each])
            others = {each: _kernel(spec, target, each) for each in itertools.islice(ranked, given.best)}
            if given.compile:
                continue
            race = Race(chosen)
            gains = {each: race.time(kernel, final=True).gain for each, kernel in others.items()}
            best = max(gains, key=lambda each: gains[each])
            lost.append(max(gains[best], 1.0))
            print(f"{spec}: {lost[-1]:.3f} {_said(chosen)}; best {best}", flush=True)
    except TilewrightError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 1
    if lost:
        mean = math.exp(sum(map(math.log, lost)) / len(lost))
        print(f"{len(lost)} products: {mean:.3f} in the geometric mean, {max(lost):.3f} at worst")
    return 0


def _tuned(spec: MatmulSpec, target: Target, seconds: float) -> Trial:
    """The last comparison of a search that knows of no other."""
    with tempfile.TemporaryDirectory() as folder, Database(Path(folder) / "trials.sqlite") as database:
        return product.tune(spec, target, database, seconds=seconds)


def _chosen(spec: MatmulSpec, target: Target) -> Kernel:
    """What is compiled for a product."""
    return products.compile(spec, target, 1, None, parameters=None, cache=True, verify=False)


def _kernel(spec: MatmulSpec, target: Target, text: str) -> Kernel:
    """A candidate of a space."""
    strategy, *sizes = text.split()
    named: dict[str, Any] = dict(zip(_SIZES, map(int, sizes), strict=True))
    warnings.simplefilter("ignore", SlowScheduleWarning)
    return products.compile(spec, target, 1, strategy, parameters=named, cache=True, verify=False)


def _said(kernel: Kernel) -> str:
    """A choice, as the spaces have candidates."""
    facts = kernel.metadata
    return " ".join([facts.schedule, *(str(facts.parameters[name]) for name in _SIZES)])


if __name__ == "__main__":
    sys.exit(main())
