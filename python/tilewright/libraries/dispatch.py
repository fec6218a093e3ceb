# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM IR that chooses a kernel's code by the processor's features, at the kernel's first call.

Each C entry has a slot, whose first word is the address of the code that its calls go on to. It starts as that of a function that
chooses, and puts the choice there: a call is a load and a jump. There is no IFUNC, which C libraries and linkers do not all have.
Slots that were chosen are in a list, so that another cap has them choose again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.libraries import counting, detection
from tilewright.libraries.counting import Count
from tilewright.payload.abi import OK, UNKNOWN_LEVEL, UNSUPPORTED, WRONG_EXTENTS
from tilewright.targets.registry import family_of

CAP = "TILEWRIGHT_MAX_ISA"
"""The environment variable that names the highest level."""
_SHAPES = "%choice = type { i64, ptr, ptr }\n%slot = type { ptr, ptr, ptr, ptr, i32, ptr, ptr }"
"""A row of choices: features, code, level. A slot: where calls go, what chooses, the choices, the slot that chose before, whether it is
listed, what counts calls, and the code that it goes on to."""
_KNOWN = 1 << 63
"""Of a word of features: that it is one."""
_DECLARED = re.compile(r"(?P<result>\w+) (?P<name>\w+)\((?P<parameters>.*)\)")
_TYPES = {"int64_t": "i64", "int32_t": "i32"}


@dataclass(frozen=True, slots=True)
class Choice:
    """Code for one level.

    Attributes:
        mask: The features that it needs, as `detection.mask` has them.
        level: The name of its target.
        code: The symbol that the code of the kernel's entry has; those of its other entries are called after it.
    """

    mask: int
    level: str
    code: str


@dataclass(frozen=True, slots=True)
class Function:
    """A C entry of a kernel.

    Attributes:
        prototype: Its declaration.
        suffix: What its name has after the kernel's.
        refused: What it returns where no code fits the processor.
        extents: What its first arguments have to be, where its code does not check them; empty: anything.
        count: How its calls are counted for a trace; None: not at all.
    """

    prototype: str
    suffix: str = ""
    refused: int = UNSUPPORTED
    extents: tuple[int, ...] = ()
    count: Count | None = None


def symbols(library: str) -> dict[str, str]:
    """What the library's own functions and data are called in its objects, which no other library has."""
    return {name: f"{library}.{name}" for name in ("resolve", "level", "features", "slots", "cap", "have", "count")}


def entries(library: str, kernel: str, functions: Sequence[Function], choices: Sequence[Choice]) -> str:
    """The C entries of a kernel, and ``KERNEL_selected``, which names the level of its code.

    Args:
        library: The library's name.
        kernel: The kernel's name.
        functions: Its entries, of which the first one's code counts for all.
        choices: Its code, best first.
    """
    names = symbols(library)
    levels = {each.level: f"@level.{number}" for number, each in enumerate(choices)}
    lines = [
        f'{_SHAPES}\n{counting.RECORD}\ndeclare hidden ptr @"{names["resolve"]}"(ptr)',
        f'declare hidden void @"{names["count"]}"(ptr, ptr)',
        f'declare hidden ptr @"{names["level"]}"(ptr)',
        *(_text(symbol, level) for level, symbol in levels.items()),
    ]
    for function in functions:
        lines.append(_entry(function, choices, levels, names))
    lines.append(f"""
define ptr @{kernel}_selected() {{
  %r = call ptr @"{names["level"]}"(ptr @{kernel}{functions[0].suffix}.choices)
  ret ptr %r
}}
""")
    return "\n".join(lines)


def _entry(function: Function, choices: Sequence[Choice], levels: Mapping[str, str], names: Mapping[str, str]) -> str:
    found = _DECLARED.fullmatch(function.prototype)
    assert found is not None, function.prototype
    types = [] if found["parameters"] == "void" else [_type(each) for each in found["parameters"].split(", ")]
    name, result = found["name"], _TYPES[found["result"]]
    parameters = ", ".join(f"{type_} %a{number}" for number, type_ in enumerate(types))
    code = {each.code: f"declare hidden {result} @{each.code}{function.suffix}({', '.join(types)})" for each in choices}
    table = [
        f"%choice {{ i64 {each.mask}, ptr @{each.code}{function.suffix}, ptr {levels[each.level]} }}"
        for each in choices
    ]
    table.append(f"%choice {{ i64 0, ptr @{name}.none, ptr null }}")
    declared = "\n".join(code.values())
    counts = "" if function.count is None else counting.entry(name, result, types, function.count, names["count"])
    counted = f"@{name}.counted" if counts else "null"
    start = f"ptr @{name}.first, ptr @{name}.first, ptr @{name}.choices, ptr null, i32 0, ptr {counted}, ptr null"
    return f"""
{declared}{counts}
@{name}.choices = internal constant [{len(table)} x %choice] [{", ".join(table)}]
@{name}.slot = internal global %slot {{ {start} }}
define {result} @{name}({parameters}) {{
{_check(function)}  %code = load atomic ptr, ptr @{name}.slot acquire, align 8
  %r = tail call {result} %code({parameters})
  ret {result} %r
}}
define internal {result} @{name}.first({parameters}) {{
  %code = call ptr @"{names["resolve"]}"(ptr @{name}.slot)
  %r = tail call {result} %code({parameters})
  ret {result} %r
}}
define internal {result} @{name}.none({parameters}) {{
  ret {result} {function.refused}
}}
"""


