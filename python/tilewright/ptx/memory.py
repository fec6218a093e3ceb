# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PTX's loads, stores and atomic operations."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.ptx.arithmetic import is_float
from tilewright.ptx.function import LLVM_TYPES, Function, Handler, bits_of, last_type, unknown
from tilewright.ptx.parse import Address, Instruction, wrong

_SPACES = ("global", "shared", "shared::cta", "shared::cluster", "local", "param", "const")
_ATOMIC = {
    "add": "add",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "exch": "xchg",
    "min": "min",
    "max": "max",
    "inc": "uinc_wrap",
    "dec": "udec_wrap",
}


def space(one: Instruction) -> str:
    """The state space of an access; empty for generic addresses."""
    for part in one.parts[1:]:
        for each in _SPACES:
            if part == each or part.startswith(f"{each}::"):
                return "shared" if each.startswith("shared") else each
    return ""


def _count(one: Instruction) -> int:
    return next((int(part[1:]) for part in one.parts if part in ("v2", "v4", "v8")), 1)


def _mark(one: Instruction) -> str:
    """Parameters are no memory of the kernel's: nobody is told of accesses."""
    return ", !nosanitize !0" if space(one) == "param" else ""


def _load(function: Function, one: Instruction) -> None:
    kind, count = last_type(one), _count(one)
    bits = bits_of(LLVM_TYPES[kind])
    to, of = one.operands[:2]
    pointer = function.pointer(one, of, space(one))
    signed = kind[0] == "s"
    if count == 1 and not isinstance(to, tuple):
        value = function.value(f"load i{bits}, ptr {pointer}, align {bits // 8}{_mark(one)}")
        function.write(one, to, value, bits, signed=signed)
        return
    places = to if isinstance(to, tuple) else (to,)
    if len(places) != count:
        raise wrong(one.line, f"{one.name} gives {count} elements to {len(places)} registers")
    whole = f"<{count} x i{bits}>"
    value = function.value(f"load {whole}, ptr {pointer}, align {count * bits // 8}{_mark(one)}")
    for number, place in enumerate(places):
        part = function.value(f"extractelement {whole} {value}, i32 {number}")
        function.write(one, place, part, bits, signed=signed)


def _store(function: Function, one: Instruction) -> None:
    kind, count = last_type(one), _count(one)
    bits = bits_of(LLVM_TYPES[kind])
    to, of = one.operands[:2]
    pointer = function.pointer(one, to, space(one))
    values = [function.read(one, each, bits) for each in (of if isinstance(of, tuple) else (of,))]
    if len(values) != count:
        raise wrong(one.line, f"{one.name} takes {count} elements, not {len(values)}")
    if count == 1:
        function.do(f"store i{bits} {values[0]}, ptr {pointer}, align {bits // 8}{_mark(one)}")
        return
    whole, found = f"<{count} x i{bits}>", "poison"
    for number, value in enumerate(values):
        found = function.value(f"insertelement {whole} {found}, i{bits} {value}, i32 {number}")
    function.do(f"store {whole} {found}, ptr {pointer}, align {count * bits // 8}{_mark(one)}")


def _atomic(function: Function, one: Instruction) -> None:
    """atom, whose first operand takes what was there before, and red, which has no such operand."""
    to, (address, *values) = (one.operands[0], one.operands[1:]) if one.parts[0] == "atom" else ("_", one.operands)
    kind, count = last_type(one), _count(one)
    if not isinstance(address, Address):
        raise unknown(one)
    for number in range(count):
        size = bits_of(LLVM_TYPES[kind])
        place = Address(address.base, address.offset + number * size // 8)
        pointer = function.pointer(one, place, space(one))
        parts = [each[number] if isinstance(each, tuple) else each for each in values]
        into = to[number] if isinstance(to, tuple) else to
        _atomic_one(function, one, kind, pointer, parts, into)  # pyright: ignore[reportArgumentType]


def _atomic_one(function: Function, one: Instruction, kind: str, pointer: str, parts: list[str], into: str) -> None:
    llvm = LLVM_TYPES[kind]
    align = bits_of(llvm) // 8
    values = [function.get(one, each, kind) for each in parts]
    if one.has("cas"):
        both = function.value(
            f"cmpxchg ptr {pointer}, {llvm} {values[0]}, {llvm} {values[1]} seq_cst seq_cst, align {align}"
        )
        function.put(one, into, function.value(f"extractvalue {{{llvm}, i1}} {both}, 0"), kind)
        return
    name = next((_ATOMIC[part] for part in one.parts[1:] if part in _ATOMIC), None)
    if name is None:
        raise unknown(one)
    if name in ("min", "max") and kind[0] == "u":
        name = f"u{name}"
    elif is_float(kind) and name != "xchg":
        name = f"f{name}"
    old = function.value(f"atomicrmw {name} ptr {pointer}, {llvm} {values[0]} seq_cst, align {align}")
    function.put(one, into, old, kind)


def _nothing(_function: Function, _one: Instruction) -> None:
    """A hint."""


def _policy(function: Function, one: Instruction) -> None:
    function.write(one, one.operands[0], "0", 64)


def _in_block(function: Function, one: Instruction) -> None:
    """mapa: the same place in the shared memory of another block of the cluster."""
    to, of, rank = one.operands
    bits = bits_of(LLVM_TYPES[one.parts[-1]])
    number = function.read(one, rank, 32)
    address = function.read(one, of, bits)
    if space(one) == "shared":
        pointer = function.shared_pointer(function.resized(address, bits, 32))
    else:
        pointer = function.value(f"inttoptr i{bits} {address} to ptr")
    found = function.perform("mapa", "ptr", [("ptr", pointer), ("i32", number)])
    if space(one) == "shared":
        value = function.resized(function.shared_address(found), 32, bits)
    else:
        value = function.value(f"ptrtoint ptr {found} to i{bits}")
    function.write(one, to, value, bits)


def _is_in_space(function: Function, one: Instruction) -> None:
    """isspacep: of shared memory, and of everything else."""
    pointer = function.value(f"inttoptr i64 {function.read(one, one.operands[1], 64)} to ptr")
    offset = function.shared_address(pointer)
    inside = function.value(f"icmp ne i32 {offset}, -1")
    if one.has("global"):
        inside = function.value(f"xor i1 {inside}, true")
    elif space(one) != "shared":
        raise unknown(one)
    function.write(one, one.operands[0], inside, 1)


ROWS: Mapping[str, Handler] = {
    "ld": _load,
    "ldu": _load,
    "st": _store,
    "atom": _atomic,
    "red": _atomic,
    "mapa": _in_block,
    "isspacep": _is_in_space,
    "prefetch": _nothing,
    "prefetchu": _nothing,
    "discard": _nothing,
    "applypriority": _nothing,
    "createpolicy": _policy,
}
"""What instructions do, by the beginning of their names."""
