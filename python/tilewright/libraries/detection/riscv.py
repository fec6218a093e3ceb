# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Features of RISC-V processors, by the capabilities that Linux tells each process, a system call, and the vectors' length.

Sources: Linux: arch/riscv/include/uapi/asm/hwcap.h and hwprobe.h, Documentation/arch/riscv/hwprobe.rst.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.libraries.detection.base import AUXILIARY, Detection, by_feature

# Linux before 6.4 does not know the call, 258, and leaves the value of the pair at 0. Key 4: RISCV_HWPROBE_KEY_IMA_EXT_0. Only a
# processor with vectors has the register 0xc22, vlenb, their length in bytes.
_FUNCTIONS = f"""{AUXILIARY}
define internal i64 @probed() noinline {{
  %pair = alloca [2 x i64]
  %value = getelementptr i64, ptr %pair, i64 1
  store i64 4, ptr %pair
  store i64 0, ptr %value
  %address = ptrtoint ptr %pair to i64
  %r = call i64 @system(i64 258, i64 %address, i64 1, i64 0, i64 0, i64 0, i64 0)
  %known = load volatile i64, ptr %value
  %fine = icmp eq i64 %r, 0
  %told = select i1 %fine, i64 %known, i64 0
  ret i64 %told
}}
define internal i64 @length(i64 %hwcap) noinline {{
  %bit = and i64 %hwcap, {1 << (ord("v") - ord("a"))}
  %has = icmp ne i64 %bit, 0
  br i1 %has, label %read, label %none
read:
  %bytes = call i64 asm sideeffect "csrr $0, 0xc22", "=r"()
  %least128 = icmp uge i64 %bytes, 16
  %least256 = icmp uge i64 %bytes, 32
  %one = zext i1 %least128 to i64
  %two = select i1 %least256, i64 2, i64 0
  %r = or i64 %one, %two
  ret i64 %r
none:
  ret i64 0
}}
"""
_WORDS = """  %hwcap = call i64 @getauxval(i64 16)
  %hwprobe = call i64 @probed()
  %vlen = call i64 @length(i64 %hwcap)
"""
_BITS: Mapping[str, tuple[str, int]] = by_feature(
    hwcap="m 12 a 0 f 5 d 3 c 2 v 21",
    hwprobe="zba 3 zbb 4 zbs 5 zfh 27 zvfh 30 zvfbfwma 54",
    vlen="zvl128b 0 zvl256b 1",
)

DETECTION = Detection(frozenset({"m", "a", "f", "d", "c"}), _BITS, _WORDS, functions=_FUNCTIONS)
"""That of the family."""
