# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PTX's arithmetic, comparisons and selections, of integers and floats."""

from __future__ import annotations

from tilewright.ptx.function import FLOATS, INTEGERS, LLVM_TYPES, Function, Handler, Rows, bits_of, last_type, unknown
from tilewright.ptx.parse import Instruction

_FLOATS = ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "f32x2")


def is_float(kind: str) -> bool:
    """Whether one of PTX's types is of floats."""
    return kind in _FLOATS


def intrinsic(function: Function, name: str, kind: str, *values: str) -> str:
    """LLVM's intrinsic of values of one of PTX's types."""
    llvm = LLVM_TYPES[kind]
    scalar = llvm.strip("<>").split(" x ")[-1]
    suffix = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}.get(scalar, scalar)
    prefix = f"v{llvm[1]}" if llvm.startswith("<") else ""
    return function.call(f"llvm.{name}.{prefix}{suffix}", llvm, [(llvm, value) for value in values])


def constant(kind: str, value: float) -> str:
    """A float of one of PTX's types, in all of its elements."""
    llvm = LLVM_TYPES[kind]
    scalar = llvm.strip("<>").split(" x ")[-1]
    text = {0.0: "0.0", 1.0: "1.0"}[value]
    return f"<{scalar} {text}, {scalar} {text}>" if llvm.startswith("<") else text


def finished(function: Function, one: Instruction, value: str, kind: str) -> str:
    """A float behind .sat, which makes 0 of NaN, or .relu, which keeps it."""
    if one.has("sat", "relu"):
        value = intrinsic(function, "maxnum" if one.has("sat") else "maximum", kind, value, constant(kind, 0.0))
    return intrinsic(function, "minnum", kind, value, constant(kind, 1.0)) if one.has("sat") else value


def _two(name: str) -> Handler:
    """For add, sub and mul."""

    def handle(function: Function, one: Instruction) -> None:
        kind = last_type(one)
        llvm = LLVM_TYPES[kind]
        to, *given = one.operands
        a, b = (function.get(one, each, kind) for each in given)
        if is_float(kind):
            value = finished(function, one, function.value(f"f{name} {llvm} {a}, {b}"), kind)
        elif one.has("sat"):
            value = intrinsic(function, f"s{name}.sat", kind, a, b)
        else:
            value = function.value(f"{name} {llvm} {a}, {b}")
            if one.has("cc"):
                less = (value, a) if name == "add" else (a, b)
                function.do(
                    f"store i1 {function.value(f'icmp ult {llvm} {less[0]}, {less[1]}')}, ptr {function.carry}, !nosanitize !0"
                )
        function.put(one, to, value, kind)

    return handle


def _with_carry(name: str) -> Handler:
    """For addc and subc: parts of numbers twice as wide, of which the upper half tells the next carry."""

    def handle(function: Function, one: Instruction) -> None:
        kind = last_type(one)
        bits = bits_of(LLVM_TYPES[kind])
        wide = f"i{2 * bits}"
        a, b = (function.resized(function.read(one, each, bits), bits, 2 * bits) for each in one.operands[1:])
        carried = function.value(f"load i1, ptr {function.carry}, !nosanitize !0")
        carry = function.resized(carried, 1, 2 * bits)
        sum_ = function.value(f"{name} {wide} {function.value(f'{name} {wide} {a}, {b}')}, {carry}")
        if one.has("cc"):
            upper = function.value(f"lshr {wide} {sum_}, {bits}")
            function.do(
                f"store i1 {function.value(f'trunc {wide} {upper} to i1')}, ptr {function.carry}, !nosanitize !0"
            )
        function.write(one, one.operands[0], function.resized(sum_, 2 * bits, bits), bits)

    return handle


def _product(function: Function, one: Instruction, kind: str) -> tuple[str, int]:
    """The product of two operands and its width: as wide, of .wide and .hi twice so."""
    bits = bits_of(LLVM_TYPES[kind])
    a, b = (function.read(one, each, bits) for each in one.operands[1:3])
    if not one.has("wide", "hi"):
        return function.value(f"mul i{bits} {a}, {b}"), bits
    a, b = (function.resized(each, bits, 2 * bits, signed=kind[0] == "s") for each in (a, b))
    product = function.value(f"mul i{2 * bits} {a}, {b}")
    if one.has("wide"):
        return product, 2 * bits
    return function.resized(function.value(f"lshr i{2 * bits} {product}, {bits}"), 2 * bits, bits), bits


