# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a kernel beside the op of torch's that it replaces, so that a slower one is left out."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.dims import Dim
from tilewright.torch import pack
from tilewright.torch.inductor import fx, kernels
from tilewright.torch.inductor.call import Call
from tilewright.torch.types import torch_type

_ROUNDS = 7
_SAMPLE = 0.0003
"""Seconds that a sample lasts at least: a hundred times what reading the clock takes."""
_SECONDS = 0.25
"""After which no further round begins: large products take long, and vary less."""
MOST = 1.05
"""How many times as long as torch's op a kernel may take: less is what chance makes of equals."""


def ratio(call: Call, threads: int) -> float | None:
    """How many times as long as torch's op the kernel takes; None with dynamic extents.

    What is fused counts for torch as one more pass over the result or the left matrix. What is copied before the call and behind it counts
    for us.
    """
    is_open = any(isinstance(size, Dim) for each in call.spec.operands for size in each.stored)
    replaced = [_asked(each) for each in (call.region.product, call.region.partner) if each is not None]
    if is_open or None in replaced:
        return None
    copied = tuple(map(_lain, call.copied(call.region.exit.graph)))
    passes = (*call.passes, *([fx.value(call.region.exit)] if call.region.epilogue is not None else []))
    return _ratio(call.spec, threads, tuple(replaced), copied, tuple(map(_lain, passes)))


def _asked(product: Any) -> Any:  # noqa: ANN401
    """What torch is asked for by the node of a product: an op and what its arguments are made like; None with dynamic extents."""
    node = product.args[0] if product.target is operator.getitem else product
    arguments = torch.fx.node.map_arg(node.args, _shape)
    flat = torch.utils._pytree.tree_leaves((arguments, node.kwargs))
    if any(isinstance(each, torch.fx.Node | torch.SymInt) for each in flat):
        return None
    return node.target, _hashable(arguments), tuple((name, _shape(each)) for name, each in node.kwargs.items())


def _hashable(value: Any) -> Any:  # noqa: ANN401
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class _Lies:
    """The shape, strides and type of a tensor."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    type: Any


def _shape(node: Any) -> Any:  # noqa: ANN401
    """What a tensor is made like; anything else is itself."""
    found = fx.value(node)
    if not isinstance(found, torch.Tensor) or any(isinstance(each, torch.SymInt) for each in found.shape):
        return node
    return _lain(found)


def _lain(tensor: Any) -> _Lies:  # noqa: ANN401
    return _Lies(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)


def _drawn(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, _Lies):
        # Elements of a broadcast tensor share memory, which cannot be filled through them.
        last = sum((size - 1) * stride for size, stride in zip(value.shape, value.strides, strict=True))
        memory = torch.empty(1 + max(0, last), dtype=value.type).uniform_(-1, 1)
        return memory.as_strided(value.shape, value.strides)
    return [_drawn(each) for each in value] if isinstance(value, tuple) else value


@lru_cache(maxsize=4096)
def _ratio(spec: Any, threads: int, replaced: Any, copied: Any, passes: Any) -> float:  # noqa: ANN401
    """The best time of the kernel over the best of torch's, of some rounds in turn."""
    with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
        name, kernel = kernels.compiled(spec, threads)
        operands = [_operand(kernel, each) for each in kernel.spec.operands]
        before, written = ([_drawn(each) for each in every] for every in (copied, passes))
        asked = [
            (op, _drawn(arguments), {key: _drawn(each) for key, each in named}) for op, arguments, named in replaced
        ]

        def ours() -> None:
            for each in before:
                each.contiguous()
            torch.ops.tilewright.call.default(name, operands)

        def theirs() -> None:
            for op, given, how in asked:
                op(*given, **how)
            for each in written:
                each.add(1)

        own, other = in_turn((ours, theirs), clock(threads))
        return own / other


def _operand(kernel: Any, operand: Any) -> Any:  # noqa: ANN401
    """A random operand of a kernel."""
    drawn = torch.empty(operand.stored, dtype=torch_type(operand.type)).uniform_(-1, 1)
    is_packed = getattr(kernel.spec, f"{operand.name}_packed", False)
    return pack(kernel, drawn, operand.name) if is_packed else drawn


def clock(threads: int) -> Callable[[], float]:
    """What tells the time: of one thread that of the processor, which other load on the machine leaves alone."""
    return time.thread_time if threads == 1 else time.perf_counter


def in_turn(calls: Sequence[Callable[[], object]], clock: Callable[[], float]) -> list[float]:
    """The best time of each call in some rounds in turn, in seconds: of samples of as many calls as the clock needs."""
    best, counts = [float("inf")] * len(calls), []
    for each in calls:
        each()
        start = clock()
        each()
        counts.append(1 + int(_SAMPLE / max(clock() - start, 1e-6)))
    end = clock() + _SECONDS
    for _ in range(_ROUNDS):
        for number, (each, count) in enumerate(zip(calls, counts, strict=True)):
            start = clock()
            for _ in range(count):
                each()
            best[number] = min(best[number], (clock() - start) / count)
        if clock() > end:
            break
    return best
