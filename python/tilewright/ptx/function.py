# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM IR of one function of PTX: its registers, blocks and values.

A register is an integer of its width in a stack slot, which LLVM turns into values; instructions read them as what they are
of. Shared memory has addresses of 32 bits: `tilewrightToShared` and `tilewrightFromShared` of the emulator turn pointers into them and
back. A parameter's address is its number, 1 for the first one, above 16 bits of offset.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.errors import LoweringError
from tilewright.ptx.parse import Address, Instruction, Operand, Variable, wrong

LLVM_TYPES: Mapping[str, str] = {
    "pred": "i1",
    **{f"{sort}{bits}": f"i{bits}" for sort in "bus" for bits in (8, 16, 32, 64)},
    "b128": "i128",
    "f16": "half",
    "bf16": "bfloat",
    "tf32": "i32",
    "f32": "float",
    "f64": "double",
    "f16x2": "<2 x half>",
    "bf16x2": "<2 x bfloat>",
    "f32x2": "<2 x float>",
    "u16x2": "<2 x i16>",
    "s16x2": "<2 x i16>",
    "e4m3x2": "i16",
    "e5m2x2": "i16",
}
"""PTX's types as those of LLVM."""
_WIDTHS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}
_SREG = re.compile(r"%(tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)\.([xyz])")
_OTHER_SREGS = {
    "%laneid": "laneid",
    "%warpid": "warpid",
    "%cluster_ctarank": "cluster.ctarank",
    "%cluster_nctarank": "cluster.nctarank",
}
_CONSTANTS = {"WARP_SZ": 32, "%smid": 0, "%nsmid": 1, "%gridid": 0, "%clock": 0, "%clock64": 0, "%globaltimer": 0}
"""Of one streaming multiprocessor, on which no time passes."""
_LANE_MASKS = {"eq": "{1}", "lt": "{1} - 1", "le": "2 * {1} - 1", "gt": "-2 * {1}", "ge": "-{1}"}
PARAMETER_SHIFT = 16
OPERATIONS = "ptx."
"""How the names of the emulator's operations begin."""
_FIRST_PLACE = 5
_METADATA = """!llvm.dbg.cu = !{!2}
!llvm.module.flags = !{!1}
!0 = !{}
!1 = !{i32 2, !"Debug Info Version", i32 3}
!2 = distinct !DICompileUnit(language: DW_LANG_C, file: !3, emissionKind: LineTablesOnly)
!3 = !DIFile(filename: "ptx", directory: "")
!4 = distinct !DISubprogram(name: "ptx", file: !3, unit: !2, spFlags: DISPFlagDefinition)"""


def bits_of(llvm_type: str) -> int:
    """The width of one of `LLVM_TYPES`."""
    if (vector := re.fullmatch(r"<(\d+) x (\w+)>", llvm_type)) is not None:
        return int(vector[1]) * bits_of(vector[2])
    return _WIDTHS[llvm_type] if llvm_type in _WIDTHS else int(llvm_type[1:])


