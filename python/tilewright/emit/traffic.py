# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes what a loop nest moves: what an iteration of each loop touches of each operand, and what comes from beyond each cache.

The method is that of reuse by footprints (M. Wolf, M. Lam, "A data locality optimizing algorithm", PLDI 1991): an access is repeated by
the loops that its address does not depend on. A cache serves a repetition where all that one iteration of that loop touches fits into it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.build.usedef import VIEWS, body, definition, operations, parent, terminator
from tilewright.emit.nest_values import UnknownValueError, Values
from tilewright.mlir import ir

_ROOTS = VIEWS | {"memref.assume_alignment"}
_READS = {"vector.transfer_read": 0, "vector.load": 0, "memref.load": 0, "vector.maskedload": 0}
_WRITES = {"vector.transfer_write": 1, "vector.store": 1, "memref.store": 1, "vector.maskedstore": 0}
"""Accesses by the name of the op, with the operand that is the buffer."""


@dataclass(frozen=True, slots=True)
class Access:
    """An access to memory in a nest.

    Attributes:
        buffer: What is accessed, by a name for people: "A", "packed B".
        bytes: How much at once.
        writes: Whether it stores.
        loops: The loops around it, the outermost first, by number.
        along: Those of them that its address depends on.
        share: In what share of their iterations it happens.
    """

    buffer: str
    bytes: int
    writes: bool
    loops: tuple[int, ...]
    along: frozenset[int]
    share: float


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a nest.

    Attributes:
        name: BLIS's name of it ("ic"), "i", "j" or "k" of a loop over elements, "pack A", "clear C", "batch", or "loop".
        depth: How many loops it is in.
        step: What it steps by, where that is known; otherwise 0.
        trips: How often it runs, on average each time.
        shares: Of a loop that threads share, how many iterations each of the loops right inside does for each thread, the product of
            them; empty for other loops.
    """

    name: str
    depth: int
    step: int
    trips: float
    shares: tuple[float, ...] = ()

    @property
    def balance(self) -> float:
        """What part of their time threads work, if all that one does takes as long: the mean share by the largest."""
        return sum(self.shares) / (len(self.shares) * max(self.shares)) if self.shares else 1.0


@dataclass(frozen=True, slots=True)
class Nest:
    """A nest, or several one after the other.

    Attributes:
        loops: The loops, outer before inner.
        accesses: The accesses to memory.
        sizes: Bytes of each buffer.
    """

    loops: Sequence[Loop]
    accesses: Sequence[Access]
    sizes: Mapping[str, int]

    @property
    def buffers(self) -> tuple[str, ...]:
        """The buffers that are accessed, operands first."""
        names = dict.fromkeys(each.buffer for each in self.accesses)
        return tuple(sorted(names, key=lambda name: (name.startswith("packed"), name)))

    def touched(self, loop: int) -> dict[str, float]:
        """By buffer, the bytes that one iteration of a loop touches, each counted once."""
        found: dict[tuple[str, bool], float] = defaultdict(float)
        for each in self.accesses:
            if loop in each.loops:
                inner = each.loops[each.loops.index(loop) + 1 :]
                times = math.prod(self.loops[number].trips for number in inner if number in each.along)
                found[each.buffer, each.writes] += each.bytes * each.share * times
        # What is written is what is read, before or after.
        return {
            name: min(max(found.get((name, True), 0), found.get((name, False), 0)), self.sizes[name])
            for name in dict.fromkeys(name for name, _ in found)
        }

    def times(self, loop: int) -> float:
        """How many iterations of a loop a call has."""
        found, depth = self.loops[loop].trips, self.loops[loop].depth
        for outer in reversed(self.loops[:loop]):
            if outer.depth < depth:
                found, depth = found * outer.trips, outer.depth
        return found

    def reused(self, loop: int) -> tuple[str, ...]:
        """The buffers of which every iteration of a loop accesses the same part."""
        inside = [each for each in self.accesses if loop in each.loops and each.share > 0]
        moving = {each.buffer for each in inside if loop in each.along}
        return tuple(dict.fromkeys(each.buffer for each in inside if each.buffer not in moving))

    @property
    def footprint(self) -> int:
        """The bytes of all buffers."""
        return sum(self.sizes.values())

    def moved(self, capacity: int, *, private: bool = True) -> dict[str, float]:
        """By buffer, the bytes that come from, or go to, beyond a cache of `capacity` bytes, which holds nothing before the call.

        Of a `private` cache each thread has one, which holds nothing for the others; the bytes are those of all threads.
        """
        held = {
            number: sum(self.touched(number).values()) <= capacity and not (loop.shares and private)
            for number, loop in enumerate(self.loops)
        }
        found: dict[str, float] = defaultdict(float)
        for each in self.accesses:
            times = math.prod(
                self.loops[number].trips for number in each.loops if number in each.along or not held[number]
            )
            found[each.buffer] += each.bytes * each.share * times
        return dict(found)


def read(module: ir.Module, operands: Sequence[str]) -> Nest | None:
    """The nest of a bufferized module's function.

    Args:
        module: The module.
        operands: The names of the function's operands, in order; what follows is scratch memory.

    Returns:
        The nest; None where its loops, or what is done in them, are not known here: dynamic extents, calls of functions.
    """
    function = next(
        op for op in module.body.operations if op.operation.name == "func.func" and op.operation.regions[0].blocks
    )
    try:
        return _Reader(function.operation, operands).nest()
    except UnknownValueError:
        return None


_LOOP, _PACKED, _SUMS = "loop", "packed ", "sums"
_SHARED = "omp.loop_nest"
"""A loop that threads share."""
_FOR = ("scf.for", _SHARED)
_UNKNOWN = ("scf.forall", "scf.parallel", "scf.while", "func.call", "linalg.", "llvm.")
"""What the names of ops begin with that move what is not known here."""
_OF_OPENMP = "@omp_"
"""What the names of functions begin with that move nothing."""


class _Reader:
    """Reads a nest off a function."""

    def __init__(self, function: ir.Operation, operands: Sequence[str]) -> None:
        self._function = function
        self._ops = operations(function)
        arguments = list(function.regions[0].blocks[0].arguments)
        self._names = dict(zip(arguments, operands, strict=False))
        self._named: dict[ir.Value, str] = {}
        loops = [op for op in self._ops if op.name in _FOR]
        self._numbers = {op.regions[0].blocks[0].arguments[0]: number for number, op in enumerate(loops)}
        bounds: dict[ir.Value, tuple[ir.Value, ir.Value, ir.Value]] = {
            op.regions[0].blocks[0].arguments[0]: (op.operands[0], op.operands[1], op.operands[2]) for op in loops
        }
        self._values = Values(bounds)
        self._loops = loops
        self._bytes_of_buffers: dict[str, int] = {}

    def nest(self) -> Nest:
        if any(op.name.startswith(_UNKNOWN) and not _asks_openmp(op) for op in self._ops):
            raise UnknownValueError
        accesses = [each for op in self._ops if (each := self._access(op)) is not None]
        around = [self._around(op) for op in self._loops]
        names = _named(around, accesses, [self._values.of(op.operands[2], {}) for op in self._loops])
        loops = [self._loop(op, len(outer), name) for op, outer, name in zip(self._loops, around, names, strict=True)]
        return Nest(loops, accesses, self._bytes_of_buffers)

    def _loop(self, op: ir.Operation, depth: int, name: str) -> Loop:
        variable = op.regions[0].blocks[0].arguments[0]
        step, trips = self._values.of(op.operands[2], {}), self._values.trips(variable)
        if op.name == _SHARED:
            return Loop("threads", depth, step, trips, self._shares(op))
        return Loop(name, depth, step, trips)

    def _shares(self, op: ir.Operation) -> tuple[float, ...]:
        """The iterations of the loops right inside, for each iteration of a loop that threads share."""
        variable = op.regions[0].blocks[0].arguments[0]
        number, inside = self._numbers[variable], list[ir.Value]()
        for each in self._loops:
            if number in self._around(each):
                inside.append(each.regions[0].blocks[0].arguments[0])
        first = list[ir.Value]()
        for inner in inside:
            depends = self._values.variables(self._values.bounds[inner])
            if variable in depends and not any(each in depends for each in inside):
                first.append(inner)
        shares = [self._values.trips_each(inner, variable) for inner in first]
        return tuple(math.prod(each) for each in zip(*shares, strict=True))

    def _around(self, op: ir.Operation) -> tuple[int, ...]:
        """The numbers of the loops around an op, the outermost first."""
        found, inner = list[int](), op
        while inner != self._function:
            inner = parent(inner)
            if inner.name in _FOR:
                found.append(self._numbers[inner.regions[0].blocks[0].arguments[0]])
        return tuple(reversed(found))

    def _share(self, op: ir.Operation) -> float:
        """In what share of the iterations of the loops around it an op runs: that of the conditions around it."""
        share, inner = 1.0, op
        while inner != self._function:
            outer = parent(inner)
            if outer.name == "scf.if":
                holds = self._values.share(outer.operands[0])
                share *= holds if inner.block == outer.regions[0].blocks[0] else 1 - holds
            inner = outer
        return share

    def _access(self, op: ir.Operation) -> Access | None:
        at = _READS.get(op.name, _WRITES.get(op.name))
        if at is None or not isinstance(op.operands[at].type, ir.MemRefType):
            return None
        buffer, values = self._root(op.operands[at])
        around = self._around(op)
        variables = self._values.variables([*list(op.operands)[at:], *values])
        own = {self._numbers[each] for each in variables}
        name = self._name(buffer)
        kind = ir.MemRefType(buffer.type)
        if not kind.has_static_shape:
            raise UnknownValueError
        self._bytes_of_buffers[name] = math.prod(kind.shape) * _bytes(kind.element_type)
        return Access(
            name,
            _bytes(op.operands[0].type if op.name in _WRITES else op.results[0].type),
            op.name in _WRITES,
            around,
            frozenset(own.intersection(around)),
            self._share(op),
        )

    def _root(self, buffer: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
        """The buffer that a view is of, and the values that say which part it is."""
        values = list[ir.Value]()
        while (op := definition(buffer)) is not None and op.name in _ROOTS:
            values += list(op.operands)[1:]
            buffer = op.operands[0]
        return buffer, values

    def _name(self, buffer: ir.Value) -> str:
        """A name for people: of an operand, or of what is packed into a buffer of ours."""
        if buffer in self._names:
            return self._names[buffer]
        if buffer not in self._named:
            packed = sorted(set(self._sources(buffer)))
            name = f"{_PACKED}{' and '.join(packed)}" if packed else "scratch memory"
            self._named[buffer] = _SUMS if _SUMS in packed else name
        return self._named[buffer]

    def _sources(self, buffer: ir.Value) -> Iterator[str]:
        """The operands that are read for what is written to a buffer; `_SUMS` where that is of products."""
        for op in self._ops:
            if op.name in _WRITES and self._root(op.operands[_WRITES[op.name]])[0] == buffer:
                work = [op.operands[0]]
                while work:
                    made = definition(work.pop())
                    if made is None:
                        continue
                    if made.name == "vector.contract":
                        yield _SUMS
                    if made.name in _READS:
                        root = self._root(made.operands[0])[0]
                        if root in self._names:
                            yield self._names[root]
                    else:
                        work += [
                            each for each in made.operands if not isinstance(each.type, (ir.IndexType, ir.MemRefType))
                        ]
                        work += list(terminator(body(made)).operands)[:1] if made.regions else []


def _named(around: Sequence[Sequence[int]], accesses: Sequence[Access], steps: Sequence[int]) -> list[str]:
    """The names of loops, by what they go along: M is what A and C have, N what B and C have, K what A and B have.

    Of two loops along M or N that are in each other, BLIS calls the outer one ic or jc, and the inner one ir or jr; along K, pc has loops
    along M or N in it, and a loop over parts of K has pc in it. A loop in which nothing but packing happens is called after that.
    """
    along = [_along(number, accesses) for number in range(len(steps))]
    inside = [[inner for inner, outer in enumerate(around) if number in outer] for number in range(len(steps))]
    names: list[str] = []
    for number, step in enumerate(steps):
        what, inner = along[number], {along[each] for each in inside[number]}
        if what in ("i", "j"):
            names.append(f"{what}c" if what in inner else f"{what}r" if step > 1 else what)
        else:
            names.append("pc" if what == "k" and inner & {"i", "j"} else what)
    parts = {at for at, name in enumerate(names) if name == "pc" and "pc" in (names[each] for each in inside[at])}
    return ["part" if at in parts else name for at, name in enumerate(names)]


def _along(loop: int, accesses: Sequence[Access]) -> str:
    """What a loop goes along: "i" is M, "j" N, "k" K; or what it packs; otherwise `_LOOP`."""
    inside = [each for each in accesses if loop in each.loops]
    operands = {each.buffer.removeprefix(_PACKED) for each in inside}
    packs = any(each.writes and each.buffer.startswith(_PACKED) for each in inside)
    if packs and len(operands) == 1:
        return f"pack {operands.pop()}"
    moving = {each.buffer.removeprefix(_PACKED) for each in inside if loop in each.along}
    if operands == {"C"} and all(each.writes for each in inside):
        return "clear C"
    known = {"AC": "i", "BC": "j", "AB": "k", "A": "i", "B": "j", "ABC": "batch"}
    return known.get("".join(each for each in "ABC" if each in moving), _LOOP)


def _asks_openmp(op: ir.Operation) -> bool:
    """Whether an op asks OpenMP about threads."""
    return op.name == "func.call" and str(op.attributes["callee"]).startswith(_OF_OPENMP)


def _bytes(kind: ir.Type) -> int:
    """Bytes of a vector or a number."""
    shape, element = ([], kind)
    if isinstance(kind, ir.VectorType):
        shape, element = kind.shape, kind.element_type
    width = getattr(element, "width", 64)
    return math.prod(shape) * width // 8
