# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recognizes the linalg ops that can be part of a matrix product, in our payloads and in users' files."""

from __future__ import annotations

from tilewright.build.usedef import defined_by, definition
from tilewright.mlir import ir

_A = {"(d0, d1, d2) -> (d0, d2)": "n", "(d0, d1, d2) -> (d2, d0)": "t"}
"""How A of M×K elements is stored, over (m, n, k)."""
_B = {"(d0, d1, d2) -> (d2, d1)": "n", "(d0, d1, d2) -> (d1, d2)": "t"}
"""How B of K×N elements is stored."""
_C = "(d0, d1, d2) -> (d0, d1)"

_EXTENSIONS = ("arith.extf", "arith.extsi", "arith.extui")
_SUM_OF_PRODUCTS = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}
"""What multiplies, by what adds."""


def reduces(op: ir.Operation) -> bool:
    """Whether a linalg op sums along a dimension: ``linalg.matmul``, or a ``linalg.generic`` that does."""
    return op.name == "linalg.matmul" or "reduction" in _iterators(op)


def maps(op: ir.Operation) -> tuple[str, ...]:
    """The indexing maps of a linalg op, as text."""
    return tuple(str(ir.AffineMapAttr(each).value) for each in ir.ArrayAttr(op.attributes["indexing_maps"]))


def layout(op: ir.Operation) -> str | None:
    """How A and B of a product over (m, n, k) are stored, as in `MatmulSpec.layout`; None for what is no such product."""
    found = maps(op)
    if not is_over_mnk(op) or len(found) != 3 or found[0] not in _A or found[1] not in _B or found[2] != _C:
        return None
    return _A[found[0]] + _B[found[1]]


def is_over_mnk(op: ir.Operation) -> bool:
    """Whether a linalg op goes over (m, n, k), sums along k, and has one output."""
    return op.name == "linalg.matmul" or _iterators(op) == ["parallel", "parallel", "reduction"]


def extensions(op: ir.Operation) -> tuple[str | None, str | None] | None:
    """How a product extends elements of A and of B: by which ops, None for not at all.

    The region has to be c + ext(a) * ext(b), with the operands of addition and multiplication either way round; otherwise
    there is no answer, and None is returned.
    """
    block = op.regions[0].blocks[0]
    arguments, ops = list(block.arguments), [each.operation for each in block.operations]
    plain = all(str(each.attributes["fastmath"]) == _PLAIN for each in ops if "fastmath" in each.attributes)
    if len(arguments) != 3 or len(ops[-1].operands) != 1 or not plain:
        return None
    add = definition(ops[-1].operands[0])
    if add is None or add.name not in _SUM_OF_PRODUCTS or arguments[2] not in add.operands:
        return None
    multiply = definition(next((value for value in add.operands if value != arguments[2]), arguments[2]))
    if multiply is None or multiply.name != _SUM_OF_PRODUCTS[add.name]:
        return None
    found = {}
    for factor in multiply.operands:
        extension = definition(factor)
        if extension is not None and extension.name not in _EXTENSIONS:
            return None
        source = factor if extension is None else extension.operands[0]
        if source in arguments[:2]:
            found[arguments.index(source)] = None if extension is None else extension.name
    used = 3 + sum(name is not None for name in found.values())
    return (found[0], found[1]) if len(found) == 2 and len(ops) == used else None


ADDS_AND_ROUNDS = "truncf(x + extf(c))"
"""What `conversion` calls a generic that adds each former element of its output before it rounds."""


def conversion(op: ir.Operation) -> str | None:
    """The op by which a ``linalg.generic`` converts each element of a matrix, `ADDS_AND_ROUNDS`, or None: something else."""
    identity = "(d0, d1) -> (d0, d1)"
    block = op.regions[0].blocks[0]
    ops = [each.operation for each in block.operations]
    if maps(op) != (identity, identity) or _iterators(op) != ["parallel"] * 2:
        return None
    if [each.name for each in ops] == ["arith.extf", "arith.addf", "arith.truncf", "linalg.yield"]:
        extend, add, rounds, last = ops
        source, former = block.arguments
        chained = list(rounds.operands) == list(add.results) and list(last.operands) == list(rounds.results)
        adds = list(extend.operands) == [former] and {source, *extend.results} == set(add.operands)
        plain = all(str(each.attributes["fastmath"]) == _PLAIN for each in ops if "fastmath" in each.attributes)
        return ADDS_AND_ROUNDS if chained and adds and plain else None
    if len(ops) != 2:
        return None
    converts = list(ops[0].operands) == [block.arguments[0]] and list(ops[1].operands) == list(ops[0].results)
    return ops[0].name if converts and ops[0].name in ("arith.extf", "arith.truncf") else None


_PLAIN = "#arith.fastmath<none>"


def is_zero(value: ir.Value) -> bool:
    """Whether it is the constant +0.0, or an integer's 0."""
    made = defined_by(value, "arith.constant")
    if made is None:
        return False
    constant = made.attributes["value"]
    if isinstance(constant, ir.IntegerAttr):
        return constant.value == 0
    return isinstance(constant, ir.FloatAttr) and str(constant.value) == "0.0"


def _iterators(op: ir.Operation) -> list[str]:
    """The iterator types of a ``linalg.generic``."""
    names = (str(each) for each in ir.ArrayAttr(op.attributes["iterator_types"]))
    return [name.removeprefix("#linalg.iterator_type<").removesuffix(">") for name in names]