def element_bytes(variable: Variable) -> int:
    """Those of one of a variable's numbers.

    Raises:
        LoweringError: It is of a type that is not known.
    """
    if variable.type not in LLVM_TYPES:
        raise LoweringError(
            f"{variable.name} is of type {variable.type}", where="PTX", expected=f"one of {', '.join(LLVM_TYPES)}"
        )
    return max(bits_of(LLVM_TYPES[variable.type]) // 8, 1)


def bytes_of(variable: Variable) -> int:
    """Those of a variable."""
    return prod(variable.extents) * variable.vector * element_bytes(variable)


def last_type(instruction: Instruction) -> str:
    """The last of an instruction's suffixes that is a type.

    Raises:
        LoweringError: It has none.
    """
    for part in reversed(instruction.parts):
        if part in LLVM_TYPES:
            return part
    raise wrong(instruction.line, f"{instruction.name} has no type that is known here")


@dataclass(frozen=True, slots=True)
class _Register:
    slot: str
    bits: int


class Declarations:
    """The functions that a module's code calls."""

    def __init__(self, functions: Mapping[str, Sequence[int]]) -> None:
        """Starts with none.

        Args:
            functions: The module's own, by name, and the bytes of its results and then its parameters.
        """
        self.functions = functions
        self._lines: dict[str, str] = {}
        self._places: set[int] = set()

    def add(self, name: str, result: str, types: Sequence[str]) -> None:
        """One more, of that result and those parameters."""
        line = f'declare {result} @"{name}"({", ".join(types)})'
        if self._lines.setdefault(name, line) != line:
            raise AssertionError(f"{name} is called with different types")

    def text(self) -> str:
        """All of them."""
        return "\n".join(self._lines.values())

    def place(self, line: int) -> str:
        """What marks LLVM IR as made for a line of the PTX."""
        self._places.add(line)
        return f", !dbg !{_FIRST_PLACE + line}"

    def places(self) -> str:
        """The metadata that such marks, and those of what is no access of the kernel's, refer to."""
        lines = [f"!{_FIRST_PLACE + line} = !DILocation(line: {line}, scope: !4)" for line in sorted(self._places)]
        return "\n".join([_METADATA, *lines])


class Function:
    """The code of a function, which instructions add to."""

    def __init__(
        self, declarations: Declarations, variables: Mapping[str, Variable], *, is_kernel: bool, counts: bool
    ) -> None:
        """Begins it.

        Args:
            declarations: Where the functions are noted that it calls.
            variables: The module's, by name.
            is_kernel: Whether it is one, and nobody calls it.
            counts: Whether the emulator is told how many instructions are executed.
        """
        self._counts = counts
        self._executed = 0
        self.is_kernel = is_kernel
        self.slots: list[str] = []
        self.lines: list[str] = []
        self.line = 0
        self.declarations = declarations
        self._scopes: list[dict[str, _Register]] = [{}]
        self._labels: list[dict[str, str]] = [{}]
        self._variables = dict(variables)
        self._pointers: dict[str, str] = {}
        self._parameters: list[str] = []
        self._count = 0
        self.carry = self.slot("i1")

    # Text.

    def fresh(self) -> str:
        """A name that nothing has."""
        self._count += 1
        return f"v{self._count}"

    def do(self, text: str) -> None:
        """Adds an instruction without a result."""
        self.lines.append(f"  {text}")

    def value(self, text: str) -> str:
        """Adds an instruction, and gives its result's name."""
        name = f"%{self.fresh()}"
        self.do(f"{name} = {text}")
        return name

    def slot(self, llvm_type: str, align: int = 0) -> str:
        """A place on the stack."""
        name = f"%{self.fresh()}"
        self.slots.append(f"  {name} = alloca {llvm_type}" + (f", align {align}" if align else ""))
        return name

    def block(self, name: str) -> None:
        """Begins a block, to which the code before goes on."""
        self.tell_count()
        self.do(f"br label %{name}")
        self.lines.append(f"{name}:")

    def end(self, text: str) -> None:
        """Ends the block by `text`; what follows is reached by labels only."""
        self.tell_count()
        self.do(text)
        self.lines.append(f"{self.fresh()}:")

    def begin(self, line: int) -> None:
        """The next instruction begins."""
        self.line = line
        self._executed += 1

    def tell_count(self) -> None:
        """Tells the emulator how many instructions a block has, before it ends."""
        if self._counts and self._executed:
            self.perform("issue", "void", [("i32", str(self._executed))])
        self._executed = 0

    def call(self, name: str, result: str, arguments: Sequence[tuple[str, str]]) -> str:
        """A call of LLVM's or the emulator's function of that name; its arguments are types and values."""
        self.declarations.add(name, result, [kind for kind, _ in arguments])
        text = f'call {result} @"{name}"({", ".join(f"{kind} {value}" for kind, value in arguments)})'
        text += self.here if name.startswith(OPERATIONS) else ""
        if result != "void":
            return self.value(text)
        self.do(text)
        return ""

    def perform(self, name: str, result: str, arguments: Sequence[tuple[str, str]]) -> str:
        """An operation of the emulator's, by its name there."""
        return self.call(f"{OPERATIONS}{name}", result, arguments)

    @property
    def here(self) -> str:
        """What marks LLVM IR as made for the instruction that is read now."""
        return self.declarations.place(self.line)

    # Names.

    def enter(self, labels: Sequence[str]) -> None:
        """An opening brace, with the labels up to the closing one."""
        self._scopes.append({})
        self._labels.append({name: self.fresh() for name in labels})

    def leave(self) -> None:
        """A closing brace."""
        self._scopes.pop()
        self._labels.pop()

    def label(self, name: str, line: int) -> str:
        """The block of a label.

        Raises:
            LoweringError: There is no such label.
        """
        for labels in reversed(self._labels):
            if name in labels:
                return labels[name]
        raise wrong(line, f"no label {name}")

    def add_registers(self, kind: str, names: Sequence[tuple[str, int]]) -> None:
        """Declares registers of a type, each a name and a count or 0."""
        bits = bits_of(LLVM_TYPES[kind])
        for name, count in names:
            for each in [f"{name}{number}" for number in range(count)] if count else [name]:
                self._scopes[-1][each] = _Register("", bits)

    def add_variable(self, variable: Variable, pointer: str) -> None:
        """Declares a variable that lies at a pointer."""
        self._variables[variable.name] = variable
        self._pointers[variable.name] = pointer

    def name_variable(self, name: str, variable: Variable) -> None:
        """Declares that a name stands for a variable of the module."""
        self._variables[name] = variable

    def add_parameter(self, variable: Variable, pointer: str) -> None:
        """Declares a parameter, whose address can be taken."""
        self.add_variable(variable, pointer)
        self._parameters.append(variable.name)

    def _register(self, name: str) -> _Register | None:
        for scope in reversed(self._scopes):
            if (found := scope.get(name)) is None:
                continue
            if not found.slot:
                found = scope[name] = _Register(self.slot(f"i{found.bits}"), found.bits)
            return found
        return None

    def _pointer(self, variable: Variable) -> str:
        if variable.name in self._pointers:
            return self._pointers[variable.name]
        if variable.space != "shared":
            return f'@"{variable.name}"'
        return self.value(f'addrspacecast ptr addrspace(3) @"{variable.name}" to ptr')

    # Values.

    def resized(self, value: str, bits: int, wanted: int, *, signed: bool = False) -> str:
        """An integer of another width."""
        if bits == wanted:
            return value
        how = "trunc" if wanted < bits else "sext" if signed else "zext"
        return self.value(f"{how} i{bits} {value} to i{wanted}")

    def cast(self, value: str, before: str, after: str) -> str:
        """The same bits as another type."""
        return value if before == after else self.value(f"bitcast {before} {value} to {after}")

    def read(self, instruction: Instruction, operand: Operand, bits: int) -> str:
        """An operand as an integer of so many bits.

        Raises:
            LoweringError: It is none that is known.
        """
        if not isinstance(operand, str):
            raise wrong(instruction.line, f"{instruction.name} cannot take {operand}")
        if operand.startswith("!"):
            if bits != 1:
                raise wrong(instruction.line, f"{instruction.name} cannot take {operand}")
            return self.value(f"xor i1 {self.read(instruction, operand[1:], 1)}, true")
        register = self._register(operand)
        if register is not None:
            return self.resized(
                self.value(f"load i{register.bits}, ptr {register.slot}, !nosanitize !0"), register.bits, bits
            )
        if (number := immediate(operand, bits)) is not None:
            return str(number) if bits > 1 else str(bool(number)).lower()
        if operand.startswith("%") or operand in _CONSTANTS:
            return self._special(instruction, operand, bits)
        return self._address_of(instruction, operand, bits)

    def _special(self, instruction: Instruction, name: str, bits: int) -> str:
        if name in _CONSTANTS:
            return str(_CONSTANTS[name])
        if (found := _SREG.fullmatch(name)) is not None:
            known = f"{found[1].replace('_', '.')}.{found[2]}"
        elif name.startswith("%lanemask_") and name[-2:] in _LANE_MASKS:
            lane = self.perform("read.ptx.sreg.laneid", "i32", ())
            one = self.value(f"shl i32 1, {lane}")
            before = self.value(f"sub i32 {one}, 1")
            after = self.value(f"xor i32 {before}, -1")
            masks = {"eq": one, "lt": before, "ge": after}
            masks |= {"le": self.value(f"or i32 {before}, {one}"), "gt": self.value(f"xor i32 {after}, {one}")}
            return self.resized(masks[name[-2:]], 32, bits)
        elif name in _OTHER_SREGS:
            known = _OTHER_SREGS[name]
        else:
            raise wrong(instruction.line, f"no register {name}")
        return self.resized(self.perform(f"read.ptx.sreg.{known}", "i32", ()), 32, bits)

    def _address_of(self, instruction: Instruction, text: str, bits: int) -> str:
        name, _, offset = text.partition("+")
        variable = self._variables.get(name.strip())
        if variable is None:
            raise wrong(instruction.line, f"no register, number or variable {text}")
        if variable.space == "param":
            if variable.name not in self._parameters:
                raise wrong(instruction.line, f"the address of {name} cannot be taken")
            address, width = str((self._parameters.index(variable.name) + 1) << PARAMETER_SHIFT), bits
        elif variable.space == "shared":
            address, width = self.shared_address(self._pointer(variable)), 32
        else:
            address, width = self.value(f"ptrtoint ptr {self._pointer(variable)} to i64"), 64
        address = self.resized(address, width, bits)
        return self.value(f"add i{bits} {address}, {int(offset, 0)}") if offset else address

    def shared_address(self, pointer: str) -> str:
        """The 32 bits by which shared memory is addressed at a pointer."""
        return self.call("tilewrightToShared", "i32", [("ptr", pointer)])

    def shared_pointer(self, address: str) -> str:
        """The reverse."""
        return self.call("tilewrightFromShared", "ptr", [("i32", address)])

    def parameter_pointer(self, address: str, size: int) -> str:
        """A pointer to what has a parameter's 64-bit address, behind a check that so many bytes of a parameter lie there."""
        row = "{ ptr, i64 }"
        table = self.slot(f"[{len(self._parameters) + 1} x {row}]")
        for number, name in enumerate(("", *self._parameters)):
            start, end = (self._pointers[name], bytes_of(self._variables[name])) if name else ("null", 0)
            for field, text in enumerate((f"ptr {start}", f"i64 {end}")):
                place = self.value(f"getelementptr {row}, ptr {table}, i64 {number}, i32 {field}")
                self.do(f"store {text}, ptr {place}, !nosanitize !0")
        number = self.value(f"lshr i64 {address}, {PARAMETER_SHIFT}")
        known = self.value(f"icmp ule i64 {number}, {len(self._parameters)}")
        number = self.value(f"select i1 {known}, i64 {number}, i64 0")
        found = []
        for field, kind in enumerate(("ptr", "i64")):
            place = self.value(f"getelementptr {row}, ptr {table}, i64 {number}, i32 {field}")
            found.append(self.value(f"load {kind}, ptr {place}, !nosanitize !0"))
        offset = self.value(f"and i64 {address}, {(1 << PARAMETER_SHIFT) - 1}")
        outside = self.value(f"icmp ugt i64 {self.value(f'add i64 {offset}, {size}')}, {found[1]}")
        beyond, inside = self.fresh(), self.fresh()
        self.do(f"br i1 {outside}, label %{beyond}, label %{inside}")
        self.lines.append(f"{beyond}:")
        self.perform("outside.of.parameters", "void", ())
        self.do("unreachable")
        self.lines.append(f"{inside}:")
        return self.value(f"getelementptr i8, ptr {found[0]}, i64 {offset}")

    def pointer(self, instruction: Instruction, operand: Operand, space: str, size: int = 1) -> str:
        """A pointer to where an address says, in one of PTX's state spaces; generic where that is empty.

        Args:
            instruction: What accesses it.
            operand: The address.
            space: The space.
            size: Bytes that are accessed. In parameters and a thread's own variables, which are no operands of the kernel's, they
                are checked here.

        Raises:
            LoweringError: It is no address, or beyond the variable that it names.
        """
        if not isinstance(operand, Address):
            raise wrong(instruction.line, f"{instruction.name} needs an address in place of {operand}")
        offset = str(operand.offset)
        variable = self._variables.get(operand.base)
        if variable is not None and self._register(operand.base) is None:
            if variable.space in ("param", "local") and not 0 <= operand.offset <= bytes_of(variable) - size:
                what = f"{instruction.name} accesses {size} bytes at {offset} of {variable.name}"
                raise wrong(instruction.line, f"{what}, which has {bytes_of(variable)}")
            base = self._pointer(variable)
        elif space == "shared":
            whole = self.value(f"add i32 {self.read(instruction, operand.base, 32)}, {offset}")
            return self.shared_pointer(whole)
        elif space == "param":
            whole = self.value(f"add i64 {self.read(instruction, operand.base, 64)}, {offset}")
            return self.parameter_pointer(whole, size)
        else:
            base = self.value(f"inttoptr i64 {self.read(instruction, operand.base, 64)} to ptr")
        return self.value(f"getelementptr i8, ptr {base}, i64 {offset}") if operand.offset else base

    def is_predicate(self, operand: Operand) -> bool:
        """Whether an operand is a register of one bit."""
        register = self._register(operand.lstrip("!")) if isinstance(operand, str) else None
        return register is not None and register.bits == 1

    def write(self, instruction: Instruction, operand: Operand, value: str, bits: int, *, signed: bool = False) -> None:
        """Puts an integer of so many bits into a register, which may be wider; ``_`` takes whatever comes.

        Raises:
            LoweringError: There is no such register.
        """
        if operand == "_":
            return
        register = self._register(operand) if isinstance(operand, str) else None
        if register is None:
            raise wrong(instruction.line, f"no register {operand}")
        value = self.resized(value, bits, register.bits, signed=signed)
        self.do(f"store i{register.bits} {value}, ptr {register.slot}, !nosanitize !0")

    def get(self, instruction: Instruction, operand: Operand, kind: str) -> str:
        """An operand as one of PTX's types."""
        llvm = LLVM_TYPES[kind]
        bits = bits_of(llvm)
        value = self._flushed(instruction, self.read(instruction, operand, bits), kind)
        return self.cast(value, f"i{bits}", llvm)

    def put(self, instruction: Instruction, operand: Operand, value: str, kind: str) -> None:
        """Puts a value of one of PTX's types into a register."""
        llvm = LLVM_TYPES[kind]
        bits = bits_of(llvm)
        value = self._flushed(instruction, self.cast(value, llvm, f"i{bits}"), kind)
        self.write(instruction, operand, value, bits, signed=kind[0] == "s")

    def _flushed(self, instruction: Instruction, value: str, kind: str) -> str:
        """The bits of a float under .ftz: a subnormal number is a zero of its sign. Conversions flush f32 only."""
        if not instruction.has("ftz") or (kind != "f32" and instruction.parts[0] == "cvt"):
            return value
        if kind == "f16x2":
            low, high = (
                self._flushed_one(self.resized(each, 32, 16), 16)
                for each in (value, self.value(f"lshr i32 {value}, 16"))
            )
            raised = self.value(f"shl i32 {self.resized(high, 16, 32)}, 16")
            return self.value(f"or i32 {raised}, {self.resized(low, 16, 32)}")
        return self._flushed_one(value, bits_of(LLVM_TYPES[kind])) if kind in ("f16", "f32") else value

    def _flushed_one(self, value: str, bits: int) -> str:
        exponent, sign = (0x7C00, 1 << 15) if bits == 16 else (0x7F800000, 1 << 31)
        small = self.value(f"icmp eq i{bits} {self.value(f'and i{bits} {value}, {exponent}')}, 0")
        zero = self.value(f"and i{bits} {value}, {sign}")
        return self.value(f"select i1 {small}, i{bits} {zero}, i{bits} {value}")


def immediate(text: str, bits: int) -> int | None:
    """The bits of an immediate operand, as a signed number."""
    if (found := re.fullmatch(r"0([fFdD])([0-9a-fA-F]{8}|[0-9a-fA-F]{16})", text)) is not None:
        is_double = found[1] in "dD"
        if bits not in (32, 64) or len(found[2]) != (16 if is_double else 8):
            return None
        value = struct.unpack(">d" if is_double else ">f", bytes.fromhex(found[2]))[0]
        if bits == (64 if is_double else 32):
            return int(found[2], 16)
        return _packed(value, bits)
    if bits in (32, 64) and re.fullmatch(r"-?\d+(\.\d*([eE][+-]?\d+)?|[eE][+-]?\d+)", text):
        return _packed(float(text), bits)
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?", text) is None:
        return None
    digits = text.rstrip("U")
    octal = re.fullmatch(r"(-?)0([0-7]+)", digits)
    number = int(octal[1] + octal[2], 8) if octal else int(digits, 0)
    return number & ((1 << bits) - 1) if bits > 1 else number


def _packed(value: float, bits: int) -> int | None:
    """The bits of a float of 32 or 64 bits; None where it is too large for one."""
    try:
        return int.from_bytes(struct.pack(">d" if bits == 64 else ">f", value), "big")
    except OverflowError:
        return None


Handler = Callable[[Function, Instruction], None]
"""Adds what an instruction does to a function."""
Rows = Mapping[str, tuple[Handler, str]]
"""By the beginning of a name: what such an instruction does, and the suffixes behind that which are read, with blanks between."""
INTEGERS = "u16 u32 u64 s16 s32 s64"
FLOATS = "f16 f16x2 bf16 bf16x2 f32 f64"
"""Types as suffixes."""
ANY = "*"
"""For all suffixes: of hints."""
SHAPE = "mMnNkK"
"""For the shape of a matrix product."""
_SHAPES = re.compile(r"m\d+n\d+k\d+")


def reads(rows: Rows, instruction: Instruction) -> Handler:
    """What the row of the longest beginning of an instruction's name does.

    Raises:
        LoweringError: There is none, or it does not read one of the suffixes.
    """
    parts = instruction.parts
    for count in range(len(parts), 0, -1):
        found = rows.get(".".join(parts[:count]))
        if found is None:
            continue
        handler, known = found[0], found[1].split()
        for part in parts[count:]:
            if part not in known and ANY not in known and not (SHAPE in known and _SHAPES.fullmatch(part)):
                raise unknown(instruction, f", for its suffix .{part}")
        return handler
    raise unknown(instruction)


def unknown(instruction: Instruction, why: str = "") -> LoweringError:
    """The error about an instruction that is not read."""
    return LoweringError(
        f"the emulator does not read {instruction.name}{why}",
        where=f"line {instruction.line} of the PTX",
        expected="the instructions of docs/how-to/emulate.md",
    )
