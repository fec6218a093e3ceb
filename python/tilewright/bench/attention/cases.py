# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The attention problems that are measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tilewright.dtypes import dtype, to_numpy
from tilewright.operand import OperandSpec
from tilewright.operator_specs import AttentionSpec


@dataclass(frozen=True, slots=True)
class Case:
    """Attention of one batch.

    Attributes:
        heads: Heads of queries.
        kv_heads: Heads of keys and values.
        queries: Queries of a head.
        keys: Keys of a head.
        head: Elements of each of them.
        causal: Whether a query sees no later key.
    """

    heads: int
    kv_heads: int
    queries: int
    keys: int
    head: int
    causal: bool = False

    @property
    def streams(self) -> bool:
        """Whether it is one query, for which keys and values come from memory: it is measured in bytes, not in operations."""
        return self.queries == 1

    def spec(self, asked: str) -> AttentionSpec:
        """Our spec of it."""
        return AttentionSpec(self.queries, self.keys, self.head, self.heads, self.kv_heads, q=asked, causal=self.causal)

    def work(self, asked: str) -> int:
        """Bytes of keys and values; or multiplications and additions with those that are seen."""
        if self.streams:
            return 2 * self.kv_heads * self.keys * self.head * dtype(asked).bytes
        seen = (
            sum(min(query + 1, self.keys) for query in range(self.queries)) if self.causal else self.queries * self.keys
        )
        return 4 * self.heads * seen * self.head

    def values(self, random: np.random.Generator, operand: OperandSpec) -> np.ndarray:
        """Normal numbers."""
        return random.normal(size=operand.shape).astype(to_numpy(operand.type))

    def __str__(self) -> str:
        """Heads, queries, keys and head: "16 heads 512x512x64, causal"."""
        shared = f" of {self.kv_heads}" if self.kv_heads != self.heads else ""
        return f"{self.heads}{shared} heads {self.queries}x{self.keys}x{self.head}{', causal' if self.causal else ''}"


SUITES: Mapping[str, tuple[Case, ...]] = MappingProxyType(
    {
        "prefill": tuple(
            Case(16, 16, length, length, head, causal)
            for length, head in ((512, 64), (2048, 128))
            for causal in (False, True)
        ),
        "decode": (
            Case(16, 16, 1, 4096, 64),
            Case(16, 16, 1, 4096, 128),
            Case(32, 8, 1, 4096, 128),
        ),
    }
)
"""Cases by name."""
