# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The function of a product with dynamic extents in a module: finds out which case a call is, and calls its kernel.

Written as text, as entries are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.dims import Dim, Extent
from tilewright.lowering.entries import dispatch, entry
from tilewright.lowering.product_calls import Product
from tilewright.payload.abi import OK
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_POINTER = "!llvm.ptr"


@dataclass(frozen=True, slots=True)
class Expanded:
    """The memrefs that a function takes, expanded to what they consist of, as text.

    Attributes:
        parameters: The parameters.
        starts: Lines that find out where the memrefs start.
        values: What a body is called with, whose memrefs start at their pointers.
        types: The types of that.
    """

    parameters: str
    starts: str
    values: str
    types: str


def expanded(operands: Sequence[tuple[tuple[Extent, ...], str]]) -> Expanded:
    """The memrefs of `operands`, of such shapes and elements: memref number i is ``%p<i>_<part>``."""
    parameters, passed, lines = [], [], ["%zero = llvm.mlir.constant(0 : i64) : i64"]
    for at, (shape, element) in enumerate(operands):
        names = [f"%p{at}_{each}" for each in range(3 + 2 * len(shape))]
        kinds = [_POINTER, _POINTER, *["i64"] * (1 + 2 * len(shape))]
        parameters += [f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True)]
        lines.append(f"%q{at} = llvm.getelementptr {names[1]}[{names[2]}] : (!llvm.ptr, i64) -> !llvm.ptr, {element}")
        start = [f"%q{at}", f"%q{at}", "%zero", *names[3:]]
        passed += list(zip(start, kinds, strict=True))
    values, kinds = ", ".join(value for value, _ in passed), ", ".join(kind for _, kind in passed)
    return Expanded(", ".join(parameters), "\n    ".join(lines), values, kinds)


def text(product: Product, plan: Plan, name: str, target: Target) -> str:
    """The function `name` of a product, and those of its cases, whose bodies are called ``<name>_case<number>_<body>``."""
    attributes, of_all = entry.attributes_text(target), expanded(product.operands)
    plain = product.operands[: -1 if product.workspace else None]
    cases = "".join(
        _case(f"{name}_case{number}", of_all, expanded(product.operands if size else plain), attributes)
        for number, (_, size) in enumerate(product.bodies)
    )
    extents = "\n    ".join(_extent(product.spec, each) for each in "mnk")
    passed = ", ".join(each.split(":")[0] for each in of_all.parameters.split(", "))
    chosen = dispatch.choice(product.spec, plan, name, passed, of_all.types)
    return f"""{cases}
  llvm.func internal @{name}_chosen({of_all.parameters}) -> i32 attributes {{{attributes}}} {{
    {extents}
    {chosen}
  }}
  llvm.func internal @{name}({of_all.parameters}) attributes {{{attributes}}} {{
    %status = llvm.call @{name}_chosen({passed}) : ({of_all.types}) -> i32
    llvm.return
  }}
"""


def _case(name: str, of_all: Expanded, own: Expanded, attributes: str) -> str:
    """The function of one case; it takes what all do, of which its kernel may need no scratch memory."""
    return f"""
  llvm.func internal @{name}({of_all.parameters}) -> i32 attributes {{{attributes}}} {{
    {own.starts}
    llvm.call @{name}_{entry.BODY}({own.values}) : ({own.types}) -> ()
    %ok = llvm.mlir.constant({OK} : i32) : i32
    llvm.return %ok : i32
  }}
"""


def _extent(spec: MatmulSpec, name: str) -> str:
    """Lines that define ``%m``, ``%n`` or ``%k``."""
    extent = getattr(spec, name)
    if not isinstance(extent, Dim):
        return f"%{name} = llvm.mlir.constant({extent} : i64) : i64"
    at, operand = next((at, each) for at, each in enumerate(spec.operands) if name in each.axes)
    axes = operand.looped(spec.batch)
    axis = len(axes) - len(operand.axes) + operand.axes.index(name)
    return f"""%none_{name} = llvm.mlir.constant(0 : i64) : i64
    %{name} = llvm.add %p{at}_{3 + axis}, %none_{name} : i64"""
