# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Says beside each instruction of an assembly text which line of the schedule made it, and in which loops, by its line tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright.emit.assembly import ORIGIN

AMD, NVIDIA = ";", "//"
"""What starts a comment in assembly for GPUs."""
_NODE = re.compile(r"^!(\d+) = (?:distinct )?!(DI\w+)\((.*)\)$", re.MULTILINE)
_FIELD = re.compile(r'(\w+): (?:!(\d+)|"((?:[^"\\]|\\.)*)"|([^,]*))')
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?', re.MULTILINE)
_PLACE = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_TABLE = re.compile(
    r"\s*((\.L|\$L__)(tmp|func_begin|func_end|info|debug|str|abbrev|section)|\.(file|loc|cfi_sections)\b)"
)
_DEBUG_SECTION = re.compile(r"\s*\.section\s+\.debug")
_DEBUG = re.compile(r",? !dbg !(\d+)")
_TABLES_IR = re.compile(r"^!(\d+ = (distinct )?!DI|llvm\.dbg\.).*\n", re.MULTILINE)
_SECTION = re.compile(r"\s*\.(section|text|data|bss)\b")
_SASS_PLACE = re.compile(r'\s*//## File "([^"]*)", line (\d+)')
_SASS = re.compile(r"\s+/\*[0-9a-f]{4,}\*/")
_NO_FILE = "tilewright"
"""The file of what no schedule made."""
_LOOP = "loop"
"""How the names of inlined functions start that are loops: "loop ic", or "loop" for one without a name."""
_PACKAGE = str(Path(__file__).resolve().parents[1]) + "/"

_Nodes = Mapping[str, tuple[str, dict[str, str]]]
"""By number, the kind and the fields of a node of metadata."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where instructions come from.

    Attributes:
        file: The schedule's file; of one of ours, from the package on.
        line: Its line.
        loops: The names of the loops around them, the outermost first: "jc", or "loop" for one without a name.
    """

    file: str
    line: int
    loops: tuple[str, ...]

    def __str__(self) -> str:
        """For people: ``cpu/packed.py:120 in jc, pc, ic, jr, ir``."""
        return f"{self.file}:{self.line}" + (f" in {', '.join(self.loops)}" if self.loops else "")


def annotated(asm: str, llvm_ir: str, comment: str) -> str:
    """Assembly text without its line tables, and behind each instruction, as a comment, where it comes from.

    What LLVM added between instructions of a schedule, such as a zero for another way into a loop, has no line of its own: it counts as of
    the line before it. What no schedule made, such as the checks at the entry, has no comment.

    Args:
        asm: The text, with line tables.
        llvm_ir: What it was made of. The column of a place numbers the loops around it, and these are here.
        comment: What starts a comment.
    """
    loops = {each.key: each.origin.loops for each in places(llvm_ir).values() if each.origin}
    files: dict[str, str] = {}
    for number, folder, name in _FILE.findall(asm):  # PTX has them at its end.
        files[number] = f"{folder}/{name}" if folder and name else folder or name
    lines: list[str] = []
    origin, in_table = "", False
    for line in asm.splitlines():
        if _SECTION.match(line):
            in_table = _DEBUG_SECTION.match(line) is not None
        if in_table:
            continue
        if found := _PLACE.match(line):
            file, row = files[found[1]], int(found[2])
            if row:
                place = Origin(_short(file), row, loops.get((file, row, int(found[3])), ()))
                origin = f" {comment} {ORIGIN}{place}"
            elif file == _NO_FILE:
                origin = ""
        elif not _TABLE.match(line):
            is_instruction = line.startswith("\t") and not line.startswith("\t.") and line.strip() != ""
            lines.append(f"{line}{origin}" if is_instruction else line)
    return "\n".join(lines) + "\n"


def annotated_sass(disassembly: str) -> str:
    """What nvdisasm prints with lines, these behind each instruction, as `annotated` has them. The loops are not in it."""
    lines: list[str] = []
    origin = ""
    for line in disassembly.splitlines():
        if found := _SASS_PLACE.match(line):
            origin = f" {NVIDIA} {ORIGIN}{_short(found[1])}:{found[2]}" if int(found[2]) else ""
        else:
            lines.append(f"{line}{origin}" if _SASS.match(line) else line)
    return "\n".join(lines) + "\n"


def without_tables(llvm_ir: str) -> str:
    """LLVM IR for people: without the metadata of line tables."""
    return _TABLES_IR.sub("", _DEBUG.sub("", llvm_ir))


def located(llvm_ir: str) -> list[tuple[str, str]]:
    """The lines of `without_tables`, each with the file and line that its metadata tells, or nothing."""
    known = places(llvm_ir)
    made: list[tuple[str, str]] = []
    for line in _TABLES_IR.sub("", llvm_ir).splitlines():
        place = place_of(line, known)
        origin = place.origin if place else None
        made.append((_DEBUG.sub("", line), f"{origin.file}:{origin.line}" if origin else ""))
    return made


def _short(file: str) -> str:
    """A file; one of ours, from the folder of schedules or from the package on."""
    return file.removeprefix(_PACKAGE).removeprefix("schedules/")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an instruction comes from, as its debug location says.

    Attributes:
        origin: The line of the schedule and the loops; None for what no schedule made.
        function: The function that it was written in, before functions were inlined.
        key: The file, line and column, by which an assembly's line table names it.
    """

    origin: Origin | None
    function: str
    key: tuple[str, int, int]


def places(llvm_ir: str) -> Mapping[str, Place]:
    """The places of a module's instructions, by the number of their metadata."""
    nodes = _nodes(llvm_ir)
    return {number: _place(fields, nodes) for number, (kind, fields) in nodes.items() if kind == "DILocation"}


def place_of(line: str, known: Mapping[str, Place]) -> Place | None:
    """The place of an instruction, a line of LLVM IR; None where it has none."""
    found = _DEBUG.search(line)
    return known.get(found[1]) if found else None


def _place(fields: dict[str, str], nodes: _Nodes) -> Place:
    """What a debug location says. Loops are functions that are inlined where the loop stands."""

    def function_of(scope: str) -> str:
        kind, fields = nodes[scope]
        return function_of(fields["scope"]) if kind != "DISubprogram" else fields["name"]

    names, here = [function_of(fields["scope"])], fields
    while "inlinedAt" in here:
        here = nodes[here["inlinedAt"]][1]
        names.append(function_of(here["scope"]))
    loops = [name.removeprefix(f"{_LOOP} ") for name in names if name.startswith(_LOOP)]
    file, line = _file_of(fields["scope"], nodes), int(fields["line"])
    origin = Origin(_short(file), line, tuple(reversed(loops))) if line else None
    function = next((name for name in names if not name.startswith(_LOOP)), "")
    return Place(origin, function, (file, line, int(fields.get("column", "0"))))


def _nodes(llvm_ir: str) -> _Nodes:
    """The metadata of line tables, by number."""
    return {number: (kind, dict(_fields(rest))) for number, kind, rest in _NODE.findall(llvm_ir)}


def _file_of(scope: str, nodes: _Nodes) -> str:
    """The file of a scope."""
    file = nodes[nodes[scope][1]["file"]][1]
    return f"{file['directory']}/{file['filename']}" if file.get("directory") else file["filename"]


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """The fields of a metadata node: numbers of other nodes, texts, or words."""
    for name, node, quoted, word in _FIELD.findall(text):
        yield name, node or quoted or word
