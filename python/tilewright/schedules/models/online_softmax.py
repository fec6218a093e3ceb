# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The register tiles and the scratch memory of an online softmax, for the model of its sizes and for its code."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Protocol

from tilewright.dtypes import SMALL_FLOATS
from tilewright.errors import ScheduleError
from tilewright.schedules.decisions import OnlineSoftmax
from tilewright.schedules.models.prefetching import stream_ahead
from tilewright.targets.base import Target

_PAIRED = ("bf16", *SMALL_FLOATS)
"""Element types whose numbers are all bf16 too."""
ALIGNMENT = 64
"""Bytes, a cache line, at which each buffer starts."""
_PAGE = 4096
TILE = 16
"""Rows of a tile register, and words of such a row."""
_MOST_BYTES = 1 << 30
"""Scratch memory of a thread."""
_MOST_QUERIES = 64
"""Queries that share a head of keys, with vectors along the head: each has code of its own."""
_MOST_KEYS = 256
"""Keys of a block then, likewise."""
_KEYS_OF_VECTOR = 4
"""Keys whose scores share a vector then, at most: each has an address of its own."""


class Operands(Protocol):
    """What scratch memory depends on: an `AttentionSpec` has it, and the chain that is read from a payload.

    Attributes:
        queries: Queries of a head: an int where it is known.
        packed: Whether they are those of sequences that lie end to end.
        group: How many heads of queries share one of keys.
        head: Elements of a query and of a key.
        value_head: Elements of a value.
        q: Element type of the queries.
        k: Of the keys.
        v: Of the values.
        mask: Of the mask; None without.
    """

    @property
    def queries(self) -> object: ...  # noqa: D102
    @property
    def packed(self) -> bool: ...  # noqa: D102
    @property
    def group(self) -> int: ...  # noqa: D102
    @property
    def head(self) -> int: ...  # noqa: D102
    @property
    def value_head(self) -> int: ...  # noqa: D102
    @property
    def q(self) -> str: ...  # noqa: D102
    @property
    def k(self) -> str: ...  # noqa: D102
    @property
    def v(self) -> str: ...  # noqa: D102
    @property
    def mask(self) -> str | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Tiling(OnlineSoftmax):
    """A decision on a target.

    Attributes:
        lanes: Numbers of f32 in a vector of the target.
        intrinsic: LLVM's name of the instruction that multiplies pairs of bf16; empty where elements are multiplied as f32.
        registers: Vector registers of the target.
        ahead: Bytes ahead of their use at which keys and values that are read once are prefetched.
    """

    lanes: int = 1
    intrinsic: str = ""
    registers: int = 16
    ahead: int = 0

    @property
    def along_head(self) -> bool:
        """Whether elements of a query lie in the lanes of vectors, and not queries."""
        return self.vectorize == "head"

    @property
    def rows(self) -> int:
        """Queries in the lanes of a register tile."""
        return self.nr * self.lanes

    @property
    def in_tiles(self) -> bool:
        """Whether AMX's tile registers multiply."""
        return self.instructions == "tiles"

    @property
    def pairs(self) -> bool:
        """Whether elements are multiplied as pairs of bf16."""
        return self.multiplied == "bf16"

    @property
    def depth(self) -> int:
        """Products that one lane takes up at once."""
        return 2 if self.pairs else 1


