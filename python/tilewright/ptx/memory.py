# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PTX's loads, stores and atomic operations."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.ptx.arithmetic import is_float
from tilewright.ptx.function import ANY, INTEGERS, LLVM_TYPES, Function, Rows, bits_of, last_type, unknown
from tilewright.ptx.parse import Address, Instruction, wrong

_SCOPES: Mapping[str, str] = {"cta": "block", "cluster": "cluster", "gpu": "device", "sys": ""}
"""PTX's scopes as LLVM calls those of this target."""
_ORDERS: Mapping[str, str] = {
    "relaxed": "monotonic",
    "acquire": "acquire",
    "release": "release",
    "acq_rel": "acq_rel",
}
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


def _mark(function: Function, one: Instruction) -> str:
    """Parameters are no memory of the kernel's: nobody is told of accesses."""
    return ", !nosanitize !0" if space(one) == "param" else function.here


def _scope(one: Instruction, otherwise: str) -> str:
    """LLVM's name of the scope of an access that other threads are meant to see."""
    return next((_SCOPES[part] for part in one.parts if part in _SCOPES), otherwise)


def _ordered(one: Instruction) -> str:
    """How strong a load or store is: "", "volatile", or an order of LLVM's with its scope."""
    if one.has("volatile", "mmio"):
        return "volatile"
    order = next((_ORDERS[part] for part in one.parts if part in _ORDERS), None)
    return f'syncscope("{_scope(one, "")}") {order}' if order else ""


def _access(function: Function, one: Instruction, text: str, kind: str, align: int) -> str:
    """A load or store as LLVM IR, with its order and marks; `text` is that without them, from its name on.

    LLVM has no atomic vectors: their order is that of a fence beside them, by `_fence_of`.
    """
    name, rest = text.split(" ", 1)
    order = _ordered(one)
    how = "" if not order else "volatile " if order == "volatile" or kind[0] == "<" or kind == "i128" else "atomic "
    suffix = f" {order}" if how == "atomic " else ""
    return f"{name} {how}{rest}{suffix}, align {align}{_mark(function, one)}"


def _fence_of(function: Function, one: Instruction, kind: str, order: str) -> None:
    """The fence behind a vector's load that acquires, or before its store that releases."""
    if one.has(order) and (kind[0] == "<" or kind == "i128"):
        function.do(f'fence syncscope("{_scope(one, "")}") acq_rel{function.here}')


