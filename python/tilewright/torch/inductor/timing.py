# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a kernel beside the op of torch's that it replaces, so that a slower one is left out."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
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
_SECONDS = 0.25
"""After which no further round begins: large products take long, and vary less."""
MOST = 1.15
"""How many times as long as torch's op a kernel may take: less is what chance makes of equals."""


def slower(call: Call, threads: int) -> float | None:
    """How many times as long as torch's op the kernel takes, if that is too long; None if not, or with dynamic extents.

    What is fused counts for torch as one more pass over the result.
    """
    product = call.region.product
    theirs = product.args[0] if product.target is operator.getitem else product
    arguments = torch.fx.node.map_arg(theirs.args, _shape)
    flat = torch.utils._pytree.tree_leaves((arguments, theirs.kwargs))
    is_open = any(isinstance(size, Dim) for each in call.spec.operands for size in each.stored)
    if is_open or any(isinstance(each, torch.fx.Node | torch.SymInt) for each in flat):
        return None
    named = tuple((name, _shape(each)) for name, each in theirs.kwargs.items())
    ratio = _ratio(call.spec, threads, theirs.target, _hashable(arguments), named, call.region.epilogue is not None)
    return ratio if ratio > MOST else None


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
    return _Lies(tuple(found.shape), tuple(found.stride()), found.dtype)


def _drawn(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, _Lies):
        return torch.empty_strided(value.shape, value.strides, dtype=value.type).uniform_(-1, 1)
    return [_drawn(each) for each in value] if isinstance(value, tuple) else value


@lru_cache(maxsize=4096)
def _ratio(spec: Any, threads: int, target: Any, arguments: Any, named: Any, fused: bool) -> float:  # noqa: ANN401
    """The best time of the kernel over the best of torch's, of some rounds in turn."""
    with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
        name, kernel = kernels.compiled(spec, threads)
        operands = [_operand(kernel, each) for each in kernel.spec.operands]
        given, how = _drawn(arguments), {key: _drawn(each) for key, each in named}

        def theirs() -> None:
            result = target(*given, **how)
            if fused:
                result.add(1)

        # Of one thread processor time, which other load on the machine leaves alone.
        clock = time.thread_time if threads == 1 else time.perf_counter
        return _in_turn(lambda: torch.ops.tilewright.call.default(name, operands), theirs, clock)


def _operand(kernel: Any, operand: Any) -> Any:  # noqa: ANN401
    """A random operand of a kernel."""
    drawn = torch.empty(operand.stored, dtype=torch_type(operand.type)).uniform_(-1, 1)
    is_packed = getattr(kernel.spec, f"{operand.name}_packed", False)
    return pack(kernel, drawn, operand.name) if is_packed else drawn


def _in_turn(ours: Callable[[], object], theirs: Callable[[], object], clock: Callable[[], float]) -> float:
    best = {ours: float("inf"), theirs: float("inf")}
    for each in best:
        each()
    end = clock() + _SECONDS
    for _ in range(_ROUNDS):
        for each in best:
            start = clock()
            each()
            best[each] = min(best[each], clock() - start)
        if clock() > end:
            break
    return best[ours] / best[theirs]
