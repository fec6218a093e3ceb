# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The entry of a kernel with cases: finds out which one a call is, and goes to its entry.

The cases of a dynamic spec are told by extents. Where calls tell alpha, one more is for 0. Each case is a kernel of its own, with an
entry as any other; the entry here only compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.dims import least, most
from tilewright.errors import LoweringError
from tilewright.lowering.entries import added_text, comparisons, extents, matrix_tensors, pack_entry, tensor_entry
from tilewright.lowering.entries.entry import attributes_text, matrix_arguments, tensor_arguments
from tilewright.mlir import ir
from tilewright.payload.abi import OK, WRONG_EXTENTS
from tilewright.scaling import ARG
from tilewright.schedules.calls import Bounds, Test
from tilewright.schedules.plan import Case, Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_INTERNAL = "#llvm.linkage<internal>"


def zero(spec: MatmulSpec) -> MatmulSpec | None:
    """What a call computes for which alpha is 0, where calls tell it; otherwise None. It takes the same operands but alpha."""
    return replace(spec, alpha=0) if spec.alpha == ARG else None


def join(
    modules: Sequence[ir.Module],
    spec: MatmulSpec,
    plan: Plan,
    target: Target,
    symbol: str,
    told: MatmulSpec | None = None,
) -> ir.Module:
    """One module of those of all cases, whose entries are called `symbol` and ``_case<number>``, with the entry added.

    Args:
        modules: A module for each kernel of `plan`, or of the only one, and one more for `zero`, where there is such, in the LLVM
            dialect; they are changed.
        spec: What is computed.
        plan: Its cases.
        target: For which target.
        symbol: The name of the entry.
        told: The extents of all calls of the first case, where these are compared before all else.

    Raises:
        LoweringError: Two modules define the same name differently.
    """
    told = None if spec.takes_tensors else told
    joined = modules[0]
    present: dict[str, ir.Operation] = {}
    for number, module in enumerate(modules):
        _rename(module, f"{symbol}_case{number}", number)
        if plan.cases and (number or told is None):
            _mark(module, f"{symbol}_case{number}", "no_inline")
        elif plan.cases:
            _mark(module, f"{symbol}_case0", "always_inline")
        for op in added_text.ops(module):
            name = added_text.name_of(op)
            if name in present:
                if str(present[name]) != str(op):
                    raise LoweringError(f"two cases define {name} differently", stage="llvm")
                continue
            if name:
                present[name] = op
            if number:
                with module.context:
                    op.clone(ip=ir.InsertionPoint(joined.body))
    entries = _entry(spec, plan, target, symbol, told)
    if spec.b_packed:
        entries += pack_entry.forwarded(symbol, f"{symbol}_case{_count(plan) - 1}", attributes_text(target))
    added_text.add(joined, entries)
    return joined


def _rename(module: ir.Module, entry: str, number: int) -> None:
    """Gives what a module defines names that no other case has, and lets nobody else see it."""
    for op in added_text.ops(module):
        if not any(len(region.blocks) for region in op.regions):
            continue
        name = added_text.name_of(op)
        with module.context:
            op.attributes["linkage"] = ir.Attribute.parse(_INTERNAL)
        if not name.startswith(entry):
            renamed = f"{name}_{number}"
            ir.SymbolTable.replace_all_symbol_uses(name, renamed, module.operation)
            ir.SymbolTable.set_symbol_name(op, renamed)


def _mark(module: ir.Module, entry: str, attribute: str) -> None:
    """Has the entry of a case become part of that of all, or stay a function of its own, for which that of all saves no registers."""
    for op in added_text.ops(module):
        if added_text.name_of(op) == entry:
            with module.context:
                op.attributes[attribute] = ir.UnitAttr.get()


def _count(plan: Plan) -> int:
    """How many kernels a plan has."""
    return len(plan.kernels) or 1


