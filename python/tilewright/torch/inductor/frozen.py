# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parameters as constants of a graph for inference: folded, packed ahead of time, and made anew when one changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch._inductor.compile_fx import fake_tensor_prop  # pyright: ignore[reportMissingImports]
from torch._inductor.constant_folding import constant_fold, replace_node_with_constant  # pyright: ignore[reportMissingImports]
from torch._inductor.freezing_utils import enter_freezing, record_has_frozen_params  # pyright: ignore[reportMissingImports]
from torch._inductor.fx_passes import binary_folding, freezing_patterns, post_grad  # pyright: ignore[reportMissingImports]

from tilewright.torch.inductor import fx
from tilewright.torch.inductor.fx import aten

_ROUNDS = 4
"""How often factors and addends are folded into weights: a convolution may have several of them one after the other."""

Compile = Callable[[Any, Sequence[Any]], Callable[..., Any]]
"""Compiles a graph whose parameters are constants, for the other inputs."""


def parameters(model: Any, inputs: Sequence[Any]) -> dict[int, Any]:  # noqa: ANN401
    """The inputs of a graph of torch.compile's that are parameters or buffers of modules, by number."""
    placeholders = model.graph.find_nodes(op="placeholder")
    found = {}
    for number, (node, each) in enumerate(zip(placeholders, inputs, strict=True)):
        is_static = "_dynamo_static_input_type" in node.meta.get("tensor_dict", {})
        if is_static and type(each) in (torch.Tensor, torch.nn.Parameter) and not each.is_inference():
            found[number] = each
    return found


def fits(graph_module: Any, constants: Mapping[int, Any]) -> bool:  # noqa: ANN401
    """Whether the inputs of a graph of ATen ops are numbered as these parameters are: subclasses of tensors come in parts."""
    placeholders = graph_module.graph.find_nodes(op="placeholder")
    values = {number: node.meta.get("val") for number, node in enumerate(placeholders)}

    def is_like(tensor: Any, seen: Any) -> bool:  # noqa: ANN401
        return isinstance(seen, torch.Tensor) and seen.shape == tensor.shape and seen.dtype == tensor.dtype

    return all(is_like(tensor, values.get(number)) for number, tensor in constants.items())


def _state(tensor: Any) -> tuple[int, int]:  # noqa: ANN401
    """What changes when a tensor's elements do, as far as torch counts: its memory and its version."""
    return tensor.data_ptr(), tensor._version


class Frozen:
    """A compiled graph whose parameters are constants; when one has changed, a call first compiles the graph anew.

    A change that torch does not count, such as one through ``parameter.data``, is not seen.
    """

    _boxed_call = True  # Calls take a list of the arguments, and clear it.

    def __init__(
        self,
        graph_module: Any,  # noqa: ANN401
        inputs: Sequence[Any],
        constants: Mapping[int, Any],
        compile: Compile,
    ) -> None:
        """Compiles the graph.

        Args:
            graph_module: A graph of ATen ops for inference.
            inputs: Fake values of its inputs.
            constants: The real ones of parameters, by number.
            compile: Compiles the rest.
        """
        self._graph_module, self._inputs, self._compile = graph_module, inputs, compile
        self._make(constants)

    def __call__(self, arguments: list[Any]) -> Any:  # noqa: ANN401
        """Runs it."""
        if any(_state(arguments[number]) != state for number, state in self._states):
            self._make({number: arguments[number] for number, _ in self._states})
        rest = [arguments[number] for number in self._rest]
        arguments.clear()
        return self._run(rest)

    def _make(self, constants: Mapping[int, Any]) -> None:
        graph_module = torch.fx.GraphModule(self._graph_module, fx.copied(self._graph_module.graph))
        placeholders = graph_module.graph.find_nodes(op="placeholder")
        written = {
            node.args[0] for node in graph_module.graph.find_nodes(op="call_function", target=aten.copy_.default)
        }
        taken = {number: each for number, each in constants.items() if placeholders[number] not in written}
        self._states = [(number, _state(each)) for number, each in taken.items()]
        self._rest = [number for number in range(len(placeholders)) if number not in taken]
        inputs = [self._inputs[number] for number in self._rest]
        # Inductor's cache then takes constants by shape and type: it would write each element into the key otherwise.
        record_has_frozen_params(graph_module)
        with enter_freezing(), _allowed(self._inputs):
            for number, each in taken.items():
                with torch.utils._python_dispatch._disable_current_modes():
                    tensor = each.detach()
                replace_node_with_constant(graph_module, placeholders[number], tensor)
            _fold(graph_module, inputs)
            self._run = self._compile(graph_module, inputs)


def _fold(graph_module: Any, inputs: Sequence[Any]) -> None:  # noqa: ANN401
    """Computes what depends on constants alone, and folds factors and addends, as of batch normalization, into weights."""
    binary_folding.binary_folding_init()
    post_grad.view_to_reshape(graph_module)
    fake_tensor_prop(graph_module, inputs, True)
    binary_folding.mark_mixed_dtype_allowed_computation_ops(graph_module)
    for _ in range(_ROUNDS):
        constant_fold(graph_module)
        fake_tensor_prop(graph_module, inputs, True)
        freezing_patterns.binary_folding_pass.apply(graph_module.graph)
    binary_folding.recover_original_precision_folded_computation_ops(graph_module)
    constant_fold(graph_module)
    fake_tensor_prop(graph_module, inputs, True)


def _allowed(inputs: Sequence[Any]) -> Any:  # noqa: ANN401 - a context
    """While a graph with real constants is compiled."""
    tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
    return mock.patch.object(tensors[0].fake_mode, "allow_non_fake_inputs", True)
