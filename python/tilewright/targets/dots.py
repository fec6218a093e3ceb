# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of dot-product instructions: they multiply groups of narrow elements and add them up.

Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (order number 325383): VPDPBUSD, VPDPWSSD,
VPMADDWD, VDPBF16PS, VPDPB[SU,UU,SS]D, TDPBF16PS, TDPFP16PS, TDPB[SU,US,UU,SS]D. Arm Architecture Reference Manual for
A-profile (DDI 0487): SDOT, UDOT, USDOT, BFDOT (by element), SMMLA, UMMLA, USMMLA, BFMMLA. Intrinsics: LLVM 22's
IntrinsicsX86.td and IntrinsicsAArch64.td. The RISC-V Instruction Set Manual, volume I: VFMACC, VMACC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

Kind = Literal["multiply_add", "dot", "mmla", "amx"]
_Pairs = frozenset[tuple[str, str]]
"""Element types (A, B)."""

AMX_ROWS = 16
"""Rows of a tile register: of A and of the sums, and of B the groups of `depth` elements."""
AMX_ROW_BYTES = 64
"""Bytes of such a row."""


@dataclass(frozen=True, slots=True)
class Dot:
    """How products of two element types are multiplied and summed.

    Attributes:
        name: The instruction, or "multiply-add".
        kind: "dot": groups of `depth` elements at once, by `intrinsic`. "mmla": those of two rows of A by two columns. "amx":
            `AMX_ROWS` such groups at once, of as many rows of A by columns of B. "multiply_add": one at a time, in the type
            of the sum, after widening.
        operands: The element types (A, B) that it is for.
        features: What a target must have.
        bits: Width of the vector register.
        depth: How many products one lane of the sum takes up at once.
        storage: MLIR type of the elements that it multiplies and that packed panels hold, where that is not the
            operands' own; otherwise None.
        intrinsic: LLVM's name for it.
        half: LLVM's name for it in registers of half the bits; empty where kernels do not use it.
        adds: Whether it adds to a sum; otherwise an addition of its own follows.
        unsigned_first: Whether it multiplies an unsigned first by a signed second operand.
        both_unsigned: Whether it multiplies unsigned operands.
        flip: Whether the sign of A has to be turned first, because it has that of B.
        per_cycle: Instructions that start in a cycle for each multiply-add that does, where additions take the units of
            multiplications; see `rate`.
        groups: Groups of A's elements in one register, of which the instruction takes any one for all lanes; 1 where a
            group has to be broadcast to every lane first.
    """

    name: str
    kind: Kind
    operands: frozenset[tuple[str, str]]
    features: frozenset[str] = frozenset()
    bits: int = 0
    depth: int = 1
    storage: str | None = None
    intrinsic: str = ""
    half: str = ""
    adds: bool = True
    unsigned_first: bool = False
    both_unsigned: bool = False
    flip: bool = False
    per_cycle: float = 1.0
    groups: int = 1

    @property
    def is_tile(self) -> bool:
        """Whether it multiplies tiles of registers (AMX)."""
        return self.kind == "amx"

    @property
    def rows(self) -> int:
        """Rows of A that it multiplies at once, of those in a tile of vector registers."""
        return 2 if self.kind == "mmla" else 1

    def rate(self, *, adds_apart: bool) -> float:
        """Instructions that start in a cycle for each multiply-add that does: one, where an addition that follows has units of its own."""
        return 1.0 if adds_apart and not self.adds else self.per_cycle

    @property
    def in_panels(self) -> bool:
        """Whether its operands want to be packed panels, so that another one is for what is not packed."""
        return self.kind in ("amx", "mmla")

    @property
    def step(self) -> int:
        """Elements of K that one step of the hot loop takes."""
        return self.depth * (AMX_ROWS if self.is_tile else self.groups)

    @property
    def least(self) -> int:
        """Elements of K in the shortest step that it can take."""
        return self.step if self.is_tile else self.depth

    @property
    def element(self) -> str:
        """MLIR type of the elements that it multiplies."""
        return self.storage or _MLIR[next(iter(self.operands))[0]]


