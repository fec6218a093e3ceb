# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The settings of a run: rounds, length of a sample, cache, cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from tilewright.bench.timing import Cache
from tilewright.errors import SpecError
from tilewright.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to measure; see `run_suite` for what each field means.

    Raises:
        SpecError: A number is out of its range.
    """

    dtype: str = "f32"
    threads: int = 1
    target: str | Target = "host"
    peers: tuple[str, ...] | None = None
    rounds: int = 7
    schedule: Any = None
    parameters: Mapping[str, int] | None = None
    cache: Cache = "hot"
    epilogue: str = ""
    min_seconds: float = 0.03
    on_cores: tuple[int, ...] | None = None
    seed: int = 0

    def having(self, *, dtype: str, threads: int, cache: Cache, epilogue: str) -> Settings:
        """These settings for another type, number of threads, cache and epilogue."""
        return replace(self, dtype=dtype, threads=threads, cache=cache, epilogue=epilogue)

    def __post_init__(self) -> None:
        """Checks the ranges."""
        if self.rounds < 1:
            raise SpecError(f"rounds is {self.rounds}", where="bench", expected="at least 1")
        if not 0 < self.min_seconds < 60:
            raise SpecError(f"min_seconds is {self.min_seconds}", where="bench", expected="above 0, below 60")
        if self.cache not in get_args(Cache):
            raise SpecError(f"cache is {self.cache!r}", where="bench", expected=" or ".join(get_args(Cache)))
