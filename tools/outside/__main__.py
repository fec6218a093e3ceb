# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs other people's test suites on our BLAS: `python tools/outside [SUITE…]`. `make check-outside` calls it; all take hours.

Each suite runs on the system's BLAS and on ours, and only what fails on ours alone counts. What a suite found is kept in the
folder by the content of the library, and an interrupted run continues after the last suite that ended. The exit status is 0 when
nothing fails on ours alone, and 1 otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import array_suites
import compiled_suites
import netlib_suites
import platform_suites
import random_suites
from suite import ROOT, Blas, Outcome, Suite, build

SUITES: tuple[Suite, ...] = (
    *netlib_suites.SUITES,
    *compiled_suites.SUITES,
    *random_suites.SUITES,
    *platform_suites.SUITES,
    *array_suites.SUITES,
)


def main(arguments: Sequence[str]) -> int:
    """Runs suites and prints a table."""
    parser = argparse.ArgumentParser(prog="outside", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"one of {', '.join(each.name for each in SUITES)}")
    parser.add_argument(
        "--library", type=Path, help="a BLAS to run instead of the one that `tilewright blas build` makes"
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "outside", help="of the library and the results"
    )
    parser.add_argument("--again", action="store_true", help="run suites also where a result is kept")
    parser.add_argument("--list", action="store_true", help="print the suites and run none")
    options = parser.parse_args(arguments)
    unknown = set(options.suites) - {each.name for each in SUITES}
    if unknown:
        parser.error(f"unknown suite {' '.join(sorted(unknown))}; expected {', '.join(each.name for each in SUITES)}")
    chosen = [each for each in SUITES if not options.suites or each.name in options.suites]
    if options.list:
        for each in chosen:
            print(f"{each.name:14} {each.about}; {each.missing() or 'can run'}")
        return 0
    # What ends this program ends the one that it runs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    library = (options.library or build(folder / "blas")).resolve()
    rows = [_row(each, library, folder, again=options.again) for each in chosen]
    print(f"\n{'suite':14}{'tests':>10}{'ours':>8}{'system':>8}{'ours alone':>12}{'calls served':>14}")
    for row in rows:
        print(row[1])
    return 1 if any(failed for failed, _ in rows) else 0


def _row(suite: Suite, library: Path, folder: Path, *, again: bool) -> tuple[bool, str]:
    """Whether a suite fails on ours alone, and its line of the table; prints each failure."""
    if reason := suite.missing():
        return False, f"{suite.name:14}not run: {reason}"
    ours = kept(suite, Blas("ours", library), folder, again=again)
    system = kept(suite, Blas("system"), folder, again=again) if suite.beside else Outcome()
    alone = sorted(ours.failures - system.failures)
    for failure in alone:
        print(f"{suite.name}: ours alone: {failure}")
    theirs = f"{len(system.failures)}" if suite.beside else "–"
    return bool(
        alone
    ), f"{suite.name:14}{ours.tests:>10}{len(ours.failures):>8}{theirs:>8}{len(alone):>12}{ours.served:>14}"


def kept(suite: Suite, blas: Blas, folder: Path, *, again: bool) -> Outcome:
    """What a suite finds on a BLAS: from an earlier run with the same library and the same source of the suite, unless `again`."""
    content = blas.library.read_bytes() if blas.library else b""
    source = Path(inspect.getfile(suite.run)).read_bytes()
    digest = hashlib.sha256(content + source).hexdigest()[:16]
    path = folder / f"{suite.name}-{blas.name}-{digest}.json"
    if path.exists() and not again:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Outcome(found["tests"], set(found["failures"]), found["details"], found["served"])
    print(f"{suite.name} on {blas.name} …", end=" ", flush=True)
    start = time.monotonic()
    scratch = Path(tempfile.mkdtemp(prefix=f"{suite.name}-", dir=folder))
    blas = replace(blas, report=scratch / "served") if blas.library else blas
    try:
        inside = scratch / "inside"
        inside.mkdir()
        try:
            outcome = suite.run(blas, inside)
        except (OSError, RuntimeError) as error:
            # Other suites go on; this one is not kept, and runs again.
            print(f"cannot run: {error}", flush=True)
            return Outcome(0, {f"cannot run on {blas.name}"})
        outcome.served = blas.served()
    finally:
        shutil.rmtree(scratch)
    if blas.library and not outcome.served:
        outcome.failures.add("the library served no call")
    found = {
        "tests": outcome.tests,
        "failures": sorted(outcome.failures),
        "details": outcome.details,
        "served": outcome.served,
    }
    path.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(f"{outcome.tests} tests, {len(outcome.failures)} failures, {time.monotonic() - start:.0f} s", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
