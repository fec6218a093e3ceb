# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes the text of a PTX module apart: variables, functions, and their statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from tilewright.errors import LoweringError

_IGNORED = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LINE_DIRECTIVE = re.compile(r"\.(?:version|target|address_size|file|loc)\b[^\n]*")
_SECTION = re.compile(r"\.section\s+\S+\s*\{[^}]*\}")
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_INSTRUCTION = re.compile(r"(?:@(!?)\s*([\w$%]+)\s+)?([a-z]\w*(?:(?:\.|::)\w+)*)\s*(.*)", re.DOTALL)
_VARIABLE = re.compile(
    r"\.(?P<space>shared|global|const|local|param)\b(?P<middle>.*?)\.(?P<type>[a-z]\w*)\s+(?P<name>[A-Za-z_$%][\w$]*)"
    r"(?P<extents>(?:\s*\[\s*\d*\s*\])*)\s*(?:=\s*(?P<value>.*))?",
    re.DOTALL,
)
_VECTOR = re.compile(r"\.v([248])\b")
_ALIGNED = re.compile(r"\.align\s+(\d+)")
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.DOTALL)
_FUNCTION = re.compile(
    r"\.(?P<kind>entry|func)\s*(?:\((?P<results>[^)]*)\))?\s*(?P<name>[\w$%]+)\s*(?:\((?P<parameters>.*?)\))?(?P<rest>[^()]*)",
    re.DOTALL,
)
_MOST_REGISTERS = 1 << 20
"""Of a declaration."""
_EXTENTS = r"\s+(\d+)\s*(?:,\s*(\d+)\s*)?(?:,\s*(\d+))?"


def wrong(line: int, what: str) -> LoweringError:
    """An error about a line of the text."""
    return LoweringError(what, where=f"line {line} of the PTX", expected="PTX that ptxas takes")


@dataclass(frozen=True, slots=True)
class Address:
    """A place in memory: ``[base+offset]``, or, of a tensor, ``[base, {coordinates}]``."""

    base: str
    offset: int
    coordinates: tuple[str, ...] = ()


Operand = str | Address | tuple[str, ...]
"""A register, number or name; a place in memory; or several in braces or around a bar."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction.

    Attributes:
        line: Where it stands.
        guard: The predicate that it is executed under; empty for always.
        unless: Whether that has to be false.
        name: Its name with all suffixes.
        operands: What it takes and gives.
    """

    line: int
    guard: str
    unless: bool
    name: str
    operands: tuple[Operand, ...]

    @property
    def parts(self) -> list[str]:
        """Its name and suffixes one by one."""
        return self.name.split(".")

    def has(self, *suffixes: str) -> bool:
        """Whether it has one of those suffixes."""
        return not set(self.parts[1:]).isdisjoint(suffixes)


@dataclass(frozen=True, slots=True)
class Label:
    """A place that branches go to: its name, and the line that it stands in."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Scope:
    """A brace: registers and labels behind an opening one are known up to the closing one."""

    opens: bool


@dataclass(frozen=True, slots=True)
class Registers:
    """Registers of a type: names, each with how many there are of ``name<count>``, or 0."""

    type: str
    names: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable, or a parameter.

    Attributes:
        space: shared, global, const, local or param.
        type: Of its elements.
        name: Its name.
        extents: Those of an array; a 0 where its length is left open. Empty: it is one element.
        align: Bytes; 0 for that of its type.
        value: Its first value as text; empty for none.
        vector: How many of the type an element has.
    """

    space: str
    type: str
    name: str
    extents: tuple[int, ...]
    align: int
    value: str = ""
    vector: int = 1

    @property
    def words(self) -> list[str]:
        """The numbers of the first value, as text."""
        return re.findall(r"[^\s,{}]+", self.value)


@dataclass(frozen=True, slots=True)
class Function:
    """A function.

    Attributes:
        name: Its name.
        is_kernel: Whether it can be launched.
        results: What it returns.
        parameters: What it takes.
        block: Threads that a block must have, along x, y and z; None where it does not say.
        cluster: Blocks that a cluster must have, likewise.
        body: Its statements; None of a declaration.
    """

    name: str
    is_kernel: bool
    results: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    block: tuple[int, int, int] | None
    cluster: tuple[int, int, int] | None
    body: tuple[Statement, ...] | None


Statement = Instruction | Label | Scope | Registers | Variable


def parsed(text: str) -> list[Function | Variable]:
    """The variables and functions of a module.

    Raises:
        LoweringError: It is no PTX.
    """
    return list(_Reader(text).module())