def _load(function: Function, one: Instruction) -> None:
    kind, count = last_type(one), _count(one)
    bits = bits_of(LLVM_TYPES[kind])
    to, of = one.operands[:2]
    pointer = function.pointer(one, of, space(one), count * bits // 8)
    signed = kind[0] == "s"
    if count == 1 and not isinstance(to, tuple):
        value = function.value(_access(function, one, f"load i{bits}, ptr {pointer}", f"i{bits}", bits // 8))
        _fence_of(function, one, f"i{bits}", "acquire")
        function.write(one, to, value, bits, signed=signed)
        return
    places = to if isinstance(to, tuple) else (to,)
    if len(places) != count:
        raise wrong(one.line, f"{one.name} gives {count} elements to {len(places)} registers")
    whole = f"<{count} x i{bits}>"
    value = function.value(_access(function, one, f"load {whole}, ptr {pointer}", whole, count * bits // 8))
    _fence_of(function, one, whole, "acquire")
    for number, place in enumerate(places):
        part = function.value(f"extractelement {whole} {value}, i32 {number}")
        function.write(one, place, part, bits, signed=signed)


def _store(function: Function, one: Instruction) -> None:
    kind, count = last_type(one), _count(one)
    bits = bits_of(LLVM_TYPES[kind])
    to, of = one.operands[:2]
    pointer = function.pointer(one, to, space(one), count * bits // 8)
    values = [function.read(one, each, bits) for each in (of if isinstance(of, tuple) else (of,))]
    if len(values) != count:
        raise wrong(one.line, f"{one.name} takes {count} elements, not {len(values)}")
    if count == 1:
        _fence_of(function, one, f"i{bits}", "release")
        function.do(_access(function, one, f"store i{bits} {values[0]}, ptr {pointer}", f"i{bits}", bits // 8))
        return
    whole, found = f"<{count} x i{bits}>", "poison"
    for number, value in enumerate(values):
        found = function.value(f"insertelement {whole} {found}, i{bits} {value}, i32 {number}")
    _fence_of(function, one, whole, "release")
    function.do(_access(function, one, f"store {whole} {found}, ptr {pointer}", whole, count * bits // 8))


def _atomic(function: Function, one: Instruction) -> None:
    """atom, whose first operand takes what was there before, and red, which has no such operand."""
    to, (address, *values) = (one.operands[0], one.operands[1:]) if one.parts[0] == "atom" else ("_", one.operands)
    kind, count = last_type(one), _count(one)
    if not isinstance(address, Address):
        raise unknown(one)
    # All are read before one is written: a result may be an operand too.
    size, changes = bits_of(LLVM_TYPES[kind]) // 8, []
    for number in range(count):
        place = Address(address.base, address.offset + number * size)
        pointer = function.pointer(one, place, space(one), size)
        parts = [each[number] if isinstance(each, tuple) else each for each in values]
        changes.append((pointer, [function.get(one, each, kind) for each in parts]))
    before = [_atomic_one(function, one, kind, pointer, given) for pointer, given in changes]
    for into, value in zip(to if isinstance(to, tuple) else [to] * count, before, strict=True):
        function.put(one, into, value, kind)


def _atomic_one(function: Function, one: Instruction, kind: str, pointer: str, values: list[str]) -> str:
    """What was there before."""
    llvm = LLVM_TYPES[kind]
    align = bits_of(llvm) // 8
    order = next((_ORDERS[part] for part in one.parts if part in _ORDERS), "monotonic")
    scope = f'syncscope("{_scope(one, "device")}")'
    if one.has("cas"):
        failed = "acquire" if order.startswith("acq") else "monotonic"
        both = function.value(
            f"cmpxchg ptr {pointer}, {llvm} {values[0]}, {llvm} {values[1]} {scope} {order} {failed}, align {align}"
            f"{function.here}"
        )
        return function.value(f"extractvalue {{{llvm}, i1}} {both}, 0")
    name = next((_ATOMIC[part] for part in one.parts[1:] if part in _ATOMIC), None)
    if name is None:
        raise unknown(one)
    if name in ("min", "max") and kind[0] == "u":
        name = f"u{name}"
    elif is_float(kind) and name != "xchg":
        name = f"f{name}"
    return function.value(
        f"atomicrmw {name} ptr {pointer}, {llvm} {values[0]} {scope} {order}, align {align}{function.here}"
    )


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


_ELEMENTS = f"b8 b16 b32 b64 u8 s8 {INTEGERS} f16 bf16 f32 f64"
_EVERYWHERE = (
    "global shared shared::cta shared::cluster local param param::entry param::func const v2 v4 v8 cta cluster gpu sys"
)
_ORDER = "weak relaxed acquire release"
_HINTS = (
    "ca cg cs lu cv wb wt L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate "
    "L2::evict_normal L2::evict_first L2::evict_last L2::cache_hint L2::64B L2::128B L2::256B"
)
_CHANGES = (
    "relaxed acquire release acq_rel cta cluster gpu sys global shared shared::cta shared::cluster "
    "and or xor cas exch add inc dec min max noftz v2 v4 v8 L2::cache_hint "
    "b16 b32 b64 u32 u64 s32 s64 f16 f16x2 bf16 bf16x2 f32 f64"
)
ROWS: Rows = {
    "ld": (_load, f"nc {_HINTS} {_ORDER} volatile mmio {_EVERYWHERE} {_ELEMENTS} b128"),
    "ldu": (_load, f"global v2 v4 {_ELEMENTS}"),
    "st": (_store, f"{_HINTS} {_ORDER} volatile mmio {_EVERYWHERE} {_ELEMENTS} b128"),
    "atom": (_atomic, _CHANGES),
    "red": (_atomic, _CHANGES),
    "mapa": (_in_block, "shared::cluster u32 u64"),
    "isspacep": (_is_in_space, "global shared shared::cta shared::cluster"),
    "prefetch": (_nothing, ANY),
    "prefetchu": (_nothing, ANY),
    "discard": (_nothing, ANY),
    "applypriority": (_nothing, ANY),
    "createpolicy": (_policy, ANY),
}
"""What instructions do, by the beginning of their names, and the suffixes that are read behind it."""
