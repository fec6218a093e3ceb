# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the page asks for: reads a product, a target and a schedule from its JSON, and refuses what is wrong before any process starts."""

from __future__ import annotations

import base64
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.dims import written
from tilewright.errors import ScheduleError, SpecError
from tilewright.payload import epilogues
from tilewright.schedules import select
from tilewright.spec import LAYOUTS, MatmulSpec
from tilewright.targets import resolve
from tilewright.targets.base import Target

LANGUAGES = ("py", "mlir")
"""Those of a schedule, as the suffixes of files."""
_MOST_TEXT = 1 << 19
"""Characters of a schedule."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One compilation.

    Attributes:
        spec: What is computed.
        target: For which target.
        threads: Most threads of a call.
        language: That of the schedule, of `LANGUAGES`.
        text: The schedule.
        knobs: What its knobs are to be, by name.
        strategy: Ours whose schedule is wanted; empty for the one that is chosen.
    """

    spec: MatmulSpec
    target: Target
    threads: int
    language: str
    text: str
    knobs: Mapping[str, int]
    strategy: str

    @property
    def name(self) -> str:
        """What errors call the schedule."""
        return f"schedule.{self.language}"

    def request(self, kind: str) -> dict[str, Any]:
        """What the child is asked."""
        return {
            "kind": kind,
            "wanted": base64.b64encode(pickle.dumps((self.spec, self.target))).decode(),
            "threads": self.threads,
            "name": self.name,
            "text": self.text,
            "knobs": dict(self.knobs),
            "strategy": self.strategy,
        }


def read(asked: object) -> Problem:
    """The problem that the page's JSON describes.

    Raises:
        SpecError: It describes no product, or no target that there is.
        ScheduleError: The schedule is none.
    """
    if not isinstance(asked, dict):
        raise SpecError("the request is no object", expected="a JSON object")
    target = resolve(_word(asked, "target", "host"))
    text, language = _word(asked, "text", ""), _word(asked, "language", "mlir")
    if len(text) > _MOST_TEXT:
        raise ScheduleError(f"the schedule has {len(text)} characters", expected=f"at most {_MOST_TEXT}")
    if language not in LANGUAGES:
        raise ScheduleError(f"no language {language!r}", expected=f"one of {', '.join(LANGUAGES)}")
    strategy = _word(asked, "strategy", "")
    if strategy:
        select.row(strategy)
    threads, knobs = asked.get("threads", 1), asked.get("knobs", {})
    if type(threads) is not int:
        raise SpecError(f"threads is {threads!r}", expected="a number")
    if not isinstance(knobs, dict) or any(type(each) is not int for each in knobs.values()):
        raise ScheduleError(f"knobs are {knobs!r}", expected="numbers by name")
    return Problem(_spec(asked), target, threads, language, text, knobs, strategy)


def _spec(asked: Mapping[str, Any]) -> MatmulSpec:
    shape, layout = _word(asked, "shape", ""), _word(asked, "layout", "nn")
    extents = [written(each) for each in re.split("[xX×]", shape.strip())]
    known = [each for each in extents if each is not None]
    if len(extents) != 3 or len(known) != 3:
        raise SpecError(f"shape is {shape!r}", expected="MxNxK, such as 384x1024x1024")
    if layout not in LAYOUTS:
        raise SpecError(f"layout is {layout!r}", expected=f"one of {', '.join(LAYOUTS)}")
    beta = asked.get("beta", 0)
    if beta not in (0, 1):
        raise SpecError(f"beta is {beta!r}", expected="0 or 1")
    epilogue = _word(asked, "epilogue", "").strip()
    entries = epilogues.parse(epilogue) if epilogue else ()
    m, n, k = known
    types = _word(asked, "dtype", "f32").strip()
    return MatmulSpec.from_dtypes(m, n, k, types, layout=layout, beta=beta, epilogue=entries)


def _word(asked: Mapping[str, Any], name: str, default: str) -> str:
    """A field that is text."""
    value = asked.get(name, default)
    if not isinstance(value, str):
        raise SpecError(f"{name} is {value!r}", expected="text")
    return value
