# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PTX's conversions between types, and between address spaces."""

from __future__ import annotations

from tilewright.ptx.arithmetic import finished, intrinsic, is_float
from tilewright.ptx.function import FLOATS, INTEGERS, LLVM_TYPES, Function, Rows, bits_of, unknown
from tilewright.ptx.parse import Instruction

_WHOLE = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_BYTES = ("e4m3x2", "e5m2x2")
_TF32_LOST = 13
"""Bits of an f32 that tf32 has not."""


def _types(one: Instruction) -> tuple[str, str]:
    to, of = [part for part in one.parts if part in LLVM_TYPES][-2:]
    return to, of


def _convert(function: Function, one: Instruction) -> None:
    to, of = _types(one)
    if (one.has("satfinite") and to not in _BYTES) or (one.has("relu") and (to in _BYTES or of in _BYTES)):
        raise unknown(one)
    if to in ("f16x2", "bf16x2") and of == "f32":
        value = _two_floats(function, one, to)
    elif to in _BYTES or of in _BYTES:
        value = _bytes(function, one, to, of)
    elif to == "tf32":
        value = _tf32(function, one)
    else:
        value = _one(function, one, function.get(one, one.operands[1], of), to, of)
    function.put(one, one.operands[0], value, to)


def _one(function: Function, one: Instruction, value: str, to: str, of: str) -> str:
    target, source = LLVM_TYPES[to], LLVM_TYPES[of]
    signs = ("s" if of[0] == "s" else "u", "s" if to[0] == "s" else "u")
    if not is_float(of) and is_float(to):
        if one.has("rz", "rm", "rp"):
            raise unknown(one)
        return function.value(f"{signs[0]}itofp {source} {value} to {target}")
    if not is_float(of):
        return _integer(function, one, value, to, of)
    for mode, name in _WHOLE.items():
        if one.has(mode):
            value = intrinsic(function, name, of, value)
    if not is_float(to):
        name = f"llvm.fpto{signs[1]}i.sat.{target}.{of}"
        found = function.call(name, target, [(source, value)])
        if of != "f64" and bits_of(target) != 64:
            return found  # Of NaN it is 0; with 64 bits on either side, the highest bit alone.
        nan = function.value(f"fcmp uno {source} {value}, {value}")
        return function.value(f"select i1 {nan}, {target} {1 << bits_of(target) - 1}, {target} {found}")
    wide, wanted = bits_of(source), bits_of(target)
    if one.has("rz", "rm", "rp") and wanted < wide:
        if (to, of) != ("bf16", "f32") or not one.has("rz"):
            raise unknown(one)
        bits = function.value(f"lshr i32 {function.cast(value, source, 'i32')}, 16")
        cut = function.cast(function.value(f"trunc i32 {bits} to i16"), "i16", target)
        # Of a NaN, what is left of its bits may be an infinity.
        nan = function.value(f"fcmp uno {source} {value}, {value}")
        cut = function.value(f"select i1 {nan}, {target} 0xR7FFF, {target} {cut}")
        return finished(function, one, cut, to)
    if wanted == wide and source != target:  # Between f16 and bf16.
        value, source, wide = function.value(f"fpext {source} {value} to float"), "float", 32
    if wanted != wide:
        value = function.value(f"{'fptrunc' if wanted < wide else 'fpext'} {source} {value} to {target}")
    return finished(function, one, value, to)


def _integer(function: Function, one: Instruction, value: str, to: str, of: str) -> str:
    source, wanted = bits_of(LLVM_TYPES[of]), bits_of(LLVM_TYPES[to])
    signed, to_signed = of[0] == "s", to[0] == "s"
    if one.has("sat"):
        wide = f"b{2 * max(source, wanted)}"
        value = function.resized(value, source, bits_of(LLVM_TYPES[wide]), signed=signed)
        low, high = (-(1 << wanted - 1), (1 << wanted - 1) - 1) if to_signed else (0, (1 << wanted) - 1)
        value = intrinsic(function, "smin", wide, intrinsic(function, "smax", wide, value, str(low)), str(high))
        source = bits_of(LLVM_TYPES[wide])
    return function.resized(value, source, wanted, signed=signed)


def _two_floats(function: Function, one: Instruction, to: str) -> str:
    """Two numbers in a register, the first operand in its upper half."""
    element = to.removesuffix("x2")
    found = "poison"
    for number, operand in enumerate(reversed(one.operands[1:3])):
        value = _one(function, one, function.get(one, operand, "f32"), element, "f32")
        found = function.value(f"insertelement {LLVM_TYPES[to]} {found}, {LLVM_TYPES[element]} {value}, i32 {number}")
    return found


def _bytes(function: Function, one: Instruction, to: str, of: str) -> str:
    """Floats of 8 bits, two in 16 bits, which the emulator rounds."""
    if of in _BYTES and to == "f16x2":
        value = function.get(one, one.operands[1], of)
        return function.cast(function.perform(f"cvt.f16x2.{of}", "i32", [("i16", value)]), "i32", LLVM_TYPES[to])
    if of == "f16x2":
        pair = function.get(one, one.operands[1], of)
        halves = [function.value(f"extractelement <2 x half> {pair}, i32 {number}") for number in (1, 0)]
        values = [function.value(f"fpext half {each} to float") for each in halves]
    elif of == "f32":
        values = [function.get(one, each, of) for each in one.operands[1:3]]
    else:
        raise unknown(one)
    return function.perform(f"cvt.{to}.f32", "i16", [("float", each) for each in values])


def _tf32(function: Function, one: Instruction) -> str:
    """To the nearest (.rna: away from zero where two are) or towards zero; the bits that tf32 has not become zero."""
    bits = function.read(one, one.operands[1], 32)
    if not one.has("rz"):
        half = "4096"
        if one.has("rn"):
            last = function.value(f"and i32 {function.value(f'lshr i32 {bits}, {_TF32_LOST}')}, 1")
            half = function.value(f"add i32 {last}, 4095")
        bits = function.value(f"add i32 {bits}, {half}")
    return function.value(f"and i32 {bits}, {-(1 << _TF32_LOST)}")


def _address(function: Function, one: Instruction) -> None:
    """cvta: a generic address is the host's."""
    to, of = one.operands
    bits = bits_of(LLVM_TYPES[one.parts[-1]])
    value = function.read(one, of, bits)
    if one.has("shared", "shared::cta", "shared::cluster"):
        if one.has("to"):
            pointer = function.value(f"inttoptr i{bits} {value} to ptr")
            value = function.resized(function.shared_address(pointer), 32, bits)
        else:
            pointer = function.shared_pointer(function.resized(value, bits, 32))
            value = function.value(f"ptrtoint ptr {pointer} to i{bits}")
    elif one.has("param") and not one.has("to"):
        value = function.value(f"ptrtoint ptr {function.parameter_pointer(value, 0)} to i64")
    elif one.has("param"):
        raise unknown(one)
    function.write(one, to, value, bits)


ROWS: Rows = {
    "cvt": (
        _convert,
        f"rn rz rm rp rni rzi rmi rpi rna ftz sat satfinite relu u8 s8 {INTEGERS} {FLOATS} tf32 e4m3x2 e5m2x2",
    ),
    "cvta": (_address, "to global shared shared::cta shared::cluster local const param param::entry u32 u64"),
}
"""What instructions do, by the beginning of their names, and the suffixes that are read behind it."""
