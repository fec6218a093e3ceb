# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The attention that is measured, and its operands: the same values in every process that asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tilewright.bench.operands import aligned
from tilewright.dtypes import dtype, to_numpy
from tilewright.operator_specs import AttentionSpec

TYPES = ("f32", "bf16")
"""Element types of all operands and of the result."""


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
    def decodes(self) -> bool:
        """Whether it is one query, for which keys and values come from memory: it is measured in bytes, not in operations."""
        return self.queries == 1

    def spec(self, asked: str) -> AttentionSpec:
        """What it is to us."""
        return AttentionSpec(self.queries, self.keys, self.head, self.heads, self.kv_heads, q=asked, causal=self.causal)

    def work(self, asked: str) -> int:
        """Bytes of keys and values; or multiplications and additions with those that are seen."""
        if self.decodes:
            return 2 * self.kv_heads * self.keys * self.head * dtype(asked).bytes
        seen = (
            sum(min(query + 1, self.keys) for query in range(self.queries)) if self.causal else self.queries * self.keys
        )
        return 4 * self.heads * seen * self.head

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


@dataclass(frozen=True, slots=True)
class Arrays:
    """The operands of a case, and its result, not yet computed."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    out: np.ndarray


def arrays(case: Case, asked: str, total_bytes: int, seed: int = 0) -> list[Arrays]:
    """Normal numbers, in so many copies that they take `total_bytes` together: one where that is 0."""
    random = np.random.default_rng(seed)
    spec = case.spec(asked)
    kind = to_numpy(dtype(asked))
    values = [random.normal(size=each.shape).astype(kind) for each in spec.operands]
    copies = max(1, -(-total_bytes // case.work(asked))) if case.decodes else 1
    return [_copy(values, spec.result.shape) for _ in range(copies)]


def _copy(values: list[np.ndarray], shape: tuple[int, ...]) -> Arrays:
    q, k, v = (aligned(each.shape, each.dtype) for each in values)
    for copy, each in zip((q, k, v), values, strict=True):
        copy[...] = each
    return Arrays(q, k, v, aligned(shape, q.dtype))
