# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The payload of attention: linalg ops on tensors for each head."""

from __future__ import annotations

from tilewright.dims import Dim
from tilewright.dtypes import dtype
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.payload import attention_tables as tables
from tilewright.payload.attention_tables import Extents


def text(spec: AttentionSpec) -> str:
    """The module as text. It is the definition, with all scores at once; no later stage holds them."""
    operands, size = spec.operands, Extents.of(spec)
    outer = [f"b{axis}" for axis in range(len(size.entries))] + ["h"]
    shared = "h" if spec.group == 1 else f"h floordiv {spec.group}"
    dims = ", ".join([*outer, "m", "n", "k"])
    lead, kv = ", ".join(outer), ", ".join([*outer[:-1], shared])

    def kind(heads: int, row: int | str, columns: int | str, element: str) -> str:
        return size.tensor(*size.entries, heads, row, columns, element=dtype(element).mlir)

    scores, result = (kind(spec.heads, size.queries, columns, "f32") for columns in (size.keys, spec.value_head))
    q, k, v = (
        (tables.rows(spec, name), kind(heads, row, columns, element))
        for name, heads, row, columns, element in (
            ("q", spec.heads, size.queries, spec.head, spec.q),
            ("k", spec.kv_heads, size.keys, spec.head, spec.k),
            ("v", spec.kv_heads, size.keys, spec.value_head, spec.v),
        )
    )
    parallel = ", ".join(['"parallel"'] * (len(outer) + 2))
    arguments = ", ".join(f"%{each.name}: {tables.tensor(each)}" for each in operands)
    mask = None if spec.mask is None else operands[3]
    mask_dims = {"b": outer[:-1], "h": ["h"], "m": ["m"], "n": ["n"]}
    masked = ", ".join(dim for axis in spec.mask_axes for dim in mask_dims[axis])
    hides, masked_name = _masked(spec)
    ends, seen = tables.seen(spec) if spec.is_ragged else _seen(spec, masked_name, len(outer))
    brought = "".join(tables.brought(spec, name) for name in "qkv")
    return f"""module {{
  func.func @{spec.operator}({arguments}) -> {tables.tensor(spec.result)} {{
    %zero = arith.constant 0.0 : f32{tables.extents(spec) if spec.is_ragged else _sizes(spec)}
{brought}    %none = {size.empty(*size.entries, size.queries, size.keys)} : {scores}
    %start = linalg.fill ins(%zero : f32) outs(%none : {scores}) -> {scores}
    %products = linalg.generic {{
      indexing_maps = [affine_map<({dims}) -> ({lead}, m, k)>, affine_map<({dims}) -> ({kv}, n, k)>,
                       affine_map<({dims}) -> ({lead}, m, n)>],
      iterator_types = [{parallel}, "reduction"]
    }} ins({q[0]}, {k[0]} : {q[1]}, {k[1]}) outs(%start : {scores}) {{
    ^bb0(%x: {dtype(spec.q).mlir}, %y: {dtype(spec.k).mlir}, %sum: f32):
{_widened("%x", spec.q)}{_widened("%y", spec.k)}      %product = arith.mulf {_wide("%x", spec.q)}, {_wide("%y", spec.k)} : f32
      %next = arith.addf %sum, %product : f32
      linalg.yield %next : f32
    }} -> {scores}
    %scores = linalg.generic {{
      indexing_maps = [{f"affine_map<({lead}, m, n) -> ({masked})>, " if mask else ""}affine_map<({lead}, m, n) -> ({lead}, m, n)>],
      iterator_types = [{parallel}]
    }}{f" ins(%mask : {tables.tensor(mask)})" if mask else ""} outs(%products : {scores}) {{
    ^bb0({f"%given: {mask.type.mlir}, " if mask else ""}%score: f32):
      %scale = arith.constant {spec.scale:.17e} : f32
      %scaled = arith.mulf %score, %scale : f32
{hides}{ends}      linalg.yield {seen} : f32
    }} -> {scores}
    %weights = linalg.softmax dimension({len(outer) + 1}) ins(%scores : {scores}) outs(%none : {scores}) -> {scores}
    %rows = {size.empty(*size.entries, size.queries)} : {result}
    %sums = linalg.fill ins(%zero : f32) outs(%rows : {result}) -> {result}
    %results = linalg.generic {{
      indexing_maps = [affine_map<({dims}) -> ({lead}, m, k)>, affine_map<({dims}) -> ({kv}, k, n)>,
                       affine_map<({dims}) -> ({lead}, m, n)>],
      iterator_types = [{parallel}, "reduction"]
    }} ins(%weights, {v[0]} : {scores}, {v[1]}) outs(%sums : {result}) {{
    ^bb0(%x: f32, %y: {dtype(spec.v).mlir}, %sum: f32):
{_widened("%y", spec.v)}      %product = arith.mulf %x, {_wide("%y", spec.v)} : f32
      %next = arith.addf %sum, %product : f32
      linalg.yield %next : f32
    }} -> {result}
{_narrowed(spec, result, size)}  }}
}}
"""


