# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM IR of a PTX module: its variables, and its functions statement by statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.errors import LoweringError
from tilewright.ptx import arithmetic, bits, conversions, copies, memory, parse, together
from tilewright.ptx.function import (
    LLVM_TYPES,
    Declarations,
    Function,
    Rows,
    bytes_of,
    element_bytes,
    immediate,
    reads,
    unknown,
)
from tilewright.ptx.parse import Instruction, Label, Registers, Scope, Variable

_ROWS: Rows = {
    **arithmetic.ROWS,
    **bits.ROWS,
    **conversions.ROWS,
    **memory.ROWS,
    **together.ROWS,
    **copies.ROWS,
}
_SPACES = {"shared": 3, "global": 0, "const": 0}
_HEAD = 'target triple = "nvptx64-nvidia-cuda"\n'


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a kernel says of its launch.

    Attributes:
        block: Threads that a block must have along x, y and z; None where PTX leaves that open.
        cluster: Blocks of a cluster, likewise.
    """

    block: tuple[int, int, int] | None
    cluster: tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX module as LLVM IR.

    Attributes:
        llvmir: Its text, with kernels of the calling convention ``ptx_kernel``.
        kernels: By their names.
    """

    llvmir: str
    kernels: Mapping[str, Kernel]


def translated(text: str, *, counts: bool = False) -> Module:
    """A PTX module as LLVM IR for the emulator.

    Args:
        text: The PTX.
        counts: Whether the emulator is told how many instructions are executed.

    Raises:
        LoweringError: It is no PTX, or has an instruction that is not read; the error names the line.
    """
    declared = parse.parsed(text)
    variables = {each.name: each for each in declared if isinstance(each, Variable)}
    functions = {
        each.name: [bytes_of(variable) for variable in (*each.results, *each.parameters)]
        for each in declared
        if isinstance(each, parse.Function) and each.body is not None
    }
    declarations = Declarations(functions)
    bodies, kernels = [], {}
    for each in declared:
        if isinstance(each, parse.Function) and each.body is not None:
            bodies.append(_function(each, each.body, declarations, variables, counts=counts))
            if each.is_kernel:
                kernels[each.name] = Kernel(each.block, each.cluster)
    inside = [
        _within(each.name, variable)
        for each in declared
        if isinstance(each, parse.Function)
        for variable in _own_shared(each.body or ())
    ]
    globals_ = "\n".join(_global(each) for each in (*variables.values(), *inside))
    return Module(
        f"{_HEAD}{globals_}\n{declarations.text()}\n" + "\n".join(bodies) + f"\n{declarations.places()}\n",
        kernels,
    )


def _own_shared(body: Sequence[parse.Statement]) -> list[Variable]:
    """The variables in shared memory that a function declares."""
    return [each for each in body if isinstance(each, Variable) and each.space == "shared"]


def _within(function: str, variable: Variable) -> Variable:
    """A function's variable by a name that no other one's has."""
    return replace(variable, name=f"{function}:{variable.name}")


def _align_of(variable: Variable) -> int:
    return variable.align or variable.vector * element_bytes(variable)


def _global(variable: Variable) -> str:
    size = f"[{bytes_of(variable)} x i8]"
    space = _SPACES[variable.space]
    where = f"addrspace({space}) " if space else ""
    align = f", align {_align_of(variable)}"
    if 0 in variable.extents:
        return f'@"{variable.name}" = external {where}global {size}{align}'
    value = "poison" if variable.space == "shared" else _initial(variable)
    kind = "constant" if variable.space == "const" else "global"
    return f'@"{variable.name}" = internal {where}{kind} {size} {value}{align}'


