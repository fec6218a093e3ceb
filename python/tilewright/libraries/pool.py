# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Who runs the threads of a library's kernels: LLVM's OpenMP runtime, or a pool of the program's own.

Kernels call seven functions of OpenMP's runtime: each parallel region is a loop over parts that do not wait for one another. In a library
these functions have names of its own, and either go on to OpenMP, or hand the parts to a function that the program gave.

Source: LLVM, openmp/runtime/src/kmp.h and kmp_sched.cpp (``__kmpc_fork_call``, ``__kmpc_for_static_init_8u``).
"""

from __future__ import annotations

import hashlib
import re
from types import MappingProxyType

from tilewright.errors import LoweringError

_DIGITS = 24
PLACE = "tilewright_pool_" + "0" * _DIGITS
"""What names of the functions start with before the library is known."""
_NAMES = MappingProxyType(
    {
        "__kmpc_fork_call": "fork",
        "__kmpc_push_num_threads": "push",
        "__kmpc_global_thread_num": "number",
        "__kmpc_for_static_init_8u": "bounds",
        "__kmpc_for_static_fini": "done",
        "omp_get_max_threads": "most",
        "omp_in_parallel": "inside",
    }
)
_CALLED = re.compile(r"@((?:__kmpc|omp)_\w+)")


def renamed(llvmir: str) -> str:
    """A kernel's LLVM IR with the library's functions for those of OpenMP.

    Raises:
        LoweringError: It calls another one.
    """

    def name(found: re.Match[str]) -> str:
        if found[1] not in _NAMES:
            expected = f"one of {', '.join(_NAMES)}"
            raise LoweringError(f"a kernel calls {found[1]}", stage="llvmir", expected=expected)
        return f"@{PLACE}_{_NAMES[found[1]]}"

    return _CALLED.sub(name, llvmir)


def prefix(library: str) -> str:
    """What the names of a library's functions start with: as long as `PLACE`, so that it takes its place in objects."""
    return PLACE[:-_DIGITS] + hashlib.sha256(library.encode()).hexdigest()[:_DIGITS]


def openmp(library: str) -> str:
    """The functions in LLVM IR, which go on to OpenMP."""
    return _OPENMP.format(p=prefix(library))


def own(library: str) -> str:
    """The functions in LLVM IR, which hand parts to the program's pool, and ``NAME_set_pool``, by which it gives that."""
    return _OWN.format(p=prefix(library), library=library)


def symbols(library: str) -> tuple[str, ...]:
    """The names of the functions."""
    return tuple(f"{prefix(library)}_{each}" for each in _NAMES.values())


_OPENMP = """
declare void @__kmpc_fork_call(ptr, i32, ptr, ...)
declare void @__kmpc_push_num_threads(ptr, i32, i32)
declare i32 @__kmpc_global_thread_num(ptr)
declare void @__kmpc_for_static_init_8u(ptr, i32, i32, ptr, ptr, ptr, ptr, i64, i64)
declare void @__kmpc_for_static_fini(ptr, i32)
declare i32 @omp_get_max_threads()
declare i32 @omp_in_parallel()
define hidden void @{p}_fork(ptr %place, i32 %count, ptr %body, ptr %argument) {{
  call void (ptr, i32, ptr, ...) @__kmpc_fork_call(ptr %place, i32 %count, ptr %body, ptr %argument)
  ret void
}}
define hidden void @{p}_push(ptr %place, i32 %number, i32 %threads) {{
  call void @__kmpc_push_num_threads(ptr %place, i32 %number, i32 %threads)
  ret void
}}
define hidden i32 @{p}_number(ptr %place) {{
  %r = call i32 @__kmpc_global_thread_num(ptr %place)
  ret i32 %r
}}
define hidden void @{p}_bounds(ptr %w, i32 %n, i32 %s, ptr %l, ptr %a, ptr %b, ptr %d, i64 %i, i64 %c) {{
  call void @__kmpc_for_static_init_8u(ptr %w, i32 %n, i32 %s, ptr %l, ptr %a, ptr %b, ptr %d, i64 %i, i64 %c)
  ret void
}}
define hidden void @{p}_done(ptr %place, i32 %number) {{
  call void @__kmpc_for_static_fini(ptr %place, i32 %number)
  ret void
}}
define hidden i32 @{p}_most() {{
  %r = call i32 @omp_get_max_threads()
  ret i32 %r
}}
define hidden i32 @{p}_inside() {{
  %r = call i32 @omp_in_parallel()
  ret i32 %r
}}
"""

