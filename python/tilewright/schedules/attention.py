# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How attention is cut into blocks: the strategy, and its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright.dims import Dim, most
from tilewright.errors import ScheduleError
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.targets.base import Target

_MOST_ROWS = 12
"""Rows of a register tile: each has an address of its own in the loop over the head."""
_SCRATCH = 1 << 19
"""Bytes of scratch memory that blocks may take before they are made smaller: half of what a call is to take at most."""
_FEW_ROWS = 16
"""Queries of one head of keys, up to which each key is multiplied along the head: more fill the lanes of a vector. With eight, and
keys from memory, that is twice as fast on a Zen 4 core."""


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """The strategy and its sizes.

    Attributes:
        strategy: "blocks": blocks of queries by keys, a query in each lane. "decode": few queries, vectors along the head.
        lanes: Numbers of f32 in a vector.
        mr: Rows of a register tile: keys in Q·Kᵀ, elements of a value in P·V.
        nr: Vectors in such a row: `lanes` queries each.
        kc: Keys of a block.
        columns: Register tiles, side by side, that meet one block of keys.
        merged: Whether the heads that share keys are taken as more queries of one head.
        pairs: Whether elements are multiplied as pairs of bf16, by `intrinsic`; otherwise as f32.
        intrinsic: LLVM's name of the instruction that multiplies pairs.
    """

    strategy: str
    lanes: int
    mr: int
    nr: int
    kc: int
    columns: int
    merged: bool
    pairs: bool
    intrinsic: str = ""

    @property
    def rows(self) -> int:
        """Queries in the lanes of a register tile."""
        return self.nr * self.lanes

    @property
    def depth(self) -> int:
        """Products that one lane takes up at once."""
        return 2 if self.pairs else 1

    @property
    def multiplied(self) -> str:
        """The type as which elements are multiplied."""
        return "bf16" if self.pairs else "f32"

    @property
    def sizes(self) -> dict[str, int]:
        """What can be overridden, by name."""
        return {name: getattr(self, name) for name in ("mr", "nr", "kc", "columns")}


_DECODE_KEYS = 16
"""Keys of a block of strategy "decode": a multiple of the lanes of every vector."""


