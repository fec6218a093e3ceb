# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A program around a kernel, for an emulator: it maps its standard input, and calls one function on what is in there.

It needs no C library, and no compiler but LLVM: the program is LLVM IR, linked with the kernel by LLVM's linker. What it maps
is shared with the process that started it, laid out by `Call`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tilewright.emit import code, shared, system_call
from tilewright.targets.base import Target
from tilewright.targets.linux import SystemCalls
from tilewright.targets.registry import family_of

MOST_ARGUMENTS = 11
_WORDS = 6
"""Before the arguments: all bytes, the function, its status, how many relocations and guards follow the arguments, and where to write after
the function."""
PAGE = 4096
"""Bytes of a page, as the program sees them."""
HEADER_BYTES = PAGE
"""A page, where the first operand starts."""

NOT_RUN = -1
"""The status before the function has returned."""


def argument_at(number: int) -> int:
    """Where argument `number` is in the header."""
    return 8 * (_WORDS + number)


def header(
    nbytes: int,
    function: int,
    arguments: Sequence[int],
    relocations: Sequence[int],
    guards: Sequence[int],
    after: int = 0,
) -> bytes:
    """What the program reads first.

    Args:
        nbytes: Of all that it maps.
        function: Which function it calls: the index into those that `program` was given.
        arguments: Its arguments; a pointer is an offset into what is mapped.
        relocations: Where in it pointers are, to which the program adds where it maps it.
        guards: Where in it pages are that nobody may touch: a function that strays ends the program.
        after: Where what is called after the function writes; an offset too.
    """
    padding = [0] * (MOST_ARGUMENTS - len(arguments))
    tables = (*relocations, *guards)
    words = (nbytes, function, NOT_RUN, len(relocations), len(guards), after, *arguments, *padding, *tables)
    return struct.pack(f"<{len(words)}q", *words)


def status(mapped: bytes | memoryview) -> int:
    """What the function returned, or `NOT_RUN`."""
    return struct.unpack_from("<i", mapped, 16)[0]


def program(
    object_: bytes,
    functions: Sequence[str],
    target: Target,
    libraries: Sequence[str] = (),
    loader: str = "",
    after: str = "",
) -> bytes:
    """The ELF executable of a kernel's object, which defines `functions`.

    Args:
        object_: The object.
        functions: What the program can call.
        target: Of which architecture it is.
        libraries: Files of the shared libraries that it uses, found again by their names when it runs.
        loader: What then loads them; without, the program is static.
        after: The function that is called after each, with where to write in what is mapped; empty for none.

    Raises:
        TargetError: There is no linker for the target.
        LoweringError: The linker failed, because the object needs a function that is not here.
    """
    objects = [object_, code.object_file(_text(functions, family_of(target.architecture).linux.calls, after), target)]
    return shared.link_program(objects, libraries, loader)


def _memory(system: SystemCalls) -> str:
    return f"""
define internal i64 @map(i64 %bytes, i64 %flags, i64 %file) {{
  %r = call i64 @system(i64 {system.mmap}, i64 0, i64 %bytes, i64 {_READ_WRITE}, i64 %flags, i64 %file, i64 0)
  ret i64 %r
}}
define internal void @guard(i64 %address) {{
  %r = call i64 @system(i64 {system.mprotect}, i64 %address, i64 {PAGE}, i64 0, i64 0, i64 0, i64 0)
  ret void
}}
define internal void @relocate(i64 %address, i64 %mapped) {{
  %p = inttoptr i64 %address to ptr
  %word = load i64, ptr %p
  %moved = add i64 %word, %mapped
  store i64 %moved, ptr %p
  ret void
}}
"""


def _by_words(head: str, word: str, byte: str) -> str:
    """A function that fills `bytes` bytes from %to on: eight at a time with `%word`, and the rest one by one with `%byte`.

    `word` and `byte` are the lines that make these at %i and %j.
    """
    return f"""
define hidden ptr {head} "no-builtins" {{
  %whole = and i64 %bytes, -8
  br label %words
words:
  %i = phi i64 [ 0, %0 ], [ %next, %set ]
  %more = icmp ult i64 %i, %whole
  br i1 %more, label %set, label %rest
set:{word}
  %p = getelementptr i8, ptr %to, i64 %i
  store i64 %word, ptr %p, align 1
  %next = add i64 %i, 8
  br label %words
rest:
  %j = phi i64 [ %whole, %words ], [ %after, %last ]
  %left = icmp ult i64 %j, %bytes
  br i1 %left, label %last, label %done
last:{byte}
  %q = getelementptr i8, ptr %to, i64 %j
  store i8 %byte, ptr %q
  %after = add i64 %j, 1
  br label %rest
done:
  ret ptr %to
}}
"""


