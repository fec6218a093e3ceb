# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products by quantized weights, MatMulNBits with what comes after it, as groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.entries import Epilogue
from tilewright.onnx.graph import FLOATS, Node, Value
from tilewright.onnx.groups import Further, Group, Grouping, shape_of, tail
from tilewright.onnx.views import View
from tilewright.payload import epilogues
from tilewright.precision import ROUNDED
from tilewright.spec import MatmulSpec

_CODES = {4: "u4", 8: "u8"}
"""The element types of codes, by their bits."""
_ROUNDS = 4
"""The accuracy level with which activations may be rounded to 8-bit integers."""


def quantized_product(grouping: Grouping, node: Node) -> Group | None:
    """The group of a MatMulNBits whose rows are whole blocks; None for another node, or one that no kernel computes.

    Raises:
        SpecError: No kernel computes it, as the error says.
    """
    x, codes, scales, zeros = (node.input(index) for index in range(4))
    given = node.attributes
    if node.op != "com.microsoft.MatMulNBits" or x is None or codes is None or scales is None or node.output is None:
        return None
    if not node.output.shape:
        return None
    k, n, bits, block = (given.get(name, 0) for name in ("K", "N", "bits", "block_size"))
    if bits not in _CODES or block < 16 or k % block or given.get("weight_prepacked") or node.input(4) is not None:
        return None
    if x.type not in FLOATS or scales.type != x.type or x.shape[-1:] != (k,) or not codes.is_constant:
        return None
    zero: int | str = 1 << (bits - 1)
    halved = zeros is not None and zeros.type == "u8" and bits == 4
    if zeros is not None:
        zero = zeros.type
        # Two codes in a byte become bytes when a session keeps its constants.
        if zero not in (x.type, "u8") or (halved and not zeros.is_constant):
            return None
    entries: tuple[Epilogue, ...] = ()
    further: tuple[Further, ...] = ()
    if (bias := node.input(5)) is not None:
        entries, further = (epilogues.bias("n", x.type),), (Further(bias, "n"),)
    after = tail(grouping, node.output, -1)
    rank = len(x.shape)
    rows = View.of(x).joined([range(rank - 1), [rank - 1]])
    assert rows is not None
    m = rows.shape[0]
    size = m if isinstance(m, int) else "m"
    kinds: dict[str, Any] = {"a": x.type, "b": _CODES[bits], "c": x.type, "layout": "nt"}
    spec = MatmulSpec(
        m if isinstance(m, int) else None,
        n,
        k,
        **kinds,
        prologue_b=(epilogues.dequantize("gn", zero, block, scale_type=x.type),),
        epilogue=(*entries, *after.entries),
        precision=ROUNDED if given.get("accuracy_level") == _ROUNDS else None,
    )
    views = [rows.taken([size, k]), _matrix(codes, n, k * bits // 8), _matrix(scales, n, k // block)]
    views += [] if zeros is None else [replace(_matrix(zeros, n, k // block), halved=halved)]
    for each in (*further, *after.further):
        own = View.of(each.value)
        axes = [range(len(own.axes))] if each.axes == "n" else []
        if each.axes == "mn":
            axes = [range(len(own.axes) - 1), [len(own.axes) - 1]]
        joined = own.joined(axes)
        if joined is None:
            return None
        views.append(joined.taken({"": [], "n": [n], "mn": [size, n]}[each.axes]))
    shape = shape_of(after.value, views)
    result = View.of(after.value).joined([range(len(after.value.shape) - 1), [len(after.value.shape) - 1]])
    if shape is None or result is None:
        return None
    return Group((node, *after.nodes), spec, tuple(views), result.taken([size, n]), shape)


def _matrix(value: Value, rows: int, columns: int) -> View:
    """A constant as a matrix, in the order in which it lies in memory."""
    return View(value, (rows, columns), ((0,), (1,))).taken([rows, columns])