def plan(spec: AttentionSpec, target: Target, parameters: Mapping[str, int]) -> AttentionPlan:
    """The plan for `spec`, with sizes that `parameters` override.

    Raises:
        ScheduleError: A parameter is unknown or does not fit.
    """
    lanes = target.vector_bits // 32
    intrinsic = _pairs(spec, target)
    if isinstance(spec.queries, int) and 0 < spec.queries * spec.group <= _FEW_ROWS:
        made = AttentionPlan("decode", lanes, 1, 1, _DECODE_KEYS, 1, True, bool(intrinsic), intrinsic)
        return _overridden(made, parameters)
    shared = spec.group if isinstance(spec.queries, int) else 1
    merged = shared > 1 and spec.queries < lanes * 4
    rows = most(spec.queries) * (shared if merged else 1)
    nr = max(1, min(4 if target.vector_registers >= 32 else 2, -(-rows // lanes)))
    made = AttentionPlan(
        strategy="blocks",
        lanes=lanes,
        mr=_rows(target, nr),
        nr=nr,
        kc=_keys(spec, _rows(target, nr)),
        columns=1,
        merged=merged,
        pairs=bool(intrinsic),
        intrinsic=intrinsic,
    )
    while scratch_bytes(spec, made) > _SCRATCH and (made.nr > 1 or made.kc > made.mr):
        # Fewer keys cost less than fewer queries, until little but the sums' rescaling would be left.
        if made.kc > (2 if made.nr > 1 else 1) * made.mr:
            made = replace(made, kc=max(1, made.kc // made.mr // 2) * made.mr)
        else:
            nr = made.nr // 2
            made = replace(made, nr=nr, mr=_rows(target, nr), kc=_keys(spec, _rows(target, nr)))
    columns = max(1, min(-(-rows // made.rows), 256 // made.rows))
    while columns > 1 and scratch_bytes(spec, replace(made, columns=columns)) > _SCRATCH:
        columns -= 1
    return _overridden(replace(made, columns=columns), parameters)


def _rows(target: Target, nr: int) -> int:
    """Rows of a register tile of so many vectors: three quarters of the registers hold sums."""
    return min(_MOST_ROWS, max(2, target.vector_registers * 3 // 4 // nr // 2 * 2))


def _keys(spec: AttentionSpec, mr: int) -> int:
    """Keys of a block: so many that the sums' rescaling costs little, so few that the block's scores stay in L1."""
    most_keys = spec.keys.max if isinstance(spec.keys, Dim) else spec.keys
    return mr * max(1, min(96 // mr, -(-most_keys // mr)))


def _overridden(made: AttentionPlan, parameters: Mapping[str, int]) -> AttentionPlan:
    for name, value in parameters.items():
        if name not in made.sizes:
            raise ScheduleError(f"no parameter {name!r}", where="attention", expected=f"one of {', '.join(made.sizes)}")
        if not isinstance(value, int) or value < 1:
            raise ScheduleError(f"{name} is {value!r}", where="attention", expected="an int above zero")
    made = replace(made, **parameters)
    multiple = made.lanes if made.strategy == "decode" else made.mr
    if made.kc % multiple or made.kc % 2:
        raise ScheduleError(f"kc is {made.kc}", where="attention", expected=f"an even multiple of {multiple}")
    return made


def _pairs(spec: AttentionSpec, target: Target) -> str:
    """The intrinsic that multiplies pairs of bf16, where all elements are bf16 without loss; otherwise nothing."""
    if spec.q != "bf16" or "f32" in (spec.k, spec.v) or "f16" in (spec.k, spec.v):
        return ""
    last = target.dots("bf16", "bf16")[-1]
    return last.intrinsic if last.kind == "dot" and last.depth == 2 else ""


def scratch(spec: AttentionSpec, plan: AttentionPlan) -> dict[str, tuple[tuple[int, ...], str]]:
    """The shapes and element types of what a thread keeps in scratch memory, by name."""
    word = "i32" if plan.pairs else "f32"
    steps = -(-spec.head // plan.depth)
    padded = -(-steps // plan.lanes) * plan.lanes
    values = -(-spec.value_head // plan.lanes) * plan.lanes
    if plan.strategy == "decode":
        queries = spec.queries * spec.group
        return {
            "queries": ((queries, padded), word),
            "sums": ((queries, values), "f32"),
            "largest": ((queries, plan.lanes), "f32"),
            "weights": ((queries, plan.lanes), "f32"),
            "products": ((queries, plan.kc, plan.lanes), "f32"),
            "powers" if plan.pairs else "scores": ((queries, plan.kc), plan.multiplied),
        }
    columns, rows = plan.columns, plan.rows
    found = {
        "queries": ((columns, padded, rows), word),
        "sums": ((columns, values, rows), "f32"),
        "largest": ((columns, rows), "f32"),
        "weights": ((columns, rows), "f32"),
        "limits": ((columns, rows), "i32"),
        "scores": ((plan.kc, rows), "f32"),
    }
    if plan.pairs:
        found["powers"] = ((plan.kc // 2, rows), word)
    if stages_keys(spec, plan):
        found["keys"] = ((plan.kc, padded), word)
    if stages_values(spec, plan):
        found["values"] = ((plan.kc // plan.depth, values), word)
    if spec.mask is not None:
        found["mask"] = ((-(-plan.kc // plan.lanes) * plan.lanes, rows), "f32")
    return found


def stages_keys(spec: AttentionSpec, plan: AttentionPlan) -> bool:
    """Whether blocks of keys are converted before they are multiplied."""
    return spec.k != plan.multiplied or bool(spec.head % plan.depth)


def stages_values(spec: AttentionSpec, plan: AttentionPlan) -> bool:
    """Whether blocks of values are converted, or brought into pairs, before they are multiplied."""
    return spec.v != "f32" or plan.pairs


ALIGNMENT = 64
"""Bytes, a cache line, at which each buffer starts."""


def offsets(spec: AttentionSpec, plan: AttentionPlan) -> tuple[dict[str, int], int]:
    """Where each buffer starts in a thread's scratch memory, in bytes, and how many it takes."""
    found, total = {}, 0
    for name, (shape, _) in scratch(spec, plan).items():
        found[name] = total
        size = 4
        for extent in shape:
            size *= extent
        total += -(-size // ALIGNMENT) * ALIGNMENT
    return found, -(-total // 4096) * 4096 + ALIGNMENT


def scratch_bytes(spec: AttentionSpec, plan: AttentionPlan) -> int:
    """Bytes of a thread's scratch memory."""
    return offsets(spec, plan)[1]
