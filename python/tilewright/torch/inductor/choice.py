# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a whole compiled graph at its first call beside the same graph run op by op, so that a slower one is left out.

Calling what Inductor makes costs some microseconds more than calling the ops, and what a small graph gains by it can be less.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch._functorch._aot_autograd.schemas import PlainTensorMeta  # pyright: ignore[reportMissingImports]
from torch._guards import TracingContext  # pyright: ignore[reportMissingImports]

from tilewright.torch.inductor import fx, timing

LOG = logging.getLogger("tilewright")

_LONG = 0.02
"""Seconds of a call from which the cost of calling counts for nothing: kernels were timed each by itself."""
_GAIN = 1.03
"""How many times as fast the ops have to be: less is what chance makes of equals."""


class Choice:
    """A graph of torch.compile's for inference, kept to be run op by op where that is faster than what is compiled from it."""

    def __init__(self, model: Any, inputs: int) -> None:  # noqa: ANN401
        """Keeps the graph: compiling changes it.

        Args:
            model: The graph.
            inputs: How many inputs it has.
        """
        self._graph_module = torch.fx.GraphModule(model, fx.copied(model.graph))
        self._inputs, self._is_pure = inputs, False
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

    def note(self, graph_module: Any, inner: Callable[[list[Any]], Any]) -> None:  # noqa: ANN401
        """Notes, while the graph is compiled, what AOTAutograd knows of it.

        Args:
            graph_module: The graph of ATen ops.
            inner: What is compiled from that, which AOTAutograd surrounds by code of its own.
        """
        seen = getattr(TracingContext.try_get(), "fw_metadata", None)
        # A graph that changes its inputs would change them once more.
        self._is_pure = seen is not None and not any(
            each.mutates_data or each.mutates_metadata for each in seen.input_info
        )
        if not self._is_pure:
            return
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
        """What runs the graph: by the first call the faster of `compiled` and its ops."""
        if not self._is_pure:
            return compiled
        inner, chosen = self._inner, None
        ours = compiled if inner is None else lambda *arguments: inner(list(arguments))

        def run(*arguments: Any) -> Any:  # noqa: ANN401
            nonlocal chosen
            if chosen is None:
                # The first result stands, whatever is chosen for the next ones.
                chosen, result = ours, ours(*arguments)
                chosen = self._faster(ours, arguments)
                return result
            return chosen(*arguments)

        return run

    def _faster(self, compiled: Callable[..., Any], arguments: Sequence[Any]) -> Callable[..., Any]:
        ops = self._graph_module.forward
        clock = timing.clock(torch.get_num_threads())
        with torch.random.fork_rng(devices=()):
            start = clock()
            compiled(*arguments)
            if clock() - start > _LONG:
                return compiled
            try:
                ratio = timing.in_turn(lambda: compiled(*arguments), lambda: ops(*arguments), clock)
            except Exception as error:  # whatever an op raises that Inductor never calls
                LOG.warning("a graph stays compiled, as its ops fail one by one: %s", error)
                return compiled
        if ratio <= _GAIN:
            return compiled
        LOG.info(
            "a graph of %d nodes is run op by op, which is %.2f times as fast",
            len(self._graph_module.graph.nodes),
            ratio,
        )
        return ops