def _check(function: Function) -> str:
    """What goes on only where the first arguments are the extents."""
    if not function.extents:
        return ""
    lines = [f"  %is{number} = icmp eq i64 %a{number}, {size}" for number, size in enumerate(function.extents)]
    lines.append("  %are0 = and i1 %is0, true")
    lines += [f"  %are{n} = and i1 %are{n - 1}, %is{n}" for n in range(1, len(function.extents))]
    last = f"%are{len(function.extents) - 1}"
    return "\n".join(
        [*lines, f"  br i1 {last}, label %go, label %wrong", "wrong:", f"  ret i32 {WRONG_EXTENTS}", "go:", ""]
    )


def _type(parameter: str) -> str:
    """LLVM's type of a parameter as it is declared in C."""
    return "ptr" if "*" in parameter else _TYPES[parameter.split()[0]]


def data(symbol: str, text: str) -> str:
    """LLVM IR of a text that ends with a zero, under a symbol. The text has no control characters, and is ASCII."""
    quoted = text.replace("\\", "\\5C").replace('"', "\\22")
    return f'@{symbol} = constant [{len(text) + 1} x i8] c"{quoted}\\00"\n'


def _text(symbol: str, text: str) -> str:
    """A constant of C's kind of text."""
    return f'{symbol} = private unnamed_addr constant [{len(text) + 1} x i8] c"{text}\\00"'


def runtime(
    library: str,
    family: str,
    architecture: str,
    bits: Mapping[str, int],
    caps: Mapping[str, int],
    levels: Sequence[str],
) -> str:
    """What the entries of all kernels of a library share: ``NAME_isa``, ``NAME_selected``, and what chooses.

    Args:
        library: The library's name.
        family: That of its targets.
        architecture: Theirs.
        bits: By feature, its bit, of `detection.positions`.
        caps: By the name of a level that calls can be capped at, its features.
        levels: Those that the library has code for, best first.
    """
    names = {name: f'@"{symbol}"' for name, symbol in symbols(library).items()}
    texts = {level: f"@name.{number}" for number, level in enumerate(caps)}
    rows = [f"%choice {{ i64 {mask}, ptr {texts[level]}, ptr {texts[level]} }}" for level, mask in caps.items()]
    rows.append("%choice zeroinitializer")
    own = [f"%choice {{ i64 {caps[level]}, ptr null, ptr {texts[level]} }}" for level in levels]
    own.append("%choice zeroinitializer")
    return f"""
{_SHAPES}
{counting.RECORD}
declare ptr @getenv(ptr)
declare i32 @strcmp(ptr, ptr)
{_text("@variable", CAP)}
{chr(10).join(_text(symbol, level) for level, symbol in texts.items())}
@caps = internal constant [{len(rows)} x %choice] [{", ".join(rows)}]
@levels = internal constant [{len(own)} x %choice] [{", ".join(own)}]
{names["slots"]} = internal global ptr null
{names["cap"]} = internal global i64 0
{names["have"]} = internal global i64 0
{detection.text(family, architecture, bits)}
{counting.runtime(symbols(library)["count"], family_of(architecture).linux.calls)}
{_RUNTIME.format(library=library, known=_KNOWN, OK=OK, UNKNOWN_LEVEL=UNKNOWN_LEVEL, **names)}"""


