# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every text that is written from results: whole pages, and blocks between markers in others."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import measured
import readme
import sentences
from published import COMMAND, FOLDER, PICTURES, Machine
from tilewright.bench import page, pictures
from tilewright.bench.operators.pages import PAGES
from tilewright.bench.operators.results import Result
from tilewright.bench.rows import Row
from tilewright.errors import TilewrightError

BLOCK = re.compile(r"(<!-- figures: (?P<name>[\w-]+)[^>]*-->\n)(?P<text>.*?)(<!-- end of figures -->)", re.DOTALL)
"""What stands between markers."""
BLOCKS: Mapping[str, Callable[[Machine, Path], Iterator[str]]] = {
    "picture": readme.picture,
    "speed": readme.speed,
    "few-rows": sentences.few_rows,
    "few-columns": sentences.few_columns,
    "threads": sentences.threads,
    "fused": sentences.fused,
    "convolutions": sentences.convolutions,
    "attention": sentences.attention,
    "blas": sentences.blas,
    "programs": sentences.programs,
    "models": sentences.models,
}
"""By the name in the marker, what writes it from one machine, for the page of that path: from the one measured last that has something
for it."""


@dataclass(frozen=True)
class Written:
    """A page that is written whole.

    Attributes:
        path: Below the checkout's root.
        title: Its heading.
        of: What of a machine it shows.
        body: The lines of a machine, from what it shows, the links to its pictures, and the level of headings.
    """

    path: Path
    title: str
    of: Callable[[Machine], Sequence[Row | Result]]
    body: Callable[[Sequence[Row | Result], Mapping[str, str], int], Iterable[str]]


def _products(rows: Sequence[Row | Result], links: Mapping[str, str], level: int) -> Iterable[str]:
    return page.body([each for each in rows if isinstance(each, Row)], command=COMMAND, pictures=links, level=level)


def _operator(name: str) -> Callable[[Sequence[Row | Result], Mapping[str, str], int], Iterable[str]]:
    def body(results: Sequence[Row | Result], links: Mapping[str, str], level: int) -> Iterable[str]:
        return PAGES[name].body([each for each in results if isinstance(each, Result)], COMMAND, level)

    return body


def _cases(name: str) -> Callable[[Machine], Sequence[Result]]:
    return lambda machine: [each for each in machine.operators if each.operator == name]


_REFERENCE = Path("docs/reference")
PRODUCTS = (
    Written(_REFERENCE / "benchmark_results.md", "Benchmark results", lambda each: each.plain, _products),
    Written(
        _REFERENCE / "epilogue_results.md",
        "Benchmark results: epilogues",
        lambda each: each.fused,
        _products,
    ),
)
_OPERATOR_PAGES = {
    "attention": "attention_results.md",
    "convolutions": "conv_results.md",
    "blas": "blas_results.md",
    "blas programs": "blas_programs_results.md",
    "models": "model_results.md",
}
PAGES_WRITTEN = (
    *PRODUCTS,
    *(
        Written(_REFERENCE / file, PAGES[name].title, _cases(name), _operator(name))
        for name, file in _OPERATOR_PAGES.items()
    ),
)
"""The pages, each of which is written once a machine has something for it."""


def texts(machines: Sequence[Machine], root: Path) -> dict[Path, str]:
    """Every file that has figures from results, by its path below the root, with the text that it should have.

    Raises:
        TilewrightError: A marker names no block.
    """
    made = {each.path: _page(each, machines) for each in PAGES_WRITTEN if any(map(each.of, machines))}
    made |= measured.pages(root)
    if not machines:
        return made
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        place = path.relative_to(root)
        text = path.read_text(encoding="utf-8")
        if place not in made and BLOCK.search(text):
            made[place] = BLOCK.sub(lambda found, place=place: _filled(found, machines, place), text)
    return made


def outside(text: str) -> str:
    """A page without its blocks; lines keep their numbers."""
    return BLOCK.sub(lambda found: "\n" * found[0].count("\n"), text)


def _filled(found: re.Match[str], machines: Sequence[Machine], place: Path) -> str:
    name = found["name"]
    if name not in BLOCKS:
        raise TilewrightError(f"{place} has a block {name!r}", where="figures", expected=f"one of {', '.join(BLOCKS)}")
    written = (list(BLOCKS[name](machine, place)) for machine in machines)
    return f"{found[1]}{_lines(next(filter(None, written), []))}{found[4]}"


def _page(written: Written, machines: Sequence[Machine]) -> str:
    data = os.path.relpath(FOLDER, written.path.parent)
    about = f"Written by `make bench-docs` from [what was measured]({data}); `{COMMAND}` measures anew."
    lines = [f"# {written.title}", "", about]
    for machine in machines:
        if shown := written.of(machine):
            body = written.body(shown, links(machine, written.path), 3)
            lines += ["", f"## {machine.name}", "", *body]
    return _lines(lines)


def links(machine: Machine, place: Path) -> dict[str, str]:
    """From the name of each picture that the page at `place` shows to the link."""
    of = next((each.of for each in PRODUCTS if each.path == place), None)
    rows = [row for row in of(machine) if isinstance(row, Row)] if of else []
    found = (PICTURES / machine.slug / name for name in pictures.names(rows))
    return {path.stem: os.path.relpath(path, place.parent) for path in found}


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
