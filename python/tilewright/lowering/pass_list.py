# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes a pass pipeline apart into pipelines of one pass, which together do the same."""

from __future__ import annotations

from collections.abc import Iterator

_OPENING, _CLOSING = "({", ")}"


def one_by_one(pipeline: str) -> Iterator[tuple[str, str]]:
    """The name of each pass of a pipeline, in order, and a pipeline of that pass alone.

    ``builtin.module(cse, func.func(canonicalize{max-iterations=3}, cse))`` is ``builtin.module(cse)``,
    ``builtin.module(func.func(canonicalize{max-iterations=3}))`` and ``builtin.module(func.func(cse))``.
    """
    for each in _parts(pipeline):
        name = each.split("{")[0].split("(")[0].strip()
        if not each[len(name) :].startswith("("):
            yield name, each
            continue
        for inner, one in one_by_one(each[len(name) + 1 : -1]):
            yield inner, f"{name}({one})"


def _parts(text: str) -> Iterator[str]:
    """What stands between the commas of a text that are in no parentheses or braces."""
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        if character == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    if text[start:].strip():
        yield text[start:].strip()
