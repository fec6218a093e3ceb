# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Normalizes the boundary of a function: results become arguments that it writes to, tensors get names and layouts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.build.index import known
from tilewright.build.usedef import body, defined_by, operations, terminator, upwards
from tilewright.dims import Dim
from tilewright.mlir import ir
from tilewright.mlir.dialects import bufferization, func
from tilewright.payload.functions import attributes
from tilewright.payload.modules.contractions import element_name
from tilewright.payload.modules.extents import Boundary, Name
from tilewright.payload.modules.places import STAND_IN
from tilewright.payload.signature import Parameter, Signature
from tilewright.spec import MatmulSpec

_NAME = re.compile(r"%([A-Za-z_][A-Za-z0-9_]*)")
_UNSIGNED = ("arith.extui", "arith.uitofp")
_SIGNED = ("arith.extsi", "arith.sitofp")
_RESHAPES = (
    "tensor.extract_slice",
    "tensor.insert_slice",
    "tensor.expand_shape",
    "tensor.collapse_shape",
    "tensor.cast",
)
_DYNAMIC = ir.ShapedType.get_dynamic_stride_or_offset()
_TYPICAL = 64
"""The value of a dynamic extent when operations are counted."""


@dataclass(frozen=True, slots=True)
class Given:
    """An argument as the user wrote it.

    Attributes:
        name: Its name.
        compact: Whether its elements follow one another without gaps.
    """

    name: str
    compact: bool


def given(function: func.FuncOp, text: str) -> list[Given]:
    """The arguments of a function that was parsed from `text`; those with numbers for names are called arg0, arg1 ….

    Rows of matrices may be any distance apart; what has more dimensions is compact, unless it is a memref that says otherwise.
    """
    lines = text.split("\n")
    found: list[Given] = []
    for number, argument in enumerate(function.entry_block.arguments):
        location, name = argument.location, None
        if location.is_a_file() and location.start_line <= len(lines):
            name = _NAME.match(lines[location.start_line - 1], location.start_col - 1)
        kind = argument.type
        compact = ir.ShapedType(kind).rank > 2
        if compact and isinstance(kind, ir.MemRefType):
            compact = _DYNAMIC not in kind.get_strides_and_offset()[0]
        taken = [each.name for each in found]
        free = name.group(1) if name and name.group(1) not in (*taken, "out", "self") else f"arg{number}"
        found.append(Given(free, compact))
    return found


def close(
    function: func.FuncOp,
    arguments: Sequence[Given],
    written: Sequence[int],
    specs: Sequence[MatmulSpec],
    extents: Boundary,
) -> Signature:
    """Gives `function` an argument for each result, into which it is computed, and the layouts of all; returns what they are.

    Before: ``@f(%a: tensor<4xf32>) -> tensor<4xf32> { %r = exp(%a) into tensor.empty; return %r }``. After::

        @f(%a: tensor<4xf32>, %out: tensor<4xf32> {writable}) -> tensor<4xf32> { %r = exp(%a) into %out; return %r }

    Args:
        function: A function on tensors, whose products `groups.split` has found.
        arguments: Its arguments, as `given` names them.
        written: Those that the last of its results are written back to.
        specs: The specs of its products.
        extents: Those of its tensors.
    """
    block = function.entry_block
    returned = terminator(block)
    with function.context, function.location:
        inputs = list(block.arguments)
        count = len(returned.operands) - len(written)
        elements = [_argument_element(each, specs) for each in inputs]
        results = [_result_element(each, specs) for each in returned.operands]
        targets = [block.add_argument(value.type, function.location) for value in list(returned.operands)[:count]]
        targets += [inputs[each] for each in written]
        for index, target in enumerate(targets):
            _direct(returned, index, target)
        kinds = [each.type for each in block.arguments]
        function.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(kinds, [each.type for each in returned.operands])
        )
        parameters = [
            Parameter(each.name, _shape(names), element, index in written, each.compact, names=_names(names))
            for index, (each, names, element) in enumerate(zip(arguments, extents.arguments, elements, strict=True))
        ]
        names = ["out"] if count == 1 else [f"out{index}" for index in range(count)]
        outputs = [
            Parameter(name, _shape(sizes), element, written=True, compact=len(sizes) > 2, names=_names(sizes))
            for name, sizes, element in zip(names, extents.results[:count], results, strict=False)
        ]
        function.arg_attrs = [attributes(each) for each in (*parameters, *outputs)]
    products = _counted(function, specs)
    return Signature(
        function.name.value,
        tuple(parameters),
        tuple(outputs),
        operations=sum(count * _operations(spec) for count, spec in products),
        products=tuple(str(spec) for _, spec in products),
    )


