# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench --conv``: the convolutions of a network beside other libraries."""

from __future__ import annotations

import click

from tilewright.cli import bench_operators
from tilewright.errors import TilewrightError


def from_context(context: click.Context) -> int:
    """Measures what the options of ``bench`` say, of which only some apply.

    Raises:
        click.UsageError: Options that do not apply are given.
        TilewrightError: The network is unknown.
    """
    from tilewright.bench.convolution import COMPARISON, LAYERS
    from tilewright.bench.convolution.page import PAGE

    bench_operators.check(context, "--conv", "conv", *bench_operators.PARAMETERS)
    name = context.params["conv"]
    if name not in LAYERS:
        raise TilewrightError(f"no network {name!r}", where="--conv", expected=f"one of {', '.join(LAYERS)}")
    return bench_operators.compare(context, COMPARISON, LAYERS[name], PAGE)
