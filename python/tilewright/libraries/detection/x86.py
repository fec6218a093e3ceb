# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Features of x86-64 processors, by CPUID and XCR0; tiles of AMX only where Linux permits them.

Sources: Intel 325462, volume 2, CPUID, and volume 1, 13.1 (XCR0); AMD 24594, appendix E; Linux: Documentation/arch/x86/xstate.rst.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.libraries.detection.base import Detection, by_feature
from tilewright.targets.amx import ARCH_PRCTL, REQUEST, TILE_DATA

_LEAVES = (("1", "1", "0"), ("7", "7", "0"), ("71", "7", "1"), ("x", "-2147483647", "0"))
"""Of CPUID: their names here, EAX and ECX."""
_REGISTERS = ("eax", "ebx", "ecx", "edx")
_CPUID: Mapping[str, tuple[str, int]] = by_feature(
    edx1="x87 0 cx8 8 cmov 15 mmx 23 fxsr 24 sse 25 sse2 26",
    ecx1="sse3 0 pclmul 1 ssse3 9 fma 12 cx16 13 sse4.1 19 sse4.2 20 crc32 20 movbe 22 popcnt 23 aes 25 xsave 26 avx 28 f16c 29",
    ebx7="bmi 3 avx2 5 bmi2 8 avx512f 16 avx512dq 17 adx 19 avx512ifma 21 clflushopt 23 clwb 24 avx512cd 28 sha 29 avx512bw 30 "
    "avx512vl 31",
    ecx7="avx512vbmi 1 waitpkg 5 avx512vbmi2 6 gfni 8 vaes 9 vpclmulqdq 10 avx512vnni 11 avx512bitalg 12 avx512vpopcntdq 14 "
    "cldemote 25 movdiri 27 movdir64b 28",
    edx7="avx512vp2intersect 8 amx-bf16 22 avx512fp16 23 amx-tile 24 amx-int8 25",
    eax71="avxvnni 4 avx512bf16 5 amx-fp16 21 avxifma 23",
    edx71="avxvnniint8 4",
    ecxx="sahf 0 lzcnt 5 sse4a 6 prfchw 8",
)
"""By register and leaf, the bits of features in LLVM's spelling."""
_YMM = frozenset({"avx", "avx2", "fma", "f16c", "avxvnni", "avxifma", "avxvnniint8", "vaes", "vpclmulqdq"})
TILES = frozenset({"amx-tile", "amx-int8", "amx-bf16", "amx-fp16"})
_ZMM = frozenset(each for each in _CPUID if each.startswith("avx512"))
_STATES = {"ymm": 0x6, "zmm": 0xE6, "tile": 0x60000}
"""The bits of XCR0 that mean that Linux saves such registers."""
_READ_BACK = 0x1022
"""ARCH_GET_XCOMP_PERM: of which parts of the processor's state the process may use."""
_OSXSAVE = 27

_FUNCTIONS = f"""
%registers = type {{ i32, i32, i32, i32 }}
define internal %registers @cpuid(i32 %leaf, i32 %part) noinline {{
  %group = and i32 %leaf, -2147483648
  %first = call %registers asm sideeffect "cpuid",
    "={{eax}},={{ebx}},={{ecx}},={{edx}},{{eax}},{{ecx}},~{{dirflag}},~{{fpsr}},~{{flags}}"(i32 %group, i32 0)
  %most = extractvalue %registers %first, 0
  %there = icmp ule i32 %leaf, %most
  br i1 %there, label %ask, label %none
ask:
  %r = call %registers asm sideeffect "cpuid",
    "={{eax}},={{ebx}},={{ecx}},={{edx}},{{eax}},{{ecx}},~{{dirflag}},~{{fpsr}},~{{flags}}"(i32 %leaf, i32 %part)
  ret %registers %r
none:
  ret %registers zeroinitializer
}}
define internal i64 @saved(i64 %ecx1) {{
  %bit = and i64 %ecx1, {1 << _OSXSAVE}
  %can = icmp ne i64 %bit, 0
  br i1 %can, label %ask, label %none
ask:
  %r = call {{ i32, i32 }} asm sideeffect "xgetbv", "={{eax}},={{edx}},{{ecx}}"(i32 0)
  %low = extractvalue {{ i32, i32 }} %r, 0
  %wide = zext i32 %low to i64
  ret i64 %wide
none:
  ret i64 0
}}
define internal i1 @permitted() noinline {{
  %mask = alloca i64
  store i64 0, ptr %mask
  %address = ptrtoint ptr %mask to i64
  %asked = call i64 @system(i64 {ARCH_PRCTL}, i64 {REQUEST}, i64 {TILE_DATA}, i64 0, i64 0, i64 0, i64 0)
  %told = call i64 @system(i64 {ARCH_PRCTL}, i64 {_READ_BACK}, i64 %address, i64 0, i64 0, i64 0, i64 0)
  %parts = load volatile i64, ptr %mask
  %bit = and i64 %parts, {1 << TILE_DATA}
  %may = icmp ne i64 %bit, 0
  %fine = icmp eq i64 %told, 0
  %r = and i1 %may, %fine
  ret i1 %r
}}
"""
_WORDS = "".join(
    f"  %leaf{name} = call %registers @cpuid(i32 {leaf}, i32 {part})\n"
    + "".join(
        f"  %short.{register}{name} = extractvalue %registers %leaf{name}, {index}\n"
        f"  %{register}{name} = zext i32 %short.{register}{name} to i64\n"
        for index, register in enumerate(_REGISTERS)
    )
    for name, leaf, part in _LEAVES
)
_MASKS = "  %xcr0 = call i64 @saved(i64 %ecx1)\n" + "".join(
    f"  %bits.{state} = and i64 %xcr0, {bits}\n  %has.{state} = icmp eq i64 %bits.{state}, {bits}\n"
    f"  %{state} = sext i1 %has.{state} to i64\n"
    for state, bits in _STATES.items()
)
# Linux is asked only where tiles are there and wanted.
_LAST = """
  %tiles = and i64 %found, {tiles}
  %used = and i64 %tiles, %wanted
  %ask = icmp ne i64 %used, 0
  %without = and i64 %found, {others}
  br i1 %ask, label %asking, label %done
asking:
  %granted = call i1 @permitted()
  br i1 %granted, label %done, label %refused
refused:
  br label %done
done:
  %last = phi i64 [ %found, %0 ], [ %found, %asking ], [ %without, %refused ]
"""

DETECTION = Detection(
    frozenset({"cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "x87"}),
    _CPUID,
    _WORDS,
    {"ymm": _YMM, "zmm": _ZMM, "tile": TILES},
    _MASKS,
    _FUNCTIONS,
    _LAST,
)
"""That of the family."""
