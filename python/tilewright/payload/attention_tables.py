# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parts of attention's payload that say how long entries are, and where their rows lie, by tables.

Each entry then has rows 0, 1, … of its own, as many as any could have. Before the products, rows come from where they lie::

    Q[s, h, i] = q[h, q_starts[s] + i]                      K[s, h, j] = k[h, k_starts[s] + j]
                                                            K[b, h, j] = k[table[b, j div page], h, j mod page]

Keys from the entry's length on are hidden, whatever they are. Behind the products, rows of sequences go back::

    out[h, r] = O[s, h, r - q_starts[s]]                    s: the last sequence that starts at row r or before it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.dims import Dim
from tilewright.dtypes import dtype
from tilewright.operand import OperandSpec
from tilewright.operator_specs.attention import AttentionSpec


@dataclass(frozen=True, slots=True)
class Extents:
    """What axes of the computation are: an int, or the name of a value.

    Attributes:
        entries: Those of the batch; or the sequences.
        queries: Queries of an entry, at most.
        keys: Keys of an entry, at most.
    """

    entries: tuple[int | str, ...]
    queries: int | str
    keys: int | str

    @staticmethod
    def of(spec: AttentionSpec) -> Extents:
        """Those of a spec."""
        sequences = () if spec.sequences is None else (_named(spec.sequences, "%s"),)
        keys = _named(spec.keys, "%n")
        if spec.page is not None and isinstance(keys, int):
            keys = -(-keys // spec.page) * spec.page
        return Extents((*spec.batch, *sequences), _named(spec.queries, "%m"), keys)

    def tensor(self, *sizes: int | str, element: str) -> str:
        """The type of a tensor of such extents."""
        return _tensor(sizes, element)

    def empty(self, *sizes: int | str) -> str:
        """A tensor without numbers of such extents, but for its type."""
        return f"tensor.empty({', '.join(each for each in sizes if isinstance(each, str))})"


def extents(spec: AttentionSpec) -> str:
    """The lines that tell the extents that are values: %m, %n and %s, and the last rows that there are."""
    lines = []

    def dim(name: str, operand: OperandSpec, axis: int) -> None:
        lines.append(f"%{name}_axis = arith.constant {axis} : index")
        lines.append(f"%{name} = tensor.dim %{operand.name}, %{name}_axis : {tensor(operand)}")

    named = {each.name: each for each in spec.operands}
    lines.append("%one = arith.constant 1 : index")
    if spec.sequences is not None:
        dim("starts", named["q_starts"], 0)
        lines.append("%s = arith.subi %starts, %one : index")
        dim("q_extent", named["q"], 1)
        lines += ["%q_last = arith.subi %q_extent, %one : index", "%s_last = arith.subi %s, %one : index"]
    rows = 0 if spec.page is not None else len(named["k"].shape) - 2
    if spec.page is not None or spec.sequences is not None:
        for name in "kv":
            dim(f"{name}_extent", named[name], rows)
            lines.append(f"%{name}_last = arith.subi %{name}_extent, %one : index")
    if isinstance(spec.queries, Dim):
        dim("m", named["q"], len(named["q"].shape) - 2)
    elif spec.causal == "lower_right" and spec.sequences is None:
        lines.append(f"%m = arith.constant {spec.queries} : index")
    if isinstance(spec.keys, Dim) and spec.page is not None:
        dim("columns", named["table"], len(named["table"].shape) - 1)
        lines.append(f"%page = arith.constant {spec.page} : index")
        lines.append("%n = arith.muli %columns, %page : index")
    elif isinstance(spec.keys, Dim):
        dim("n", named["k"], len(named["k"].shape) - 2)
    return "".join(f"\n    {line}" for line in lines)


def brought(spec: AttentionSpec, name: str) -> str:
    """The lines that bring rows of an operand to where each entry has its own: `rows` names what they make."""
    operand = next(each for each in spec.operands if each.name == name)
    if rows(spec, name) == f"%{name}":
        return ""
    size, of = Extents.of(spec), "q" if name == "q" else "k"
    heads, columns = operand.shape[1 if spec.page and of == "k" else 0], operand.shape[-1]
    shape = (*size.entries, heads, size.queries if of == "q" else size.keys, columns)
    kind, element = size.tensor(*shape, element=operand.type.mlir), operand.type.mlir
    at = [f"%b{axis}" for axis in range(len(size.entries))]
    index = "".join(
        f"      {axis} = linalg.index {number} : index\n" for number, axis in enumerate([*at, "%h", "%r", "%e"])
    )
    if of == "k" and spec.page is not None:
        places = ", ".join(at)
        table = tensor(next(each for each in spec.operands if each.name == "table"))
        where = f"""      %size = arith.constant {spec.page} : index
      %column = arith.divui %r, %size : index
      %row = arith.remui %r, %size : index
      %number = tensor.extract %table[{places}, %column] : {table}
      %known = arith.index_cast %number : i32 to index
      %inside = arith.minui %known, %{name}_last : index
      %found = tensor.extract %{name}[%inside, %h, %row, %e] : {tensor(operand)}
"""
    else:
        where = f"""{_extracted("first", f"{of}_starts", "%b0", spec)}      %row = arith.addi %first, %r : index
      %inside = arith.minui %row, %{name}_last : index
      %found = tensor.extract %{name}[%h, %inside, %e] : {tensor(operand)}
"""
    axes = ", ".join(f"d{axis}" for axis in range(len(shape)))
    parallel = ", ".join(['"parallel"'] * len(shape))
    return f"""    %{name}_none = {size.empty(*shape)} : {kind}
    %{name}_rows = linalg.generic {{
      indexing_maps = [affine_map<({axes}) -> ({axes})>], iterator_types = [{parallel}]
    }} outs(%{name}_none : {kind}) {{
    ^bb0(%x: {element}):
{index}{where}      linalg.yield %found : {element}
    }} -> {kind}
"""


def rows(spec: AttentionSpec, name: str) -> str:
    """The name of the value that has an operand's rows by entries."""
    lies_apart = spec.sequences is not None if name == "q" else spec.page is not None or spec.sequences is not None
    return f"%{name}_rows" if lies_apart else f"%{name}"


def seen(spec: AttentionSpec) -> tuple[str, str]:
    """The lines that hide keys behind the last one of an entry, or that a query sees; and the name of what they make of %scaled."""
    outer = len(Extents.of(spec).entries)
    lines = "".join(f"      %b{axis} = linalg.index {axis} : index\n" for axis in range(outer))
    lines += f"      %query = linalg.index {outer + 1} : index\n      %key = linalg.index {outer + 2} : index\n"
    if spec.lengths:
        lines += _extracted("count", "lengths", ", ".join(f"%b{axis}" for axis in range(outer)), spec)
    else:
        lines += _between("count", "k_starts", spec)
    lines += """      %hidden = arith.constant 0xFF800000 : f32
      %is_there = arith.cmpi slt, %key, %count : index
      %there = arith.select %is_there, %scaled, %hidden : f32
"""
    if not spec.causal:
        return lines, "%there"
    last = "%query"
    if spec.causal == "lower_right":
        last, queries = "%last", "%m"
        if spec.sequences is not None:
            lines, queries = lines + _between("own", "q_starts", spec), "%own"
        lines += (
            f"      %later = arith.subi %count, {queries} : index\n      %last = arith.addi %query, %later : index\n"
        )
    lines += f"""      %is_seen = arith.cmpi sle, %key, {last} : index
      %seen = arith.select %is_seen, %there, %hidden : f32
"""
    return lines, "%seen"


def returned(spec: AttentionSpec, value: str) -> str:
    """The lines that return `value`, whose rows are by entries."""
    size, out = Extents.of(spec), spec.result
    shape = (*size.entries, spec.heads, size.queries, spec.value_head)
    kind, element = size.tensor(*shape, element=out.type.mlir), out.type.mlir
    if spec.sequences is None:
        return f"    return {value} : {kind}\n"
    whole, starts = tensor(out), tensor(next(each for each in spec.operands if each.name == "q_starts"))
    counts, ends = size.tensor(size.queries, element="i32"), size.tensor(size.entries[0], element="i32")
    return f"""    %ends = tensor.extract_slice %q_starts[1] [{size.entries[0]}] [1] : {starts} to {ends}
    %nothing = arith.constant 0 : i32
    %no_counts = {size.empty(size.queries)} : {counts}
    %zeros = linalg.fill ins(%nothing : i32) outs(%no_counts : {counts}) -> {counts}
    %sequences = linalg.generic {{
      indexing_maps = [affine_map<(r, s) -> (s)>, affine_map<(r, s) -> (r)>], iterator_types = ["parallel", "reduction"]
    }} ins(%ends : {ends}) outs(%zeros : {counts}) {{
    ^bb0(%end: i32, %count: i32):
      %r = linalg.index 0 : index
      %place = arith.index_cast %r : index to i32
      %is_past = arith.cmpi sle, %end, %place : i32
      %past = arith.extui %is_past : i1 to i32
      %next = arith.addi %count, %past : i32
      linalg.yield %next : i32
    }} -> {counts}
    %no_rows = {size.empty(size.queries)} : {whole}
    %placed = linalg.generic {{
      indexing_maps = [affine_map<(h, r, e) -> (r)>, affine_map<(h, r, e) -> (h, r, e)>],
      iterator_types = ["parallel", "parallel", "parallel"]
    }} ins(%sequences : {counts}) outs(%no_rows : {whole}) {{
    ^bb0(%count: i32, %x: {element}):
      %h = linalg.index 0 : index
      %r = linalg.index 1 : index
      %e = linalg.index 2 : index
      %number = arith.index_cast %count : i32 to index
      %b0 = arith.minui %number, %s_last : index
{_extracted("first", "q_starts", "%b0", spec)}      %row = arith.subi %r, %first : index
      %inside = arith.minui %row, %q_last : index
      %found = tensor.extract {value}[%b0, %h, %inside, %e] : {kind}
      linalg.yield %found : {element}
    }} -> {whole}
    return %placed : {whole}
"""


def tensor(operand: OperandSpec) -> str:
    """The type of an operand."""
    return _tensor(operand.shape, operand.type.mlir)


def _tensor(sizes: Sequence[object], element: str) -> str:
    extents = "".join(f"{each}x" if isinstance(each, int) else "?x" for each in sizes)
    return f"tensor<{extents}{element}>"


def _extracted(name: str, table: str, place: str, spec: AttentionSpec) -> str:
    """The lines that read a number of a table as an index."""
    kind = tensor(next(each for each in spec.operands if each.name == table))
    return (
        f"      %{name}_number = tensor.extract %{table}[{place}] : {kind}\n"
        f"      %{name} = arith.index_cast %{name}_number : {dtype('i32').mlir} to index\n"
    )


def _between(name: str, table: str, spec: AttentionSpec) -> str:
    """The lines that tell how far it is from the start of a sequence to that of the next one."""
    return (
        _extracted(f"{name}_start", table, "%b0", spec)
        + f"      %{name}_after = arith.addi %b0, %one : index\n"
        + _extracted(f"{name}_end", table, f"%{name}_after", spec)
        + f"      %{name} = arith.subi %{name}_end, %{name}_start : index\n"
    )


def _named(size: int | Dim, name: str) -> int | str:
    return name if isinstance(size, Dim) else size