_RUNTIME = """
; The features that a cap of this name leaves, none for a name that is unknown.
define internal i64 @cap_of(ptr %name) noinline {{
  br label %look
look:
  %row = phi ptr [ @caps, %0 ], [ %next, %other ]
  %mask = load i64, ptr %row
  %at = getelementptr %choice, ptr %row, i64 0, i32 2
  %level = load ptr, ptr %at
  %end = icmp eq ptr %level, null
  br i1 %end, label %unknown, label %compare
compare:
  %order = call i32 @strcmp(ptr %level, ptr %name)
  %same = icmp eq i32 %order, 0
  br i1 %same, label %known, label %other
other:
  %next = getelementptr %choice, ptr %row, i64 1
  br label %look
known:
  ret i64 %mask
unknown:
  ret i64 0
}}

; What the environment's cap leaves.
define internal i64 @cap_of_environment() {{
  %text = call ptr @getenv(ptr @variable)
  %absent = icmp eq ptr %text, null
  br i1 %absent, label %none, label %read
read:
  %letter = load i8, ptr %text
  %empty = icmp eq i8 %letter, 0
  br i1 %empty, label %none, label %named
named:
  %mask = call i64 @cap_of(ptr %text)
  ret i64 %mask
none:
  ret i64 -1
}}

; The features of this processor that the cap leaves, read once.
define internal i64 {features}() noinline {{
  %kept = load atomic i64, ptr {have} acquire, align 8
  %known = icmp ne i64 %kept, 0
  br i1 %known, label %done, label %cap
cap:
  %given = load atomic i64, ptr {cap} acquire, align 8
  %capped = icmp ne i64 %given, 0
  br i1 %capped, label %read, label %environment
environment:
  %outside = call i64 @cap_of_environment()
  br label %read
read:
  %most = phi i64 [ %given, %cap ], [ %outside, %environment ]
  %found = call i64 @detect(i64 %most)
  %left = and i64 %found, %most
  %marked = or i64 %left, {known}
  store atomic i64 %marked, ptr {have} release, align 8
  br label %done
done:
  %r = phi i64 [ %kept, %0 ], [ %marked, %read ]
  ret i64 %r
}}

; The first row whose features are there.
define internal ptr @row_of(ptr %rows) noinline {{
  %have = call i64 {features}()
  br label %look
look:
  %row = phi ptr [ %rows, %0 ], [ %next, %other ]
  %mask = load i64, ptr %row
  %common = and i64 %mask, %have
  %fits = icmp eq i64 %common, %mask
  br i1 %fits, label %done, label %other
other:
  %next = getelementptr %choice, ptr %row, i64 1
  br label %look
done:
  ret ptr %row
}}

; Has a slot go on to the best code, and puts it into the list, once.
define hidden ptr {resolve}(ptr %slot) noinline {{
  %place = getelementptr %slot, ptr %slot, i64 0, i32 2
  %rows = load ptr, ptr %place
  %row = call ptr @row_of(ptr %rows)
  %at = getelementptr %choice, ptr %row, i64 0, i32 1
  %code = load ptr, ptr %at
  %counted.at = getelementptr %slot, ptr %slot, i64 0, i32 5
  %counted = load ptr, ptr %counted.at
  %level.at = getelementptr %choice, ptr %row, i64 0, i32 2
  %level = load ptr, ptr %level.at
  %can = icmp ne ptr %counted, null
  %serves = icmp ne ptr %level, null
  %both = and i1 %can, %serves
  br i1 %both, label %ask, label %go
ask:
  %file = call ptr @trace_file()
  %traced = icmp ne ptr %file, null
  br i1 %traced, label %count, label %go
count:
  %chosen = getelementptr %slot, ptr %slot, i64 0, i32 6
  store atomic ptr %code, ptr %chosen release, align 8
  br label %go
go:
  %goes = phi ptr [ %code, %0 ], [ %code, %ask ], [ %counted, %count ]
  store atomic ptr %goes, ptr %slot release, align 8
  %mark = getelementptr %slot, ptr %slot, i64 0, i32 4
  %was = atomicrmw xchg ptr %mark, i32 1 acq_rel
  %listed = icmp ne i32 %was, 0
  br i1 %listed, label %done, label %push
push:
  %link = getelementptr %slot, ptr %slot, i64 0, i32 3
  br label %again
again:
  %head = load atomic ptr, ptr {slots} acquire, align 8
  store ptr %head, ptr %link
  %pair = cmpxchg ptr {slots}, ptr %head, ptr %slot acq_rel acquire
  %put = extractvalue {{ ptr, i1 }} %pair, 1
  br i1 %put, label %done, label %again
done:
  ret ptr %goes
}}

; The name of the level that serves of those in a table; null where none does.
define hidden ptr {level}(ptr %rows) {{
  %row = call ptr @row_of(ptr %rows)
  %at = getelementptr %choice, ptr %row, i64 0, i32 2
  %name = load ptr, ptr %at
  ret ptr %name
}}

define ptr @{library}_selected() {{
  %name = call ptr {level}(ptr @levels)
  ret ptr %name
}}

define i32 @{library}_isa(ptr %name) {{
  %free = icmp eq ptr %name, null
  br i1 %free, label %set, label %find
find:
  %mask = call i64 @cap_of(ptr %name)
  %unknown = icmp eq i64 %mask, 0
  br i1 %unknown, label %refuse, label %set
refuse:
  ret i32 {UNKNOWN_LEVEL}
set:
  %cap = phi i64 [ 0, %0 ], [ %mask, %find ]
  store atomic i64 %cap, ptr {cap} release, align 8
  store atomic i64 0, ptr {have} release, align 8
  %head = load atomic ptr, ptr {slots} acquire, align 8
  br label %look
look:
  %slot = phi ptr [ %head, %set ], [ %next, %reset ]
  %end = icmp eq ptr %slot, null
  br i1 %end, label %done, label %reset
reset:
  %start = getelementptr %slot, ptr %slot, i64 0, i32 1
  %first = load ptr, ptr %start
  store atomic ptr %first, ptr %slot release, align 8
  %link = getelementptr %slot, ptr %slot, i64 0, i32 3
  %next = load ptr, ptr %link
  br label %look
done:
  ret i32 {OK}
}}
"""
