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
from types import MappingProxyType
from typing import Literal

Kind = Literal["multiply_add", "dot", "mmla", "amx"]

AMX_ROWS = 16
"""Rows of a tile register: of A and of the sums, and of B the groups of `depth` elements."""


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


def _vnni(features: set[str], bits: int) -> tuple[Dot, ...]:
    """The two ways to use VPDPBUSD: as it is, and with A's signedness flipped."""
    return tuple(
        Dot(
            name="vpdpbusd",
            kind="dot",
            operands=operands,
            features=frozenset(features),
            bits=bits,
            depth=4,
            intrinsic=f"llvm.x86.avx512.vpdpbusd.{bits}",
            unsigned_first=True,
            flip=flip,
        )
        for operands, flip in ((_MIXED, False), (_EQUAL, True))
    )


def _pairs(features: set[str], bits: int, intrinsic: str) -> Dot:
    """VPMADDWD on bytes widened to 16 bits: exact for all signs, where VPMADDUBSW would saturate."""
    return Dot(
        name="vpmaddwd",
        kind="dot",
        operands=_BYTES,
        features=frozenset(features),
        bits=bits,
        depth=2,
        storage="i16",
        intrinsic=intrinsic,
        adds=False,
        per_cycle=0.5,
    )


def _amx(name: str, operands: frozenset[tuple[str, str]], feature: str, depth: int) -> Dot:
    """A dot product of AMX's tiles, which takes operands of any sign and rounds nothing before it adds."""
    features = frozenset({"amx-tile", feature})
    return Dot(name=name, kind="amx", operands=operands, features=features, bits=512, depth=depth)


X86 = (
    _amx("tdpbf16ps", _BF16, "amx-bf16", 2),
    _amx("tdpfp16ps", frozenset({("f16", "f16")}), "amx-fp16", 2),
    _amx("tdpb[su][su]d", _BYTES, "amx-int8", 4),
    Dot(
        name="vdpbf16ps",
        kind="dot",
        operands=_BF16,
        features=frozenset({"avx512bf16"}),
        bits=512,
        depth=2,
        intrinsic="llvm.x86.avx512bf16.dpbf16ps.512",
    ),
    *_vnni({"avx512vnni"}, 512),
    Dot(
        name="vpdpbssd",
        kind="dot",
        operands=_SIGNED,
        features=frozenset({"avxvnniint8"}),
        bits=256,
        depth=4,
        intrinsic="llvm.x86.avx2.vpdpbssd.256",
    ),
    *_vnni({"avxvnni"}, 256),
    _pairs({"avx512bw"}, 512, "llvm.x86.avx512.pmaddw.d.512"),
    _pairs({"avx2"}, 256, "llvm.x86.avx2.pmadd.wd"),
    _pairs({"sse2"}, 128, "llvm.x86.sse2.pmadd.wd"),
)
"""Those of x86-64, the best first."""

_U8_I8 = frozenset({("u8", "i8")})
_I8_U8 = frozenset({("i8", "u8")})
_UNSIGNED = frozenset({("u8", "u8")})


def _by_lane(
    name: str,
    operands: frozenset[tuple[str, str]],
    feature: str,
    intrinsic: str,
    *,
    unsigned_first: bool = False,
    both_unsigned: bool = False,
    flip: bool = False,
) -> Dot:
    """A dot product of four bytes, or of two bf16, that takes a group of A by lane."""
    return Dot(
        name=name,
        kind="dot",
        operands=operands,
        features=frozenset({feature}),
        bits=128,
        depth=2 if operands == _BF16 else 4,
        intrinsic=f"llvm.aarch64.neon.{intrinsic}",
        groups=4,
        unsigned_first=unsigned_first,
        both_unsigned=both_unsigned,
        flip=flip,
    )


def _mmla(
    name: str,
    operands: frozenset[tuple[str, str]],
    feature: str,
    intrinsic: str,
    *,
    unsigned_first: bool = False,
    both_unsigned: bool = False,
) -> Dot:
    """A product of two rows by two columns of eight bytes, or of four bf16; a register of a row of A has two groups."""
    return Dot(
        name=name,
        kind="mmla",
        operands=operands,
        features=frozenset({feature}),
        bits=128,
        depth=4 if operands == _BF16 else 8,
        intrinsic=f"llvm.aarch64.neon.{intrinsic}",
        groups=2,
        unsigned_first=unsigned_first,
        both_unsigned=both_unsigned,
    )