def _multiply(function: Function, one: Instruction) -> None:
    kind = last_type(one)
    if is_float(kind):
        _two("mul")(function, one)
        return
    value, bits = _product(function, one, kind)
    function.write(one, one.operands[0], value, bits, signed=kind[0] == "s")


def _rounded_to_odd(function: Function, value: str, rest: str, kind: str) -> str:
    """Of the two floats around a sum that is none the odd one, given the nearest one and the rest as f64: it can be rounded again."""
    llvm, word = LLVM_TYPES[kind], f"i{bits_of(LLVM_TYPES[kind])}"
    bits = function.cast(value, llvm, word)
    is_even = function.value(f"xor i1 {function.value(f'trunc {word} {bits} to i1')}, true")
    moves = function.value(f"and i1 {function.value(f'fcmp one double {rest}, 0.0')}, {is_even}")
    signs = function.value(f"icmp slt {word} {bits}, 0"), function.value(f"fcmp olt double {rest}, 0.0")
    step = function.value(f"select i1 {function.value(f'xor i1 {signs[0]}, {signs[1]}')}, {word} -1, {word} 1")
    by = function.value(f"select i1 {moves}, {word} {step}, {word} 0")
    return function.cast(function.value(f"add {word} {bits}, {by}"), word, llvm)


def _fused_of_16_bits(function: Function, llvm: str, a: str, b: str, c: str) -> str:
    """A * b + c rounded once, as no host computes it: f64 holds the product, and odd floats are no ties of shorter ones.

    The rest of the sum is Knuth's (The Art of Computer Programming 2, 4.2.2).
    """
    x, y, z = (function.value(f"fpext {llvm} {each} to double") for each in (a, b, c))
    product = function.value(f"fmul double {x}, {y}")
    sum_ = function.value(f"fadd double {product}, {z}")
    second = function.value(f"fsub double {sum_}, {product}")
    first = function.value(f"fsub double {sum_}, {second}")
    lost = (function.value(f"fsub double {product}, {first}"), function.value(f"fsub double {z}, {second}"))
    odd = _rounded_to_odd(function, sum_, function.value(f"fadd double {lost[0]}, {lost[1]}"), "f64")
    short = function.value(f"fptrunc double {odd} to float")
    rest = function.value(f"fsub double {odd}, {function.value(f'fpext float {short} to double')}")
    return function.value(f"fptrunc float {_rounded_to_odd(function, short, rest, 'f32')} to {llvm}")


def _fused(function: Function, kind: str, values: list[str]) -> str:
    llvm = LLVM_TYPES[kind]
    scalar = llvm.strip("<>").split(" x ")[-1]
    if scalar not in ("half", "bfloat"):
        return intrinsic(function, "fma", kind, *values)
    if llvm == scalar:
        return _fused_of_16_bits(function, llvm, *values)
    found = "poison"
    for number in (0, 1):
        a, b, c = (function.value(f"extractelement {llvm} {each}, i32 {number}") for each in values)
        part = _fused_of_16_bits(function, scalar, a, b, c)
        found = function.value(f"insertelement {llvm} {found}, {scalar} {part}, i32 {number}")
    return found


def _multiply_add(function: Function, one: Instruction) -> None:
    kind = last_type(one)
    if is_float(kind):
        a, b, c = (function.get(one, each, kind) for each in one.operands[1:])
        value = _fused(function, kind, [a, b, c])
        function.put(one, one.operands[0], finished(function, one, value, kind), kind)
        return
    product, bits = _product(function, one, kind)
    sum_ = function.value(f"add i{bits} {product}, {function.read(one, one.operands[3], bits)}")
    function.write(one, one.operands[0], sum_, bits, signed=kind[0] == "s")


