# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the lab's page with what it shows as one HTML file, which needs no server and loads nothing."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tilewright.errors import SpecError
from tilewright.lab import bundle, shown

LIMIT = 10**6
"""Bytes of a page: 1 MB."""
_MOST = 1 << 28
"""Bytes of what a page holds."""
_CUTS = (12_000, 3_000, 800, 200)
"""Lines of each stage that pages show, the first number with which one is small enough."""
_JOINED = "LLVM's passes are one step here: a page has no room for more. `tilewright trace` shows each."
_STAGED = "Stages are the steps here: a page has no room for more. `tilewright trace` shows each pass."


def fitting(holds: Mapping[str, Any]) -> str:
    """The page with as much of what it is to hold as `LIMIT` leaves room for; it says what is left out.

    Args:
        holds: ``problem``, ``answer``, ``trace`` and ``ran``, as the page has them; a trace that is None is of whole stages.
    """
    page = ""
    for less in _details(holds):
        page = bundle.page().replace(bundle.PLACE, packed(less))
        if len(page.encode()) <= LIMIT:
            break
    return page


def packed(value: object) -> str:
    """A value as pages hold it: JSON, packed as browsers' "deflate-raw" is, in base64's letters for addresses."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    data = packer.compress(json.dumps(value, separators=(",", ":")).encode()) + packer.flush()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unpacked(text: str) -> Any:  # noqa: ANN401 - JSON
    """The value of which `packed`, or a page, made a text.

    Raises:
        SpecError: It is none.
    """
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        plain = unpacker.decompress(data, _MOST)
        if unpacker.unconsumed_tail:
            raise ValueError(f"more than {_MOST} bytes")
        return json.loads(plain)
    except (ValueError, zlib.error) as error:
        raise SpecError(f"no packed page: {error}", expected="what a page of the lab sends") from None


def _details(holds: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What a page is to hold, and less and less of it."""
    answer, trace = holds["answer"], holds["trace"]
    if trace is not None:
        yield dict(holds)
        yield {**holds, "trace": _joined(trace) | {"left_out": _JOINED}}
    for most in _CUTS:
        cut = answer | {"texts": _cut(answer["texts"], most)}
        failed = "" if trace is None else trace["failed"]
        yield {**holds, "answer": cut, "trace": shown.stage_steps(cut) | {"left_out": _STAGED, "failed": failed}}


def _joined(trace: Mapping[str, Any]) -> dict[str, Any]:
    """A trace with LLVM's passes that follow one another as one step, and without the texts between them."""
    steps: list[dict[str, Any]] = []
    for step in trace["steps"]:
        if step["kind"] == shown.LLVM and steps and steps[-1]["kind"] == shown.LLVM:
            steps[-1]["after"] = step["after"]
            steps[-1]["seconds"] += step["seconds"]
        else:
            named = {"name": "all passes"} if step["kind"] == shown.LLVM else {}
            steps.append({**step, **named})
    numbers: dict[int, int] = {}
    for step in steps:
        for end in ("before", "after"):
            step[end] = numbers.setdefault(step[end], len(numbers))
    return {**trace, "steps": steps, "texts": _kept(trace["texts"], numbers)}


def _kept(texts: Mapping[str, Any], numbers: Iterable[int]) -> dict[str, Any]:
    """Some of the texts, in this order, with the lines that they have."""
    lines: dict[int, int] = {}
    made = [[lines.setdefault(at, len(lines)) for at in texts["texts"][number]] for number in numbers]
    return {"lines": [texts["lines"][at] for at in lines], "sources": texts["sources"], "texts": made}


def _cut(texts: Mapping[str, Any], most: int) -> dict[str, Any]:
    """The texts with so many lines of each."""
    lines = list(texts["lines"])
    made = []
    for text in texts["texts"]:
        if len(text) > most:
            lines.append((f"... and {len(text) - most} lines", 0))
            made.append([*text[:most], len(lines) - 1])
        else:
            made.append(text)
    return _kept({**texts, "lines": lines, "texts": made}, range(len(made)))
