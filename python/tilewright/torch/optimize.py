# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Has the layers of a model run on kernels of ours, with weights as they are, packed or quantized, and undoes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.errors import SpecError
from tilewright.payload import epilogues
from tilewright.runtime.compile import compile
from tilewright.spec import MatmulSpec
from tilewright.torch.attention import scaled_dot_product_attention
from tilewright.torch.calls import call
from tilewright.torch.convolutions import conv2d
from tilewright.torch.ops import wants_gradient
from tilewright.torch.products import linear
from tilewright.torch.quantized import KINDS, QuantizedWeight, laid, linear_quantized, quantize
from tilewright.torch.registry import pack, register
from tilewright.torch.types import ELEMENTS

_STATE = "_tilewright"
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
_nn: Any = torch.nn


@dataclass(frozen=True, slots=True)
class _Packed:
    """A packed weight: the name of the kernel that takes it, its bytes, and the weight's version when it was packed."""

    kernel: str
    bytes: Any
    version: tuple[int, int]


class Linear(_nn.Linear):
    """A torch.nn.Linear on kernels of ours."""

    def forward(self, x: Any) -> Any:  # noqa: ANN401 - a tensor
        """The layer's result."""
        state = self.__dict__.get(_STATE)
        if isinstance(state, QuantizedWeight):
            return linear_quantized(x, state, self.bias)
        if not isinstance(state, _Packed) or wants_gradient(x, self.weight, self.bias):
            return linear(x, self.weight, self.bias)
        if not torch.compiler.is_compiling() and state.version != _version(self.weight):
            state = self.__dict__[_STATE] = _packed(self)
        further = () if self.bias is None else (self.bias,)
        rows = call(state.kernel, x.reshape(-1, self.in_features), state.bytes, *further)
        return rows.reshape(*x.shape[:-1], self.out_features)


class Conv2d(_nn.Conv2d):
    """A torch.nn.Conv2d on kernels of ours."""

    def forward(self, x: Any) -> Any:  # noqa: ANN401 - a tensor
        """The layer's result."""
        where = (self.stride, self.padding, self.dilation, self.groups)
        return conv2d(x, self.weight, self.bias, *where)


_OURS: Mapping[Any, Any] = MappingProxyType({_nn.Linear: Linear, _nn.Conv2d: Conv2d})
_THEIRS: Mapping[Any, Any] = MappingProxyType({ours: theirs for theirs, ours in _OURS.items()})


class _Attention(torch.overrides.TorchFunctionMode):
    """Has torch's attention computed by ours, where ours computes it."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,  # noqa: ANN401 - torch's
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - of any function
        named = dict(kwargs or {})
        if func is _nn.functional.scaled_dot_product_attention and _is_ours(*args, **named):
            return scaled_dot_product_attention(*args, **named)
        return func(*args, **named)


class _Hooks:
    """By which the attention of a model is ours while it runs. Compiled graphs have none: their attention is the compiler's."""

    def __init__(self) -> None:
        self._modes: list[_Attention] = []

    def enter(self, *_: Any) -> None:  # noqa: ANN401 - torch's
        if not torch.compiler.is_compiling():
            self._modes.append(_Attention())
            self._modes[-1].__enter__()

    def leave(self, *_: Any) -> None:  # noqa: ANN401 - torch's
        if not torch.compiler.is_compiling() and self._modes:
            self._modes.pop().__exit__(None, None, None)


_AS_THEY_ARE = ("plain", "packed")
"""What weights may be that are not quantized."""


