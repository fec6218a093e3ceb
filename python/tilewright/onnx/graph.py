# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The graph of an ONNX model as ONNX Runtime shows it to an execution provider: its nodes, and the values between them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.dtypes import dtype, to_numpy

TYPES: Mapping[int, str] = MappingProxyType(
    {1: "f32", 2: "u8", 3: "i8", 6: "i32", 7: "i64", 9: "bool", 10: "f16", 11: "f64", 16: "bf16"}
)
"""Our names of ONNX' element types."""
FLOATS = ("f32", "f64", "f16", "bf16")

Size = int | str | None
"""An extent: a number, a name that stands for one, or unknown."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor.

    Attributes:
        name: Its name.
        type: Our name of its element type; "" for others.
        shape: Its extents.
        is_constant: Whether it is a weight of the model.
        data: The elements of a constant that is small: numbers and lists of integers.
    """

    name: str
    type: str
    shape: tuple[Size, ...]
    is_constant: bool = False
    data: tuple[Any, ...] | None = None

    @property
    def is_static(self) -> bool:
        """Whether all extents are numbers."""
        return all(isinstance(each, int) for each in self.shape)

    @property
    def elements(self) -> int | None:
        """How many elements it has, where all extents are numbers."""
        return prod(each for each in self.shape if isinstance(each, int)) if self.is_static else None

    @property
    def number(self) -> float | None:
        """The number that it is, where it is a constant of one element."""
        return float(self.data[0]) if self.data is not None and self.elements == 1 else None


@dataclass(frozen=True, eq=False)
class Node:
    """A node.

    Attributes:
        op: Its operator, with the domain before it where that is none of ONNX' own: "com.microsoft.MatMulNBits".
        attributes: By name: numbers, texts and lists of them; None for what is neither.
        inputs: None for optional ones that are not there.
        outputs: Likewise.
        words: The line that describes it, by which the provider finds it again.
        implicit: Names of values that graphs inside of it use.
        version: Of its operator: that of the set of operators from which on it has been so.
    """

    op: str
    attributes: Mapping[str, Any]
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    words: str
    implicit: tuple[str, ...] = ()
    version: int = 1

    def input(self, index: int) -> Value | None:
        """An input; None where it is not there."""
        return self.inputs[index] if index < len(self.inputs) else None

    @property
    def output(self) -> Value | None:
        """Its only output; None where it has several."""
        rest = self.outputs[1:]
        return None if any(rest) or not self.outputs else self.outputs[0]


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph, its nodes in an order in which they can be computed.

    Attributes:
        nodes: They.
        outputs: The names of its results.
    """

    nodes: tuple[Node, ...]
    outputs: frozenset[str]

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """By the name of a value, the node that makes it."""
        return {each.name: node for node in self.nodes for each in node.outputs if each}

    @cached_property
    def _users(self) -> Mapping[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys((*(each.name for each in node.inputs if each), *node.implicit)):
                found.setdefault(name, []).append(node)
        return found

    def users(self, value: Value) -> list[Node] | None:
        """The nodes that use a value; None where it is a result of the graph."""
        return None if value.name in self.outputs else self._users.get(value.name, [])


def read(lines: Iterable[str]) -> list[Graph]:
    """The graphs that the provider described: that of the model, and those inside of nodes."""
    found: list[tuple[list[Node], set[str]]] = []
    for line in lines:
        text = line.rstrip("\n")
        if not text:
            continue
        if text == "graph":
            found.append(([], set()))
        elif text.startswith("output "):
            found[-1][1].add(json.loads(text.removeprefix("output ")))
        else:
            found[-1][0].append(_node(text))
    return [Graph(tuple(nodes), frozenset(outputs)) for nodes, outputs in found]


def _node(text: str) -> Node:
    given = json.loads(text)
    op = f"{given['domain']}.{given['op']}".lstrip(".").removeprefix("ai.onnx.")
    inputs, outputs = (tuple(_value(each) for each in given[side]) for side in ("inputs", "outputs"))
    implicit = tuple(each["name"] for each in given.get("implicit", ()) if each)
    return Node(op, given["attributes"], inputs, outputs, text, implicit, given["version"])


def _value(given: Mapping[str, Any] | None) -> Value | None:
    if given is None:
        return None
    type_ = TYPES.get(given.get("type", 0), "")
    data = None
    if "data" in given and type_:
        kind = np.dtype(np.bool_) if type_ == "bool" else np.dtype("i8") if type_ == "i64" else to_numpy(dtype(type_))
        data = tuple(np.frombuffer(bytes.fromhex(given["data"]), kind).tolist())
    return Value(given["name"], type_, tuple(given.get("shape", ())), bool(given.get("constant")), data)
