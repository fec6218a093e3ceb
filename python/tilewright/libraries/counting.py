# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM IR that counts the calls of a library's kernels for ``TILEWRIGHT_TRACE``, and appends them to that file when the program ends.

Only where the variable is set do slots get the address of a function that counts; otherwise nothing of this runs. A line is one of
`tilewright.runtime.tracing`: its text is written here, with a byte of `_FIRST` and above for each number that calls tell. No C library
but for memory: Linux is called directly.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tilewright.dims import Dim
from tilewright.payload.signature import Signature
from tilewright.runtime.tracing import line
from tilewright.spec import MatmulSpec
from tilewright.targets.linux import SystemCalls

VARIABLE = "TILEWRIGHT_TRACE"
"""The environment variable that names the file."""
_CALLS, _FIRST, _MOST = 1, 2, 29
"""Bytes of a line's text: the number of calls, the first number that calls tell, and how many of these there may be."""
_SHAPE = 24
"""Where a DLTensor has the address of its shape."""
_NUMBER = 20
"""Most digits of a number."""


@dataclass(frozen=True, slots=True)
class Count:
    """How the calls of an entry are counted.

    Attributes:
        text: The line of a trace, with bytes for numbers and no end.
        places: The numbers that calls tell: which argument it is, or of which one that is a tensor the extent of which axis.
        listed: Whether the tensors are given in an array, the only argument.
    """

    text: str
    places: tuple[tuple[int, int | None], ...]
    listed: bool = False


def of_product(spec: MatmulSpec, threads: int, *, listed: bool = False) -> Count:
    """How calls of a product are counted; with `listed`, of the entry that takes its tensors in an array."""
    if spec.takes_tensors or listed:
        stored = [None if spec.b_packed and number == 1 else each.stored for number, each in enumerate(spec.operands)]
        return _count(spec, threads, stored, None, listed=listed)
    extents = ["mk", "kn"]
    turned = [spec.a_transposed, spec.b_transposed]
    names = [each[::-1] if other else each for each, other in zip(extents, turned, strict=True)]
    shapes = [tuple(getattr(spec, name) for name in each) for each in names]
    stored = [shapes[0], None if spec.b_packed else shapes[1]]
    return _count(spec, threads, stored, [["mnk".index(name) for name in each] for each in names])


def of_function(spec: object, signature: Signature, threads: int, *, listed: bool = False) -> Count:
    """How calls of an operator or of a module's function are counted; `listed` as for products."""
    shapes = [None if each.packed else each.shape for each in signature.arguments]
    return _count(spec, threads, shapes, None, listed=listed)


def _count(
    spec: object,
    threads: int,
    shapes: list[tuple[int | Dim, ...] | None],
    arguments: list[list[int]] | None,
    *,
    listed: bool = False,
) -> Count:
    places: list[tuple[int, int | None]] = []
    marks: list[list[int | str] | None] = []
    for number, shape in enumerate(shapes):
        row: list[int | str] = []
        for axis, size in enumerate(shape or ()):
            if isinstance(size, int):
                row.append(size)
                continue
            place = (number, axis) if arguments is None else (arguments[number][axis], None)
            if place not in places:
                places.append(place)
            row.append(chr(_FIRST + min(places.index(place), _MOST)))
        marks.append(None if shape is None else row)
    if len(places) > _MOST:
        places, marks = [], []
    text = json.dumps(line(spec, threads, marks, chr(_CALLS)))
    for byte in range(_CALLS, _FIRST + _MOST):
        text = text.replace(json.dumps(chr(byte)), chr(byte))
    return Count(text, tuple(places), listed)


