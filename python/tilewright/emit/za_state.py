# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code that saves the ZA of a caller's caller, for functions with a ZA of their own, and that tells debuggers how long vectors are.

A function that uses ZA and calls one that does not leaves ZA in place, and points TPIDR2_EL0 to a buffer where it may be saved. A function
that needs ZA for itself saves it there first, by ``__arm_tpidr2_save``. That comes with compiler-rt and with libgcc 14; for older
toolchains, each object has its own, as a weak symbol. So it has ``__arm_get_current_vg``, with which functions that change the mode keep
the length of vectors, where they have line tables and the processor has no SVE outside streaming mode.

Source: Procedure Call Standard for the Arm 64-bit Architecture (AAPCS64), "SME support routines" and "TPIDR2_EL0".
"""

from __future__ import annotations

_SAVE = "__arm_tpidr2_save"
# The block that TPIDR2_EL0 points to: 8 bytes for the buffer's address, 2 for the slices to save, and 6 that must be zero. Only
# x14 to x18 may be changed, and a slice's number has to be in w12 to w15: so this is no function of LLVM IR.
_INSTRUCTIONS = """
mrs x16, TPIDR2_EL0
cbz x16, 3f
ldr x14, [x16, #8]
lsr x15, x14, #16
cbnz x15, 4f
ldr x16, [x16]
cbz x16, 3f
and w17, w14, #0xffff
mov w15, #0
2:
cmp w15, w17
b.hs 3f
str za[w15, 0], [x16]
addsvl x16, x16, #1
add w15, w15, #1
b 2b
3:
ret
4:
brk #1
"""
_LENGTH = "__arm_get_current_vg"
# Only x0 may be changed. Outside streaming mode there are no such vectors: 0.
_LENGTH_INSTRUCTIONS = """
mrs x0, SVCR
tbz x0, #0, 2f
cntd x0
ret
2:
mov x0, #0
ret
"""


def text(features: str, *, tables: bool) -> str:
    """The functions in LLVM IR, for a target with these features in LLVM's spelling, and for code with line tables or without."""
    keeps_length = tables and "+sve" not in features.split(",")
    return _function(_SAVE, _INSTRUCTIONS, features) + (
        _function(_LENGTH, _LENGTH_INSTRUCTIONS, features) if keeps_length else ""
    )


def _function(name: str, instructions: str, features: str) -> str:
    """A function of instructions alone."""
    lines = "\\0A".join(instructions.split("\n")[1:-1])
    return f"""
define weak hidden void @{name}() naked noinline nounwind "target-features"="{features}" {{
  call void asm sideeffect "{lines}", "~{{memory}}"()
  unreachable
}}
"""


def is_needed(llvmir: str) -> bool:
    """Whether a module has functions with a ZA of their own."""
    return "aarch64_new_za" in llvmir
