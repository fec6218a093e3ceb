# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Features of AArch64 processors, by the capabilities that Linux tells each process.

Source: Linux: arch/arm64/include/uapi/asm/hwcap.h.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.libraries.detection.base import AUXILIARY, Detection, by_feature

_WORDS = "  %hwcap = call i64 @getauxval(i64 16)\n  %hwcap2 = call i64 @getauxval(i64 26)\n"
_BITS: Mapping[str, tuple[str, int]] = by_feature(
    hwcap="fp-armv8 0 neon 1 crc 7 lse 8 fullfp16 10 rdm 12 complxnum 14 rcpc 15 dotprod 20 sve 22 fp16fml 23",
    hwcap2="sve2 1 i8mm 13 bf16 14 sme 23 sme-i16i64 24 sme-f64f64 25 sme2 37",
)

DETECTION = Detection(frozenset({"fp-armv8", "neon"}), _BITS, _WORDS, functions=AUXILIARY)
"""That of the family."""
