# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decisions of schedules that the IR carries: typed attributes of the dialect, as dataclasses.

A transform op records a decision on the payload (`steps.decide`); the lowering reads it there, and nowhere else. A schedule's text alone
determines the kernel.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from tilewright.build.usedef import named
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright

PRODUCT, SOFTMAX, CONVOLUTION = "tilewright.product", "tilewright.softmax", "tilewright.convolution"
PREFETCH, SCHEDULE = "tilewright.prefetch", "tilewright.schedule"
"""Names under which operations carry decisions: products, softmaxes between products, convolutions, and functions."""


@dataclass(frozen=True, slots=True)
class ScalableTiles:
    """A product of blocks in register tiles of scalable vectors, from packed panels.

    Attributes:
        mr: Rows of a register tile.
        nr: Columns of a register tile, for vectors of 128 bits.
        mc: Most rows of a block.
        nc: Most columns of a block.
        kc: Largest depth of a block.
    """

    mr: int
    nr: int
    mc: int
    nc: int
    kc: int


@dataclass(frozen=True, slots=True)
class OuterProducts:
    """A product of blocks by outer products that add to the tiles of SME's array ZA.

    Attributes:
        mc: Most rows of a block.
        nc: Most columns of a block.
        kc: Largest depth of a block.
    """

    mc: int
    nc: int
    kc: int


@dataclass(frozen=True, slots=True)
class ScaledSums:
    """A product by quantized weights that sums codes, and scales each sum once a group.

    Attributes:
        mr: Rows of a register tile.
        nr: Columns of a register tile.
        nc: Columns that are summed over a group before they are scaled.
        kc: Depth of one pass over them.
    """

    mr: int
    nr: int
    nc: int
    kc: int


@dataclass(frozen=True, slots=True)
class OnlineSoftmax:
    """Two products with a softmax between them, in one pass over blocks of keys.

    Attributes:
        kc: Keys of a block: a multiple of `mr` and of two; of the lanes of a vector of f32 where `vectorize` is "head".
        mr: Rows of a register tile: keys of the first product, elements of a value of the second one.
        nr: Vectors of queries in such a row.
        columns: Register tiles, side by side, that meet one block of keys.
        merged: Whether the heads that share keys are taken as more queries of one head.
        vectorize: What lies in the lanes of vectors: "queries", or "head", the elements of a query, for few queries and many keys. There
            are no register tiles then: `mr`, `nr` and `columns` are 1.
        multiplied: The type as which elements are multiplied: "f32", or "bf16" in pairs, by which weights are rounded to it.
        instructions: What multiplies: "vectors", or "tiles", AMX's registers, two by two of them at a time: `mr` is 32 then.
    """

    kc: int
    mr: int = 1
    nr: int = 1
    columns: int = 1
    merged: bool = False
    vectorize: str = "queries"
    multiplied: str = "f32"
    instructions: str = "vectors"


@dataclass(frozen=True, slots=True)
class SharedSoftmax:
    """Two products with a softmax between them by a block of a GPU's threads: keys and values come through shared memory.

    Attributes:
        bm: Queries of a block.
        kc: Keys that it has in shared memory at a time.
        rows: Queries of a warp, or of a thread.
        threads: Threads of a block.
        instructions: What multiplies: "mma_sync", "matrix_cores", or single "threads".
        multiplied: The type as which elements are multiplied: "f32", "bf16" or "f16", to which weights are rounded.
    """

    bm: int = 64
    kc: int = 64
    rows: int = 16
    threads: int = 128
    instructions: str = "threads"
    multiplied: str = "f32"


@dataclass(frozen=True, slots=True)
class WarpGroupSoftmax:
    """Two products with a softmax between them by warp groups: one copies keys and values, the others multiply them.

    Attributes:
        bm: Queries of a block, of each of its heads: 64 rows for each group that multiplies, of as many heads as `places`.
        kc: Keys of a tile.
        stages: Tiles of keys in shared memory, and of values.
        overlap: Whether scores of the next keys are begun before weights and values of these are multiplied.
        pingpong: Whether groups begin their products in turns.
        multiplied: The type as which elements are multiplied: "bf16" or "f16", to which weights are rounded.
        merged: Heads that share keys, whose queries are rows of one tile.
        split: Parts of the keys: so many blocks, a cluster, compute a tile together.
    """

    bm: int = 128
    kc: int = 128
    stages: int = 2
    overlap: bool = True
    pingpong: bool = True
    multiplied: str = "bf16"
    merged: int = 1
    split: int = 1

    @property
    def consumers(self) -> int:
        """Groups that multiply."""
        return self.bm * self.places // 64

    @property
    def places(self) -> int:
        """Parts of a group's rows, one for each head, and further ones up to a power of two: so parts are of whole rows."""
        return 1 << (self.merged - 1).bit_length()

    @property
    def blocks(self) -> int:
        """Blocks of a cluster."""
        return self.split

    @property
    def threads(self) -> int:
        """Threads of a block: the group that copies is the first."""
        return (1 + self.consumers) * 128