ARM = (
    _mmla("bfmmla", _BF16, "bf16", "bfmmla"),
    _mmla("smmla", _SIGNED, "i8mm", "smmla.v4i32.v16i8"),
    _mmla("ummla", _UNSIGNED, "i8mm", "ummla.v4i32.v16i8", both_unsigned=True),
    _mmla("usmmla", _MIXED, "i8mm", "usmmla.v4i32.v16i8", unsigned_first=True),
    _by_lane("bfdot", _BF16, "bf16", "bfdot.v4f32.v8bf16"),
    _by_lane("sdot", _SIGNED, "dotprod", "sdot.v4i32.v16i8"),
    _by_lane("udot", _UNSIGNED, "dotprod", "udot.v4i32.v16i8", both_unsigned=True),
    _by_lane("usdot", _MIXED, "i8mm", "usdot.v4i32.v16i8", unsigned_first=True),
    # Without USDOT, A gets the sign that B has.
    _by_lane("sdot", _U8_I8, "dotprod", "sdot.v4i32.v16i8", flip=True),
    _by_lane("udot", _I8_U8, "dotprod", "udot.v4i32.v16i8", both_unsigned=True, flip=True),
)
"""Those of AArch64, the best first."""

_SVE = "llvm.aarch64.sve."


def _scalable(
    name: str, operands: frozenset[tuple[str, str]], features: set[str], intrinsic: str, depth: int = 1
) -> Dot:
    """Products on scalable vectors of words of B by one word of A.

    A register has two words of A, as many as ``ld1rd`` fills it with (``ld1rq``, where a word has 64 bits). With more, LLVM loads
    more rows of B ahead than there are registers.
    """
    return Dot(
        name=name,
        kind="dot" if depth > 1 else "multiply_add",
        operands=operands,
        features=frozenset(features),
        depth=depth,
        storage=_WIDENED.get(next(iter(operands))[0]) if depth == 1 else None,
        intrinsic=_SVE + intrinsic,
        groups=2,
    )


def _scalable_mmla(
    name: str, operands: frozenset[tuple[str, str]], intrinsic: str, *, unsigned_first: bool = False
) -> Dot:
    """Products of two rows of A by two columns of B, in each 128 bits. Of steps of one group, the loop is a seventh."""
    return Dot(
        name=name,
        kind="mmla",
        operands=operands,
        features=frozenset({"sve", "bf16" if operands == _BF16 else "i8mm"}),
        depth=4 if operands == _BF16 else 8,
        intrinsic=_SVE + intrinsic,
        groups=2,
        unsigned_first=unsigned_first,
    )


def _by_scalar(name: str, operands: frozenset[tuple[str, str]]) -> Dot:
    """RISC-V's products of a register by one number, which LLVM makes of a multiply-add with a number in all lanes."""
    storage = _WIDENED.get(next(iter(operands))[0])
    return Dot(name=name, kind="multiply_add", operands=operands, features=frozenset({"v"}), storage=storage, groups=4)


SCALABLE = (
    _scalable_mmla("bfmmla", _BF16, "bfmmla"),
    _scalable_mmla("smmla", _SIGNED, "smmla.nxv4i32"),
    _scalable_mmla("ummla", _UNSIGNED, "ummla.nxv4i32"),
    _scalable_mmla("usmmla", _MIXED, "usmmla.nxv4i32", unsigned_first=True),
    _scalable("bfdot", _BF16, {"sve", "bf16"}, "bfdot.lane.v2", 2),
    _scalable("sdot", _SIGNED, {"sve"}, "sdot.lane.nxv4i32", 4),
    _scalable("udot", _UNSIGNED, {"sve"}, "udot.lane.nxv4i32", 4),
    _scalable("usdot", _I8_U8, {"sve", "i8mm"}, "usdot.lane.nxv4i32", 4),
    _scalable("sudot", _U8_I8, {"sve", "i8mm"}, "sudot.lane.nxv4i32", 4),
    _scalable("fmla", frozenset({("f64", "f64")}), {"sve"}, "fmla.lane.nxv2f64"),
    *(_scalable("fmla", frozenset({(each, each)}), {"sve"}, "fmla.lane.nxv4f32") for each in ("f32", "f16", "bf16")),
    *(_by_scalar("vfmacc.vf", frozenset({(each, each)})) for each in ("f32", "f64", "f16", "bf16")),
    _by_scalar("vmacc.vx", _BYTES),
)
"""Those on scalable vectors, of AArch64 and RISC-V, the best first."""

FAMILIES: Mapping[str, tuple[Dot, ...]] = MappingProxyType({"x86": X86, "arm": ARM})
"""By family of targets."""


def multiply_add(a: str, b: str, groups: int = 1) -> Dot:
    """The fallback of every target: packing widens elements to the accumulator's type, and multiply-adds sum them."""
    operands = frozenset({(a, b)})
    return Dot(name="multiply-add", kind="multiply_add", operands=operands, storage=_WIDENED.get(a), groups=groups)
