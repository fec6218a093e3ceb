# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a whole compiled graph at its first call beside the same graph run op by op, or compiled by Inductor alone, and takes the fastest.

Calling what Inductor makes costs some microseconds more than calling the ops, and what a small graph gains by it can be less. What Inductor
makes of the rest of a graph can depend on what is no kernel.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch._functorch._aot_autograd.schemas import PlainTensorMeta  # pyright: ignore[reportMissingImports]
from torch._guards import TracingContext  # pyright: ignore[reportMissingImports]
from torch._inductor.compile_fx import compile_fx  # pyright: ignore[reportMissingImports]

from tilewright.torch.inductor import fx, timing

LOG = logging.getLogger("tilewright")

_LONG = 0.02
"""Seconds of a call from which the cost of calling counts for nothing: kernels were timed each by itself."""
_LONGEST = 0.5
"""Seconds of a call up to which a graph with convolutions is tried op by op all the same: Inductor may copy all filters into another
order in each call. Of 64 x 64 pixels a wide ResNet-50 took 57 ms op by op, and 83 and 87 by Inductor and with kernels."""
_CLEAR = 1.5
"""How many times as long as with kernels a graph takes op by op where Inductor alone is not tried: compiling once more takes long.
Where there are convolutions it is tried anyway: it puts images into another order than ops by themselves do, and is up to twice as fast."""
_GAIN = 1.03
"""How many times as fast anything else has to be: less is what chance makes of equals."""


class Choice:
    """A graph of torch.compile's for inference, kept as it was to be run in other ways than with kernels."""

    def __init__(self, model: Any, inputs: int) -> None:  # noqa: ANN401
        """Keeps the graph: compiling changes it.

        Args:
            model: The graph.
            inputs: How many inputs it has.
        """
        self._graph_module = torch.fx.GraphModule(model, fx.copied(model.graph))
        self._inputs, self._is_pure, self._has_kernels, self._has_images = inputs, False, False, False
        self._inner: Callable[[list[Any]], Any] | None = None

    @classmethod
    def of(cls, model: Any, inputs: Sequence[Any]) -> Choice | None:  # noqa: ANN401
        """The choice that a graph leaves; None where gradients are wanted, shapes are dynamic, or it is not for processors.

        Args:
            model: The graph.
            inputs: Its inputs.
        """
        tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
        is_fit = len(tensors) == len(inputs) and all(
            each.device.type == "cpu" and all(isinstance(size, int) for size in each.shape) for each in tensors
        )
        is_training = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
        return cls(model, len(inputs)) if is_fit and not is_training else None

    def note(self, graph_module: Any, inner: Callable[[list[Any]], Any], *, kernels: bool, images: bool) -> None:  # noqa: ANN401
        """Notes, while the graph is compiled, what AOTAutograd knows of it.

        Args:
            graph_module: The graph of ATen ops.
            inner: What is compiled from that, which AOTAutograd surrounds by code of its own.
            kernels: Whether any is called there.
            images: Whether there are convolutions, by a kernel or not.
        """
        seen = getattr(TracingContext.try_get(), "fw_metadata", None)
        # A graph that changes its inputs would change them once more.
        if seen is None or any(each.mutates_data or each.mutates_metadata for each in seen.input_info):
            return
        self._is_pure, self._has_kernels, self._has_images = True, kernels, images
        # Where inputs are those of the graph, and results tensors of its own, the code around it does nothing in many microseconds.
        is_plain = not (
            seen.num_outputs_aliased
            or seen.num_intermediate_bases
            or seen.tokens
            or seen.is_rng_op_functionalized
            or torch.is_autocast_enabled("cpu")
            or any(type(each) is not PlainTensorMeta for each in seen.subclass_fw_graph_out_meta)
        )
        if is_plain and len(graph_module.graph.find_nodes(op="placeholder")) == self._inputs:
            self._inner = inner

    def between(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """What runs the graph: after the first call the fastest way."""
        if not self._is_pure:
            return compiled
        chosen: Callable[..., Any] | None = None

        def run(*arguments: Any) -> Any:  # noqa: ANN401
            nonlocal chosen
            if chosen is None:
                # The first result stands, whatever is chosen for the next ones.
                chosen, result = compiled, compiled(*arguments)
                chosen = self._fastest(self._directly(compiled), arguments)
                return result
            return chosen(*arguments)

        return run

    def _directly(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """What calls the compiled graph with as little around it as it needs, once it has been called."""
        if self._inner is None:
            return compiled
        inner = getattr(self._inner, "current_callable", None) or self._inner
        return lambda *arguments: inner(list(arguments))

    def _fastest(self, ours: Callable[..., Any], arguments: Sequence[Any]) -> Callable[..., Any]:
        clock = timing.clock(torch.get_num_threads())
        calls = {"with kernels": ours, "op by op": self._graph_module.forward}

        def timed() -> dict[str, float]:
            every = [partial(each, *arguments) for each in calls.values()]
            return dict(zip(calls, timing.in_turn(every, clock), strict=True))

        with torch.random.fork_rng(devices=()):
            start = clock()
            ours(*arguments)
            took = clock() - start
            if took > (_LONGEST if self._has_images else _LONG):
                return ours
            try:
                spent = timed()
                is_close = self._has_images or spent["op by op"] < _CLEAR * spent["with kernels"]
                if self._has_kernels and is_close and took <= _LONG:
                    calls["by Inductor alone"] = compile_fx(self._copy(), arguments)
                    spent = timed()
            except Exception as error:  # whatever an op raises that Inductor never calls
                LOG.warning("a graph stays as it is compiled, as it fails otherwise: %s", error)
                return ours
        best = min(spent, key=spent.__getitem__)
        ratio = spent["with kernels"] / spent[best]
        if ratio <= _GAIN:
            return ours
        LOG.info("a graph of %d nodes is run %s, %.2f times as fast", len(self._graph_module.graph.nodes), best, ratio)
        return calls[best]

    def _copy(self) -> Any:  # noqa: ANN401 - a graph module
        return torch.fx.GraphModule(self._graph_module, fx.copied(self._graph_module.graph))