def entry(name: str, result: str, types: list[str], count: Count, symbol: str) -> str:
    """The function ``NAME.counted``, which calls the code that was chosen and counts the call where it succeeded; and its record.

    Args:
        name: The entry's name.
        result: The LLVM type of its result.
        types: Those of its parameters.
        count: How its calls are counted.
        symbol: The function of `runtime` that counts.
    """
    parameters = ", ".join(f"{kind} %a{number}" for number, kind in enumerate(types))
    data = count.text.encode()
    escaped = "".join(chr(each) if 32 <= each < 127 and each not in b'"\\' else f"\\{each:02X}" for each in data)
    size = len(data) + 1 + _NUMBER * (1 + sum(each < _FIRST + _MOST for each in data))
    stores = ""
    for number, (argument, axis) in enumerate(count.places):
        value = f"%a{argument}"
        if axis is not None:
            tensor = f"%a{argument}"
            if count.listed:
                tensor = f"%tensor{number}"
                stores += f"  %listed{number} = getelementptr ptr, ptr %a0, i64 {argument}\n  {tensor} = load ptr, ptr %listed{number}\n"
            stores += f"""  %shape.at{number} = getelementptr i8, ptr {tensor}, i64 {_SHAPE}
  %shape{number} = load ptr, ptr %shape.at{number}
  %extent.at{number} = getelementptr i64, ptr %shape{number}, i64 {axis}
  %extent{number} = load i64, ptr %extent.at{number}
"""
            value = f"%extent{number}"
        stores += (
            f"  %to{number} = getelementptr i64, ptr %numbers, i64 {number}\n  store i64 {value}, ptr %to{number}\n"
        )
    return f"""
@{name}.line = private unnamed_addr constant [{len(data) + 1} x i8] c"{escaped}\\00"
@{name}.record = internal global %record {{ ptr null, ptr null, ptr @{name}.line, i64 {size}, i64 {len(count.places)}, i32 0 }}
define internal {result} @{name}.counted({parameters}) {{
  %numbers = alloca [{max(1, len(count.places))} x i64]
  %chosen = getelementptr %slot, ptr @{name}.slot, i64 0, i32 6
  %code = load atomic ptr, ptr %chosen acquire, align 8
  %r = call {result} %code({parameters})
  %fine = icmp eq {result} %r, 0
  br i1 %fine, label %count, label %done
count:
{stores}  call void @"{symbol}"(ptr @{name}.record, ptr %numbers)
  br label %done
done:
  ret {result} %r
}}
"""


def runtime(symbol: str, system: SystemCalls) -> str:
    """What counts, under the name `symbol`, and what writes the file at the end; it needs `system_call.text`, `getenv` and `malloc`."""
    calls = {"getpid": system.getpid, "openat": system.openat, "write": system.write, "close": system.close}
    texts = {"calls": _CALLS, "first": _FIRST, "end": _FIRST + _MOST, "count": f'@"{symbol}"'}
    return _RUNTIME.format(
        **texts, **calls, name=VARIABLE, size=len(VARIABLE) + 1, said=_SAID, said_size=len(_SAID) + 1, said_end="\\0A"
    )


_SAID = "tilewright: cannot write the file that TILEWRIGHT_TRACE names"

