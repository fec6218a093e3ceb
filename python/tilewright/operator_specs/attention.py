# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The spec of attention: what it computes, and nothing about how."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite, prod
from typing import Any, ClassVar, Literal, Union

from tilewright.dims import MAX_EXTENT, Dim, Extent, extent, least
from tilewright.dtypes import SMALL_FLOATS, DType, dtype
from tilewright.errors import SpecError
from tilewright.operand import OperandSpec
from tilewright.operator_specs.base import OperatorSpec

Causal = Union[bool, Literal["upper_left", "lower_right"]]  # noqa: UP007 - evaluated by Python 3.10

QUERY_TYPES = ("f32", "bf16", "f16")
"""Element types of the queries and of the result."""
KEY_TYPES = (*QUERY_TYPES, *SMALL_FLOATS)
"""Element types of keys and values."""
MASK_TYPES = (*QUERY_TYPES, "u8")
"""Element types of masks: floats are added to the scores; bytes say, by not being zero, which keys a query sees."""
_MASK_AXES = "hmn"


@dataclass(frozen=True, slots=True)
class AttentionSpec(OperatorSpec):
    """softmax(scale · Q·Kᵀ + mask) · V for each head, where a query sees the keys that `causal` and the mask leave it.

    Q is of shape (*batch, heads, queries, head), K (*batch, kv_heads, keys, head), V (*batch, kv_heads, keys, value_head), and the
    result (*batch, heads, queries, value_head). A query that sees no key gets zeros, where torch's formula has NaN.

    Entries may have different lengths, which further operands of i32 tell, after V. With `sequences`, those of the queries lie end to end:
    Q is (heads, queries, head), and sequence s has rows q_starts[s] to q_starts[s + 1] - 1 of it and of the result; K and V likewise, by
    k_starts. Other rows of the result are not written. With `lengths`, entry b has keys 0 to lengths[b] - 1. With `page`, K is of shape
    (pages, kv_heads, page, head), V likewise, and key j of entry b is number j % page of page table[b, j // page].

    Attributes:
        queries: How many queries each head has, of all sequences together; None or a `Dim` where that is dynamic.
        keys: How many keys and values; likewise. With `lengths` and pages: of an entry, at most.
        head: Elements of a query and of a key.
        heads: Heads of the queries.
        kv_heads: Heads of keys and values, which divide `heads`: as many neighboring heads of queries share one. None: `heads`.
        value_head: Elements of a value and of a result. None: `head`.
        batch: Extents of what comes before the heads.
        q: Element type of the queries: f32, bf16 or f16.
        k: Of the keys: one of these, f8E3M4, f8E4M3FN or f8E5M2. None: that of the queries.
        v: Of the values. None: that of the keys.
        out: Of the result. None: that of the queries. Scores and sums are of f32.
        scale: What scores are multiplied with. None: 1 / sqrt(head).
        causal: "upper_left" or True: query i sees keys up to number i, as torch's is_causal has it. "lower_right": the last query sees
            all keys, each one before it one less, as for a cache that is longer than the queries. False: all.
        mask: Element type of a further operand: f32, bf16 or f16, what is added to the scores (-Inf: not seen); "u8" (or "bool"), 0 for
            keys that are not seen. None: there is none.
        mask_axes: The axes that the mask has, of "b" (all of `batch`), "h", "m" (queries) and "n" (keys); the last one is "n".
        sequences: How many sequences lie end to end; a `Dim` where that is dynamic. None: each entry of the batch has its own matrices.
        lengths: Whether `lengths`, of the extents of the batch or the sequences, says how many keys an entry has.
        page: Keys of a page; then there are `lengths` too, and `table` has ceil(keys / page) numbers of pages for each entry. None: keys of
            an entry lie together.

    Raises:
        SpecError: A field does not fit; the error says which and what would.
    """

    operator: ClassVar[str] = "attention"

    queries: Any
    keys: Any
    head: int
    heads: int = 1
    kv_heads: Any = None
    value_head: Any = None
    batch: tuple[int, ...] = ()
    q: Any = "f32"
    k: Any = None
    v: Any = None
    out: Any = None
    scale: Any = None
    causal: Causal = False
    mask: str | None = None
    mask_axes: str = field(default="mn")
    sequences: Any = None
    lengths: bool = False
    page: int | None = None

    def __post_init__(self) -> None:
        """Checks the fields, and fills in those that are None."""
        for name in ("queries", "keys"):
            given = getattr(self, name)
            object.__setattr__(self, name, Dim() if given is None else extent(name, given))
        for name, default in (("kv_heads", self.heads), ("value_head", self.head)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        for name in ("head", "heads", "kv_heads", "value_head"):
            size = extent(name, getattr(self, name))
            if not isinstance(size, int) or size < 1:
                raise _error(f"{name} is {size!r}", "an int above zero")
        if self.heads % self.kv_heads:
            raise _error(f"{self.kv_heads} heads of keys for {self.heads} of queries", "a divisor of `heads`")
        if not isinstance(self.batch, tuple):
            raise _error(f"batch is a {type(self.batch).__name__}", "a tuple of ints")
        object.__setattr__(self, "batch", tuple(extent("batch", each) for each in self.batch))
        if any(isinstance(each, Dim) for each in self.batch):
            raise _error(
                "an extent of the batch is open", "ints", "Compile a kernel for each batch, or pass heads as the batch"
            )
        self._check_types()
        self._check_tables()
        scale = self.head**-0.5 if self.scale is None else self.scale
        if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not isfinite(scale):
            raise _error(f"scale is {self.scale!r}", "a finite number")
        object.__setattr__(self, "scale", float(scale))
        if self.causal not in (False, True, "upper_left", "lower_right"):
            raise _error(f"causal is {self.causal!r}", 'False, True, "upper_left" or "lower_right"')
        if self.causal is True:
            object.__setattr__(self, "causal", "upper_left")

    def _check_types(self) -> None:
        for name, default, known in (
            ("q", "f32", QUERY_TYPES),
            ("k", self.q, KEY_TYPES),
            ("v", self.k or self.q, KEY_TYPES),
            ("out", self.q, QUERY_TYPES),
        ):
            given = getattr(self, name) or default
            object.__setattr__(self, name, given)
            if given not in known:
                raise _error(f"{name} is {given!r}", f"one of {', '.join(known)}")
        if self.mask == "bool":
            object.__setattr__(self, "mask", "u8")
        if self.mask is not None and self.mask not in MASK_TYPES:
            raise _error(f"mask is {self.mask!r}", f"None, bool or one of {', '.join(MASK_TYPES)}")
        axes = self.mask_axes.removeprefix("b") if isinstance(self.mask_axes, str) else ""
        if axes not in ("n", "mn", "hn", "hmn"):
            raise _error(f"mask_axes is {self.mask_axes!r}", 'some of "bhmn", in that order, the last of them')

    def _check_tables(self) -> None:
        """Checks what says how long entries are, and where their keys lie."""
        if self.sequences is not None:
            object.__setattr__(self, "sequences", extent("sequences", self.sequences))
            if self.batch:
                raise _error("sequences end to end in a batch", "batch=()", "Let all entries be sequences")
        if not isinstance(self.lengths, bool):
            raise _error(f"lengths is {self.lengths!r}", "False or True")
        if self.page is not None:
            page = extent("page", self.page)
            if not isinstance(page, int) or page < 1:
                raise _error(f"page is {self.page!r}", "None, or an int above zero")
            object.__setattr__(self, "lengths", True)
        elif self.lengths and self.sequences is not None:
            raise _error("lengths of sequences that lie end to end", "lengths=False", "k_starts tells them")
        if self.lengths and not self.batch and self.sequences is None:
            raise _error("lengths without entries", "a batch, or sequences", "Let it be one entry: batch=(1,)")
        if self.mask is not None and self.is_ragged:
            remedy = "Mask by `lengths`, or compute with keys that are all of one length"
            raise _error("a mask of entries that have lengths of their own", "mask=None", remedy)

    @property
    def packed(self) -> bool:
        """Whether rows of sequences lie end to end."""
        return self.sequences is not None

    @property
    def is_ragged(self) -> bool:
        """Whether entries may have different lengths."""
        return self.lengths or self.sequences is not None

    @property
    def columns(self) -> Any:  # noqa: ANN401 - an Extent
        """Numbers of pages that the table has for an entry, one at least."""
        assert self.page is not None, "there are pages"
        if isinstance(self.keys, Dim):
            return extent("keys", Dim(max(1, -(-self.keys.min // self.page)), max(1, -(-self.keys.max // self.page))))
        return max(1, -(-self.keys // self.page))

    @property
    def group(self) -> int:
        """Heads of queries that share one of keys."""
        return self.heads // self.kv_heads

    @property
    def operands(self) -> tuple[OperandSpec, ...]:
        """Q, K, V and, if there is one, the mask; or what tells lengths and places: q_starts, k_starts, lengths, table."""
        kinds = (("q", self.q, "mk"), ("k", self.k, "nk"), ("v", self.v, "n-"))
        heads = {"q": self.heads, "k": self.kv_heads, "v": self.kv_heads}
        rows = {"q": self.queries, "k": self.keys, "v": self.keys}
        columns = {"q": self.head, "k": self.head, "v": self.value_head}
        found = [self._tensor(name, heads[name], rows[name], columns[name], kind, axes) for name, kind, axes in kinds]
        if self.page is not None:
            found[1:] = [self._paged(each) for each in found[1:]]
        found += self._tables()
        if self.mask is not None:
            extents = {"h": (self.heads,), "m": (self.queries,), "n": (self.keys,), "b": self.batch}
            shape = tuple(size for axis in self.mask_axes for size in extents[axis])
            rows_ = "mn" if "m" in self.mask_axes else "n"
            outer = len(shape) - len(rows_)
            found.append(OperandSpec("mask", shape, dtype(self.mask), outer, tuple(range(outer)), rows_))
        return tuple(found)

    def _tables(self) -> list[OperandSpec]:
        """What tells lengths and places."""
        found, numbers = [], dtype("i32")
        if self.sequences is not None:
            count = self.sequences
            more = Dim(count.min + 1, min(count.max + 1, MAX_EXTENT)) if isinstance(count, Dim) else count + 1
            names = ("q_starts",) if self.lengths else ("q_starts", "k_starts")
            found += [OperandSpec(name, (more,), numbers, axes="e") for name in names]
        if self.lengths:
            outer = self.batch if self.sequences is None else (self.sequences,)
            axes = "s" if self.packed else "-" * len(self.batch)
            found.append(OperandSpec("lengths", outer, numbers, axes=axes))
            if self.page is not None:
                found.append(OperandSpec("table", (*outer, self.columns), numbers, axes=f"{axes}t"))
        return found

    def _paged(self, operand: OperandSpec) -> OperandSpec:
        """Keys or values in pages: their number is open, as they are in no order."""
        *_, heads, _, columns = operand.shape
        return replace(operand, shape=(Dim(), heads, self.page, columns), batch=2, loops=(0, 1), axes="--")

    @property
    def result(self) -> OperandSpec:
        """The result."""
        return self._tensor("out", self.heads, self.queries, self.value_head, self.out, "m-")

    def _tensor(self, name: str, heads: int, rows: Extent, columns: int, kind: str, axes: str) -> OperandSpec:
        outer = (*self.batch, heads)
        return OperandSpec(name, (*outer, rows, columns), dtype(kind), len(outer), tuple(range(len(outer))), axes)

    @property
    def q_type(self) -> DType:
        """The element type of the queries."""
        return dtype(self.q)

    @property
    def flops(self) -> int:
        """A multiply and an add for each product of Q·Kᵀ and of P·V, whatever `causal` leaves out; dynamic extents at their least.

        Of entries with lengths, as many as if those were equal, and the longest that they can be.
        """
        queries, keys, sequences = map(least, (self.queries, self.keys, self.sequences or 1))
        if self.sequences is not None and not self.lengths:
            keys //= max(1, sequences)
        return 2 * prod(self.batch) * self.heads * queries * keys * (self.head + self.value_head)

    def __str__(self) -> str:
        """In short: "attention 16 heads of 512x512x64 bf16, causal"."""
        shared = f" ({self.kv_heads} of keys)" if self.group > 1 else ""
        sizes = f"{self.queries}x{self.keys}x{self.head}"
        more = f"x{self.value_head}" if self.value_head != self.head else ""
        kinds = self.q if self.k == self.v == self.q else f"{self.q},{self.k},{self.v}"
        mask = f", mask {self.mask} {self.mask_axes}" if self.mask else ""
        batch = f"{'x'.join(map(str, self.batch))} times " if self.batch else ""
        causal = f", causal {self.causal}" if self.causal else ""
        ends = f", {self.sequences} sequences" if self.sequences is not None else ""
        ends += f", pages of {self.page}" if self.page is not None else ", lengths" if self.lengths else ""
        return f"attention {batch}{self.heads} heads{shared} of {sizes}{more} {kinds}{causal}{mask}{ends}"


def _error(what: str, expected: str, remedy: str | None = None) -> SpecError:
    return SpecError(what, where="AttentionSpec", expected=expected, remedy=remedy)
