# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shares a call of a kernel with dynamic extents between threads, each of which computes rows or columns of C by all of the code.

How much there is to share is known only now: a call with little stays on its thread, and whether rows or columns are cut depends on which
parts are then squarer. The loops of such code are not shared (`lowering.passes.parallel`), of which nobody knows how far they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

from tilewright.dims import Dim
from tilewright.lowering.entries import added_text
from tilewright.lowering.entries.extents import bounds
from tilewright.lowering.passes.parallel import READING
from tilewright.mlir import ir
from tilewright.operand import OperandSpec
from tilewright.schedules.models import threads as model
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_POINTER = "!llvm.ptr"
_PART = "_part"
"""What the name of the code that each thread runs ends with."""
_ROWS, _VECTORS = 8, 4
"""Rows, and vectors of columns, that parts are multiples of: about those of register tiles."""
_LIMITS = ("omp_get_max_threads", "omp_in_parallel")
_PAGE = 4096
"""Bytes that each thread's scratch memory is a multiple of."""


@dataclass(frozen=True, slots=True)
class _Passed:
    """A memref as a function takes it, with names for what it is expanded into.

    Attributes:
        number: Which argument it is.
        rank: How many dimensions it has.
        axes: Which of these are of rows, columns and depth: each one's number by its letter.
        bytes: Those of an element.
    """

    number: int
    rank: int
    axes: dict[str, int]
    bytes: int

    @property
    def names(self) -> list[str]:
        """Allocated and aligned pointer, offset, sizes, strides."""
        return [f"%p{self.number}_{each}" for each in range(3 + 2 * self.rank)]

    @property
    def types(self) -> list[str]:
        """The types of these."""
        return [_POINTER, _POINTER, *["i64"] * (1 + 2 * self.rank)]

    def size(self, dimension: int) -> str:
        """The name of a size."""
        return self.names[3 + dimension]

    def stride(self, dimension: int) -> str:
        """The name of a stride."""
        return self.names[3 + self.rank + dimension]


