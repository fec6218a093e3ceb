# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PTX's moves, logic, shifts and bit fields."""

from __future__ import annotations

from tilewright.ptx.arithmetic import intrinsic
from tilewright.ptx.function import INTEGERS, LLVM_TYPES, Function, Rows, bits_of, last_type
from tilewright.ptx.parse import Instruction, Operand

_TERNARY = 8


def _width(one: Instruction) -> int:
    return bits_of(LLVM_TYPES[last_type(one)])


def joined(function: Function, one: Instruction, parts: tuple[Operand, ...], bits: int) -> str:
    """Several operands side by side in an integer, the first one lowest."""
    size = bits // len(parts)
    whole = "0"
    for number, part in enumerate(parts):
        value = function.resized(function.read(one, part, size), size, bits)
        whole = function.value(f"or i{bits} {whole}, {function.value(f'shl i{bits} {value}, {number * size}')}")
    return whole


def split(function: Function, one: Instruction, parts: tuple[Operand, ...], value: str, bits: int) -> None:
    """An integer into several registers, the lowest bits into the first one."""
    size = bits // len(parts)
    for number, part in enumerate(parts):
        shifted = function.value(f"lshr i{bits} {value}, {number * size}")
        function.write(one, part, function.resized(shifted, bits, size), size)


def _move(function: Function, one: Instruction) -> None:
    to, of = one.operands
    bits = _width(one)
    value = joined(function, one, of, bits) if isinstance(of, tuple) else function.read(one, of, bits)
    if isinstance(to, tuple):
        split(function, one, to, value, bits)
    else:
        function.write(one, to, value, bits, signed=last_type(one)[0] == "s")


def _logic(function: Function, one: Instruction) -> None:
    bits = _width(one)
    a, b = (function.read(one, each, bits) for each in one.operands[1:])
    function.write(one, one.operands[0], function.value(f"{one.parts[0]} i{bits} {a}, {b}"), bits)


def _not(function: Function, one: Instruction) -> None:
    bits = _width(one)
    value = function.value(f"xor i{bits} {function.read(one, one.operands[1], bits)}, -1")
    function.write(one, one.operands[0], value, bits)


def _logical_not(function: Function, one: Instruction) -> None:
    bits = _width(one)
    zero = function.value(f"icmp eq i{bits} {function.read(one, one.operands[1], bits)}, 0")
    function.write(one, one.operands[0], function.resized(zero, 1, bits), bits)


def _table(function: Function, one: Instruction) -> None:
    """lop3: of three bits, the one that a table of eight has."""
    values = [function.read(one, each, 32) for each in one.operands[1:4]]
    table = int(str(one.operands[4]), 0)
    inverse = [function.value(f"xor i32 {each}, -1") for each in values]
    found = "0"
    for row in range(_TERNARY):
        if table >> row & 1:
            a, b, c = (values[at] if row >> (2 - at) & 1 else inverse[at] for at in range(3))
            term = function.value(f"and i32 {function.value(f'and i32 {a}, {b}')}, {c}")
            found = function.value(f"or i32 {found}, {term}")
    function.write(one, one.operands[0], found, 32)


def _shift(function: Function, one: Instruction) -> None:
    """By more bits than there are, nothing but signs is left."""
    kind = last_type(one)
    bits = _width(one)
    value = function.read(one, one.operands[1], bits)
    amount = function.read(one, one.operands[2], 32)
    least = function.call("llvm.umin.i32", "i32", [("i32", amount), ("i32", str(bits - 1))])
    by = function.resized(least, 32, bits)
    how = "shl" if one.parts[0] == "shl" else "ashr" if kind[0] == "s" else "lshr"
    found = function.value(f"{how} i{bits} {value}, {by}")
    if how != "ashr":
        inside = function.value(f"icmp ult i32 {amount}, {bits}")
        found = function.value(f"select i1 {inside}, i{bits} {found}, i{bits} 0")
    function.write(one, one.operands[0], found, bits)


def _funnel(function: Function, one: Instruction) -> None:
    """shf: 32 of the 64 bits of two registers."""
    low, high = (function.read(one, each, 32) for each in one.operands[1:3])
    amount = function.read(one, one.operands[3], 32)
    right = one.has("r")
    arguments = [("i32", high), ("i32", low), ("i32", amount)]
    found = function.call(f"llvm.fsh{'r' if right else 'l'}.i32", "i32", arguments)
    if one.has("clamp"):
        inside = function.value(f"icmp ult i32 {amount}, 32")
        found = function.value(f"select i1 {inside}, i32 {found}, i32 {high if right else low}")
    function.write(one, one.operands[0], found, 32)