# A record has its nodes, the record that was listed before it, its line, the bytes that a written one takes at most, how many numbers its
# calls tell, and whether it is listed. A node has the next one, how many calls, and their numbers. Nothing is ever taken out.
RECORD = "%record = type { ptr, ptr, ptr, i64, i64, i32 }"
_RUNTIME = """
declare noalias ptr @malloc(i64)
@trace.name = private unnamed_addr constant [{size} x i8] c"{name}\\00"
@trace.said = private unnamed_addr constant [{said_size} x i8] c"{said}{said_end}"
@trace.records = internal global ptr null
@trace.process = internal global i64 0
@trace.finish = internal constant ptr @finish, section ".fini_array"
@llvm.used = appending global [1 x ptr] [ptr @trace.finish], section "llvm.metadata"

; The file's name; null where nothing is to be counted.
define internal ptr @trace_file() {{
  %file = call ptr @getenv(ptr @trace.name)
  %absent = icmp eq ptr %file, null
  br i1 %absent, label %none, label %look
look:
  %letter = load i8, ptr %file
  %empty = icmp eq i8 %letter, 0
  br i1 %empty, label %none, label %named
named:
  ret ptr %file
none:
  ret ptr null
}}

; A child that was forked starts anew: what it has is its parent's.
define internal void @own() {{
  %now = call i64 @system(i64 {getpid}, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %known = load atomic i64, ptr @trace.process acquire, align 8
  %same = icmp eq i64 %known, %now
  br i1 %same, label %done, label %new
new:
  %pair = cmpxchg ptr @trace.process, i64 %known, i64 %now acq_rel acquire
  %first = load ptr, ptr @trace.records
  br label %records
records:
  %record = phi ptr [ %first, %new ], [ %following, %next ]
  %last = icmp eq ptr %record, null
  br i1 %last, label %done, label %inside
inside:
  %head = load ptr, ptr %record
  br label %nodes
nodes:
  %node = phi ptr [ %head, %inside ], [ %after, %clear ]
  %end = icmp eq ptr %node, null
  br i1 %end, label %next, label %clear
clear:
  %calls.at = getelementptr ptr, ptr %node, i64 1
  store i64 0, ptr %calls.at
  %after = load ptr, ptr %node
  br label %nodes
next:
  %following.at = getelementptr ptr, ptr %record, i64 1
  %following = load ptr, ptr %following.at
  br label %records
done:
  ret void
}}

; Counts a call of a record with these numbers.
define hidden void {count}(ptr %record, ptr %numbers) noinline {{
  call void @own()
  %many.at = getelementptr %record, ptr %record, i64 0, i32 4
  %many = load i64, ptr %many.at
  %head = load atomic ptr, ptr %record acquire, align 8
  br label %look
look:
  %node = phi ptr [ %head, %0 ], [ %next, %other ]
  %absent = icmp eq ptr %node, null
  br i1 %absent, label %new, label %compare
compare:
  %i = phi i64 [ 0, %look ], [ %i.next, %equal ]
  %all = icmp eq i64 %i, %many
  br i1 %all, label %found, label %one
one:
  %place = add i64 %i, 2
  %theirs.at = getelementptr i64, ptr %node, i64 %place
  %ours.at = getelementptr i64, ptr %numbers, i64 %i
  %theirs = load i64, ptr %theirs.at
  %ours = load i64, ptr %ours.at
  %same = icmp eq i64 %theirs, %ours
  br i1 %same, label %equal, label %other
equal:
  %i.next = add i64 %i, 1
  br label %compare
other:
  %next = load ptr, ptr %node
  br label %look
found:
  %calls.at = getelementptr ptr, ptr %node, i64 1
  %before = atomicrmw add ptr %calls.at, i64 1 monotonic
  ret void
new:
  %words = add i64 %many, 2
  %bytes = mul i64 %words, 8
  %made = call ptr @malloc(i64 %bytes)
  %full = icmp eq ptr %made, null
  br i1 %full, label %done, label %fill
fill:
  %once.at = getelementptr ptr, ptr %made, i64 1
  store i64 1, ptr %once.at
  br label %copy
copy:
  %j = phi i64 [ 0, %fill ], [ %j.next, %store ]
  %copied = icmp eq i64 %j, %many
  br i1 %copied, label %push, label %store
store:
  %to.place = add i64 %j, 2
  %to = getelementptr i64, ptr %made, i64 %to.place
  %from = getelementptr i64, ptr %numbers, i64 %j
  %number = load i64, ptr %from
  store i64 %number, ptr %to
  %j.next = add i64 %j, 1
  br label %copy
push:
  %top = load atomic ptr, ptr %record acquire, align 8
  store ptr %top, ptr %made
  %put = cmpxchg ptr %record, ptr %top, ptr %made acq_rel acquire
  %in = extractvalue {{ ptr, i1 }} %put, 1
  br i1 %in, label %list, label %push
list:
  %mark = getelementptr %record, ptr %record, i64 0, i32 5
  %was = atomicrmw xchg ptr %mark, i32 1 acq_rel
  %listed = icmp ne i32 %was, 0
  br i1 %listed, label %done, label %link
link:
  %others = load atomic ptr, ptr @trace.records acquire, align 8
  %link.at = getelementptr ptr, ptr %record, i64 1
  store ptr %others, ptr %link.at
  %linked = cmpxchg ptr @trace.records, ptr %others, ptr %record acq_rel acquire
  %is.linked = extractvalue {{ ptr, i1 }} %linked, 1
  br i1 %is.linked, label %done, label %link
done:
  ret void
}}

; Writes a number; gives where the next letter goes.
define internal ptr @digits(ptr %to, i64 %value) {{
  %rest = udiv i64 %value, 10
  %digit = urem i64 %value, 10
  %more = icmp ne i64 %rest, 0
  br i1 %more, label %before, label %last
before:
  %behind = call ptr @digits(ptr %to, i64 %rest)
  br label %last
last:
  %at = phi ptr [ %to, %0 ], [ %behind, %before ]
  %short = trunc i64 %digit to i8
  %letter = add i8 %short, 48
  store i8 %letter, ptr %at
  %next = getelementptr i8, ptr %at, i64 1
  ret ptr %next
}}

; Writes the line of a node, in one call of Linux's.
define internal void @trace_line(i64 %file, ptr %record, ptr %node, i64 %calls) {{
  %text.at = getelementptr %record, ptr %record, i64 0, i32 2
  %bytes.at = getelementptr %record, ptr %record, i64 0, i32 3
  %text = load ptr, ptr %text.at
  %bytes = load i64, ptr %bytes.at
  %room = call ptr @malloc(i64 %bytes)
  %full = icmp eq ptr %room, null
  br i1 %full, label %done, label %next
next:
  %from = phi ptr [ %text, %0 ], [ %from.next, %letter ], [ %from.next, %calls.now ], [ %from.next, %extent ]
  %to = phi ptr [ %room, %0 ], [ %to.next, %letter ], [ %to.calls, %calls.now ], [ %to.extent, %extent ]
  %byte = load i8, ptr %from
  %from.next = getelementptr i8, ptr %from, i64 1
  switch i8 %byte, label %other [
    i8 0, label %write
    i8 {calls}, label %calls.now
  ]
other:
  %is.number = icmp ult i8 %byte, {end}
  br i1 %is.number, label %extent, label %letter
letter:
  store i8 %byte, ptr %to
  %to.next = getelementptr i8, ptr %to, i64 1
  br label %next
calls.now:
  %to.calls = call ptr @digits(ptr %to, i64 %calls)
  br label %next
extent:
  %which = zext i8 %byte to i64
  %word = sub i64 %which, {first}
  %place = add i64 %word, 2
  %value.at = getelementptr i64, ptr %node, i64 %place
  %value = load i64, ptr %value.at
  %to.extent = call ptr @digits(ptr %to, i64 %value)
  br label %next
write:
  store i8 10, ptr %to
  %past = getelementptr i8, ptr %to, i64 1
  %start = ptrtoint ptr %room to i64
  %stop = ptrtoint ptr %past to i64
  %length = sub i64 %stop, %start
  %r = call i64 @system(i64 {write}, i64 %file, i64 %start, i64 %length, i64 0, i64 0, i64 0)
  br label %done
done:
  ret void
}}

; Appends a line for each node that was counted, when the process that counted them ends.
define internal void @finish() {{
  %records = load ptr, ptr @trace.records
  %none = icmp eq ptr %records, null
  br i1 %none, label %done, label %named
named:
  %name = call ptr @trace_file()
  %unnamed = icmp eq ptr %name, null
  br i1 %unnamed, label %done, label %open
open:
  %now = call i64 @system(i64 {getpid}, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %known = load i64, ptr @trace.process
  %own = icmp eq i64 %known, %now
  br i1 %own, label %go, label %done
go:
  %address = ptrtoint ptr %name to i64
  %file = call i64 @system(i64 {openat}, i64 -100, i64 %address, i64 1089, i64 438, i64 0, i64 0)
  %refused = icmp slt i64 %file, 0
  br i1 %refused, label %say, label %list
say:
  %said = ptrtoint ptr @trace.said to i64
  %ignored = call i64 @system(i64 {write}, i64 2, i64 %said, i64 {said_size}, i64 0, i64 0, i64 0)
  ret void
list:
  %record = phi ptr [ %records, %go ], [ %following, %next ]
  %last = icmp eq ptr %record, null
  br i1 %last, label %close, label %inside
inside:
  %head = load ptr, ptr %record
  br label %nodes
nodes:
  %node = phi ptr [ %head, %inside ], [ %after, %skip ]
  %end = icmp eq ptr %node, null
  br i1 %end, label %next, label %node.there
node.there:
  %calls.at = getelementptr ptr, ptr %node, i64 1
  %calls = load i64, ptr %calls.at
  %counted = icmp ne i64 %calls, 0
  br i1 %counted, label %line, label %skip
line:
  call void @trace_line(i64 %file, ptr %record, ptr %node, i64 %calls)
  br label %skip
skip:
  %after = load ptr, ptr %node
  br label %nodes
next:
  %following.at = getelementptr ptr, ptr %record, i64 1
  %following = load ptr, ptr %following.at
  br label %list
close:
  %closed = call i64 @system(i64 {close}, i64 %file, i64 0, i64 0, i64 0, i64 0, i64 0)
  br label %done
done:
  ret void
}}
"""