@dataclass(frozen=True, slots=True)
class Lanes:
    """Which scores a vector of them holds, with vectors along the head: those of some keys with a group of queries.

    Lane ``(key div depth)·depth·rows + row·depth + key mod depth`` has the score of query `row` of the group and key number `key` of the
    vector. Vectors behind each other are then the weights in the order in which keys are read, pairs of keys side by side.

    Attributes:
        rows: Queries of a group, a power of two: the last group may have fewer.
        keys: Keys of a vector.
        depth: Products that one lane takes up at once.
    """

    rows: int
    keys: int
    depth: int

    @classmethod
    def of(cls, rows: int, tiling: Tiling) -> Lanes:
        """The lanes for so many queries: as few keys as there can be, but whole pairs."""
        group = 1 << (min(rows, tiling.lanes // tiling.depth) - 1).bit_length()
        keys = min(tiling.lanes // group, _KEYS_OF_VECTOR)
        return cls(tiling.lanes // keys, keys, tiling.depth)

    def groups(self, rows: int) -> int:
        """Groups of so many queries."""
        return -(-rows // self.rows)

    @property
    def places(self) -> list[tuple[int, int]]:
        """The query of the group, and the key, of each lane."""
        found = {}
        for row in range(self.rows):
            for key in range(self.keys):
                pair, odd = divmod(key, self.depth)
                found[(pair * self.rows + row) * self.depth + odd] = row, key
        return [found[lane] for lane in range(len(found))]

    @property
    def distances(self) -> list[int]:
        """The powers of two by which lanes of the same query differ."""
        steps = [1 << bit for bit in range((self.rows * self.keys).bit_length() - 1)]
        return [each for each in steps if self.places[0][0] == self.places[each][0]]


def on(decision: OnlineSoftmax, lanes: int, intrinsic: str = "", registers: int = 16, ahead: int = 0) -> Tiling:
    """The decision on a target with so many registers for vectors of so many `lanes`, and perhaps an instruction on pairs."""
    return Tiling(**asdict(decision), lanes=lanes, intrinsic=intrinsic, registers=registers, ahead=ahead)


def of(decision: OnlineSoftmax, operands: Operands, target: Target) -> Tiling:
    """The decision on a target, for operands that it can compute.

    Raises:
        ScheduleError: A size does not fit the target or the operands; the error says which and what would.
    """
    intrinsic = pair_instruction(target) if decision.multiplied == "bf16" else ""
    tiling = on(decision, target.vector_bits // 32, intrinsic, target.vector_registers, stream_ahead(target))
    if tiling.pairs and not (can_pair(operands) and (tiling.intrinsic or tiling.in_tiles)):
        kinds = ", ".join((operands.q, operands.k, operands.v))
        raise _wrong(
            "multiplied",
            f"bf16 for {kinds} on {target.name}",
            "f32, or operands of bf16 and a target with dot products of it",
        )
    if tiling.kc % (multiple := key_multiple(tiling)):
        raise _wrong("kc", tiling.kc, f"a multiple of {multiple}")
    if tiling.in_tiles:
        _check_tiles(tiling, target)
    elif tiling.mr * tiling.nr > target.vector_registers:
        raise _wrong(
            "mr, nr", f"{tiling.mr}, {tiling.nr}", f"at most the {target.vector_registers} sums that registers hold"
        )
    if tiling.along_head:
        _check_along_head(tiling, operands)
    if scratch_bytes(operands, tiling) > _MOST_BYTES:
        raise _wrong(
            "kc, columns", f"{tiling.kc}, {tiling.columns}", f"less than {_MOST_BYTES} bytes of scratch memory"
        )
    return tiling


def _check_tiles(tiling: Tiling, target: Target) -> None:
    if not can_tile(target):
        raise _wrong("instructions", f"tiles on {target.name}", "vectors, or a target with AMX's products of bf16")
    if tiling.mr != 2 * TILE or tiling.nr > 2:
        raise _wrong(
            "mr, nr",
            f"{tiling.mr}, {tiling.nr}",
            f"{2 * TILE} and at most 2 with tiles: eight registers hold two by two",
        )


def _check_along_head(tiling: Tiling, operands: Operands) -> None:
    if not isinstance(operands.queries, int) or operands.packed:
        raise _wrong("vectorize", "head for a dynamic number of queries", "queries, or a known number of them")
    if rows_along_head(operands, tiling) > _MOST_QUERIES:
        raise _wrong(
            "vectorize",
            f"head for {rows_along_head(operands, tiling)} queries",
            f"queries: head is for up to {_MOST_QUERIES}",
        )
    if tiling.kc > _MOST_KEYS:
        raise _wrong("kc", tiling.kc, f"at most {_MOST_KEYS} keys with vectors along the head")


def key_multiple(tiling: Tiling) -> int:
    """What divides the keys of a block: whole register tiles, or vectors of scores, and whole pairs."""
    multiple = tiling.lanes if tiling.along_head else tiling.mr
    return multiple if multiple % 2 == 0 else 2 * multiple


def can_pair(operands: Operands) -> bool:
    """Whether all elements are bf16 without loss."""
    return operands.q == "bf16" and operands.k in _PAIRED and operands.v in _PAIRED


def can_tile(target: Target) -> bool:
    """Whether the target has tile registers for products of bf16, and vectors of as many words as a row of them for all else."""
    return target.dot("bf16", "bf16").is_tile and target.vector_bits == 32 * TILE and "avx512dq" in target.features


def pair_instruction(target: Target) -> str:
    """LLVM's name of the instruction that multiplies pairs of bf16; empty where the target has none."""
    last = target.dots("bf16", "bf16")[-1]
    return last.intrinsic if last.kind == "dot" and last.depth == 2 else ""


def rows_along_head(operands: Operands, tiling: Tiling) -> int:
    """Queries that meet one head of keys, with vectors along the head."""
    assert isinstance(operands.queries, int), "checked"
    return operands.queries * (operands.group if tiling.merged else 1)


def buffers(operands: Operands, tiling: Tiling) -> dict[str, tuple[tuple[int, ...], str]]:
    """The shapes and element types of what a thread keeps in scratch memory, by name."""
    word = "i32" if tiling.pairs else "f32"
    steps = -(-operands.head // tiling.depth)
    padded = -(-steps // tiling.lanes) * tiling.lanes
    unit = 2 * TILE if tiling.in_tiles else tiling.lanes
    values = -(-operands.value_head // unit) * unit
    if tiling.along_head:
        queries = rows_along_head(operands, tiling)
        of_lanes = Lanes.of(queries, tiling)
        groups, scores = of_lanes.groups(queries), tiling.kc * of_lanes.rows
        found = {
            "queries": ((queries, padded), word),
            "sums": ((queries, values), "f32"),
            "largest": ((groups, tiling.lanes), "f32"),
            "rescale": ((groups, tiling.lanes), "f32"),
            "weights": ((groups, tiling.lanes), "f32"),
            "scores": ((groups, scores), "f32"),
        }
        return {**found, "powers": ((groups, scores), "bf16")} if tiling.pairs else found
    columns, rows = tiling.columns, tiling.rows
    found = {
        "queries": ((columns, padded, rows), word),
        "sums": ((columns, values, rows), "f32"),
        "largest": ((columns, rows), "f32"),
        "weights": ((columns, rows), "f32"),
        "limits": ((columns, rows), "i32"),
        "scores": ((tiling.kc, rows), "f32"),
    }
    if tiling.pairs:
        found["powers"] = ((tiling.kc // 2, rows), word)
    if stages_keys(operands, tiling):
        found["keys"] = ((tiling.kc, padded), word)
    if tiling.in_tiles:
        found["values"] = ((values // TILE, tiling.kc // TILE // 2, TILE, TILE), word)
    elif stages_values(operands, tiling):
        found["values"] = ((tiling.kc // tiling.depth, values), word)
    if operands.mask is not None:
        found["mask"] = ((-(-tiling.kc // tiling.lanes) * tiling.lanes, rows), "f32")
    return found


def stages_keys(operands: Operands, tiling: Tiling) -> bool:
    """Whether blocks of keys are converted before they are multiplied."""
    return tiling.in_tiles or operands.k != tiling.multiplied or bool(operands.head % tiling.depth)


def stages_values(operands: Operands, tiling: Tiling) -> bool:
    """Whether blocks of values are converted, or brought into pairs, before they are multiplied."""
    return operands.v != "f32" or tiling.pairs


def offsets(operands: Operands, tiling: Tiling) -> tuple[dict[str, int], int]:
    """Where each buffer starts in a thread's scratch memory, in bytes, and how many it takes."""
    found, total = {}, 0
    for name, (shape, _) in buffers(operands, tiling).items():
        found[name] = total
        size = 4
        for extent in shape:
            size *= extent
        total += -(-size // ALIGNMENT) * ALIGNMENT
    return found, -(-total // _PAGE) * _PAGE + ALIGNMENT


def scratch_bytes(operands: Operands, tiling: Tiling) -> int:
    """Bytes of a thread's scratch memory."""
    return offsets(operands, tiling)[1]


def _wrong(name: str, value: object, expected: str) -> ScheduleError:
    return ScheduleError(f"{name} is {value}", where="online_softmax", expected=expected)