_BYTE = "\n  %byte = trunc i32 %value to i8"
_WORD = (
    "\n  %first = trunc i32 %value to i8\n  %wide = zext i8 %first to i64\n  %word = mul i64 %wide, 72340172838076673"
)
_AT = "\n  %from_{0} = getelementptr i8, ptr %from, i64 %{0}\n  %{1} = load {2}, ptr %from_{0}, align 1"
_FILLS = _by_words("@memset(ptr %to, i32 %value, i64 %bytes)", _WORD, _BYTE) + _by_words(
    "@memcpy(ptr %to, ptr %from, i64 %bytes)", _AT.format("i", "word", "i64"), _AT.format("j", "byte", "i8")
)
"""What the C library has, where a kernel calls it."""
_READ_WRITE, _SHARED = 3, 1
# MAP_PRIVATE | MAP_ANONYMOUS is 34. Errors are -4095 to -1. A kernel's workspace is aligned to a page at most, and goes with
# the program.
_LIBRARY = """
define ptr @_mlir_memref_to_llvm_aligned_alloc(i64 %alignment, i64 %bytes) {
  %r = call i64 @map(i64 %bytes, i64 34, i64 -1)
  %failed = icmp ugt i64 %r, -4096
  %address = select i1 %failed, i64 0, i64 %r
  %p = inttoptr i64 %address to ptr
  ret ptr %p
}
define ptr @_mlir_memref_to_llvm_alloc(i64 %bytes) {
  %p = call ptr @_mlir_memref_to_llvm_aligned_alloc(i64 1, i64 %bytes)
  ret ptr %p
}
define void @_mlir_memref_to_llvm_free(ptr %p) {
  ret void
}
define hidden void @tilewright_begin() {
  ret void
}
define hidden void @tilewright_end() {
  ret void
}
"""
"""Hidden, so that a shared library keeps its own. Between calls of the last two, instructions are counted (`emulated_count`)."""


def _text(functions: Sequence[str], system: SystemCalls, after: str) -> str:
    """The program as LLVM IR. Every function is called with all arguments: what it does not take, it does not see."""
    types = ", ".join(["i64"] * MOST_ARGUMENTS)
    declarations = "".join(f"declare i32 @{name}({types})\n" for name in functions)
    table = ", ".join(f"ptr @{name}" for name in functions)
    loads = [
        f"%slot{i} = getelementptr i64, ptr %m, i64 {_WORDS + i}\n  %arg{i} = load i64, ptr %slot{i}"
        for i in range(MOST_ARGUMENTS)
    ]
    arguments = ", ".join(f"i64 %arg{i}" for i in range(MOST_ARGUMENTS))
    body = "\n  ".join(loads)
    last = f"call void @{after}(ptr %written)" if after else ""
    declarations += f"declare void @{after}(ptr)\n" if after else ""
    return f"""{system_call.text(system)}{_memory(system)}{_LIBRARY}{_FILLS}{declarations}
@functions = internal constant [{len(functions)} x ptr] [{table}]
define void @_start() {system.start} {{
  %first = call i64 @map(i64 {HEADER_BYTES}, i64 {_SHARED}, i64 0)
  %h = inttoptr i64 %first to ptr
  %bytes = load i64, ptr %h
  %mapped = call i64 @map(i64 %bytes, i64 {_SHARED}, i64 0)
  %m = inttoptr i64 %mapped to ptr
  %which_at = getelementptr i64, ptr %m, i64 1
  %which = load i64, ptr %which_at
  %status_at = getelementptr i64, ptr %m, i64 2
  %relocations_at = getelementptr i64, ptr %m, i64 3
  %relocations = load i64, ptr %relocations_at
  %guards_at = getelementptr i64, ptr %m, i64 4
  %guards = load i64, ptr %guards_at
  %entries = add i64 %relocations, %guards
  br label %test
test:
  %i = phi i64 [ 0, %0 ], [ %next, %step ]
  %more = icmp ult i64 %i, %entries
  br i1 %more, label %look, label %call
look:
  %at = add i64 %i, {_WORDS + MOST_ARGUMENTS}
  %offset_at = getelementptr i64, ptr %m, i64 %at
  %offset = load i64, ptr %offset_at
  %address = add i64 %offset, %mapped
  %is_pointer = icmp ult i64 %i, %relocations
  br i1 %is_pointer, label %pointer, label %page
pointer:
  call void @relocate(i64 %address, i64 %mapped)
  br label %step
page:
  call void @guard(i64 %address)
  br label %step
step:
  %next = add i64 %i, 1
  br label %test
call:
  {body}
  %entry_at = getelementptr ptr, ptr @functions, i64 %which
  %entry = load ptr, ptr %entry_at
  call void @tilewright_begin()
  %r = call i32 %entry({arguments})
  call void @tilewright_end()
  %written_at = getelementptr i64, ptr %m, i64 5
  %place = load i64, ptr %written_at
  %written = getelementptr i8, ptr %m, i64 %place
  {last}
  store i32 %r, ptr %status_at
  %never = call i64 @system(i64 {system.exit_group}, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  unreachable
}}
"""
