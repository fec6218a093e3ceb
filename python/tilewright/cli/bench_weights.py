# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench --weights``: products by quantized weights, beside the plain product and what memory delivers."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tilewright.cli import bench_operators
from tilewright.cli.output import console
from tilewright.runtime.files import require_writable, write

_PARAMETERS = (
    *("weights", "shapes", "suites", "dtypes", "layout", "target", "threads"),
    *("rounds", "sample_ms", "cache", "cold", "json_file"),
)
"""Those of ``bench`` that mean something with ``--weights``."""


def from_context(context: click.Context) -> int:
    """Measures what the options of ``bench`` say, of which only some apply.

    Raises:
        click.UsageError: Options that do not apply are given, or no shape.
        TilewrightError: The weights are none that there are, or a result is wrong.
    """
    from tilewright.bench import parse_shape, suite, weights

    given = context.params
    bench_operators.check(context, "--weights", *_PARAMETERS)
    if given["json_file"]:
        require_writable(Path(given["json_file"]), "--json")
    shapes = [parse_shape("x".join(map(str, each))) for each in given["shapes"]]
    shapes += [shape for name in given["suites"] for shape in suite(name).shapes]
    if not shapes:
        raise click.UsageError("nothing to measure; expected --shape MxNxK or --suite NAME")
    out = console(stderr=given["json_file"] == "-")
    asked = [
        (weights.problem(shape, dtype, given["weights"], given["layout"]), given["weights"])
        for dtype in dict.fromkeys(given["dtypes"])
        for shape in shapes
    ]
    results = weights.run(
        asked,
        target=given["target"],
        threads=given["threads"][0],
        rounds=given["rounds"],
        min_seconds=given["sample_ms"] / 1000,
        cache="cold" if given["cold"] or given["cache"] == "cold" else "hot",
        done=lambda each: out.print(str(each), soft_wrap=True, highlight=False),
    )
    out.print(weights.summary(results), soft_wrap=True, highlight=False)
    if given["json_file"]:
        text = json.dumps([each.as_json() for each in results], indent=1)
        write(Path(given["json_file"]), f"{text}\n".encode(), "--json")
    return 0
