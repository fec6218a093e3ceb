# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the time of a compiled model goes, by op: torch's profiler, and for ops of ours by the kernel that they call."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

_CALLS = 3
_AROUND = ("## Call", "Torch-Compiled", "TorchDynamo", "AOTDispatcher", "Pregraph", "tilewright::call")
"""What begins the names of rows of the profiler that only surround ops, or call kernels of ours, whose time is taken otherwise."""


@contextmanager
def _timed_kernels(spent: dict[str, list[float]]) -> Iterator[None]:
    """While graphs that were compiled call kernels through a function that takes the time of each."""
    packet = torch.ops.tilewright
    names = ("call", "call_in_order", "call_chain", "call_chain_many")
    ops = {name: getattr(packet, name) for name in names if hasattr(packet, name)}
    kept = {name: each.default for name, each in ops.items()}

    def timed(op: Any) -> Callable[..., Any]:  # noqa: ANN401 - an op
        def call(kernel: str, *rest: Any) -> Any:  # noqa: ANN401
            start = time.thread_time()
            result = op(kernel, *rest)
            spent[kernel.partition(" #")[0]].append(time.thread_time() - start)
            return result

        return call

    def step(kernel: str, operands: Sequence[Any], axes: Sequence[int]) -> Any:  # noqa: ANN401
        return timed(kept["call_in_order"])(kernel, operands, axes) if axes else timed(kept["call"])(kernel, operands)

    def chain(text: str, operands: Sequence[Any]) -> list[Any]:
        from tilewright.torch.inductor import chains  # which a graph that calls one has imported

        return chains.run(text, operands, step)

    ways = {"call_chain": lambda text, operands: chain(text, operands)[0], "call_chain_many": chain}
    for name, each in ops.items():
        each.default = ways.get(name) or timed(kept[name])
    try:
        yield
    finally:
        for name, each in ops.items():
            each.default = kept[name]


def by_op(call: Callable[[], object]) -> list[tuple[str, float, int]]:
    """The time of a call by op: its name, milliseconds and calls, the largest first; what is in no op is "other".

    Kernels of ours and the whole call are in processor time of this thread, the rest is the profiler's.
    """
    from torch.profiler import ProfilerActivity, profile  # pyright: ignore[reportMissingImports]

    spent: dict[str, list[float]] = defaultdict(list)
    with _timed_kernels(spent):
        start = time.thread_time()
        for _ in range(_CALLS):
            call()
        whole = (time.thread_time() - start) / _CALLS
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(_CALLS):
            call()
    rows = [(name, 1e3 * sum(each) / _CALLS, len(each) // _CALLS) for name, each in spent.items()]
    rows += [
        (str(each.key), each.self_cpu_time_total / 1e3 / _CALLS, each.count // _CALLS)
        for each in profiled.key_averages()
        if not str(each.key).startswith(_AROUND)
    ]
    rows.append(("other", max(0.0, 1e3 * whole - sum(row[1] for row in rows)), 1))
    return sorted((row for row in rows if row[1] > 0), key=lambda row: -row[1])