def _entry(spec: MatmulSpec, plan: Plan, target: Target, symbol: str, told: MatmulSpec | None) -> str:
    """The entry, as text."""
    of_zero = zero(spec)
    if spec.takes_tensors:
        arguments = tensor_arguments(spec)
        every = [f"%{each.name}_tensor" for each in arguments]
        values, types = ", ".join(every), ", ".join(["!llvm.ptr"] * len(arguments))
        known = [f"%{name} = llvm.mlir.constant({getattr(spec, name)} : i64) : i64" for name in extents.NAMES]
        known = [line for line, name in zip(known, extents.NAMES, strict=True) if name not in spec.dynamic]
        if of_zero is not None:
            index = next(index for index, each in enumerate(spec.operands) if each.name == "alpha")
            rest = [(value, "!llvm.ptr") for at, value in enumerate(every) if at != index]
            known.append(_unless_zero(spec, f"{symbol}_case{_count(plan)}", f"%{arguments[index].name}", rest))
        run = "\n    ".join([*known, choice(spec, plan, symbol, values, types)])
        return tensor_entry.text(symbol, arguments, attributes_text(target), "", run)
    arguments = matrix_arguments(spec)
    parameters = ", ".join(f"%{name}: {kind}" for name, kind in arguments)
    values, types = (", ".join(each) for each in zip(*((f"%{name}", kind) for name, kind in arguments), strict=True))
    first = ""
    if of_zero is not None:
        rest = [(f"%{name}", kind) for name, kind in arguments if name != "alpha"]
        first = _unless_zero(spec, f"{symbol}_case{_count(plan)}", "%alpha", rest)
    attributes = attributes_text(target)
    chosen = f"""{extents.check(spec)}
    llvm.cond_br %same, ^fits, ^wrong
  ^wrong:
    %wrong_extents = llvm.mlir.constant({WRONG_EXTENTS} : i32) : i32
    llvm.return %wrong_extents : i32
  ^fits:
    {choice(spec, plan, symbol, values, types, first=told is not None)}"""
    others = ""
    if told is not None:
        # A function of its own, so that the first case, whose code is part of the entry, saves no registers for it.
        others = f"""
  llvm.func internal @{symbol}_others({parameters}) -> i32 attributes {{no_inline, {attributes}}} {{
    {chosen}
  }}"""
        chosen = f"""{extents.check(told)}
    llvm.cond_br %same, ^first, ^others
  ^first:
    %first_status = llvm.call @{symbol}_case0({values}) : ({types}) -> i32
    llvm.return %first_status : i32
  ^others:
    %status = llvm.call tail @{symbol}_others({values}) : ({types}) -> i32
    llvm.return %status : i32"""
    return f"""{others}
  llvm.func @{symbol}({parameters}) -> i32 attributes {{{attributes}}} {{
    {first}
    {chosen}
  }}
{matrix_tensors.text(spec, symbol, attributes) if spec.scalars else ""}"""


def _unless_zero(spec: MatmulSpec, case: str, alpha: str, arguments: Sequence[tuple[str, str]]) -> str:
    """Calls `case` with `arguments` and returns, where the number at `alpha` is 0; otherwise goes on."""
    element = spec.scalars[0].type
    compare, same, none = ("fcmp", "oeq", "0.0") if element.kind == "float" else ("icmp", "eq", "0")
    values, types = (", ".join(each) for each in zip(*arguments, strict=True))
    return f"""%alpha_value = llvm.load {alpha} : !llvm.ptr -> {element.mlir}
    %alpha_zero = llvm.mlir.constant({none} : {element.mlir}) : {element.mlir}
    %alpha_none = llvm.{compare} "{same}" %alpha_value, %alpha_zero : {element.mlir}
    llvm.cond_br %alpha_none, ^alpha_none, ^alpha_some
  ^alpha_none:
    %alpha_status = llvm.call @{case}({values}) : ({types}) -> i32
    llvm.return %alpha_status : i32
  ^alpha_some:"""