def _divide(function: Function, one: Instruction) -> None:
    kind = last_type(one)
    llvm = LLVM_TYPES[kind]
    a, b = (function.get(one, each, kind) for each in one.operands[1:])
    if is_float(kind):
        function.put(one, one.operands[0], function.value(f"fdiv {llvm} {a}, {b}"), kind)
        return
    # By zero, what comes is unspecified, and nothing may happen to the host; nor of the least number by -1.
    sign, bits = kind[0], bits_of(llvm)
    wide = f"i{2 * bits}"
    zero = function.value(f"icmp eq {llvm} {b}, 0")
    safe = function.value(f"select i1 {zero}, {llvm} 1, {llvm} {b}")
    x, y = (function.resized(each, bits, 2 * bits, signed=sign == "s") for each in (a, safe))
    name = ("s" if sign == "s" else "u") + one.parts[0]
    value = function.resized(function.value(f"{name} {wide} {x}, {y}"), 2 * bits, bits)
    function.put(one, one.operands[0], function.value(f"select i1 {zero}, {llvm} -1, {llvm} {value}"), kind)


def _extreme(function: Function, one: Instruction) -> None:
    """For min and max; without .NaN, of a NaN and a number the number."""
    kind = last_type(one)
    name = one.parts[0]
    chosen = f"{name}imum" if one.has("NaN") else f"{name}num"
    if not is_float(kind):
        chosen = ("s" if kind[0] == "s" else "u") + name
    values = [function.get(one, each, kind) for each in one.operands[1:]]
    value = values[0]
    for other in values[1:]:
        value = intrinsic(function, chosen, kind, value, other)
    function.put(one, one.operands[0], value, kind)


def _negate(function: Function, one: Instruction) -> None:
    kind = last_type(one)
    llvm = LLVM_TYPES[kind]
    value = function.get(one, one.operands[1], kind)
    text = f"fneg {llvm} {value}" if is_float(kind) else f"sub {llvm} 0, {value}"
    function.put(one, one.operands[0], function.value(text), kind)


def _absolute(function: Function, one: Instruction) -> None:
    kind = last_type(one)
    value = function.get(one, one.operands[1], kind)
    if is_float(kind):
        function.put(one, one.operands[0], intrinsic(function, "fabs", kind, value), kind)
        return
    llvm = LLVM_TYPES[kind]
    other = function.value(f"sub {llvm} 0, {value}")
    function.put(one, one.operands[0], intrinsic(function, "smax", kind, value, other), kind)


def _of_one(name: str) -> Handler:
    """A function of LLVM's of one float; the approximate ones are as exact here as the host's."""

    def handle(function: Function, one: Instruction) -> None:
        kind = last_type(one)
        value = intrinsic(function, name, kind, function.get(one, one.operands[1], kind))
        function.put(one, one.operands[0], value, kind)

    return handle


def _reciprocal(function: Function, one: Instruction) -> None:
    """For rcp and rsqrt."""
    kind = last_type(one)
    value = function.get(one, one.operands[1], kind)
    if one.parts[0] == "rsqrt":
        value = intrinsic(function, "sqrt", kind, value)
    function.put(one, one.operands[0], function.value(f"fdiv {LLVM_TYPES[kind]} 1.0, {value}"), kind)


def _copy_sign(function: Function, one: Instruction) -> None:
    kind = last_type(one)
    sign, size = (function.get(one, each, kind) for each in one.operands[1:])
    function.put(one, one.operands[0], intrinsic(function, "copysign", kind, size, sign), kind)


_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "num", "nan")
_INTEGERS = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}


def _compared(function: Function, one: Instruction, kind: str) -> str:
    """The i1 that a comparison gives; of NaN, ordered ones are false, but for ne's other form."""
    a, b = (function.get(one, each, kind) for each in one.operands[1:3])
    how = next(
        (each for each in one.parts if each in _COMPARED or (each.removesuffix("u") in _COMPARED and each[-1] == "u")),
        "",
    )
    llvm = LLVM_TYPES[kind]
    if is_float(kind):
        known = {"num": "ord", "nan": "uno"}.get(how)
        name = known or ("u" + how[:-1] if how.endswith("u") and how not in _COMPARED else "o" + how)
        return function.value(f"fcmp {name} {llvm} {a}, {b}")
    if how in ("eq", "ne"):
        return function.value(f"icmp {how} {llvm} {a}, {b}")
    if how not in _INTEGERS:
        raise unknown(one)
    sign = _INTEGERS[how]
    name = sign if sign[0] == "u" else ("s" if kind[0] == "s" else "u") + sign
    return function.value(f"icmp {name} {llvm} {a}, {b}")