# A thread's number in a region is its part's number, and above 16 bits how many parts there are; 0 outside of all. The program's threads
# are its own affair: a kernel that one of them calls may split its work too.
_OWN = """
%job = type {{ ptr, ptr, i32 }}
@pool.run = internal global ptr null
@pool.context = internal global ptr null
@pool.threads = internal global i32 1
@pool.part = internal thread_local global i32 0
@pool.wanted = internal thread_local global i32 0
define void @{library}_set_pool(ptr %run, ptr %context, i32 %threads) {{
  store ptr %run, ptr @pool.run
  store ptr %context, ptr @pool.context
  %absent = icmp eq ptr %run, null
  %few = icmp slt i32 %threads, 1
  %many = icmp sgt i32 %threads, 1024
  %capped = select i1 %many, i32 1024, i32 %threads
  %alone = or i1 %absent, %few
  %count = select i1 %alone, i32 1, i32 %capped
  store i32 %count, ptr @pool.threads
  ret void
}}
define internal void @pool.task(ptr %job, i32 %index) {{
  %number = alloca i32
  %bound = alloca i32
  store i32 0, ptr %bound
  %before = load i32, ptr @pool.part
  %body = load ptr, ptr %job
  %argument.at = getelementptr %job, ptr %job, i64 0, i32 1
  %argument = load ptr, ptr %argument.at
  %count.at = getelementptr %job, ptr %job, i64 0, i32 2
  %count = load i32, ptr %count.at
  %high = shl i32 %count, 16
  %part = or i32 %high, %index
  store i32 %part, ptr @pool.part
  store i32 %part, ptr %number
  call void %body(ptr %number, ptr %bound, ptr %argument)
  store i32 %before, ptr @pool.part
  ret void
}}
define hidden void @{p}_fork(ptr %place, i32 %arguments, ptr %body, ptr %argument) {{
  %job = alloca %job
  %asked = load i32, ptr @pool.wanted
  store i32 0, ptr @pool.wanted
  %most = call i32 @{p}_most()
  %unasked = icmp eq i32 %asked, 0
  %wanted = select i1 %unasked, i32 %most, i32 %asked
  %over = icmp ugt i32 %wanted, %most
  %count = select i1 %over, i32 %most, i32 %wanted
  store ptr %body, ptr %job
  %argument.at = getelementptr %job, ptr %job, i64 0, i32 1
  store ptr %argument, ptr %argument.at
  %count.at = getelementptr %job, ptr %job, i64 0, i32 2
  store i32 %count, ptr %count.at
  %alone = icmp ule i32 %count, 1
  br i1 %alone, label %one, label %several
one:
  call void @pool.task(ptr %job, i32 0)
  ret void
several:
  %run = load ptr, ptr @pool.run
  %context = load ptr, ptr @pool.context
  call void %run(ptr %context, i32 %count, ptr @pool.task, ptr %job)
  ret void
}}
define hidden void @{p}_push(ptr %place, i32 %number, i32 %threads) {{
  store i32 %threads, ptr @pool.wanted
  ret void
}}
define hidden i32 @{p}_number(ptr %place) {{
  %r = load i32, ptr @pool.part
  ret i32 %r
}}
define hidden void @{p}_bounds(ptr %w, i32 %number, i32 %s, ptr %last, ptr %lower, ptr %upper, ptr %d, i64 %step, i64 %c) {{
  %index.short = and i32 %number, 65535
  %index = zext i32 %index.short to i64
  %count.short = lshr i32 %number, 16
  %none = icmp eq i32 %count.short, 0
  %count.least = select i1 %none, i32 1, i32 %count.short
  %count = zext i32 %count.least to i64
  %first = load i64, ptr %lower
  %end = load i64, ptr %upper
  %span = sub i64 %end, %first
  %steps = udiv i64 %span, %step
  %trips.some = add i64 %steps, 1
  %past = add i64 %end, %step
  %empty = icmp eq i64 %past, %first
  %trips = select i1 %empty, i64 0, i64 %trips.some
  %each = udiv i64 %trips, %count
  %rest = urem i64 %trips, %count
  %early = icmp ult i64 %index, %rest
  %more = zext i1 %early to i64
  %before.rest = select i1 %early, i64 %index, i64 %rest
  %before.even = mul i64 %index, %each
  %before = add i64 %before.even, %before.rest
  %mine = add i64 %each, %more
  %offset = mul i64 %before, %step
  %from = add i64 %first, %offset
  %length = mul i64 %mine, %step
  %after = add i64 %from, %length
  %to = sub i64 %after, %step
  store i64 %from, ptr %lower
  store i64 %to, ptr %upper
  %following = add i64 %index, 1
  %is.last = icmp eq i64 %following, %count
  %flag = zext i1 %is.last to i32
  store i32 %flag, ptr %last
  ret void
}}
define hidden void @{p}_done(ptr %place, i32 %number) {{
  ret void
}}
define hidden i32 @{p}_most() {{
  %r = load i32, ptr @pool.threads
  ret i32 %r
}}
define hidden i32 @{p}_inside() {{
  ret i32 0
}}
"""