def _initial(variable: Variable) -> str:
    """The first bytes of a variable."""
    if not variable.value:
        return "zeroinitializer"
    size = element_bytes(variable)
    found = bytearray()
    for word in variable.words:
        number = immediate(word, 8 * size)
        if number is None:
            raise LoweringError(
                f"the first value {word} of {variable.name} is no number of {8 * size} bits",
                where="PTX",
                expected="numbers",
            )
        found += (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    if len(found) > bytes_of(variable):
        raise LoweringError(
            f"{variable.name} has {len(variable.words)} first values",
            where="PTX",
            expected=f"{bytes_of(variable) // size} at most",
        )
    found = found.ljust(bytes_of(variable), b"\0")
    return "[" + ", ".join(f"i8 {each}" for each in found) + "]"


def _function(
    declared: parse.Function,
    body: Sequence[parse.Statement],
    declarations: Declarations,
    variables: Mapping[str, Variable],
    *,
    counts: bool,
) -> str:
    """The definition of a function. What is no kernel gets and gives everything by pointers."""
    function = Function(declarations, variables, is_kernel=declared.is_kernel, counts=counts)
    for variable in _own_shared(body):
        function.name_variable(variable.name, _within(declared.name, variable))
    arguments = [
        _parameter(function, each, number, is_kernel=declared.is_kernel)
        for number, each in enumerate((*declared.results, *declared.parameters))
    ]
    function.enter(_labels(body, 0))
    for number, statement in enumerate(body):
        _state(function, statement, body, number)
    function.leave()
    function.do("ret void")
    how = "ptx_kernel" if declared.is_kernel else "internal"
    lines = [*function.slots, "  br label %start", "start:", *function.lines]
    return f'define {how} void @"{declared.name}"({", ".join(arguments)}) {{\n' + "\n".join(lines) + "\n}"


def _parameter(function: Function, variable: Variable, number: int, *, is_kernel: bool) -> str:
    """The declaration of a parameter, which code finds in memory."""
    name = f"%p{number}"
    size = bytes_of(variable)
    if not is_kernel:
        function.add_parameter(variable, name)
        return f"ptr {name}"
    if variable.extents:
        function.add_parameter(variable, name)
        return f"ptr byval([{size} x i8]) align {_align_of(variable)} {name}"
    slot = function.slot(f"i{8 * size}")
    function.add_parameter(variable, slot)
    function.do(f"store i{8 * size} {name}, ptr {slot}, !nosanitize !0")
    return f"i{8 * size} {name}"


def _labels(body: Sequence[parse.Statement], start: int) -> list[str]:
    """The labels behind an opening brace, but for those of further ones."""
    depth, found = 0, []
    for each in body[start:]:
        if isinstance(each, Scope):
            depth += 1 if each.opens else -1
            if depth < 0:
                break
        elif isinstance(each, Label) and not depth:
            if each.name in found:
                raise parse.wrong(each.line, f"the label {each.name} stands in this scope twice")
            found.append(each.name)
    return found


def _state(function: Function, statement: parse.Statement, body: Sequence[parse.Statement], number: int) -> None:
    match statement:
        case Scope(opens=True):
            function.enter(_labels(body, number + 1))
        case Scope():
            function.leave()
        case Label(name=name, line=line):
            function.block(function.label(name, line))
        case Registers(type=kind, names=names):
            if kind not in LLVM_TYPES:
                raise LoweringError(f"registers of type {kind}", where="PTX", expected=", ".join(LLVM_TYPES))
            function.add_registers(kind, names)
        case Variable(space="shared"):
            pass  # `_function` has declared it.
        case Variable():
            slot = function.slot(f"[{bytes_of(statement)} x i8]", _align_of(statement))
            function.add_variable(statement, slot)
        case Instruction():
            _execute(function, statement)


def _execute(function: Function, one: Instruction) -> None:
    """An instruction, under its guard."""
    function.begin(one.line)
    try:
        _perform(function, one)
    except (IndexError, KeyError, ValueError):
        raise parse.wrong(one.line, f"{one.name} has operands or suffixes that are not read") from None


def _perform(function: Function, one: Instruction) -> None:
    after = ""
    if one.guard:
        holds = function.read(one, one.guard, 1)
        if one.unless:
            holds = function.value(f"xor i1 {holds}, true")
        inside, after = function.fresh(), function.fresh()
        if one.parts[0] == "bra":
            target = function.label(str(one.operands[0]), one.line)
            function.tell_count()
            function.do(f"br i1 {holds}, label %{target}, label %{after}")
            function.lines.append(f"{after}:")
            return
        function.tell_count()
        function.do(f"br i1 {holds}, label %{inside}, label %{after}")
        function.lines.append(f"{inside}:")
    if one.parts[0] == "bra":
        function.end(f"br label %{function.label(str(one.operands[0]), one.line)}")
    elif one.parts[0] == "ret" or (one.parts[0] == "exit" and function.is_kernel):
        function.end("ret void")
    elif one.parts[0] == "trap":
        function.perform("trap", "void", ())
    elif one.parts[0] == "call":
        _call(function, one)
    else:
        reads(_ROWS, one)(function, one)
    if after:
        function.block(after)


def _call(function: Function, one: Instruction) -> None:
    """A call (results), name, (arguments): all of them variables of the space .param, whose places the function gets."""
    names = [each for each in one.operands if isinstance(each, str)]
    if len(names) != 1:
        raise unknown(one)
    if names[0] == "__assertfail":
        function.perform("trap", "void", ())
        return
    groups = [each for each in one.operands if isinstance(each, tuple)]
    wanted, given = function.declarations.functions.get(names[0]), [each for group in groups for each in group]
    if wanted is None:
        raise parse.wrong(one.line, f"it calls {names[0]}, of which the module has no definition")
    if len(wanted) != len(given):
        raise parse.wrong(
            one.line, f"it calls {names[0]} with {len(given)} results and arguments, which has {len(wanted)}"
        )
    results = one.operands[0] if isinstance(one.operands[0], tuple) else ()
    if any(given.count(each) > 1 for each in results):
        raise parse.wrong(one.line, f"it calls {names[0]} with a result that is an operand too")
    places = [
        function.pointer(one, parse.Address(each, 0), "param", size) for each, size in zip(given, wanted, strict=True)
    ]
    text = ", ".join(f"ptr {each}" for each in places)
    function.do(f'call void @"{names[0]}"({text})')
