# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Python adds to the ops that C++ registers: fake kernels, gradients, batching rules of vmap, and casts of autocast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.torch import native

native.library()
NAMESPACE: Any = torch.ops.tilewright
"""The ops."""
_ADDED = torch.library.Library("tilewright", "FRAGMENT")
"""What is registered here, while it lives."""
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)


@dataclass(frozen=True, slots=True)
class Op:
    """An op of tensors.

    Attributes:
        only: Without a gradient, and quick.
        whole: With a gradient, also inside transforms of torch.func.
    """

    only: Callable[..., Any]
    whole: Callable[..., Any]


def define(
    name: str,
    fake: Callable[..., Any],
    backward: Callable[..., Any],
    batched: Callable[..., Any],
    defaults: tuple[Any, ...],
) -> Op:
    """Completes an op that is there twice, as `name`, with a gradient, and as `_name`, without.

    Args:
        name: Its name.
        fake: Returns a tensor without memory for the op's arguments.
        backward: Takes ctx and the result's gradient, and returns one for each argument. ctx has `arguments`, `needs_input_grad`.
        batched: The rule of vmap: info, the mapped axis of each argument, and the arguments.
        defaults: What the op has for arguments that are left out, and None for others.
    """
    for each in (name, f"_{name}"):
        torch.library.register_fake(f"tilewright::{each}", fake)
        torch.library.register_vmap(f"tilewright::{each}", batched)
        _ADDED.impl(each, _autocast(getattr(NAMESPACE, each).default), "AutocastCPU")
    only, op = getattr(NAMESPACE, f"_{name}").default, getattr(NAMESPACE, name).default

    def save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ANN401 - torch's
        ctx.save_for_backward(*(each for each in inputs if isinstance(each, torch.Tensor)))
        ctx.kept = [None if isinstance(each, torch.Tensor) else (each,) for each in inputs]

    def gradients(ctx: Any, grad: Any) -> tuple[Any, ...]:  # noqa: ANN401 - torch's
        tensors = iter(ctx.saved_tensors)
        given = [next(tensors) if kept is None else kept[0] for kept in ctx.kept]
        wanted = (*ctx.needs_input_grad, *(False for _ in defaults))[: len(defaults)]
        found = backward(grad, wanted, *given, *defaults[len(given) :])
        return (*found, *(None for _ in given))[: len(given)]

    torch.library.register_autograd(f"tilewright::{name}", gradients, setup_context=save)
    members = {
        "forward": staticmethod(only),
        "setup_context": staticmethod(save),
        "backward": staticmethod(gradients),
        "vmap": staticmethod(batched),
    }
    function: Any = type(name, (torch.autograd.Function,), members)

    def whole(*arguments: Any) -> Any:  # noqa: ANN401 - as of the op
        # The transforms of torch.func want a Function, and no op's gradient.
        return function.apply(*arguments) if torch._C._are_functorch_transforms_active() else op(*arguments)

    return Op(only, whole)


def _autocast(op: Any) -> Callable[..., Any]:  # noqa: ANN401 - torch's
    """The op with its floats cast to the type that autocast has, as torch casts those of its products; f64 stays."""

    def cast(value: Any, type_: Any) -> Any:  # noqa: ANN401 - as given
        is_cast = isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64
        return value.to(type_) if is_cast else value

    def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - as of the op
        type_ = torch.get_autocast_dtype("cpu")
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            values = {name: cast(value, type_) for name, value in named.items()}
            return op(*(cast(each, type_) for each in given), **values)

    return call


def wants_gradient(*tensors: Any) -> bool:  # noqa: ANN401 - tensors, or None
    """Whether a gradient is wanted for one of the tensors."""
    if torch.is_grad_enabled():
        for each in tensors:  # A generator would take twice as long as all else that an op does in Python.
            if each is not None and each.requires_grad:
                return True
    return False


def spread(value: Any, axis: int | None, size: int) -> Any:  # noqa: ANN401 - a tensor
    """A tensor with the mapped axis of vmap first, of which there are `size` entries, the same ones where it has none."""
    if value is None:
        return None
    return value.expand(size, *value.shape) if axis is None else value.movedim(axis, 0)