def _with_predicate(function: Function, one: Instruction, value: str) -> str:
    """A comparison combined with a further predicate."""
    how = next((each for each in one.parts[1:] if each in ("and", "or", "xor")), None)
    if how is None:
        return value
    return function.value(f"{how} i1 {value}, {function.read(one, one.operands[3], 1)}")


def _set_predicate(function: Function, one: Instruction) -> None:
    kind = last_type(one)
    value = _compared(function, one, kind)
    to = one.operands[0]
    both = to if isinstance(to, tuple) else (to,)
    if LLVM_TYPES[kind].startswith("<"):  # Of two numbers, a predicate for each.
        values = [function.value(f"extractelement <2 x i1> {value}, i32 {number}") for number in (0, 1)]
    else:
        values = [value] if len(both) == 1 else [value, function.value(f"xor i1 {value}, true")]
    # All are read before one is written: the further predicate may be a result too.
    combined = [_with_predicate(function, one, found) for found in values]
    for each, found in zip(both, combined, strict=True):
        function.write(one, each, found, 1)


def _set(function: Function, one: Instruction) -> None:
    to, of = [part for part in one.parts if part in LLVM_TYPES]
    value = _with_predicate(function, one, _compared(function, one, of))
    if is_float(to):
        function.put(one, one.operands[0], function.value(f"uitofp i1 {value} to {LLVM_TYPES[to]}"), to)
    else:
        function.write(one, one.operands[0], function.resized(value, 1, 32, signed=True), 32)


def _select(function: Function, one: Instruction) -> None:
    kind = last_type(one)
    bits = bits_of(LLVM_TYPES[kind])
    a, b = (function.read(one, each, bits) for each in one.operands[1:3])
    chosen = function.read(one, one.operands[3], 1)
    function.write(one, one.operands[0], function.value(f"select i1 {chosen}, i{bits} {a}, i{bits} {b}"), bits)


_ROUNDED = "rn sat ftz"
_PAIRS = "u16x2 s16x2"
_COMPARISONS = (
    "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor ftz b16 b32 b64"
    f" {INTEGERS} f16 bf16 f32 f64"
)
ROWS: Rows = {
    "add": (_two("add"), f"cc {_ROUNDED} {INTEGERS} {_PAIRS} {FLOATS} f32x2"),
    "sub": (_two("sub"), f"cc {_ROUNDED} {INTEGERS} {_PAIRS} {FLOATS} f32x2"),
    "addc": (_with_carry("add"), "cc u32 s32 u64 s64"),
    "subc": (_with_carry("sub"), "cc u32 s32 u64 s64"),
    "mul": (_multiply, f"lo hi wide {_ROUNDED} {INTEGERS} {FLOATS} f32x2"),
    "mad": (_multiply_add, f"lo hi wide rn ftz {INTEGERS} f32 f64"),
    "fma": (_multiply_add, f"relu {_ROUNDED} {FLOATS} f32x2"),
    "div": (_divide, f"approx full rn ftz {INTEGERS} f32 f64"),
    "rem": (_divide, INTEGERS),
    "min": (_extreme, f"NaN ftz {INTEGERS} {_PAIRS} {FLOATS}"),
    "max": (_extreme, f"NaN ftz {INTEGERS} {_PAIRS} {FLOATS}"),
    "neg": (_negate, f"ftz {INTEGERS} {FLOATS}"),
    "abs": (_absolute, f"ftz {INTEGERS} {FLOATS}"),
    "sqrt": (_of_one("sqrt"), "approx rn ftz f32 f64"),
    "ex2": (_of_one("exp2"), f"approx ftz {FLOATS}"),
    "lg2": (_of_one("log2"), "approx ftz f32"),
    "sin": (_of_one("sin"), "approx ftz f32"),
    "cos": (_of_one("cos"), "approx ftz f32"),
    "tanh": (_of_one("tanh"), f"approx {FLOATS}"),
    "rcp": (_reciprocal, "approx rn ftz f32 f64"),
    "rsqrt": (_reciprocal, "approx ftz f32 f64"),
    "copysign": (_copy_sign, "f32 f64"),
    "setp": (_set_predicate, f"{_COMPARISONS} f16x2 bf16x2"),
    "set": (_set, _COMPARISONS),
    "selp": (_select, f"b16 b32 b64 {INTEGERS} f32 f64"),
}
"""What instructions do, by the beginning of their names, and the suffixes that are read behind it."""