def _shape(extents: Sequence[Name]) -> tuple[int | Dim, ...]:
    return tuple(Dim() if isinstance(each, str) else each for each in extents)


def _names(extents: Sequence[Name]) -> tuple[str, ...]:
    """The names of the dynamic extents; none where all are static."""
    names = tuple(each if isinstance(each, str) else "" for each in extents)
    return names if any(names) else ()


def _operations(spec: MatmulSpec) -> int:
    return spec.sized({name: dim.nearest(_TYPICAL) for name, dim in spec.open.items()}).flops


def _counted(function: func.FuncOp, specs: Sequence[MatmulSpec]) -> list[tuple[int, MatmulSpec]]:
    """How many times each product is computed, in the loops around it, and its spec."""
    found = []
    for op in operations(function.operation):
        if STAND_IN not in op.attributes:
            continue
        times = 1
        for loop in [each for each in upwards(op) if each.name == "scf.for"]:
            bound = known(loop.operands[1])
            times *= _TYPICAL if bound is None else bound
        found.append((times, specs[ir.IntegerAttr(op.attributes[STAND_IN]).value]))
    return found


def _direct(returned: ir.Operation, index: int, target: ir.Value) -> None:
    """Lets result number `index` be computed into `target`, or copied where something else is returned."""
    value = returned.operands[index]
    link = _origin(value) if not any(True for _ in target.uses) else None
    if link is not None:
        op, position, reshape = link
        if reshape is not None:
            with ir.InsertionPoint(op), op.location:
                same = {"reassociation": reshape.attributes["reassociation"]}
                target = ir.Operation.create(
                    "tensor.collapse_shape",
                    results=[reshape.operands[0].type],
                    operands=[target],
                    attributes=same,
                ).results[0]
        op.operands[position] = target
        return
    with ir.InsertionPoint(returned), returned.location:
        copy = bufferization.MaterializeInDestinationOp(target.type, value, target)
    returned.operands[index] = copy.result


def _origin(value: ir.Value) -> tuple[ir.Operation, int, ir.Operation | None] | None:
    """Which operand of which op is the tensor.empty that `value` is computed into, and what reshapes it on the way."""
    reshape: ir.Operation | None = None
    while isinstance(value, ir.OpResult) and sum(1 for _ in value.uses) == 1:
        op = value.owner.operation
        if op.name == "linalg.generic":
            position = len(op.operands) - len(op.results) + value.result_number
        elif op.name == "scf.for":
            position = 3 + value.result_number
        elif op.name == "tensor.insert_slice":
            position = 1
        elif op.name == "tensor.expand_shape" and reshape is None:
            reshape, value = op, op.operands[0]
            continue
        else:
            return None
        source = op.operands[position]
        if isinstance(source, ir.OpResult) and source.owner.name == "tensor.empty":
            return op, position, reshape
        value = source
    return None


def _argument_element(argument: ir.Value, specs: Sequence[MatmulSpec]) -> str:
    """The name of an argument's element type; integers of eight bits have a sign unless they are only used without."""
    name = element_name(argument.type)
    return "u8" if name == "i8" and _signs(argument, specs) == {"u8"} else str(name)


def _signs(value: ir.Value, specs: Sequence[MatmulSpec]) -> set[str]:
    """Whether the bytes of a tensor are used as signed or unsigned integers."""
    found: set[str] = set()
    for use in value.uses:
        op, position = use.owner.operation, use.operand_number
        if STAND_IN in op.attributes:
            operands = specs[ir.IntegerAttr(op.attributes[STAND_IN]).value].operands
            found |= {operands[position].type.name} if position < len(operands) else set()
        elif op.name == "linalg.generic":
            names = {each.owner.operation.name for each in op.regions[0].blocks[0].arguments[position].uses}
            found |= {"u8"} if names & set(_UNSIGNED) else set()
            found |= {"i8"} if names & set(_SIGNED) else set()
        elif op.name in _RESHAPES:
            found |= _signs(op.results[0], specs)
    return found


def _result_element(value: ir.Value, specs: Sequence[MatmulSpec]) -> str:
    """The name of a result's element type; bytes have a sign unless they were made without."""
    name = element_name(value.type)
    while name == "i8" and isinstance(value, ir.OpResult):
        op = value.owner.operation
        if STAND_IN in op.attributes:
            return specs[ir.IntegerAttr(op.attributes[STAND_IN]).value].c_type.name
        if op.name == "linalg.generic":
            return "u8" if defined_by(terminator(body(op)).operands[int(value.result_number)], "arith.fptoui") else "i8"
        if op.name == "scf.for":
            value = terminator(body(op)).operands[int(value.result_number)]
        elif op.name in _RESHAPES:
            value = op.operands[0]
        else:
            break
    return str(name)
