# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench conv`` and ``attention``: operators beside other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tilewright.cli import bench_options, options
from tilewright.cli.bench_distributed import distributed
from tilewright.cli.bench_model import model
from tilewright.cli.bench_outputs import Outputs
from tilewright.cli.output import console
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.bench.operators.page import Page
    from tilewright.bench.operators.results import Result

Named = TypeVar("Named")

SHARED = options.together(
    bench_options.dtypes,
    bench_options.threads,
    bench_options.peers,
    bench_options.effort,
    bench_options.json_file,
    bench_options.resume,
    bench_options.report,
)
"""The options of all comparisons."""
_options = options.together(bench_options.target, SHARED, options.executor)
"""Those of operators, which are compiled for a target."""


@options.verb(short_help="Convolutions of a network beside other libraries.")
@click.argument("network")
@click.option("--images", type=click.IntRange(min=1), default=1, show_default=True, help="How many at once.")
@_options
def conv(network: str, images: int, **given: Any) -> int:  # noqa: ANN401 - of `_options`
    """Measure the distinct convolutions of NETWORK (resnet50, mobilenetv3 or convnext), filters packed ahead, beside other libraries."""
    from tilewright.bench.convolution import COMPARISON, LAYERS
    from tilewright.bench.convolution.page import PAGE

    layers = [replace(each, images=images) for each in named(network, LAYERS, "network")]
    several = f" --images {images}" if images > 1 else ""
    return compare(
        partial(COMPARISON.run, layers, target=given["target"], jobs=given["executor"]),
        PAGE,
        f"conv {network}{several}",
        given,
    )


@options.verb(short_help="Attention beside torch's.")
@click.argument("suite")
@_options
def attention(suite: str, **given: Any) -> int:  # noqa: ANN401 - of `_options`
    """Measure the attention of SUITE (prefill, decode or all) beside torch's."""
    from tilewright.bench.attention import COMPARISON, SUITES
    from tilewright.bench.attention.page import PAGE

    known = {**SUITES, "all": tuple(case for each in SUITES.values() for case in each)}
    cases = named(suite, known, "suite of attention")
    run = partial(COMPARISON.run, cases, target=given["target"], jobs=given["executor"])
    return compare(run, PAGE, f"attention {suite}", given)


COMPARED = (conv, attention, model, distributed)
"""The verbs that compare operators, models made of them, and products over processes with other libraries."""


def named(name: str, known: Mapping[str, Sequence[Named]], what: str) -> Sequence[Named]:
    """What a name on the command line stands for.

    Raises:
        TilewrightError: Nothing.
    """
    if name not in known:
        raise TilewrightError(f"no {what} {name!r}", where="bench", expected=f"one of {', '.join(known)}")
    return known[name]


def compare(run: Callable[..., list[Result]], page: Page, words: str, given: Mapping[str, Any]) -> int:
    """Measures by `run` as the options say, and writes what comes out; `words` ask for it on the command line.

    Raises:
        TilewrightError: A type or a library is unknown or not there.
    """
    from tilewright.bench import results

    outputs = Outputs.of(given, words)
    outputs.check()
    out = console(stderr=outputs.json_file == "-")
    earlier = outputs.earlier(given["resume"])
    keep = outputs.growing(earlier)

    def done(result: Result) -> None:
        keep(result)
        out.print(f"{result.case} {result.asked}", style="dim", highlight=False)

    found: list[Result] = []
    for asked in dict.fromkeys(given["dtypes"]):
        found += run(
            asked=asked,
            libraries=None if given["peers"] is None else list(given["peers"]),
            threads=given["threads"],
            rounds=given["rounds"],
            min_seconds=given["sample_ms"] / 1000,
            finished=results.operators(earlier),
            done=done,
        )
        for line in page.table([each for each in found if each.asked == asked]):
            out.print(line, soft_wrap=True, markup=False, highlight=False)
    outputs.write_json(found)
    outputs.write_page(page.markdown(found, outputs.command))
    return 0


def show(results: Iterable[Result]) -> None:
    """Prints an earlier result."""
    from tilewright.bench.operators.pages import PAGES

    every = list(results)
    for name, page in PAGES.items():
        for asked in dict.fromkeys(each.asked for each in every if each.operator == name):
            for line in page.table([each for each in every if (each.operator, each.asked) == (name, asked)]):
                console().print(line, soft_wrap=True, markup=False, highlight=False)