def _field(function: Function, one: Instruction, first: int) -> tuple[str, str, str]:
    """Where a bit field starts, its length, and ones below its length, all twice as wide as the type."""
    bits = 2 * _width(one)
    start, length = (
        function.resized(function.value(f"and i32 {function.read(one, each, 32)}, 255"), 32, bits)
        for each in one.operands[first : first + 2]
    )
    start, length = (intrinsic(function, "umin", f"b{bits}", each, str(bits // 2)) for each in (start, length))
    one_more = function.value(f"shl i{bits} 1, {length}")
    return start, length, function.value(f"sub i{bits} {one_more}, 1")


def _extract(function: Function, one: Instruction) -> None:
    """bfe; of a signed type, the field's uppermost bit that there is continues it."""
    bits = _width(one)
    wide = f"i{2 * bits}"
    signed = last_type(one)[0] == "s"
    value = function.resized(function.read(one, one.operands[1], bits), bits, 2 * bits, signed=signed)
    start, length, ones = _field(function, one, 2)
    found = function.value(f"and {wide} {function.value(f'lshr {wide} {value}, {start}')}, {ones}")
    if signed:
        rest = function.value(f"sub {wide} {2 * bits}, {length}")
        empty = function.value(f"icmp eq {wide} {length}, 0")
        safe = function.value(f"select i1 {empty}, {wide} 0, {wide} {rest}")
        raised = function.value(f"shl {wide} {found}, {safe}")
        found = function.value(f"ashr {wide} {raised}, {safe}")
    function.write(one, one.operands[0], function.resized(found, 2 * bits, bits), bits)


def _insert(function: Function, one: Instruction) -> None:
    bits = _width(one)
    wide = f"i{2 * bits}"
    field, into = (function.resized(function.read(one, each, bits), bits, 2 * bits) for each in one.operands[1:3])
    start, _, ones = _field(function, one, 3)
    place = function.value(f"shl {wide} {ones}, {start}")
    inserted = function.value(f"and {wide} {function.value(f'shl {wide} {field}, {start}')}, {place}")
    kept = function.value(f"and {wide} {into}, {function.value(f'xor {wide} {place}, -1')}")
    found = function.value(f"or {wide} {kept}, {inserted}")
    function.write(one, one.operands[0], function.resized(found, 2 * bits, bits), bits)


def _permute(function: Function, one: Instruction) -> None:
    """prmt: four of eight bytes, or signs of theirs."""
    low, high = (function.resized(function.read(one, each, 32), 32, 64) for each in one.operands[1:3])
    both = function.value(f"or i64 {low}, {function.value(f'shl i64 {high}, 32')}")
    selector = function.resized(function.read(one, one.operands[3], 32), 32, 64)
    found = "0"
    for number in range(4):
        choice = function.value(f"lshr i64 {selector}, {4 * number}")
        at = function.value(f"shl i64 {function.value(f'and i64 {choice}, 7')}, 3")
        byte = function.value(f"trunc i64 {function.value(f'lshr i64 {both}, {at}')} to i8")
        by_sign = function.value(f"trunc i64 {function.value(f'lshr i64 {choice}, 3')} to i1")
        sign = function.value(f"ashr i8 {byte}, 7")
        chosen = function.resized(function.value(f"select i1 {by_sign}, i8 {sign}, i8 {byte}"), 8, 32)
        found = function.value(f"or i32 {found}, {function.value(f'shl i32 {chosen}, {8 * number}')}")
    function.write(one, one.operands[0], found, 32)


def _counted(function: Function, one: Instruction) -> None:
    """For popc and clz, whose result has 32 bits, and brev."""
    bits = _width(one)
    value = function.read(one, one.operands[1], bits)
    name = {"popc": "ctpop", "clz": "ctlz", "brev": "bitreverse"}[one.parts[0]]
    arguments = [(f"i{bits}", value)] + [("i1", "false")] * (name == "ctlz")
    found = function.call(f"llvm.{name}.i{bits}", f"i{bits}", arguments)
    width = bits if name == "bitreverse" else 32
    function.write(one, one.operands[0], function.resized(found, bits, width), width)


def _find_highest(function: Function, one: Instruction) -> None:
    """bfind: the number of the uppermost bit that differs from the sign, or how far it is from the top; all ones for none."""
    bits = _width(one)
    value = function.read(one, one.operands[1], bits)
    if last_type(one)[0] == "s":
        value = function.value(f"xor i{bits} {value}, {function.value(f'ashr i{bits} {value}, {bits - 1}')}")
    zeros = function.call(f"llvm.ctlz.i{bits}", f"i{bits}", [(f"i{bits}", value), ("i1", "false")])
    found = zeros if one.has("shiftamt") else function.value(f"sub i{bits} {bits - 1}, {zeros}")
    none = function.value(f"icmp eq i{bits} {value}, 0")
    found = function.value(f"select i1 {none}, i{bits} -1, i{bits} {found}")
    function.write(one, one.operands[0], function.resized(found, bits, 32), 32)


_WORDS = "b16 b32 b64"
ROWS: Rows = {
    "mov": (_move, f"pred b16 b32 b64 b128 {INTEGERS} f16 bf16 f32 f64"),
    "and": (_logic, f"pred {_WORDS}"),
    "or": (_logic, f"pred {_WORDS}"),
    "xor": (_logic, f"pred {_WORDS}"),
    "not": (_not, f"pred {_WORDS}"),
    "cnot": (_logical_not, _WORDS),
    "lop3": (_table, "b32"),
    "shl": (_shift, _WORDS),
    "shr": (_shift, f"{_WORDS} {INTEGERS}"),
    "shf": (_funnel, "l r wrap clamp b32"),
    "bfe": (_extract, "u32 s32 u64 s64"),
    "bfi": (_insert, "b32 b64"),
    "prmt": (_permute, "b32"),
    "popc": (_counted, "b32 b64"),
    "clz": (_counted, "b32 b64"),
    "brev": (_counted, "b32 b64"),
    "bfind": (_find_highest, "shiftamt u32 s32 u64 s64"),
}
"""What instructions do, by the beginning of their names, and the suffixes that are read behind it."""
