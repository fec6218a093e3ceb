# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What calls of a kernel from Python take and give, in JSON's types: libraries carry it, and `standalone.forms` makes the calls of it.

A shape has an int for each extent; one that is dynamic is -2 for m, -3 for n, -4 for k, and so on, as it comes in "limits", which say the
least and the most of each, and what divides it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.dims import Dim, Extent
from tilewright.dtypes import DType, dtype, numpy_name
from tilewright.payload.abi import dlpack_code
from tilewright.payload.signature import Parameter, Signature
from tilewright.spec import MatmulSpec, OperandSpec
from tilewright.standalone.packing import PackedFormat

_OPEN = -2
"""The first of the extents in a shape, where it is dynamic; others are below it."""
_NAMES = ("m", "n", "k")
"""The dynamic extents of operators; those of modules, d0, d1 …, come after them."""


def product(spec: MatmulSpec) -> dict[str, Any]:
    """The calls of a product, which `standalone.forms.product` reads."""
    return {
        "kind": "product",
        "extents": [None if isinstance(each, Dim) else each for each in (spec.m, spec.n, spec.k)],
        "types": [numpy_name(each) for each in (spec.a_stored, spec.b_stored, spec.c_type)],
        "transposed": [spec.a_transposed, spec.b_transposed],
        "accumulate": bool(spec.beta),
        "operands": operands(spec),
        "limits": [_limits(each) for each in spec.extents.values()],
    }


def function(signature: Signature) -> dict[str, Any]:
    """The calls of a function or an operator, which `standalone.forms.function` reads."""
    return {
        "kind": "function",
        "tensors": [
            [
                each.name,
                [_OPEN - _number(name) if isinstance(size, Dim) else size for size, name in _named(each)],
                numpy_name(dtype(each.element)),
                *dlpack_code(each.element),
                each.written,
                each.compact,
                each.batch,
            ]
            for each in signature.parameters
        ],
        "arguments": len(signature.arguments),
        "operations": float(signature.operations),
        "limits": _limits_of(signature),
    }


def packing(entry: str, spec: MatmulSpec) -> dict[str, Any]:
    """How B is packed for a product, by an entry that is called after `entry`."""
    return {
        "entry": entry,
        "k": spec.k,
        "n": spec.n,
        "type": numpy_name(spec.b_stored),
        "transposed": spec.b_transposed,
    }


def packing_of(entry: str, argument: Parameter) -> dict[str, Any]:
    """How an argument of a function is packed, by an entry that is called after `entry`."""
    form = PackedFormat.from_header(bytes.fromhex(argument.format))
    type_ = numpy_name(dtype(form.element))
    return {"entry": entry, "k": form.k, "n": form.n, "type": type_, "transposed": argument.transposed}


def operands(spec: MatmulSpec) -> list[list[Any]]:
    """What the entry that takes an array of tensors takes, the result last; nothing where A and B are all that calls take.

    Each has a name, a shape, a type, DLPack's code and bits of it, and how many of the extents are of the batch.
    """
    if not (spec.takes_tensors or spec.scalars):
        return []
    every = (*spec.operands, replace(spec.result, name="out"))
    return [
        [each.name, _shape(each, spec), stored_name(each.type), *dlpack_code(each.type.name), each.batch]
        for each in every
    ]


def _shape(operand: OperandSpec, spec: MatmulSpec) -> list[int]:
    number = {name: index for index, name in enumerate(spec.extents)}
    pairs = zip(operand.stored, operand.names, strict=True)
    return [_OPEN - number[name] if isinstance(extent, Dim) else extent for extent, name in pairs]


def stored_name(element: DType) -> str:
    """The numpy type of arrays in memory: bytes, where two elements share one."""
    return "uint8" if element.packed > 1 else numpy_name(element)


def _limits(extent: Extent) -> list[int]:
    """The least and the most that an extent can be, and what divides it."""
    return [extent.min, extent.max, extent.multiple] if isinstance(extent, Dim) else [extent, extent, 1]


def _number(name: str) -> int:
    """The number of a dynamic extent."""
    return _NAMES.index(name) if name in _NAMES else len(_NAMES) + int(name[1:])


def _named(parameter: Parameter) -> zip[tuple[Any, str]]:
    """The extents of a parameter, and what they are."""
    return zip(parameter.shape, parameter.names or [""] * len(parameter.shape), strict=True)


def _limits_of(signature: Signature) -> list[list[int]]:
    """What extents can be, where they are open; nothing where all is known."""
    found = {
        _number(name): size for each in signature.parameters for size, name in _named(each) if isinstance(size, Dim)
    }
    return [_limits(found.get(number, Dim())) for number in range(max(found, default=0) + 1)] if found else []