_WIDENED = {"bf16": "f32", "f16": "f32", "i8": "i32", "u8": "i32"}
_MLIR: Mapping[str, str] = MappingProxyType({"bf16": "bf16", "f16": "f16", "i8": "i8", "u8": "i8"})
_MIXED = frozenset({("u8", "i8"), ("i8", "u8")})
_EQUAL = frozenset({("i8", "i8"), ("u8", "u8")})
_BYTES = _MIXED | _EQUAL
_SIGNED = frozenset({("i8", "i8")})
_BF16 = frozenset({("bf16", "bf16")})


def _widened(operands: _Pairs) -> str | None:
    """The type that multiply-adds widen elements to; None where they do not."""
    return _WIDENED.get(next(iter(operands))[0])


def _vnni(feature: str, bits: int) -> tuple[Dot, ...]:
    """The two ways to use VPDPBUSD: as it is, and with A's signedness flipped."""
    name = "llvm.x86.avx512.vpdpbusd.{}"
    names = {"intrinsic": name.format(bits), "half": name.format(256) if bits == 512 else ""}
    return tuple(
        _x86("vpdpbusd", operands, feature, bits, 4, unsigned_first=True, flip=flip, **names)
        for operands, flip in ((_MIXED, False), (_EQUAL, True))
    )


def _x86(
    name: str,
    operands: _Pairs,
    feature: str,
    bits: int,
    depth: int,
    intrinsic: str,
    **facts: Any,  # noqa: ANN401 - of any field
) -> Dot:
    """A dot product in registers of so many bits."""
    return Dot(name, "dot", operands, frozenset({feature}), bits, depth, intrinsic=intrinsic, **facts)


def _pairs(feature: str, bits: int, intrinsic: str) -> Dot:
    """VPMADDWD on bytes widened to 16 bits: exact for all signs, where VPMADDUBSW would saturate."""
    return _x86("vpmaddwd", _BYTES, feature, bits, 2, intrinsic, storage="i16", adds=False, per_cycle=0.5)


def _amx(name: str, operands: _Pairs, feature: str, depth: int) -> Dot:
    """A dot product of AMX's tiles, which takes operands of any sign and rounds nothing before it adds."""
    return Dot(name, "amx", operands, frozenset({"amx-tile", feature}), bits=512, depth=depth)


X86 = (
    _amx("tdpbf16ps", _BF16, "amx-bf16", 2),
    _amx("tdpfp16ps", frozenset({("f16", "f16")}), "amx-fp16", 2),
    _amx("tdpb[su][su]d", _BYTES, "amx-int8", 4),
    _x86(
        *("vdpbf16ps", _BF16, "avx512bf16", 512, 2),
        intrinsic="llvm.x86.avx512bf16.dpbf16ps.512",
        half="llvm.x86.avx512bf16.dpbf16ps.256",
    ),
    *_vnni("avx512vnni", 512),
    _x86("vpdpbssd", _SIGNED, "avxvnniint8", 256, 4, "llvm.x86.avx2.vpdpbssd.256"),
    *_vnni("avxvnni", 256),
    _pairs("avx512bw", 512, "llvm.x86.avx512.pmaddw.d.512"),
    _pairs("avx2", 256, "llvm.x86.avx2.pmadd.wd"),
    _pairs("sse2", 128, "llvm.x86.sse2.pmadd.wd"),
)
"""Those of x86-64, the best first."""

_U8_I8 = frozenset({("u8", "i8")})
_I8_U8 = frozenset({("i8", "u8")})
_UNSIGNED = frozenset({("u8", "u8")})