def _without_comments(text: str) -> str:
    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else "\n" * found[0].count("\n") or " "

    return _IGNORED.sub(blank, text)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = _without_comments(text)
        self._at = 0

    def module(self) -> Iterator[Function | Variable]:
        if not re.match(r"\s*\.version\s", self._text):
            raise LoweringError("no .version at its beginning", where="PTX", expected="the text of a PTX module")
        defined: set[str] = set()
        while self._skip():
            if self._take(_LINE_DIRECTIVE) or self._take(_SECTION):
                continue
            line, head, end = self._until(";{=")
            if end == "=":
                head += end + self._until(";")[1]
            if ".entry" in head or ".func" in head:
                made = self._function(line, head, has_body=end == "{")
                if made.body is not None and made.name in defined:
                    raise wrong(line, f"{made.name} is defined twice")
                defined |= {made.name} if made.body is not None else set()
                yield made
            elif _VARIABLE.search(head):
                made = _variable(line, head)
                if made.space in ("local", "param"):
                    raise wrong(line, f"{made.name} of the space .{made.space} is in no function")
                if made.name in defined:
                    raise wrong(line, f"{made.name} is defined twice")
                defined |= {made.name} if ".extern" not in head else set()
                yield made
            elif not head.lstrip().startswith((".alias", ".pragma")):
                raise wrong(line, f"cannot read {head.strip()[:60]!r}")

    def _function(self, line: int, head: str, *, has_body: bool) -> Function:
        found = _FUNCTION.search(head)
        if found is None:
            raise wrong(line, f"cannot read {head.strip()[:60]!r}")
        return Function(
            found["name"],
            found["kind"] == "entry",
            _variables(line, found["results"]),
            _variables(line, found["parameters"]),
            _extents("reqntid", found["rest"]),
            _extents("reqnctapercluster", found["rest"]),
            tuple(self._body()) if has_body else None,
        )

    def _body(self) -> Iterator[Statement]:
        depth = 1
        while self._skip():
            if self._text[self._at] in "{}":
                opens = self._text[self._at] == "{"
                self._at += 1
                depth += 1 if opens else -1
                if not depth:
                    return
                yield Scope(opens)
            elif (label := self._take(_LABEL)) is not None:
                yield Label(label[1], self._line())
            elif not self._take(_LINE_DIRECTIVE):
                yield from _statement(*self._until(";")[:2])
        raise wrong(self._line(), "a function without an end")

    def _skip(self) -> bool:
        """Past white space; whether anything follows."""
        found = re.compile(r"\s*").match(self._text, self._at)
        assert found is not None, "nothing always matches"
        self._at = found.end()
        return self._at < len(self._text)

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1

    def _until(self, ends: str) -> tuple[int, str, str]:
        """The line, the text up to the first of some characters, and that one."""
        found = re.compile(f"([^{ends}]*)([{ends}])").match(self._text, self._at)
        if found is None:
            raise wrong(self._line(), "a statement without an end")
        line = self._line()
        self._at = found.end()
        return line, found[1], found[2]


def _extents(name: str, text: str | None) -> tuple[int, int, int] | None:
    """What a directive of a kernel says of x, y and z."""
    found = re.search(rf"\.{name}{_EXTENTS}", text or "")
    return (int(found[1]), int(found[2] or 1), int(found[3] or 1)) if found else None


def _variables(line: int, text: str | None) -> tuple[Variable, ...]:
    return tuple(_variable(line, each) for each in (text or "").split(",") if each.strip())


def _variable(line: int, text: str) -> Variable:
    # A parameter's attributes (".ptr .global .align 1") say what a pointer points at, and nothing of the parameter.
    cleaned = re.sub(r"\.ptr\b.*?(?=[\w$%]+\s*$)", " ", text, flags=re.DOTALL)
    found = _VARIABLE.search(cleaned)
    if found is None:
        raise wrong(line, f"cannot read the variable {text.strip()[:60]!r}")
    align = _ALIGNED.search(found["middle"])
    extents = tuple(int(each or 0) for each in re.findall(r"\[\s*(\d*)\s*\]", found["extents"]))
    if align and int(align[1]).bit_count() != 1:
        raise wrong(line, f"{found['name']} is aligned to {align[1]} bytes, no power of two")
    vector = _VECTOR.search(found["middle"])
    made = Variable(
        found["space"],
        found["type"],
        found["name"],
        extents,
        int(align[1]) if align else 0,
        (found["value"] or "").strip(),
        int(vector[1]) if vector else 1,
    )
    if made.words and 0 in extents[:1]:  # As long as its first value says.
        made = replace(made, extents=(-(-len(made.words) // (made.vector * max(prod(extents[1:]), 1))), *extents[1:]))
    return made


def _statement(line: int, text: str) -> Iterator[Statement]:
    text = text.strip()
    if (registers := _REGISTERS.match(text)) is not None:
        names = re.findall(r"([\w$%]+)\s*(?:<\s*(\d+)\s*>)?", registers[2])
        counted = tuple((name, int(count or 0)) for name, count in names)
        if any(count > _MOST_REGISTERS for _, count in counted):
            raise wrong(line, f"more than {_MOST_REGISTERS} registers of a name")
        yield Registers(registers[1], counted)
    elif text.startswith((".local", ".shared", ".param")):
        yield _variable(line, text)
    elif text and not text.startswith("."):
        found = _INSTRUCTION.fullmatch(text)
        if found is None:
            raise wrong(line, f"cannot read {text[:60]!r}")
        operands = tuple(_operand(line, each) for each in _split(found[4]))
        yield Instruction(line, found[2] or "", bool(found[1]), found[3], operands)


def _split(text: str) -> list[str]:
    """What stands between commas that are in no bracket."""
    found, depth, start = [], 0, 0
    for at, each in enumerate(text):
        depth += (each in "[{(") - (each in "]})")
        if each == "," and not depth:
            found.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*found, last] if last or found else []


def _operand(line: int, text: str) -> Operand:
    if text.startswith("["):
        base, _, rest = text[1:-1].partition(",")
        coordinates = tuple(each.strip() for each in rest.strip().strip("{}").split(",")) if rest else ()
        found = re.fullmatch(r"\s*([\w$%.]+)\s*(?:([+-])\s*([+-]?\w+))?\s*", base)
        if found is None:
            raise wrong(line, f"cannot read the address {text}")
        try:
            offset = int(found[3], 0) if found[3] else 0
        except ValueError:
            raise wrong(line, f"cannot read the address {text}") from None
        return Address(found[1], -offset if found[2] == "-" else offset, coordinates)
    if text.startswith(("{", "(")):
        several = tuple(each.strip() for each in text[1:-1].split(",") if each.strip())
        if not several and text.startswith("{"):
            raise wrong(line, "braces without an operand")
        return several
    if "|" in text:
        return tuple(each.strip() for each in text.split("|"))
    return text