def choice(spec: MatmulSpec, plan: Plan, symbol: str, values: str, types: str, first: int = 0) -> str:
    """What comes once the extents ``%m``, ``%n`` and ``%k`` are known to fit: the call of the first case that does.

    Args:
        spec: What is computed.
        plan: Its cases.
        symbol: The entry's name.
        values: What the entries of the cases are called with.
        types: The types of that.
        first: The number of the first case that a call can be.
    """
    lines: list[str] = []
    if extents.may_be_empty(spec):
        lines += _empty()
    every = plan.cases or (Case(spec, plan, ()),)
    kernels = plan.kernels or [(spec, plan)]
    compared, start = comparisons.nodes([*(each.tests for each in every[first:-1]), ()], _bounds(spec))
    reached = {each for node in compared for each in (node.passed, node.failed)} | {start}
    lines.append(f"llvm.br {_block(start)}")
    for number, node in enumerate(compared):
        branch = f"llvm.cond_br %holds{number}, {_block(node.passed)}, {_block(node.failed)}"
        lines += [f"^compare{number}:", *_condition(node.test, str(number)), branch]
    for number, case in enumerate(every[first:]):
        if -1 - number in reached:
            kernel = kernels.index((case.spec, case.plan))
            lines += [
                f"^case{number}:",
                f"%kernel{number} = llvm.mlir.addressof @{symbol}_case{kernel} : !llvm.ptr",
                f"llvm.br ^call(%kernel{number} : !llvm.ptr)",
            ]
    lines += [
        "^call(%kernel: !llvm.ptr):",
        f"%status = llvm.call tail %kernel({values}) : !llvm.ptr, ({types}) -> i32",
        "llvm.return %status : i32",
    ]
    return "\n    ".join(lines)


def _bounds(spec: MatmulSpec) -> Bounds:
    """The least and the most of each extent of a call that gets to a case."""
    bounds = {name: (least(getattr(spec, name)), most(getattr(spec, name))) for name in extents.NAMES}
    return {**bounds, **{name: (max(bounds[name][0], 1), bounds[name][1]) for name in ("m", "n")}}


def _block(target: int) -> str:
    """The block where a node of `comparisons` leads."""
    case = comparisons.case(target)
    return f"^compare{target}" if case is None else f"^case{case}"


def _empty() -> list[str]:
    """Returns at once where C has no elements."""
    return [
        "%nothing = llvm.mlir.constant(0 : i64) : i64",
        "%elements = llvm.mul %m, %n : i64",
        '%empty = llvm.icmp "eq" %elements, %nothing : i64',
        "llvm.cond_br %empty, ^empty, ^some",
        "^empty:",
        f"%done = llvm.mlir.constant({OK} : i32) : i32",
        "llvm.return %done : i32",
        "^some:",
    ]


def _condition(test: Test, label: str) -> list[str]:
    """Defines ``%holds<label>``: whether a call passes a test of one condition. Quotients are compared as products."""
    over, _, under = test.extents.partition("/")
    value, lines = f"%{over[0]}", []
    for at, extent in enumerate(over[1:]):
        product = f"%product{label}_{at}"
        lines.append(f"{product} = llvm.mul {value}, %{extent} : i64")
        value = product
    if test.multiple > 1:
        return [
            *lines,
            f"%multiple{label} = llvm.mlir.constant({test.multiple} : i64) : i64",
            f"%whole{label} = llvm.mlir.constant(0 : i64) : i64",
            f"%rest{label} = llvm.urem {value}, %multiple{label} : i64",
            f'%holds{label} = llvm.icmp "eq" %rest{label}, %whole{label} : i64',
        ]
    predicate, number = ("sge", test.least) if test.most is None else ("slt", test.most + 1)
    lines.append(f"%number{label} = llvm.mlir.constant({number} : i64) : i64")
    bound = f"%number{label}"
    if under:
        lines.append(f"%bound{label} = llvm.mul {bound}, %{under} : i64")
        bound = f"%bound{label}"
    return [*lines, f'%holds{label} = llvm.icmp "{predicate}" {value}, {bound} : i64']
