# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The settings of a run: rounds, length of a sample, cache, cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from tilewright.bench.timing import Cache
from tilewright.errors import SpecError
from tilewright.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to measure.

    Attributes:
        dtype: One element type for A and B ("bf16"), or those of A, B and C separated by commas ("u8,i8,i32").
        threads: For us and for each peer alike.
        target: What our kernels and the peak loop are compiled for; this machine must be able to run it.
        peers: Those that must take part; None: all that are installed, and one that fails or computes wrong numbers is left
            out, with the reason in `Row.absent`.
        rounds: How often each contender is sampled, at least 1; publish nothing from fewer than 7.
        schedule: As for `tilewright.compile`.
        parameters: As for `tilewright.compile`.
        cache: "hot": the same operands in every call. "cold": operands rotate through twice the last-level cache.
        epilogue: What is done to the sums, such as "bias:n,gelu"; peers that cannot are left out, and our product without it
            is measured too, as "plain".
        min_seconds: What a sample lasts at least.
        on_cores: Processors to pin everyone to, one a thread; None: chosen by `timing.cores`.
        seed: Of the operands' values.

    Raises:
        SpecError: A number is out of its range.
    """

    dtype: str = "f32"
    threads: int = 1
    target: str | Target = "host"
    peers: Sequence[str] | None = None
    rounds: int = 7
    schedule: Any = None
    parameters: Mapping[str, int] | None = None
    cache: Cache = "hot"
    epilogue: str = ""
    min_seconds: float = 0.03
    on_cores: Sequence[int] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks the ranges."""
        if self.rounds < 1:
            raise SpecError(f"rounds is {self.rounds}", where="bench", expected="at least 1")
        if not 0 < self.min_seconds < 60:
            raise SpecError(f"min_seconds is {self.min_seconds}", where="bench", expected="above 0, below 60")
        if self.cache not in get_args(Cache):
            raise SpecError(f"cache is {self.cache!r}", where="bench", expected=" or ".join(get_args(Cache)))
