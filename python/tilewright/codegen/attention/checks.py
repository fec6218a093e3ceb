# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The function beside attention's that says whether its tables fit: an entry refuses a call before anything is computed.

::

    starts of sequences:  0 <= starts[0] <= starts[1] <= ... <= rows;  as many sequences in each table
    lengths:              0 <= lengths[b] <= keys
    pages:                0 <= table[b, j] < pages   for j < ceil(lengths[b] / page)
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilewright.build.constants import constant
from tilewright.build.index import Index, add, ceil_div, less, minimum, sub, value
from tilewright.build.loops import repeat
from tilewright.codegen.attention.chain import Chain
from tilewright.codegen.attention.rows import most_keys, number, place_of, sequences
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref
from tilewright.payload.abi import FITS, OK, WRONG_INDEX


def define(chain: Chain, kinds: list[ir.Type]) -> None:
    """Defines it at the insertion point, of the arguments of attention's function but for scratch memory; it returns a call's status.

    Needs an active context and location.
    """
    i32 = ir.IntegerType.get_signless(32)
    made = func.FuncOp(FITS, ir.FunctionType.get(kinds, [i32]), visibility="private")
    arguments = made.add_entry_block().arguments
    operands = {name: arguments[at] for name, at in chain.arguments.items()}
    with ir.InsertionPoint(made.entry_block):
        wrong = _wrong(chain, operands)
        func.ReturnOp([arith.select(wrong, constant(i32, WRONG_INDEX), constant(i32, OK))])


def _wrong(chain: Chain, operands: Mapping[str, ir.Value]) -> ir.Value:
    """Whether a table does not fit."""
    wrong = constant(ir.IntegerType.get_signless(1), 0)
    count: Index = prod(chain.batch)
    if chain.packed:
        count = sequences(operands)
        for name, of in (("q_starts", "q"), ("k_starts", "k")):
            if name in operands:
                wrong = arith.ori(wrong, _falls(operands[name], memref.dim(operands[of], value(1))))
    if not chain.lengths:
        return wrong
    if chain.packed:
        for each in ("lengths", "table"):
            if each in operands:
                unlike = arith.cmpi(arith.CmpIPredicate.ne, memref.dim(operands[each], value(0)), value(count))
                wrong = arith.ori(wrong, unlike)
                count = minimum(count, memref.dim(operands[each], value(0)))
    most = most_keys(chain, operands)

    def entry(at: ir.Value, so_far: ir.Value) -> list[ir.Value]:
        place = place_of(chain, at) if chain.batch else [at]
        length = number(operands["lengths"], place)
        found = arith.ori(so_far, less(most, length))
        if not chain.page:
            return [found]
        pages, table = memref.dim(operands["k"], value(0)), operands["table"]

        def page(column: ir.Value, so_far: ir.Value) -> list[ir.Value]:
            known = less(number(table, [*place, column]), pages)
            return [arith.ori(so_far, arith.xori(known, constant(known.type, 1)))]

        return repeat(ceil_div(minimum(length, most), chain.page), 1, page, [found])

    return repeat(count, 1, entry, [wrong])[0]


def _falls(starts: ir.Value, rows: Index) -> ir.Value:
    """Whether starts of sequences fall, or lie outside of the rows."""
    last = sub(memref.dim(starts, value(0)), 1)

    def step(at: ir.Value, so_far: ir.Value) -> list[ir.Value]:
        return [arith.ori(so_far, less(number(starts, [add(at, 1)]), number(starts, [at])))]

    # Without a sign a number below zero is above all rows, and so is then the last one, or it falls.
    return repeat(last, 1, step, [less(rows, number(starts, [last]))])[0]