def _scratch(each: int) -> int:
    """Bytes from the scratch memory of one part to that of the next one."""
    return -(-each // _PAGE) * _PAGE


def share(module: ir.Module, spec: MatmulSpec, target: Target, threads: int, body: str, each: int = 0) -> int:
    """Lets up to `threads` threads share calls of a function of a module in the LLVM dialect.

    Before: ``body(A, B, C)``. After, with two threads that are worth it and rows that are cut::

        body(A, B, C): omp.parallel: omp.wsloop: for part in 0..2: body_part(A[rows of part, :], B, C[rows of part, :])

    Args:
        module: The module, which is changed.
        spec: What the function computes.
        target: For which target.
        threads: How many threads, at most.
        body: The function's name.
        each: Bytes of scratch memory that a part takes as its last argument; 0 for none.

    Returns the bytes of scratch memory that all parts take.
    """
    function = next(op for op in added_text.ops(module) if added_text.name_of(op) == body)
    attributes = _attributes(function)
    ir.SymbolTable.set_symbol_name(function, body + _PART)
    _bound(function, spec)
    limits = [name for name in _LIMITS if name not in map(added_text.name_of, added_text.ops(module))]
    declared = "\n".join(f'llvm.func @{name}() -> i32 attributes {{sym_visibility = "private"}}' for name in limits)
    passed = _memrefs(spec)
    if each:
        passed.append(_Passed(len(passed), 1, {}, 1))
    added_text.add(module, declared + _text(spec, target, threads, body, attributes, passed, each))
    return threads * _scratch(each)


def _bound(function: ir.Operation, spec: MatmulSpec) -> None:
    """Says between what the sizes are that a function takes: those of a part as those of a call.

    Without it the code has loops for what cannot be: for all of a vector's columns where there are fewer, or for no rows.
    """
    ranges = bounds(spec)
    bounded = {memref.size(axis): ranges[letter] for memref in _memrefs(spec) for letter, axis in memref.axes.items()}
    names = [name for memref in _memrefs(spec) for name in memref.names]
    missing = len(function.regions[0].blocks[0].arguments) - len(names)
    given = [bounded.get(name, "{}") for name in names] + ["{}"] * missing
    function.attributes["arg_attrs"] = ir.Attribute.parse(f"[{', '.join(given)}]", function.context)


def _attributes(op: ir.Operation) -> str:
    """The attributes of a function that are the target's, as text."""
    names = ("target_cpu", "tune_cpu", "prefer_vector_width", "target_features", "passthrough")
    return ", ".join(f"{name} = {op.attributes[name]}" for name in names if name in op.attributes)


def _memrefs(spec: MatmulSpec) -> list[_Passed]:
    """The memrefs that a kernel's function takes: operands and result."""
    return [_memref(spec, at, each) for at, each in enumerate((*spec.operands, spec.result))]


def _memref(spec: MatmulSpec, number: int, operand: OperandSpec) -> _Passed:
    if spec.b_packed and operand.name == "b":
        return _Passed(number, 1, {}, 1)
    rank = len(operand.looped(spec.batch))
    first = rank - len(operand.axes)
    axes = {letter: first + at for at, letter in enumerate(operand.axes) if letter in "mnk"}
    return _Passed(number, rank, axes, -(-operand.type.bits // 8))


def _text(
    spec: MatmulSpec,
    target: Target,
    threads: int,
    body: str,
    attributes: str,
    passed: Sequence[_Passed],
    each: int,
) -> str:
    """The function that shares calls."""
    matrices = passed[: len(passed) - bool(each)]
    types = ", ".join(kind for memref in passed for kind in memref.types)
    names = [name for memref in passed for name in memref.names]
    parameters = ", ".join(
        f"{name}: {kind}" for memref in passed for name, kind in zip(memref.names, memref.types, strict=True)
    )
    call = f"llvm.call @{body}{_PART}({{}}) : ({types}) -> ()"
    first, then, inside = _Lines("f"), _Lines("g"), _Lines("h")
    two = first.constant(2)
    extents = {letter: _extent(first, spec, letter, matrices) for letter in "mnk"}
    wanted = _worth(first, spec, target, extents, matrices)
    parts = _parts(then, spec, target, threads, extents, wanted)
    of_part = _of_part(inside, matrices, passed, extents, parts, each)
    return f"""
  llvm.func internal @{body}({parameters}) attributes {{{attributes}}} {{
    {first}
    %busy = llvm.icmp "uge" {wanted}, {two} : i64
    llvm.cond_br %busy, ^busy, ^alone
  ^busy:
    {then}
    %several = llvm.icmp "uge" {parts.count}, {two} : i64
    llvm.cond_br %several, ^several, ^alone
  ^several:
    %start = llvm.mlir.constant(0 : i64) : i64
    %step = llvm.mlir.constant(1 : i64) : i64
    %threads = llvm.trunc {parts.count} : i64 to i32
    omp.parallel num_threads(%threads : i32) {{
      omp.wsloop nowait {{
        omp.loop_nest (%part) : i64 = (%start) to ({parts.count}) step (%step) {{
          {inside}
          {call.format(", ".join(of_part[name] for name in names))}
          omp.yield
        }}
      }}
      omp.terminator
    }}
    llvm.return
  ^alone:
    {call.format(", ".join(names))}
    llvm.return
  }}
"""


class _Lines:
    """Lines of text, which name what they compute."""

    def __init__(self, prefix: str) -> None:
        self._lines: list[str] = []
        self._prefix = prefix

    def __str__(self) -> str:
        return "\n    ".join(self._lines)

    def add(self, text: str) -> str:
        """Appends what computes a value, and returns its name."""
        name = f"%{self._prefix}{len(self._lines)}"
        self._lines.append(f"{name} = {text}")
        return name

    def constant(self, value: int) -> str:
        """A number."""
        return self.add(f"llvm.mlir.constant({value} : i64) : i64")

    def binary(self, op: str, left: str, right: str) -> str:
        """An op of two numbers."""
        return self.add(f"llvm.{op} {left}, {right} : i64")

    def product(self, *factors: str) -> str:
        """The product of some numbers."""
        first, *others = factors
        for each in others:
            first = self.binary("mul", first, each)
        return first

    def least(self, left: str, right: str) -> str:
        """The smaller one of two."""
        return self.add(f"llvm.intr.umin({left}, {right}) : (i64, i64) -> i64")

    def quotient_up(self, over: str, under: str) -> str:
        """The quotient of two numbers, rounded up."""
        more = self.binary("sub", self.binary("add", over, under), self.constant(1))
        return self.binary("udiv", more, under)

    def chosen(self, condition: str, yes: str, no: str, kind: str = "i64") -> str:
        """One of two values."""
        return self.add(f"llvm.select {condition}, {yes}, {no} : i1, {kind}")


def _extent(lines: _Lines, spec: MatmulSpec, letter: str, matrices: Sequence[_Passed]) -> str:
    """M, N or K of a call."""
    extent = getattr(spec, letter)
    if not isinstance(extent, Dim):
        return lines.constant(extent)
    return next(each.size(each.axes[letter]) for each in matrices if letter in each.axes)


def _worth(
    lines: _Lines, spec: MatmulSpec, target: Target, extents: dict[str, str], matrices: Sequence[_Passed]
) -> str:
    """How many threads have enough to do, as `models.threads.used` computes it of known extents."""
    entries = [matrices[-1].size(axis) for axis in range(matrices[-1].rank - len(spec.result.axes))]
    steps = lines.product(*entries, *extents.values())
    at_peak = lines.binary("udiv", steps, lines.constant(model.products_per_cycle(spec, target)))
    moved = lines.constant(0)
    for each in (matrices[0], matrices[1], matrices[-1]):
        sizes = [each.size(axis) for axis in range(each.rank)]
        moved = lines.binary("add", moved, lines.product(lines.constant(each.bytes), *sizes))
    from_memory = lines.binary("udiv", moved, lines.constant(model.BYTES_PER_CYCLE))
    cycles = lines.add(f"llvm.intr.umax({at_peak}, {from_memory}) : (i64, i64) -> i64")
    return lines.binary("udiv", cycles, lines.constant(model.LEAST_CYCLES))


@dataclass(frozen=True, slots=True)
class _Parts:
    """Names of what says how a call is cut.

    Attributes:
        by_rows: Whether rows of C are, and not columns.
        size: How many of them there are.
        each: How many of them each part but the last has.
        count: How many parts there are.
    """

    by_rows: str
    size: str
    each: str
    count: str


def _parts(
    lines: _Lines, spec: MatmulSpec, target: Target, threads: int, extents: dict[str, str], wanted: str
) -> _Parts:
    """Into which parts the call is cut: those of which the largest takes the least time (`passes.parallel.grid`)."""
    limit, inside = (lines.add(f"llvm.call @{name}() : () -> i32") for name in _LIMITS)
    limit = lines.add(f"llvm.zext {limit} : i32 to i64")
    none = lines.add("llvm.mlir.constant(0 : i32) : i32")
    shared = lines.add(f'llvm.icmp "ne" {inside}, {none} : i32')
    most = lines.chosen(shared, lines.constant(1), lines.least(limit, lines.constant(threads)))
    most = lines.least(most, wanted)
    units = {"m": _ROWS, "n": _VECTORS * target.lanes(spec.acc_type)}
    found = dict[str, tuple[str, str]]()
    for letter, other in ("mn", "nm"):
        if letter in model.divided(spec):
            unit = lcm(units[letter], getattr(spec, letter).multiple)
            tiles = lines.quotient_up(extents[letter], lines.constant(unit))
            each = lines.product(lines.quotient_up(tiles, most), lines.constant(unit))
            beside = lines.product(lines.constant(READING), lines.binary("add", each, extents[other]))
            found[letter] = each, lines.binary("add", lines.product(each, extents[other]), beside)
    if len(found) > 1:
        by_rows = lines.add(f'llvm.icmp "ule" {found["m"][1]}, {found["n"][1]} : i64')
    else:
        by_rows = lines.add(f"llvm.mlir.constant({str('m' in found).lower()}) : i1")
    each = lines.chosen(by_rows, *(found[letter][0] if letter in found else extents[letter] for letter in "mn"))
    size = lines.chosen(by_rows, extents["m"], extents["n"])
    return _Parts(by_rows, size, each, lines.quotient_up(size, each))


def _of_part(
    lines: _Lines,
    matrices: Sequence[_Passed],
    passed: Sequence[_Passed],
    extents: dict[str, str],
    parts: _Parts,
    scratch: int,
) -> dict[str, str]:
    """What the code is called with for ``%part``, for each argument."""
    zero = lines.constant(0)
    start = lines.product("%part", parts.each)
    size = lines.least(parts.each, lines.binary("sub", parts.size, start))
    first = {"m": lines.chosen(parts.by_rows, start, zero), "n": lines.chosen(parts.by_rows, zero, start)}
    sizes = {
        "m": lines.chosen(parts.by_rows, size, extents["m"]),
        "n": lines.chosen(parts.by_rows, extents["n"], size),
    }
    values = dict[str, str]()
    for memref in passed:
        offset = memref.names[2]
        values |= {name: name for name in memref.names}
        for letter, dimension in memref.axes.items():
            if letter in first:
                offset = lines.binary("add", offset, lines.product(first[letter], memref.stride(dimension)))
                values[memref.size(dimension)] = sizes[letter]
        if memref not in matrices:
            offset = lines.product("%part", lines.constant(_scratch(scratch)))
        ahead = lines.product(offset, lines.constant(memref.bytes))
        pointer = lines.add(f"llvm.getelementptr {memref.names[1]}[{ahead}] : (!llvm.ptr, i64) -> !llvm.ptr, i8")
        values |= dict.fromkeys(memref.names[:2], pointer) | {memref.names[2]: zero}
    return values