def _arm(
    kind: Kind,
    name: str,
    operands: _Pairs,
    intrinsic: str,
    *features: str,
    scalable: bool = False,
    **signs: Any,  # noqa: ANN401 - of any field
) -> Dot:
    """An instruction of NEON or, on `scalable` vectors, of SVE; of bf16 it takes half as many elements at once as of bytes.

    "dot": groups of four bytes. NEON's take a group of A by lane, of the four in a register. SVE's multiply words of B by one word of A;
    a register has two words of A, as many as ``ld1rd`` fills it with (``ld1rq``, where a word has 64 bits). With more, LLVM loads more
    rows of B ahead than there are registers. "multiply_add": the same, with single elements.
    "mmla": two rows of A by two columns of B of eight bytes, in each 128 bits; a register of a row of A has two groups. Of steps of
    one group, the loop is a seventh.
    """
    whole = {"dot": 4, "mmla": 8, "multiply_add": 1}[kind]
    return Dot(
        name,
        kind,
        operands,
        frozenset({*features, *(("sve",) if scalable else ())}),
        bits=0 if scalable else 128,
        depth=max(whole // 2, 1) if operands == _BF16 else whole,
        storage=_widened(operands) if kind == "multiply_add" else None,
        intrinsic=f"llvm.aarch64.{'sve' if scalable else 'neon'}.{intrinsic}",
        groups=4 if kind == "dot" and not scalable else 2,
        **signs,
    )


ARM = (
    _arm("mmla", "bfmmla", _BF16, "bfmmla", "bf16"),
    _arm("mmla", "smmla", _SIGNED, "smmla.v4i32.v16i8", "i8mm"),
    _arm("mmla", "ummla", _UNSIGNED, "ummla.v4i32.v16i8", "i8mm", both_unsigned=True),
    _arm("mmla", "usmmla", _MIXED, "usmmla.v4i32.v16i8", "i8mm", unsigned_first=True),
    _arm("dot", "bfdot", _BF16, "bfdot.v4f32.v8bf16", "bf16"),
    _arm("dot", "sdot", _SIGNED, "sdot.v4i32.v16i8", "dotprod"),
    _arm("dot", "udot", _UNSIGNED, "udot.v4i32.v16i8", "dotprod", both_unsigned=True),
    _arm("dot", "usdot", _MIXED, "usdot.v4i32.v16i8", "i8mm", unsigned_first=True),
    # Without USDOT, A gets the sign that B has.
    _arm("dot", "sdot", _U8_I8, "sdot.v4i32.v16i8", "dotprod", flip=True),
    _arm("dot", "udot", _I8_U8, "udot.v4i32.v16i8", "dotprod", both_unsigned=True, flip=True),
)
"""Those of AArch64, the best first."""


def _by_scalar(name: str, operands: _Pairs) -> Dot:
    """RISC-V's products of a register by one number, which LLVM makes of a multiply-add with a number in all lanes."""
    return Dot(name, "multiply_add", operands, frozenset({"v"}), storage=_widened(operands), groups=4)


_sve = partial(_arm, scalable=True)
SCALABLE = (
    _sve("mmla", "bfmmla", _BF16, "bfmmla", "bf16"),
    _sve("mmla", "smmla", _SIGNED, "smmla.nxv4i32", "i8mm"),
    _sve("mmla", "ummla", _UNSIGNED, "ummla.nxv4i32", "i8mm"),
    _sve("mmla", "usmmla", _MIXED, "usmmla.nxv4i32", "i8mm", unsigned_first=True),
    _sve("dot", "bfdot", _BF16, "bfdot.lane.v2", "bf16"),
    _sve("dot", "sdot", _SIGNED, "sdot.lane.nxv4i32"),
    _sve("dot", "udot", _UNSIGNED, "udot.lane.nxv4i32"),
    _sve("dot", "usdot", _I8_U8, "usdot.lane.nxv4i32", "i8mm"),
    _sve("dot", "sudot", _U8_I8, "sudot.lane.nxv4i32", "i8mm"),
    _sve("multiply_add", "fmla", frozenset({("f64", "f64")}), "fmla.lane.nxv2f64"),
    *(_sve("multiply_add", "fmla", frozenset({(each, each)}), "fmla.lane.nxv4f32") for each in ("f32", "f16", "bf16")),
    *(_by_scalar("vfmacc.vf", frozenset({(each, each)})) for each in ("f32", "f64", "f16", "bf16")),
    _by_scalar("vmacc.vx", _BYTES),
)
"""Those on scalable vectors, of AArch64 and RISC-V, the best first."""

FAMILIES: Mapping[str, tuple[Dot, ...]] = MappingProxyType({"x86": X86, "arm": ARM})
"""By family of targets."""


def multiply_add(a: str, b: str, groups: int = 1) -> Dot:
    """The fallback of every target: packing widens elements to the accumulator's type, and multiply-adds sum them."""
    return Dot("multiply-add", "multiply_add", frozenset({(a, b)}), storage=_WIDENED.get(a), groups=groups)
