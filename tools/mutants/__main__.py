# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the tests against small defects: `python tools/mutants [TEXT…]`. `make mutants` calls it; all of them take hours.

Each mutant of the table is put into a copy of the checkout, and the tests that have to notice it run there, one after the other
until one fails. With TEXT only the mutants run whose file has one of the texts in its name. What has been judged before, with
the same file and the same tests, is not run again. The exit status is 0 when at least 90 % of those that are not equivalent
were noticed, 1 when fewer were, and 2 when a test fails without any mutant.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import mutant_tree
from judging import Results, fails, judge
from mutant import ROOT, Mutant
from mutant_table import MUTANTS

_SHARE = 0.9
"""Of the mutants that are not equivalent, those that have to be noticed."""


def main(arguments: Sequence[str]) -> int:
    """Runs mutants and prints a line for each."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="part of a file's name")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants", help="of the copy and the results")
    parser.add_argument("--list", action="store_true", help="print the mutants and run none")
    options = parser.parse_args(arguments)
    chosen = [each for each in MUTANTS if not options.texts or any(text in each.file for text in options.texts)]
    if options.list:
        for each in chosen:
            print(f"{each.file}:{each.line()}  {'equivalent' if each.equivalent else ' '.join(each.tests)}")
        return 0
    results = Results(options.folder / "results.json")
    return judge_all([each for each in chosen if not each.equivalent], options.folder.resolve() / "tree", results)


def judge_all(mutants: Sequence[Mutant], copy: Path, results: Results) -> int:
    """Judges each of these in a copy of the checkout, which is made when the first one needs it."""
    noticed, python, sound = 0, None, set[str]()
    for number, mutant in enumerate(mutants, 1):
        by = results.get(mutant.digest())
        if by is None:
            python = python or mutant_tree.copy(copy)
            by = judge(mutant, copy, python)
            if by and by not in sound and fails(by, copy, python):
                print(f"mutants: {by} fails without any mutant", file=sys.stderr)
                return 2
            sound.add(by)
            results.put(mutant.digest(), by)
        noticed += bool(by)
        print(f"{number:3}/{len(mutants)} {mutant.file}:{mutant.line()}  {by or 'NOT NOTICED'}", flush=True)
    print(f"mutants: {noticed} of {len(mutants)} noticed")
    return 0 if noticed >= _SHARE * len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
