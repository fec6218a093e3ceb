# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times contenders on a card by the protocol of docs/how-to/benchmark.md: in turn, warm, with operands that rotate past L2.

A sample is the replay of a graph of launches between two events, so that it includes no time of the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.bench.rows import Rates

Launch = Callable[[int], object]
"""Launches a contender on one of the sets of operands, by number, on torch's current stream."""
SAMPLE_SECONDS = 0.004
"""The least length of a sample, so that an event's half microsecond is negligible."""
QUICK_SECONDS = 0.001
"""The length of a sample that finds the best of several variants."""
_MOST_LAUNCHES = 1000


def sets(bytes_: int, cache_bytes: int) -> int:
    """How many sets of operands of so many bytes rotate: twice what the cache holds, at least two."""
    return max(2, min(64, math.ceil(2 * cache_bytes / bytes_)))


def launches(seconds: float, count: int, sample: float = SAMPLE_SECONDS) -> int:
    """How many launches a sample has, of a contender that takes so long; whole turns of `count` sets."""
    wanted = min(_MOST_LAUNCHES, max(1, math.ceil(sample / seconds)))
    return math.ceil(wanted / count) * count


def graph(torch: Any, launch: Launch, count: int, seconds: float = SAMPLE_SECONDS) -> Callable[[], float]:  # noqa: ANN401 - the library
    """A function that takes a sample: seconds of one launch. It has run once.

    Args:
        torch: The library.
        launch: Launches the contender.
        count: How many sets of operands there are.
        seconds: What a sample takes at least.
    """
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for number in range(count):
            launch(number)
        stream.synchronize()
        begin, end = _events(torch)
        begin.record(stream)
        for number in range(count):
            launch(number)
        end.record(stream)
        stream.synchronize()
        every = launches(max(begin.elapsed_time(end) / 1e3 / count, 1e-7), count, seconds)
        # Not `torch.cuda.graph`, which collects garbage each time.
        made = torch.cuda.CUDAGraph()
        made.capture_begin()
        try:
            for number in range(every):
                launch(number % count)
        finally:
            made.capture_end()
    torch.cuda.synchronize()

    def sample() -> float:
        begin, end = _events(torch)
        begin.record()
        made.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / every

    sample()
    return sample


def _events(torch: Any) -> tuple[Any, Any]:  # noqa: ANN401 - the library
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    return begin, end


def in_turn(samples: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each contender in each round, all of them once a round."""
    found: dict[str, list[float]] = {name: [] for name in samples}
    for _ in range(rounds):
        for name, sample in samples.items():
            found[name].append(sample())
    return found


def summary(seconds: Sequence[float], flops: int) -> dict[str, float]:
    """Rates in TFLOP/s: the median, and the 20th and 80th percentiles."""
    rates = Rates(tuple(flops / each / 1e12 for each in seconds))
    return {"tflops": rates.median, "p20": rates.percentile(20), "p80": rates.percentile(80)}