@dataclass(frozen=True, slots=True)
class Depthwise:
    """A depthwise convolution in vectors of channels.

    Attributes:
        channels: Channels of a vector.
        pixels: Pixels of a row whose sums are in registers at once.
    """

    channels: int
    pixels: int = 1


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Which operands of a function are prefetched by software.

    Attributes:
        operands: "none", where the hardware foresees every stream; "all", where also operands of dynamic extents are larger than the
            caches. Without the decision, those that are known to be larger.
    """

    operands: str


Decision = (
    ScalableTiles | OuterProducts | ScaledSums | OnlineSoftmax | SharedSoftmax | WarpGroupSoftmax | Depthwise | Prefetch
)
_KINDS: Mapping[str, type[Decision]] = MappingProxyType(
    {
        "scalable_tiles": ScalableTiles,
        "outer_products": OuterProducts,
        "scaled_sums": ScaledSums,
        "online_softmax": OnlineSoftmax,
        "shared_softmax": SharedSoftmax,
        "warp_group_softmax": WarpGroupSoftmax,
        "depthwise": Depthwise,
        "prefetch": Prefetch,
    }
)
"""The mnemonic of each decision's attribute."""
_ANNOTATE, _DECIDE = "transform.tilewright.annotate", "transform.tilewright.decide"
"""The transform ops that record one."""


def attribute(decision: Decision) -> ir.Attribute:
    """The attribute of a decision. Needs an active `ir.Context`.

    Raises:
        ir.MLIRError: A size is not above zero, or a name is unknown.
    """
    return ir.Attribute.parse(f"#tilewright.{mnemonic(type(decision))}<{written(asdict(decision))}>")


def written(values: Mapping[str, Any]) -> str:
    """Values by name, as attributes have them."""
    return ", ".join(f"{name} = {json.dumps(value)}" for name, value in values.items())


def mnemonic(kind: type[Decision]) -> str:
    """What the attribute of a kind of decision is called: "scalable_tiles"."""
    return next(name for name, each in _KINDS.items() if each is kind)


def of(op: ir.Operation, name: str) -> Decision | None:
    """The decision that an operation carries under a name; None where it carries none."""
    if name not in op.attributes:
        return None
    found = said(op.attributes[name])
    return _KINDS[found.pop("kind")](**found)


def deciding(schedule: ir.Module | None, kinds: Iterable[type[Decision]]) -> ir.Operation | None:
    """The first op of a schedule that records a decision of some kinds; None where there is none."""
    wanted = tuple(map(mnemonic, kinds))

    def kind(op: ir.Operation) -> str:
        if op.name == _DECIDE:
            return ir.StringAttr(op.attributes["kind"]).value
        return str(op.attributes["annotation"]).removeprefix("#tilewright.").partition("<")[0]

    ops = [] if schedule is None else named(schedule.operation, _ANNOTATE, _DECIDE)
    return next((op for op in ops if kind(op) in wanted), None)


def said(decision: ir.Attribute) -> dict[str, Any]:
    """What the attribute of a decision says, by name, and its "kind".

    Raises:
        ValueError: It is no decision.
    """
    return {each.name: _value(each.attr) for each in _tilewright.decision(decision)}


def _value(held: ir.Attribute) -> Any:  # noqa: ANN401 - whatever an attribute holds
    """An attribute as Python has it: numbers, flags and names; dictionaries and lists of those."""
    if isinstance(held, ir.DictAttr):
        return {each.name: _value(each.attr) for each in held}
    if isinstance(held, ir.DenseI64ArrayAttr):
        return list(held)
    if isinstance(held, ir.ArrayAttr):
        return [_value(each) for each in held]
    assert isinstance(held, ir.IntegerAttr | ir.BoolAttr | ir.StringAttr), "decisions hold no others"
    return held.value


def number(function: ir.Operation, name: str, usual: int) -> int:
    """A number that the lowering of a function goes by ("unroll", "ahead", "past_l1", ...); the usual one where it carries none."""
    name = f"tilewright.{name}"
    return ir.IntegerAttr(function.attributes[name]).value if name in function.attributes else usual


def strategy_size(function: ir.Operation, name: str) -> int:
    """A size of the strategy that scheduled a function, as its ``#tilewright.schedule`` says; 0 where it says none."""
    if SCHEDULE not in function.attributes:
        return 0
    from tilewright.mlir.dialects.tilewright import ScheduleAttr

    sizes = ScheduleAttr(function.attributes[SCHEDULE]).parameters
    return ir.IntegerAttr(sizes[name]).value if name in sizes else 0
