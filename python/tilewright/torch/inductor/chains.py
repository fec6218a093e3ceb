# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Joins calls of kernels that follow one another in a graph into one op, whose results lie in memory that is kept.

Each call of an op through Python costs some microseconds, and tens of them where kernels have just put everything else out of the caches.
What is read by the next kernels only is no tensor any more: torch may give memory of some megabytes back to the system at each call, and
the system clears it for the next one. ResNet-50 of one image in f32 has 52 calls in a row.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch._inductor.pattern_matcher import stable_topological_sort  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tilewright.lowering.passes.workspace import offsets
from tilewright.torch.calls import QUOTE, read_chain
from tilewright.torch.inductor import fx
from tilewright.torch.inductor.fx import aten
from tilewright.torch.ops import NAMESPACE

_CALLS = (NAMESPACE.call.default, NAMESPACE.call_in_order.default)
_CHAINS = (NAMESPACE.call_chain.default, NAMESPACE.call_chain_many.default)
_VIEWS = (
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.permute.default, aten.transpose.int, aten.t.default,
    aten.slice.Tensor, aten.select.int, aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims,
    aten.expand.default, aten.as_strided.default, aten.alias.default,
)  # fmt: skip
"""Ops whose result may be the memory of their operand."""
_LINE = 64
"""Bytes of whose multiples results start at."""
_MOST_BYTES = 64 << 20
"""Of the results of a chain, whose memory each thread keeps."""


def join(graph_module: Any) -> None:  # noqa: ANN401
    """Joins calls of kernels, of static extents, where none waits for what another op makes of an earlier one's result.

    Before: ``a = call(k1, [x, w]); b = call(k2, [view(a), v])``. After, with the steps as a text that C++ reads once::

        b = call_chain("{`steps`: [...]}", [x, w, v])

    Where something else reads several of the results, ``call_chain_many`` returns these.

    Args:
        graph_module: The graph; each node has its fake value.
    """
    graph = graph_module.graph
    chains = [each for each in list(_chains(graph)) if len(each.members) > 1]
    for each in chains:
        each.replace(graph)
    if chains:
        stable_topological_sort(graph)
        graph.eliminate_dead_code()
        graph.lint()
        graph_module.recompile()


def _chains(graph: Any) -> Iterator[_Chain]:  # noqa: ANN401
    """The chains of calls in the order of the graph: a call that waits for another op, which reads a chain's result, begins a new one."""
    chain = _Chain()
    for node in graph.nodes:
        if node.target in _CALLS and _is_static(node):
            if any(each in chain.outside for each in node.all_input_nodes) or chain.is_full(node):
                yield chain
                chain = _Chain()
            chain.add(node)
        elif not chain.has(node) and any(each in chain.outside or each in chain.known for each in node.all_input_nodes):
            chain.outside.add(node)
    yield chain


def _is_static(node: Node) -> bool:
    """Whether all extents of a call are known, and its result is of a type that chains have."""
    tensors = [fx.value(each) for each in (node, *node.args[1])]
    numbers = [each for tensor in tensors for each in (*tensor.shape, *tensor.stride())]
    return fx.element(node) is not None and all(isinstance(each, int) for each in numbers)


