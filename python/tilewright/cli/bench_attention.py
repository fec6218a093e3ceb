# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench --attention``: attention beside torch's."""

from __future__ import annotations

import click

from tilewright.cli import bench_operators
from tilewright.errors import TilewrightError


def from_context(context: click.Context) -> int:
    """Measures what the options of ``bench`` say, of which only some apply.

    Raises:
        click.UsageError: Options that do not apply are given.
        TilewrightError: The suite is unknown.
    """
    from tilewright.bench.attention import COMPARISON, SUITES
    from tilewright.bench.attention.page import PAGE

    bench_operators.check(context, "--attention", "attention", *bench_operators.PARAMETERS)
    known = {**SUITES, "all": tuple(case for suite in SUITES.values() for case in suite)}
    name = context.params["attention"]
    if name not in known:
        raise TilewrightError(f"no attention {name!r}", where="--attention", expected=f"one of {', '.join(known)}")
    return bench_operators.compare(context, COMPARISON, known[name], PAGE)
