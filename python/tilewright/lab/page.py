# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the lab's page with what it shows as one HTML file, which needs no server and loads nothing."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.emit.pipeline import Record
from tilewright.lab import bundle, shown
from tilewright.lab.shown import Renamed
from tilewright.runtime.step_trace import Trace
from tilewright.targets.base import Target
from tilewright.targets.gpu import GpuTarget

LIMIT = 1 << 20
"""Bytes of a page."""
_CUTS = (12_000, 3_000, 800, 200)
"""Lines of each stage that pages show, the first number with which one is small enough."""


def render(holds: Mapping[str, Any]) -> str:
    """The page that shows what it holds: ``problem``, ``answer``, ``trace`` and ``ran``, as its own export has them."""
    text = json.dumps(holds, separators=(",", ":")).encode()
    data = base64.urlsafe_b64encode(_deflated(text)).decode().rstrip("=")
    return bundle.page().replace(bundle.PLACE, data)


def fitting(
    problem: Mapping[str, Any],
    built: Record,
    trace: Trace | None,
    target: Target | GpuTarget,
    renamed: Renamed,
    more: Mapping[str, Any],
) -> str:
    """The page of a compilation with as much detail as `LIMIT` leaves room for; it says what is left out.

    Args:
        problem: What was compiled: ``title``, and ``text`` and ``language`` of the schedule.
        built: Its stages.
        trace: Its steps; None: its stages alone.
        target: For which target.
        renamed: Gives the places that are shown.
        more: What else the answer has.
    """
    page = ""
    for answer, steps in _details(built, trace, target, renamed):
        page = render({"problem": problem, "answer": {**answer, **more}, "trace": steps, "ran": None})
        if len(page.encode()) <= LIMIT:
            break
    return page


def _details(
    built: Record, trace: Trace | None, target: Target | GpuTarget, renamed: Renamed
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Stages and steps, from the most to the least detailed."""
    answer = shown.stages(built.texts, built.seconds, target, renamed)
    if trace is not None:
        yield answer, shown.steps(trace, renamed)
        left_out = "LLVM's passes are one step here: a page has no room for more. `tilewright trace` shows each."
        yield answer, shown.steps(trace, renamed, with_llvm=False) | {"left_out": left_out}
    left_out = "Stages are the steps here: a page has no room for more. `tilewright trace` shows each pass."
    for most in _CUTS:
        answer = shown.stages(built.texts, built.seconds, target, renamed, most)
        yield answer, shown.stage_steps(answer) | {"left_out": left_out}


def _deflated(data: bytes) -> bytes:
    """Packed as browsers' "deflate-raw" is."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()
