# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a program through torch.compile with our backend: its numbers beside eager's in double precision, its time beside others'."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

torch: Any = import_module("torch")
backend: Any = import_module("tilewright.torch.inductor.backend")

UNITS = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float64: 2.0**-53}
_SOME = 8
"""Units in the last place of the largest element that a result may differ by where eager has no error at all."""
_LONG, _SHORT = 2048, 32
"""The longest sum of products here, which a kernel may add up in one chain, and the chains at least in which libraries do."""
_MORE = {dtype: 2 * math.sqrt(_LONG / _SHORT) if unit < 2.0**-20 else 2 for dtype, unit in UNITS.items()}
"""How many times eager's error a result may have: that of a chain grows with the root of its length. Sums of small types are in f32."""
_FEW = 0.01
"""The share of integers, as positions of maxima, that may differ from eager's: near ties."""
_ROUNDS = 15
_SAMPLE = 0.004


@dataclass(frozen=True)
class Program:
    """What is compiled, and what it is run on.

    Attributes:
        call: The function or module.
        inputs: What it takes, by position or by name.
        dtype: The element type that its numbers are judged by.
        training: Whether gradients are results too.
        others: More inputs, of other extents.
    """

    call: Any
    inputs: Sequence[Any] | Mapping[str, Any]
    dtype: Any
    training: bool = False
    others: tuple[Sequence[Any], ...] = ()

    def of(self, dtype: Any) -> Program:
        """The same in another element type."""
        call = copy.deepcopy(self.call).to(dtype) if isinstance(self.call, torch.nn.Module) else self.call
        inputs, others = torch.utils._pytree.tree_map(partial(_of, dtype=dtype), (self.inputs, self.others))
        return Program(call, inputs, dtype, self.training, others)

    def run(self, compiled: Any) -> Any:
        """Calls it once."""
        if isinstance(self.inputs, Mapping):
            return compiled(**self.inputs)
        return compiled(*self.inputs)

    def results(self, compiled: Any) -> Iterator[Any]:
        """The tensors that it gives, and what it makes of its inputs or their gradients, with all inputs."""
        parameters = list(self.call.parameters()) if isinstance(self.call, torch.nn.Module) else []
        for inputs in (self.inputs, *self.others):
            each = Program(self.call, torch.utils._pytree.tree_map(_own, inputs), self.dtype)
            given = [] if isinstance(each.inputs, Mapping) else list(each.inputs)
            if not self.training:
                with torch.no_grad():
                    yield from tensors(each.run(compiled))
                yield from given
                continue
            for parameter in parameters:
                parameter.grad = None
            wanted = [x.requires_grad_() for x in given if x.is_floating_point()] + parameters
            found = tensors(each.run(compiled))
            torch.autograd.backward(
                [x for x in found if x.requires_grad],
                [torch.linspace(0.5, 1.5, x.numel(), dtype=x.dtype).view(x.shape) for x in found if x.requires_grad],
            )
            yield from (x.detach() for x in found)
            yield from [x.grad for x in wanted if x.grad is not None]


def _own(tensor: Any) -> Any:
    """A tensor that a program may write to."""
    return tensor.detach().clone() if tensor.is_contiguous() else tensor.detach()


def _of(tensor: Any, dtype: Any = torch.float64) -> Any:
    if tensor.is_complex():
        return tensor.to(dtype.to_complex())
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def tensors(found: Any) -> list[Any]:
    """The tensors of a result, or of a structure of transformers its last hidden state."""
    found = getattr(found, "last_hidden_state", found)
    return [each for each in torch.utils._pytree.tree_leaves(found) if isinstance(each, torch.Tensor)]


def faults(program: Program, compiled: Any) -> list[str]:
    """What is wrong with the results of a compiled program: shapes, types, strides, or numbers that are worse than eager's.

    Nothing is more exact than double precision: there, eager's errors in f32 stand for its own, in units of the type's rounding.
    """
    found = []
    exact = program.of(torch.float64)
    rough = program.of(torch.float32) if program.dtype == torch.float64 else program
    # One after the other: gradients of parameters are in the same places.
    every = [
        list(each.results(call))
        for each, call in ((exact, exact.call), (rough, rough.call), (program, program.call), (program, compiled))
    ]
    for number, (wanted, inexact, eager, ours) in enumerate(zip(*every, strict=True)):
        if (eager.dtype, eager.shape) != (ours.dtype, ours.shape):
            found.append(
                f"result {number}: {ours.dtype} {tuple(ours.shape)}; expected {eager.dtype} {tuple(eager.shape)}"
            )
        elif not _lies(ours, eager.stride()):
            found.append(f"result {number}: strides {ours.stride()}; expected {eager.stride()}")
        elif eager.numel() and not (eager.is_floating_point() or eager.is_complex()):
            share = (eager != ours).double().mean().item()
            found += [f"result {number}: {share:.0%} of integers differ"] if share > _FEW else []
        elif eager.numel():
            own, theirs = _error(ours, wanted, program.dtype), _error(inexact, wanted, rough.dtype)
            if own > _MORE[program.dtype] * theirs + _SOME:
                found.append(f"result {number}: {own:.1f} units off; eager is {theirs:.1f} off")
    return found


def _error(result: Any, wanted: Any, dtype: Any) -> float:
    """The largest error of an element, in units in the last place of the largest element in this type."""
    wanted = _of(wanted)
    return (_of(result) - wanted).abs().max().item() / (UNITS[dtype] * max(wanted.abs().max().item(), 1e-30))


def _lies(tensor: Any, strides: Sequence[int]) -> bool:
    each = zip(tensor.shape, tensor.stride(), strides, strict=True)
    return not tensor.numel() or all(size == 1 or own == wanted for size, own, wanted in each)


def by_kernels(graphs: list[Any]) -> Any:
    """A backend that takes every kernel, and runs the rest of a graph op by op: nothing is compiled but kernels."""
    from torch._dynamo.backends.common import aot_autograd  # pyright: ignore[reportMissingImports]
    from torch._functorch.aot_autograd import make_boxed_func  # pyright: ignore[reportMissingImports]

    def compiler(graph_module: Any, _inputs: Any) -> Any:
        backend.rewrite(graph_module, timed=False)
        graphs.append(graph_module)
        return make_boxed_func(graph_module.forward)

    return aot_autograd(fw_compiler=compiler, decompositions=backend.decompositions())


def seconds(program: Program, compiled: Mapping[str, Any]) -> dict[str, float]:
    """The time of a call by each, the least of some rounds in turn, on one thread in processor time."""

    def once(function: Any) -> Callable[[], object]:
        if program.training:
            return lambda: list(program.results(function))
        return lambda: program.run(function)

    calls = {name: once(each) for name, each in compiled.items()}
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    counts, spent = {}, dict.fromkeys(calls, math.inf)
    with torch.set_grad_enabled(program.training):
        for name, call in calls.items():
            call()
            call()
            start = clock()
            call()
            counts[name] = max(1, int(_SAMPLE / max(clock() - start, 1e-9)))
        for _ in range(_ROUNDS):
            for name, call in calls.items():
                start = clock()
                for _ in range(counts[name]):
                    call()
                spent[name] = min(spent[name], (clock() - start) / counts[name])
    return spent
