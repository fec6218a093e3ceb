# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the page asks for: reads a product, a target and a schedule from its JSON, and refuses what is wrong before any process starts."""

from __future__ import annotations

import ast
import base64
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.dims import written
from tilewright.errors import ScheduleError, SpecError
from tilewright.operator_specs import OPERATORS, OperatorSpec
from tilewright.payload import epilogues
from tilewright.spec import LAYOUTS, MatmulSpec
from tilewright.targets import gpu, resolve
from tilewright.targets.base import Target
from tilewright.targets.gpu import GpuTarget

_PRODUCT, MODULE = "product", "module"
KINDS = (_PRODUCT, *OPERATORS, MODULE)
"""What can be computed."""
LANGUAGES = ("py", "mlir")
"""Those of a schedule, as the suffixes of files."""
Spec = MatmulSpec | OperatorSpec | None
"""What is computed; None: what a module says."""
_MOST_TEXT = 1 << 19
"""Characters of a schedule."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One compilation.

    Attributes:
        spec: What is computed; None for a module, which `text` is.
        target: For which target.
        threads: Most threads of a call.
        language: That of the schedule, of `LANGUAGES`.
        text: The schedule.
        knobs: What its knobs are to be, by name.
        strategy: Ours whose schedule is wanted; empty for the one that is chosen.
    """

    spec: Spec
    target: Target | GpuTarget
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
    named = _word(asked, "target", "host")
    target = gpu(named) or resolve(named)
    text, language = _word(asked, "text", ""), _word(asked, "language", "mlir")
    if len(text) > _MOST_TEXT:
        raise ScheduleError(f"the schedule has {len(text)} characters", expected=f"at most {_MOST_TEXT}")
    if language not in LANGUAGES:
        raise ScheduleError(f"no language {language!r}", expected=f"one of {', '.join(LANGUAGES)}")
    strategy = _word(asked, "strategy", "")
    threads, knobs = asked.get("threads", 1), asked.get("knobs", {})
    if type(threads) is not int:
        raise SpecError(f"threads is {threads!r}", expected="a number")
    if not isinstance(knobs, dict) or any(type(each) is not int for each in knobs.values()):
        raise ScheduleError(f"knobs are {knobs!r}", expected="numbers by name")
    return Problem(_spec(asked, _word(asked, "operator", _PRODUCT)), target, threads, language, text, knobs, strategy)


def _spec(asked: Mapping[str, Any], operator: str) -> Spec:
    """What is computed: a product, of its fields; an operator, of the arguments that its class takes; None for a module."""
    if operator == MODULE:
        return None
    if operator == _PRODUCT:
        return _product(asked)
    if operator not in OPERATORS:
        raise SpecError(f"operator is {operator!r}", expected=f"one of {', '.join(KINDS)}")
    try:
        return OPERATORS[operator](**_arguments(_word(asked, "fields", "")))
    except TypeError as error:
        raise SpecError(f"{operator}: {error}", expected="the arguments of its spec") from None


def _arguments(text: str) -> dict[str, Any]:
    """Arguments by name, as Python writes them: ``n=1, h=56, padding=(1, 1)``. Their values are literals."""
    expected = "arguments by name, such as queries=128, keys=128, head=64"
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError
        names = [each.arg for each in call.keywords]
        if None in names or len({*names}) < len(names):
            raise ValueError
        return {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise SpecError(f"the spec is {text!r}", expected=expected) from None


def _product(asked: Mapping[str, Any]) -> MatmulSpec:
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
    epilogue, prologue = (_word(asked, name, "").strip() for name in ("epilogue", "prologue_b"))
    done = {"epilogue": epilogues.parse(epilogue) if epilogue else ()}
    done["prologue_b"] = epilogues.parse(prologue) if prologue else ()
    m, n, k = known
    types = _word(asked, "dtype", "f32").strip()
    return MatmulSpec.from_dtypes(m, n, k, types, layout=layout, beta=beta, **done)


def _word(asked: Mapping[str, Any], name: str, default: str) -> str:
    """A field that is text."""
    value = asked.get(name, default)
    if not isinstance(value, str):
        raise SpecError(f"{name} is {value!r}", expected="text")
    return value
