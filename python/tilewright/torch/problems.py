# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ops compute, in words, and the specs that it is: of products, convolutions and attention.

An op says what it needs in a text, "product m=128 n=3072 k=768 a=f32 b=f32 c=f32 layout=nt ...". An extent that is "?" is dynamic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tilewright.entries import Epilogue
from tilewright.errors import SpecError
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.operator_specs.conv2d import Conv2dSpec
from tilewright.payload import epilogues
from tilewright.spec import MatmulSpec

_GATES = ("silu", "gelu", "sigmoid", "relu", "tanh")
_ENTRIES: Mapping[str, Callable[..., Epilogue]] = MappingProxyType(
    {
        "bias": epilogues.bias,
        "residual": epilogues.residual,
        "gelu": epilogues.gelu,
        "gelu_tanh": lambda: epilogues.gelu("tanh"),
        "silu": epilogues.silu,
        "relu": epilogues.relu,
        "sigmoid": epilogues.sigmoid,
        "tanh": epilogues.tanh,
        "hardswish": epilogues.hardswish,
        **{f"glu-{each}": (lambda *_, each=each: epilogues.glu(each)) for each in _GATES},
    }
)
ACTIVATIONS = tuple(name for name in _ENTRIES if name not in ("bias", "residual") and not name.startswith("glu-"))
"""What linear layers and convolutions apply to their sums."""
_BATCHES = ("batch", "a_batch", "b_batch")


@dataclass(frozen=True, slots=True)
class Problem:
    """What an op has to compute.

    Attributes:
        kind: "product", "conv2d" or "attention".
        fields: The rest of the text, by name.
    """

    kind: str
    fields: Mapping[str, str]

    @classmethod
    def read(cls, text: str) -> Problem:
        """The problem of a text.

        Raises:
            SpecError: It is none.
        """
        kind, *words = text.split()
        if kind not in _SPECS or not all("=" in word for word in words):
            raise SpecError(
                f"{text!r} is no problem of an op", where="tilewright.torch", expected=f"one of {', '.join(_SPECS)}"
            )
        return cls(kind, dict(word.split("=", 1) for word in words))

    @property
    def text(self) -> str:
        """The text, which `read` reads."""
        return " ".join((self.kind, *(f"{name}={value}" for name, value in self.fields.items())))

    def opened(self, *names: str) -> Problem:
        """The same with dynamic extents in place of those of these names, and of a batch but for its axes of 1."""
        own = {name: _opened(self.fields[name]) if name in _BATCHES else "?" for name in names if name in self.fields}
        return Problem(self.kind, {**self.fields, **own})

    @property
    def spec(self) -> Any:  # noqa: ANN401 - of a product or an operator
        """What is computed.

        Raises:
            SpecError: No kernel computes it.
        """
        return _SPECS[self.kind](self.fields)

    @property
    def threads(self) -> int:
        """Most threads that a call uses."""
        return int(self.fields["threads"])


def _product(fields: Mapping[str, str]) -> MatmulSpec:
    batches: dict[str, Any] = {name: _sizes(fields[name]) for name in _BATCHES}
    prologue = fields["prologue"]
    extents: list[Any] = [_size(fields[each]) for each in "mnk"]
    types: dict[str, Any] = {name: fields[name] for name in ("a", "b", "c", "layout")}
    return MatmulSpec(
        *extents,
        **types,
        **batches,
        precision=None if fields["precision"] == "-" else fields["precision"],
        prologue_b=() if prologue == "-" else (_dequantize(*prologue.split(":")[1:]),),
        epilogue=_epilogue(fields["epilogue"]),
    )


def _conv2d(fields: Mapping[str, str]) -> Conv2dSpec:
    height, width = (int(each) for each in fields["padding"].split("x"))
    pairs: dict[str, Any] = {name: tuple(map(int, fields[name].split("x"))) for name in ("stride", "dilation")}
    extents = {name: int(fields[name]) for name in ("n", "h", "w", "ic", "oc", "kh", "kw", "groups")}
    named = {name: fields[name] for name in ("a", "c", "layout", "filter")}
    sides = ((height, height), (width, width))
    return Conv2dSpec(**extents, **named, **pairs, padding=sides, epilogue=_epilogue(fields["epilogue"]))


def _attention(fields: Mapping[str, str]) -> AttentionSpec:
    extents: dict[str, Any] = {name: _size(fields[name]) for name in ("queries", "keys")}
    heads = {name: int(fields[name]) for name in ("head", "heads", "kv_heads", "value_head")}
    types = {name: fields[name] for name in "qkv"}
    mask: dict[str, Any] = {} if fields["mask"] == "-" else {"mask": fields["mask"], "mask_axes": fields["mask_axes"]}
    batch: Any = _sizes(fields["batch"])
    rest: dict[str, Any] = {"scale": float(fields["scale"]), "causal": fields["causal"] == "1"}
    return AttentionSpec(**extents, **heads, **types, **rest, **mask, batch=batch)


_SPECS: Mapping[str, Callable[[Mapping[str, str]], Any]] = MappingProxyType(
    {"product": _product, "conv2d": _conv2d, "attention": _attention}
)


def _dequantize(axes: str, group: str, scale: str, zero: str) -> Epilogue:
    return epilogues.dequantize(axes, 0 if zero == "-" else zero, int(group), scale_type=scale)


def _size(text: str) -> int | None:
    return None if text == "?" else int(text)


def _sizes(text: str) -> tuple[int | None, ...]:
    return () if text == "-" else tuple(_size(each) for each in text.split("x"))


def _opened(text: str) -> str:
    return text if text == "-" else "x".join(each if each == "1" else "?" for each in text.split("x"))


def _epilogue(text: str) -> tuple[Epilogue, ...]:
    return () if text == "-" else tuple(_entry(each) for each in text.split(","))


def _entry(text: str) -> Epilogue:
    """An entry, "gelu", or one with the axes and the type of its operand, "bias:n:f32".

    Raises:
        SpecError: None is called so.
    """
    name, *operand = text.split(":")
    if name not in _ENTRIES:
        own = _GATES if name.startswith("glu-") else ("none", *ACTIVATIONS)
        raise SpecError(
            f"no activation is called {name.removeprefix('glu-')!r}",
            where="tilewright.torch",
            expected=f"one of {', '.join(own)}",
        )
    return _ENTRIES[name](*operand)
