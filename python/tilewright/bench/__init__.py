# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Benchmarks: our kernels beside other libraries and the machine's measured peak, all timed in turn in one run.

What to call, in the order of a session::

    shapes = [parse_shape("384x1024x1024")]          # or suite("bert").shapes; SpecError for bad text or an unknown name
    for peer in peers.known():                       # Availability(name, library, missing)
        ...                                          # missing is None, or says what to install
    rows = run_suite(
        shapes,
        "bf16",                                      # or "u8,i8,i32"
        threads=1,
        target="host",
        peers=None,                                  # None: every peer that is installed; ("mkl",): must be there, or TilewrightError
        rounds=7,                                    # at least 7 for figures that are published; fewer is allowed
        schedule=None,                               # as in tilewright.compile
        parameters=None,                             # as in tilewright.compile
        cache="hot",                                 # or "cold": operands rotate through twice the last-level cache
        packed=False,                                # True: B packed ahead of time, by everyone that can
        progress=lambda event: ...,                  # Event(case, stage, done, total, row)
    )                                                # -> list[Row]; wrong numbers raise CheckError (exit status 1)
    every = cases(shapes, ["f32", "bf16"], [1, 2], ["hot", "cold"], [False, True])   # every combination
    rows = run_cases(every, Settings(rounds=7), finished={row.key: row for row in rows}, failed=lambda case, error: ...)
    json.dump([row.as_json() for row in rows], file) # the fields of `tilewright bench --json`; Row.from_json reads them
    for members in report.groups(rows).values():     # one type, number of threads, cache and way to pack B each
        console.print(report.table(members))         # rich Table: one line a shape; report.WIDTH columns, where not a terminal
        print(report.summary(members).text())        # geometric means of the ratios to each peer, the worst case, what is absent
    pictures.draw(rows, Path("pictures"))            # percent of peak of squares, ratios as bars and as a map, rooflines
    page.markdown(rows)                              # text for the documentation
    compare.compare(old, new)                        # two lists read from --json files -> list[Change], the regressions first

``Event.done`` of ``Event.total`` counts steps over the whole run, so ``progress.update(task, completed=event.done,
total=event.total)`` is a bar; ``event.row`` is the finished Row at the end of a case, and None before. The callback runs between
rounds, never during one. A progress bar with a refresh thread of its own disturbs nothing as long as it was started before the
run: only the calling thread is pinned, and it is given back its cores at the end.

How it measures is in docs/how-to/benchmark.md.
"""

from __future__ import annotations

from tilewright.bench import compare, page, peers, pictures, report, results
from tilewright.bench.checks import CheckError
from tilewright.bench.measure import Case, Event, cases, run_cases, run_suite
from tilewright.bench.rows import PeerResult, Rates, Row
from tilewright.bench.settings import Settings
from tilewright.bench.suites import SUITES, Shape, Suite, parse_shape, suite

__all__ = [
    "SUITES",
    "Case",
    "CheckError",
    "Event",
    "PeerResult",
    "Rates",
    "Row",
    "Settings",
    "Shape",
    "Suite",
    "cases",
    "compare",
    "page",
    "parse_shape",
    "peers",
    "pictures",
    "report",
    "results",
    "run_cases",
    "run_suite",
    "suite",
]
