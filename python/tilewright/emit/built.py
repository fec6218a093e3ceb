# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What compiling functions of tensors gives: those of a module, or the one of an operator or of a chain of products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.emit import pipeline
from tilewright.payload.signature import Signature


@dataclass(slots=True)
class Built(pipeline.Record):
    """The stages that were run, and what the functions take and give.

    Attributes:
        functions: What each function takes and gives; known once the stage "bufferized" has run.
    """

    functions: tuple[Signature, ...] = ()

    @property
    def workspace(self) -> int:
        """Bytes of scratch memory that a call needs at most."""
        return max((each.workspace for each in self.functions), default=0)

    def as_json(self) -> dict[str, Any]:
        """What a child process answers, which `from_json` reads."""
        return pipeline.Record.as_json(self) | {"functions": [each.as_json() for each in self.functions]}

    @classmethod
    def from_json(cls, answer: Mapping[str, Any]) -> Built:
        """The value of which `as_json` made an answer."""
        functions = tuple(Signature.from_json(each) for each in answer["functions"])
        return cls(**pipeline.from_answer(answer), functions=functions)
