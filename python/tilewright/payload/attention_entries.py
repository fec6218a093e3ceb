# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The entries of a call of attention whose tables say how long they are and where their rows lie; numpy only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import OperandError
from tilewright.operator_specs.attention import AttentionSpec

_PLACES = "starts of sequences that never fall, from 0 to the number of rows"


@dataclass(frozen=True, slots=True)
class Rows:
    """One entry.

    Attributes:
        queries: Its part of Q, and of the result.
        keys: Its part of K and V; of those in pages, the first keys of what its pages have.
        pages: The numbers of its pages; None where its keys lie together.
    """

    queries: tuple[Any, ...]
    keys: tuple[Any, ...]
    pages: NDArray[Any] | None = None

    def keys_of(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Its keys, or values."""
        if self.pages is not None:
            pages = list(stored[self.pages]) or [np.zeros(stored.shape[1:], stored.dtype)]
            stored = np.concatenate(pages, axis=-2)
        return stored[self.keys]


def entries(spec: AttentionSpec, operands: Sequence[NDArray[Any]]) -> Iterator[Rows]:
    """The entries of a call with these operands, in order."""
    named = dict(zip((each.name for each in spec.operands), operands, strict=True))
    lengths, table = named.get("lengths"), named.get("table")
    outer = (named["q_starts"].shape[0] - 1,) if spec.packed else spec.batch
    for place in np.ndindex(*outer):
        queries = (
            (slice(None), _between(named["q_starts"], place[0])) if spec.packed else (*place, slice(None), slice(None))
        )
        if lengths is None:
            yield Rows(queries, (slice(None), _between(named["k_starts"], place[0])))
            continue
        count = int(lengths[place])
        if table is None:
            yield Rows(queries, (*place, slice(None), slice(count)))
        else:
            pages = table[place][: -(-count // (spec.page or 1))]
            yield Rows(queries, (slice(None), slice(count)), pages)


def even(spec: AttentionSpec) -> dict[str, NDArray[np.int32]]:
    """Tables by name, of entries that are about as long as each other, and of pages from the last one on; extents are known."""
    found = {}
    if spec.packed:
        for name, total in (("q_starts", spec.queries), ("k_starts", spec.keys)):
            found[name] = np.arange(spec.sequences + 1) * total // max(spec.sequences, 1)
    outer = (spec.sequences,) if spec.packed else spec.batch
    if spec.lengths:
        found["lengths"] = np.maximum(spec.keys - np.arange(prod(outer)), 0).reshape(outer)
    if spec.page is not None:
        found["table"] = np.arange(prod(outer) * spec.columns)[::-1].reshape(*outer, spec.columns)
    return {name: table.astype(np.int32) for name, table in found.items()}


def check(spec: AttentionSpec, operands: Sequence[Any]) -> None:
    """Checks those of a call's tables that are numpy arrays: what is in a card's memory, kernels keep inside of the operands.

    Raises:
        OperandError: One names rows, keys or pages that there are not.
    """
    named = dict(zip((each.name for each in spec.operands), operands, strict=True))
    tables = {name: array for name, array in named.items() if isinstance(array, np.ndarray)}
    for name, of in (("q_starts", "q"), ("k_starts", "k")):
        if name in tables:
            starts = tables[name].astype(np.int64)
            if (np.diff(starts) < 0).any() or starts[0] < 0 or starts[-1] > named[of].shape[-2]:
                raise OperandError("names rows that there are not", operand=name, expected=_PLACES)
    if spec.page is not None and named["k"].shape[0] != named["v"].shape[0]:
        raise OperandError(f"has {named['v'].shape[0]} pages", operand="v", expected=f"{named['k'].shape[0]}, as k has")
    if "lengths" not in tables:
        return
    lengths, table = tables["lengths"], tables.get("table")
    if spec.packed and named["q_starts"].shape[0] != len(lengths) + 1:
        raise OperandError(
            f"has {len(lengths)} sequences", operand="lengths", expected=f"{named['q_starts'].shape[0] - 1}"
        )
    most = named["k"].shape[-2] if spec.page is None else named["table"].shape[-1] * spec.page
    if lengths.size and not 0 <= lengths.min() <= lengths.max() <= most:
        raise OperandError("has a length that no entry can have", operand="lengths", expected=f"0 to {most}")
    if table is not None and spec.page is not None:
        used = np.arange(table.shape[-1]) < -(-lengths[..., None].astype(np.int64) // spec.page)
        pages = named["k"].shape[0]
        if ((table < 0) | (table >= pages))[used].any():
            raise OperandError("names a page that there is not", operand="table", expected=f"0 to {pages - 1}")


def _between(starts: NDArray[Any], sequence: int) -> slice:
    return slice(int(starts[sequence]), int(starts[sequence + 1]))