def optimize(
    model: Any,  # noqa: ANN401 - a module
    weights: str = "plain",
    *,
    group: int = 0,
    precision: str | None = None,
    attention: bool = True,
) -> Any:  # noqa: ANN401 - a module
    """Has a model's layers run on kernels of ours, in place, and returns the model.

    Layers of exactly the classes torch.nn.Linear and torch.nn.Conv2d are ours then, where their weights are floats on the CPU and
    images are padded by zeros; so is torch.nn.functional.scaled_dot_product_attention while the model runs. Parameters, their names,
    hooks and gradients stay. `restore` undoes it.

    Args:
        model: A torch.nn.Module.
        weights: Of linear layers: "plain", as they are; "packed", in the order in which a kernel reads them, as a copy; or how they are
            quantized, "i8" or another of `quantize`, as a copy: the layer then computes with it, and its own weight gets no gradient.
        group: Elements of quantized weights that share a scale, as in `quantize`.
        precision: "i8": what layers of quantized weights are given may be rounded to 8-bit integers, as in `quantize`.
        attention: Whether attention is ours too.

    Raises:
        SpecError: `model` is no module, or is optimized already, or `weights` or `precision` is none of these.
    """
    if not isinstance(model, _nn.Module) or any(_STATE in each.__dict__ for each in model.modules()):
        found = "it is optimized already" if isinstance(model, _nn.Module) else f"it is a {type(model).__name__}"
        raise SpecError(
            found, where="tilewright.torch.optimize", expected="a torch.nn.Module", remedy="Call restore first"
        )
    if weights not in (*_AS_THEY_ARE, *KINDS):
        expected = f"plain, packed, {', '.join(KINDS)}"
        raise SpecError(f"weights are {weights!r}", where="tilewright.torch.optimize", expected=f"one of {expected}")
    if precision is not None and weights not in KINDS:
        expected = "None, but for quantized weights"
        raise SpecError(f"precision is {precision!r}", where="tilewright.torch.optimize", expected=expected)
    for each in [each for each in model.modules() if _is_taken(each)]:
        each.__class__ = _OURS[type(each)]
        of_linear = isinstance(each, Linear)
        each.__dict__[_STATE] = _prepared(each, weights, group, precision) if of_linear else None
    if weights in KINDS:
        _lay(model)
    if attention:
        hooks = _Hooks()
        model.register_forward_pre_hook(hooks.enter, prepend=True)
        model.register_forward_hook(hooks.leave, always_call=True)
    return model


def restore(model: Any) -> Any:  # noqa: ANN401 - a module
    """Undoes `optimize`, in place, and returns the model; what is not optimized stays as it is."""
    for each in model.modules():
        if type(each) in _THEIRS:
            each.__class__ = _THEIRS[type(each)]
        each.__dict__.pop(_STATE, None)
        for hooks in (each._forward_pre_hooks, each._forward_hooks):
            for key, hook in [*hooks.items()]:
                if isinstance(getattr(hook, "__self__", None), _Hooks):
                    del hooks[key]
                    each._forward_hooks_always_called.pop(key, None)
    return model


def _is_taken(module: Any) -> bool:  # noqa: ANN401 - a module
    if type(module) not in _OURS:
        return False
    weight = module.weight
    padded = getattr(module, "padding_mode", "zeros") == "zeros"
    return padded and weight.device.type == "cpu" and weight.dtype in (*_FLOATS, torch.float64)


def _is_ours(
    q: Any,  # noqa: ANN401 - a tensor
    k: Any,  # noqa: ANN401 - a tensor
    v: Any,  # noqa: ANN401 - a tensor
    attn_mask: Any = None,  # noqa: ANN401 - a tensor
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> bool:
    types = {each.dtype for each in (q, k, v)}
    whole = q.dim() == k.dim() == v.dim() and q.shape[:-3] == k.shape[:-3] == v.shape[:-3]
    plain = not dropout_p and q.device.type == "cpu" and not (attn_mask is not None and is_causal)
    return whole and plain and len(types) == 1 and types <= set(_FLOATS)


def _prepared(module: Any, weights: str, group: int, precision: str | None) -> Any:  # noqa: ANN401 - a module
    if weights in KINDS:
        return quantize(module.weight, weights, group, precision=precision)
    is_packed = weights == _AS_THEY_ARE[1] and module.weight.dtype in ELEMENTS
    return _packed(module) if is_packed else None


def _lay(model: Any) -> None:  # noqa: ANN401 - a module
    """Lays quantized weights of one K that siblings have one after another, such as those for queries, keys and values."""
    groups: dict[Any, list[Any]] = {}
    for parent in model.modules():
        for each in parent.children():
            if isinstance(each, Linear):
                groups.setdefault((id(parent), each.in_features, each.weight.dtype), []).append(each)
    found = laid([[each.__dict__[_STATE] for each in group] for group in groups.values()])
    for group, weights in zip(groups.values(), found, strict=True):
        for each, weight in zip(group, weights, strict=True):
            each.__dict__[_STATE] = weight


def _packed(module: Any) -> _Packed:  # noqa: ANN401 - a module
    """A module's weight, packed for a kernel of any number of rows."""
    weight = module.weight.detach()
    element = ELEMENTS[weight.dtype]
    epilogue = () if module.bias is None else (epilogues.bias("n", element),)
    n, k = weight.shape
    spec = MatmulSpec(None, n, k, a=element, c=element, layout="nt", b_packed=True, epilogue=epilogue)
    kernel = compile(spec, threads=torch.get_num_threads())
    return _Packed(register(kernel), pack(kernel, weight), _version(module.weight))


def _version(weight: Any) -> tuple[int, int]:  # noqa: ANN401 - a tensor
    return weight.data_ptr(), weight._version