def _sizes(spec: AttentionSpec) -> str:
    """The dynamic extents, and where "lower_right" begins."""
    found, axis = "", len(spec.batch) + 1
    lower = spec.causal == "lower_right"
    for name, size, operand in (("m", spec.queries, 0), ("n", spec.keys, 1)):
        if isinstance(size, Dim):
            at, of = f"%axis_{name}", spec.operands[operand]
            found += f"\n    {at} = arith.constant {axis} : index"
            found += f"\n    %{name} = tensor.dim %{of.name}, {at} : {tables.tensor(of)}"
        elif lower:
            found += f"\n    %{name} = arith.constant {size} : index"
    return found + ("\n    %later = arith.subi %n, %m : index" if lower else "")


def _wide(value: str, element: str) -> str:
    """The name of `value` in f32."""
    return value if element == "f32" else f"{value}_wide"


def _widened(value: str, element: str) -> str:
    """The line that makes it; empty where it is f32."""
    if element == "f32":
        return ""
    return f"      {_wide(value, element)} = arith.extf {value} : {dtype(element).mlir} to f32\n"


def _masked(spec: AttentionSpec) -> tuple[str, str]:
    """The lines that add the mask to %scaled, or hide what it hides; and the name of what they make."""
    if spec.mask is None:
        return "", "%scaled"
    if spec.mask != "u8":
        added = f"      %masked = arith.addf %scaled, {_wide('%given', spec.mask)} : f32\n"
        return f"{_widened('%given', spec.mask)}{added}", "%masked"
    return (
        """      %lowest = arith.constant 0xFF800000 : f32
      %no = arith.constant 0 : i8
      %visible = arith.cmpi ne, %given, %no : i8
      %masked = arith.select %visible, %scaled, %lowest : f32
""",
        "%masked",
    )


def _seen(spec: AttentionSpec, masked: str, axis: int) -> tuple[str, str]:
    """The lines that hide the keys behind the last one that a query sees; and the name of what they make."""
    if not spec.causal:
        return "", masked
    last = "%query" if spec.causal == "upper_left" else "%last"
    later = "" if spec.causal == "upper_left" else "      %last = arith.addi %query, %later : index\n"
    return (
        f"""      %query = linalg.index {axis} : index
      %key = linalg.index {axis + 1} : index
{later}      %hidden = arith.constant 0xFF800000 : f32
      %is_seen = arith.cmpi sle, %key, {last} : index
      %seen = arith.select %is_seen, {masked}, %hidden : f32
""",
        "%seen",
    )


def _narrowed(spec: AttentionSpec, result: str, size: Extents) -> str:
    """The lines that return %results in the type of the result."""
    if spec.out == "f32":
        return tables.returned(spec, "%results")
    kind = size.tensor(*size.entries, spec.heads, size.queries, spec.value_head, element=spec.out)
    axes = ", ".join(f"d{axis}" for axis in range(len(size.entries) + 3))
    parallel = ", ".join(['"parallel"'] * (len(size.entries) + 3))
    return f"""    %wide = {size.empty(*size.entries, size.queries)} : {kind}
    %narrow = linalg.generic {{
      indexing_maps = [affine_map<({axes}) -> ({axes})>, affine_map<({axes}) -> ({axes})>],
      iterator_types = [{parallel}]
    }} ins(%results : {result}) outs(%wide : {kind}) {{
    ^bb0(%x: f32, %y: {spec.out}):
      %rounded = arith.truncf %x : f32 to {spec.out}
      linalg.yield %rounded : {spec.out}
    }} -> {kind}
{tables.returned(spec, "%narrow")}"""
