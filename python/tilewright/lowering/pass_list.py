# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pass pipelines as trees of their text, MLIR's and LLVM's: taken apart, shortened, joined, and as lists that users edit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType

from tilewright.errors import LoweringError
from tilewright.knobs import REQUIRED as REQUIRED

_OPENING, _CLOSING = "({<", ")}>"
_PREFETCH = tuple(f"tilewright-prefetch-{what}" for what in ("tiles", "streams", "numbers"))
_OPTIONAL: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "bufferized": frozenset({"buffer-deallocation-simplification"}),
        "llvm": frozenset({"canonicalize", "cse", "loop-invariant-code-motion", *_PREFETCH}),
    }
)
"""By stage, the passes of MLIR's that only make a kernel faster. Before "llvm", what carries decisions out wants ops in canonical form."""


@dataclass(frozen=True, slots=True)
class Node:
    """A pass, or a manager of passes.

    Attributes:
        text: Its name and options.
        inner: What a manager runs, in order; None of a pass.
    """

    text: str
    inner: tuple[Node, ...] | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """The passes that a stage runs at one time.

    Attributes:
        stage: The stage.
        pipeline: The passes, as `mlir-opt --pass-pipeline` takes them, or in the stage "llvmir" as `opt -passes` does.
    """

    stage: str
    pipeline: str

    def __str__(self) -> str:
        """As in a file: ``bufferized: builtin.module(canonicalize, cse)``."""
        return f"{self.stage}: {self.pipeline}"


def read(text: str) -> tuple[Line, ...]:
    """The lines of a list, one of `Line` each; empty ones and those that start with # say nothing.

    Raises:
        LoweringError: A line is none.
    """
    lines: list[Line] = []
    for number, each in enumerate(text.splitlines(), 1):
        if each.strip() and not each.lstrip().startswith("#"):
            stage, colon, pipeline = each.partition(":")
            if not colon or not stage.strip().isalpha():
                raise LoweringError(
                    f"line {number} is {each.strip()!r}", where="the list of passes", expected="STAGE: PIPELINE"
                )
            lines.append(Line(stage.strip(), normal(pipeline)))
    return tuple(lines)


def written(lines: Iterable[Line]) -> str:
    """The text that `read` reads."""
    return "".join(f"{line}\n" for line in lines)


def normal(pipeline: str) -> str:
    """The text of a pipeline without its line breaks."""
    return " ".join(pipeline.split())


def one_by_one(pipeline: str) -> Iterator[tuple[str, str]]:
    """The name of each pass of a pipeline, in order, and a pipeline of that pass alone.

    ``builtin.module(cse, func.func(canonicalize{max-iterations=3}, cse))`` is ``builtin.module(cse)``,
    ``builtin.module(func.func(canonicalize{max-iterations=3}))`` and ``builtin.module(func.func(cse))``.
    """
    nodes = _read(pipeline)
    for number, path in enumerate(_paths(nodes)):
        yield name_of(path[-1]), _text(_kept(nodes, lambda index, _, wanted=number: index == wanted))


def passes(pipeline: str) -> list[tuple[str, ...]]:
    """Each pass of a pipeline, with its options, behind the managers that it is in."""
    return list(_paths(_read(pipeline)))


def name_of(text: str) -> str:
    """The name of a pass, without its options."""
    return text.split("{")[0].split("<")[0].strip()


def required(line: Line) -> str:
    """A pipeline of MLIR's without the passes that only make a kernel faster; empty where none is left."""
    return without(line.pipeline, _OPTIONAL.get(line.stage, frozenset()))


def without(pipeline: str, names: Collection[str]) -> str:
    """A pipeline without the passes of these names, wherever they stand; empty where none is left."""
    return _text(_kept(_read(pipeline), lambda _, text: name_of(text) not in names))


def joined(first: str, taken: int, second: str, left: int) -> str:
    """The first passes of a pipeline, `taken` of them, then those of another one behind its first `left`; managers that meet are one."""
    head = _kept(_read(first), lambda index, _: index < taken)
    return _text(_merged(head, _kept(_read(second), lambda index, _: index >= left)))


def _read(text: str) -> tuple[Node, ...]:
    """The nodes that stand side by side in a pipeline."""
    nodes: list[Node] = []
    for part in _parts(text):
        opening = part.find("(") if part.endswith(")") else -1
        inner = _read(part[opening + 1 : -1]) if opening >= 0 else None
        nodes.append(Node(part[:opening].strip() if opening >= 0 else part, inner))
    return tuple(nodes)


def _parts(text: str) -> Iterator[str]:
    """What stands between the commas of a text that are in no brackets."""
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        if character == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    if text[start:].strip():
        yield text[start:].strip()


def _paths(nodes: Sequence[Node], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The passes of nodes, each behind its managers."""
    for node in nodes:
        if node.inner is None:
            yield (*above, node.text)
        else:
            yield from _paths(node.inner, (*above, node.text))


def _kept(nodes: Sequence[Node], wants: Callable[[int, str], bool]) -> tuple[Node, ...]:
    """The nodes with those passes alone that are wanted, of which the number and the text are told; no manager is empty."""
    numbers = count()

    def kept(nodes: Sequence[Node]) -> tuple[Node, ...]:
        found: list[Node] = []
        for node in nodes:
            if node.inner is None:
                if wants(next(numbers), node.text):
                    found.append(node)
            elif inner := kept(node.inner):
                found.append(replace(node, inner=inner))
        return tuple(found)

    return kept(nodes)


def _merged(first: tuple[Node, ...], second: tuple[Node, ...]) -> tuple[Node, ...]:
    """Nodes behind nodes; where the last manager of the first is that of the second, one manager runs what both run."""
    if first and second:
        last, next_ = first[-1], second[0]
        if last.inner is not None and next_.inner is not None and last.text == next_.text:
            return (*first[:-1], replace(last, inner=_merged(last.inner, next_.inner)), *second[1:])
    return (*first, *second)


def _text(nodes: Iterable[Node]) -> str:
    """The text of nodes."""
    return ",".join(node.text if node.inner is None else f"{node.text}({_text(node.inner)})" for node in nodes)
