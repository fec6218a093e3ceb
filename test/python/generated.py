# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs generated cases of one part of the tests, each identified by its seed. A program.

Usage: generated.py PART [--first SEED] [--count N] [--seconds S] [--on host|TARGET|qemu:LEVEL|amx|gpu:TARGET|vulkan]

A part is a module with two functions: ``draw(seed)`` returns a case, the same in every run, whose text says all about it, and
``run(case, place, spent)`` compiles and checks it and returns in a word what came of it. A case is announced before it runs, so
that the last line of a process that a kernel ended names it; one that fails is reported, and the others go on. Where some cases
are not supported, as on GPUs, those are counted apart, and N others run.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol, cast

import tilewright as tw
from matrix_targets import Runner, runner

PARTS: Mapping[str, str] = MappingProxyType(
    {
        "specs": "matrix",
        "rows": "generated_rows",
        "operators": "generated_operators",
        "schedules": "generated_schedules",
        "mutants": "generated_mutants",
    }
)
"""The parts, and the modules that they are."""


class Part(Protocol):
    """What a part's module has."""

    def draw(self, seed: int) -> Any: ...

    def run(self, case: Any, place: Runner, spent: Counter[str]) -> str: ...


def part(name: str) -> Part:
    """The part of a name."""
    return cast("Part", importlib.import_module(PARTS[name]))


def main(name: str, first: int, count: int, seconds: float, on: str) -> int:
    """Runs `count` cases from a seed, or those of some seconds if these are over sooner; the status of the program."""
    of, place, until = part(name), runner(on), time.monotonic() + seconds
    came, spent, failed = Counter[str](), Counter[str](), list[int]()
    for seed in itertools.count(first):
        if came.total() + len(failed) >= count or time.monotonic() > until:
            break
        case = of.draw(seed)
        _say(f"{case} on {place.name}")
        try:
            outcome = of.run(case, place, spent)
            came[outcome] += 1
            _say(f"  {outcome}")
        except Exception as error:
            if place.refuses and isinstance(error, tw.SpecError):
                _say(f"  not supported: {error.what}")
                continue
            failed.append(seed)
            _say(f"{traceback.format_exc()}FAILED, again: generated.py {name} --first {seed} --count 1 --on {on}")
    parts = [f"{number} {what}" for what, number in came.items()]
    parts += [f"{len(failed)} failed, of seeds {', '.join(map(str, failed))}"] if failed else []
    parts += [f"{what} {milliseconds / 1000:.1f} s" for what, milliseconds in spent.items()]
    _say(f"{came.total() + len(failed)} {name} from seed {first} on {on}: {', '.join(parts)}")
    return 1 if failed else 0


def _say(line: str) -> None:
    """Writes a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=PARTS, metavar="PART")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--on", default="host")
    sys.exit(main(**vars(parser.parse_args())))
