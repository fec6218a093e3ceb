# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a program through torch.compile with our backend: its numbers beside eager's in double precision, its time beside others'."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

torch: Any = import_module("torch")
backend: Any = import_module("tilewright.torch.inductor.backend")

UNITS = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float64: 2.0**-53}
_SOME = 8
"""Units in the last place of the largest element that a result may differ by where eager has no error at all."""
_FEW = 0.01
"""The share of integers, as positions of maxima, that may differ from eager's: near ties."""
_ROUNDS = 9
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

    def in_double(self) -> Program:
        """The same in double precision."""
        call = copy.deepcopy(self.call).double() if isinstance(self.call, torch.nn.Module) else self.call
        widened = torch.utils._pytree.tree_map(_widened, (self.inputs, self.others))
        return Program(call, widened[0], torch.float64, self.training, widened[1])

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


def _widened(tensor: Any) -> Any:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def tensors(found: Any) -> list[Any]:
    """The tensors of a result, or of a structure of transformers its last hidden state."""
    found = getattr(found, "last_hidden_state", found)
    return [each for each in torch.utils._pytree.tree_leaves(found) if isinstance(each, torch.Tensor)]


def faults(program: Program, compiled: Any) -> list[str]:
    """What is wrong with the results of a compiled program: shapes, types, strides, or numbers that are worse than eager's."""
    found = []
    exact = program.in_double()
    # One after the other: gradients of parameters are in the same places.
    every = [
        list(each.results(call)) for each, call in ((exact, exact.call), (program, program.call), (program, compiled))
    ]
    for number, (wanted, eager, ours) in enumerate(zip(*every, strict=True)):
        if (eager.dtype, eager.shape) != (ours.dtype, ours.shape):
            found.append(
                f"result {number}: {ours.dtype} {tuple(ours.shape)}; expected {eager.dtype} {tuple(eager.shape)}"
            )
        elif not _lies(ours, eager.stride()):
            found.append(f"result {number}: strides {ours.stride()}; expected {eager.stride()}")
        elif eager.numel() and (fault := _difference(wanted, eager, ours, program.dtype)):
            found.append(f"result {number}: {fault}")
    return found


def _lies(tensor: Any, strides: Sequence[int]) -> bool:
    each = zip(tensor.shape, tensor.stride(), strides, strict=True)
    return not tensor.numel() or all(size == 1 or own == wanted for size, own, wanted in each)


def _difference(wanted: Any, eager: Any, ours: Any, dtype: Any) -> str:
    if not (eager.is_floating_point() or eager.is_complex()):
        share = (eager != ours).double().mean().item()
        return f"{share:.0%} of integers differ" if share > _FEW else ""
    wanted = _widened(wanted)
    unit = UNITS[dtype] * max(wanted.abs().max().item(), 1e-30)
    own, theirs = ((_widened(each) - wanted).abs().max().item() / unit for each in (ours, eager))
    return "" if own <= 2 * theirs + _SOME else f"{own:.1f} units off; eager is {theirs:.1f} off"


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
    """The time of a call by each, of some rounds in turn the lower quartile, on one thread in processor time."""

    def once(function: Any) -> Callable[[], object]:
        if program.training:
            return lambda: list(program.results(function))
        return lambda: program.run(function)

    calls = {name: once(each) for name, each in compiled.items()}
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    counts, spent = {}, {name: [] for name in calls}
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
                spent[name].append((clock() - start) / counts[name])
    return {name: sorted(each)[len(each) // 4] for name, each in spent.items()}