class _Chain:
    """Calls that become one.

    Attributes:
        members: The calls, in order.
        known: By node, a member's or a view's of one, the number of the member.
        values: By such a node, its fake value; views share the memory of the member's.
        outside: Ops that wait for a member, and are none.
    """

    def __init__(self) -> None:
        self.members: list[Node] = []
        self.known: dict[Node, int] = {}
        self.values: dict[Node, Any] = {}
        self.outside: set[Node] = set()
        self._bytes = 0

    def is_full(self, node: Node) -> bool:
        """Whether the memory for one more result would be too much."""
        return self._bytes + fx.value(node).nbytes > _MOST_BYTES

    def add(self, node: Node) -> None:
        """Takes one more call."""
        self.known[node], self.values[node] = len(self.members), fx.value(node)
        self.members.append(node)
        self._bytes += fx.value(node).nbytes

    def has(self, node: Node) -> bool:
        """Whether a node is a view of a member's result, which is noted then."""
        given = node.all_input_nodes
        if node.target not in _VIEWS or len(given) != 1 or given[0] not in self.known:
            return False
        of, seen = self.values[given[0]], fx.value(node)
        with of.fake_mode:
            # The node's own value may be of an op that the member replaced.
            own = node.target(*torch.fx.node.map_arg(node.args, lambda each: self.values[each]), **node.kwargs)
        numbers = (*own.shape, *own.stride(), own.storage_offset())
        shares = own.untyped_storage()._cdata == of.untyped_storage()._cdata
        is_same = own.dtype == seen.dtype and fx.same(own.shape, seen.shape) and fx.lies(seen, own.stride())
        if not (shares and is_same and all(isinstance(each, int) for each in numbers)):
            return False
        self.known[node], self.values[node] = self.known[given[0]], own
        return True

    def replace(self, graph: Any) -> None:  # noqa: ANN401
        """Puts the op into the place of its last member."""
        left = [node for node in self.members if self._is_left(node)]
        inputs = list(dict.fromkeys(each for node in self.members for each in node.args[1] if each not in self.known))
        text = json.dumps(self._said(left, inputs)).replace('"', QUOTE)
        last = self.members[-1]
        one, many = _CHAINS
        with graph.inserting_after(last):
            whole = fx.emit(graph, one if len(left) == 1 else many, text, inputs)
        # Inductor keeps these strides.
        whole.meta["eager_input_vals"] = ((text, list(map(fx.value, inputs))), {})
        after = whole
        for number, node in enumerate(left):
            if len(left) > 1:
                with graph.inserting_after(after):
                    after = graph.call_function(operator.getitem, (whole, number))
                after.meta["val"] = whole.meta["val"][number]
            node.replace_all_uses_with(after)
        views = [node for node in self.known if node not in self.members]
        for node in (*reversed(views), *reversed(self.members)):
            if not node.users:
                graph.erase_node(node)

    def _is_left(self, node: Node) -> bool:
        """Whether something else than a member reads a result, or a view of it."""
        return any(user not in self.known or (user not in self.members and self._is_left(user)) for user in node.users)

    def _said(self, left: Sequence[Node], inputs: Sequence[Node]) -> dict[str, Any]:
        """The chain as C++ reads it."""
        inner = [number for number, node in enumerate(self.members) if node not in left]
        ends = {number: number for number in range(len(self.members))}
        for number, node in enumerate(self.members):
            for each in node.args[1]:
                if each in self.known:
                    ends[self.known[each]] = number
        sizes = [-(-fx.value(self.members[number]).nbytes // _LINE) * _LINE for number in inner]
        starts = dict(zip(inner, offsets(sizes, [(number, ends[number]) for number in inner]), strict=True))
        memory = max((starts[number] + size for number, size in zip(inner, sizes, strict=True)), default=0)
        steps = [self._step(node, starts.get(number, -1), inputs) for number, node in enumerate(self.members)]
        results = [self.members.index(node) for node in left]
        return {"operands": len(inputs), "bytes": memory, "steps": steps, "left": results}

    def _step(self, node: Node, start: int, inputs: Sequence[Node]) -> dict[str, Any]:
        name, operands, *axes = node.args
        made = fx.value(node)
        return {
            "kernel": name,
            "operands": [self._operand(each, inputs) for each in operands],
            "axes": list(axes[0]) if axes else [],
            "start": start,
            "sizes": list(made.shape),
            "strides": list(made.stride()),
            "type": str(made.dtype).removeprefix("torch."),
        }

    def _operand(self, node: Node, inputs: Sequence[Node]) -> dict[str, Any]:
        if node not in self.known:
            return {"number": inputs.index(node), "result": False}
        own = self.values[node]
        view = {"offset": own.storage_offset(), "sizes": list(own.shape), "strides": list(own.stride())}
        return {"number": self.known[node], "result": True, **view}


def run(chain: str, operands: Sequence[Any], call: Callable[..., Any]) -> list[Any]:
    """What `call_chain` computes, step by step, by calls of ops.

    Args:
        chain: The text of the chain.
        operands: Its operands.
        call: Takes the name of a kernel, its operands and the order of the result's axes, or none, and returns the result.
    """
    said, results = read_chain(chain), []
    for step in said["steps"]:
        given = [
            results[each["number"]].as_strided(each["sizes"], each["strides"], each["offset"])
            if each["result"]
            else operands[each["number"]]
            for each in step["operands"]
        ]
        results.append(call(step["kernel"], given, step["axes"]))
    return [results[number] for number in said["left"]]
