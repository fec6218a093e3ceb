# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``python -m tilewright.bench.card FOLDER``: the half that runs on the machine with the card, without a compiler."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tilewright.bench.card import aims, bundle, measure, page, peers
from tilewright.errors import TilewrightError


def main(arguments: list[str] | None = None) -> int:
    """Runs the steps that are left; 1 when something is wrong, 2 when nothing can be run."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.bench.card", description=__doc__)
    parser.add_argument("folder", type=Path, help="the bundle, of tilewright bench card")
    parser.add_argument("--budget", type=float, help="seconds after which no further step begins")
    parser.add_argument("--report", type=Path, help="write what all runs so far measured as a page in Markdown")
    parser.add_argument("--records", type=Path, help="write further records there, not into the folder, and read both")
    parser.add_argument("--again", action="store_true", help="do steps again that failed, what broke included")
    parser.add_argument("--quick", action="store_true", help="only the steps of the first minutes")
    parser.add_argument("--without", action="append", default=[], choices=peers.ALL, help="leave a peer out")
    given = parser.parse_args(arguments)

    def tell(done: int, total: int, what: str) -> None:
        print(f"[{done}/{total}] {what}", file=sys.stderr, flush=True)  # noqa: T201 - it is a program

    try:
        records = measure.run(
            given.folder,
            given.budget,
            tell,
            to=given.records,
            again=given.again,
            quick=given.quick,
            without=given.without,
        )
    except TilewrightError as error:
        print(error, file=sys.stderr)  # noqa: T201 - likewise
        records = measure.read_file(given.records or given.folder / measure.RECORDS)
        if not records:
            return 2
    if given.report is not None:
        given.report.write_text(page.markdown(records, f"python -m tilewright.bench.card {given.folder}"))
    wrong = page.failures(records)
    rows = [" | ".join(row) for row in aims.verdicts(records)]
    done = sum(each["kind"] != "broken" for each in records)
    for line in (*wrong, *rows, f"{done} of {len(bundle.read_steps(given.folder))} steps are done"):
        print(line)  # noqa: T201 - likewise
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
