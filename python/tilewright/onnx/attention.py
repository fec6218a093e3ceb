# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of a model as groups: the operators, and softmax(Q·Kᵀ)·V of single nodes, as exporters write it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright.onnx.graph import Node, Size, Value
from tilewright.onnx.groups import Group, Grouping, shape_of
from tilewright.onnx.views import View, trace
from tilewright.operator_specs import AttentionSpec
from tilewright.operator_specs.attention import QUERY_TYPES

_RANK = 4
"""Axes of queries, keys and values: batch, heads, rows, columns."""
_LAST = (-1, _RANK - 1)


@dataclass(frozen=True, slots=True)
class _Attention:
    """Attention: its nodes, operands of four axes, the view of its result, and the rest of the spec."""

    nodes: tuple[Node, ...]
    q: View
    k: View
    v: View
    mask: Value | None
    result: View
    fields: dict[str, Any]


def attention(grouping: Grouping, node: Node) -> Group | None:
    """The group of an attention, which a node is or in the middle of which it is; None for another node.

    Raises:
        SpecError: No kernel computes it, as the error says.
    """
    found = None
    if node.op == "Softmax":
        found = _decomposed(grouping, node)
    elif node.op in ("Attention", "com.microsoft.MultiHeadAttention"):
        found = _operator(node)
    return None if found is None or found.q.value.type not in QUERY_TYPES else _group(found)


def _decomposed(grouping: Grouping, softmax: Node) -> _Attention | None:
    """softmax(scale · Q·Kᵀ + mask) · V, of nodes that nothing else uses."""
    graph = grouping.graph

    def made_for(value: Value | None, user: Node) -> Node | None:
        """The node that makes a value for one other node."""
        node = graph.producers.get(value.name) if value else None
        return node if node and value and grouping.is_free(node) and graph.users(value) == [user] else None

    # Earlier ones go over all axes from this one on, which is the same where it is the last.
    axis = softmax.attributes.get("axis", -1 if softmax.version >= _SOFTMAX_OF_LAST_AXIS else 1)
    if axis not in _LAST or softmax.output is None:
        return None
    nodes, mask, factor = [softmax], None, 1.0
    at = softmax
    scores = made_for(at.input(0), at)
    if scores is not None and scores.op == "Add":
        own = next((each for each in scores.inputs if (one := made_for(each, scores)) and one.op in _SCORES), None)
        mask = next((each for each in scores.inputs if each is not own), None)
        nodes.append(scores)
        at, scores = scores, made_for(own, scores)
    if scores is not None and scores.op in ("Mul", "Div"):
        number = next((each.number for each in scores.inputs[1:] if each), None)
        if not number:
            return None
        factor *= number if scores.op == "Mul" else 1 / number
        nodes.append(scores)
        at, scores = scores, made_for(scores.input(0), scores)
    after = _after_softmax(grouping, softmax)
    if scores is None or scores.op != "MatMul" or after is None:
        return None
    (q, k), (probabilities, product) = scores.inputs, after
    v, result = product.input(1), product.output
    if not q or not k or not v or result is None or product.input(0) is None:
        return None
    if any(len(each.shape) != _RANK for each in (q, k, v, result)) or {q.type, k.type, v.type} != {result.type}:
        return None
    traced = [trace(graph, each, grouping.is_free, scaled=index < 2) for index, each in enumerate((q, k, v))]
    view, moved = _written(grouping, result)
    return _Attention(
        (*nodes, scores, *probabilities, product, *moved, *(node for each in traced for node in each.nodes)),
        traced[0].view,
        traced[1].view.transposed((0, 1, 3, 2)),
        traced[2].view,
        mask,
        view,
        {"scale": factor * traced[0].factor * traced[1].factor},
    )


_SCORES = ("MatMul", "Mul", "Div")
_SOFTMAX_OF_LAST_AXIS = 13
"""The version of Softmax from which on it goes along the last axis where it says nothing."""


def _after_softmax(grouping: Grouping, softmax: Node) -> tuple[list[Node], Node] | None:
    """The nodes from a softmax to the product with V, and the product; torch puts zeros for rows of NaN between."""
    assert softmax.output is not None
    users = grouping.graph.users(softmax.output) or []
    between: list[Node] = []
    ops = {each.op: each for each in users}
    if set(ops) == {"IsNaN", "Where"}:
        checked, chosen = ops["IsNaN"], ops["Where"]
        condition, zero, rest = (chosen.input(index) for index in range(3))
        if checked.output is None or condition is None or zero is None or rest is None or chosen.output is None:
            return None
        names = (condition.name, rest.name)
        if names != (checked.output.name, softmax.output.name) or zero.number != 0:
            return None
        if grouping.graph.users(condition) != [chosen]:
            return None
        between, users = [checked, chosen], grouping.graph.users(chosen.output) or []
    if len(users) != 1 or users[0].op != "MatMul" or not all(map(grouping.is_free, (*between, users[0]))):
        return None
    source = between[-1].output if between else softmax.output
    first = users[0].input(0)
    return (between, users[0]) if first and source and first.name == source.name else None


def _written(grouping: Grouping, result: Value) -> tuple[View, list[Node]]:
    """How the result is written: in the order that a Transpose after it gives it, and the shape of a Reshape after that."""
    users = grouping.graph.users(result) or []
    order = users[0].attributes.get("perm") if len(users) == 1 and users[0].op == "Transpose" else None
    if order is None or not grouping.is_free(users[0]) or users[0].output is None:
        return View.of(result), []
    moved, back = users[0].output, [order.index(axis) for axis in range(_RANK)]
    following = grouping.graph.users(moved) or []
    if len(following) == 1 and following[0].op == "Reshape" and grouping.is_free(following[0]) and moved.is_static:
        last = following[0].output
        if last is not None and last.is_static:
            split = View(last, moved.shape, tuple((axis,) for axis in range(_RANK)))
            return split.transposed(back), [users[0], following[0]]
    return View.of(moved).transposed(back), [users[0]]


def _operator(node: Node) -> _Attention | None:
    """ONNX' Attention, or MultiHeadAttention, without a cache of keys."""
    given, is_onnx = node.attributes, node.op == "Attention"
    q, k, v = (node.input(index) for index in range(3))
    mask = node.input(3) if is_onnx else node.input(5)
    rest = (4, 5, 6) if is_onnx else (3, 4, 6, 7, 8, 9)
    if not q or not k or not v or node.output is None or any(node.input(index) for index in rest):
        return None
    heads = given.get("q_num_heads" if is_onnx else "num_heads", 0)
    kv_heads = given.get("kv_num_heads", heads)
    if given.get("softcap") or given.get("qk_matmul_output_mode") or given.get("softmax_precision"):
        return None
    views = [_by_head(each, own) for each, own in ((q, heads), (k, kv_heads), (v, kv_heads))]
    result = _by_head(node.output, heads)
    if None in views or result is None:
        return None
    causal = given.get("is_causal" if is_onnx else "unidirectional", 0)
    fields: dict[str, Any] = {"causal": "upper_left" if causal else False}
    if given.get("scale"):
        fields["scale"] = given["scale"]
    of_q, of_k, of_v = (each for each in views if each)
    return _Attention((node,), of_q, of_k, of_v, mask, result, fields)


def _by_head(value: Value, heads: int) -> View | None:
    """A value as batch, heads, rows and columns: with four axes as it is; with three, heads lie side by side in rows."""
    if len(value.shape) == _RANK:
        return View.of(value)
    if len(value.shape) != _RANK - 1 or not heads or not isinstance(value.shape[-1], int):
        return None
    split = (("own", 0), ("own", 1), heads, value.shape[-1] // heads)
    return View(value, split, ((0,), (2,), (1,), (3,)))


def _group(given: _Attention) -> Group | None:
    q, k, v = given.q, given.k, given.v
    shapes: list[tuple[Any, ...]] = [q.shape, k.shape, v.shape]
    (batch, heads, rows, head), (_, kv_heads, keys, _), (*_, value_head) = shapes
    if not all(isinstance(each, int) for each in (heads, kv_heads, head, value_head)) or batch is None:
        return None
    if any(view.shape[0] != batch or not view.is_row_major for view in (k, v)) or not q.is_row_major:
        return None
    is_repeated = not isinstance(batch, int)
    own_batch = () if is_repeated or batch == 1 else (batch,)
    names: list[Any] = [each if isinstance(each, int) else name for each, name in ((rows, "m"), (keys, "n"))]
    fields = dict(given.fields)
    views = [
        _rows(each, is_repeated, batch).taken([*own_batch, number, name, columns], is_repeated)
        for each, number, name, columns in (
            (q, heads, names[0], head),
            (k, kv_heads, names[1], head),
            (v, kv_heads, names[1], value_head),
        )
    ]
    if given.mask is not None:
        mask = _mask(given.mask, (batch, heads, rows, keys), names)
        if mask is None or given.mask.type not in (q.value.type, "bool"):
            return None
        views.append(mask[0])
        fields |= {"mask": "u8" if given.mask.type == "bool" else given.mask.type, "mask_axes": mask[1]}
    spec = AttentionSpec(
        names[0] if isinstance(rows, int) else None,
        names[1] if isinstance(keys, int) else None,
        head,
        heads,
        kv_heads,
        value_head,
        own_batch,
        q.value.type,
        **fields,
    )
    result = _rows(given.result, is_repeated, batch).taken([*own_batch, heads, names[0], value_head], is_repeated)
    shape = shape_of(result.value, views)
    return None if shape is None else Group(given.nodes, spec, tuple(views), result, shape)


def _rows(view: View, is_repeated: bool, batch: Size) -> View:
    """A view without a batch of one."""
    return view if is_repeated or batch != 1 else replace(view, axes=view.axes[1:])


def _mask(value: Value, whole: tuple[Any, ...], names: list[Any]) -> tuple[View, str] | None:
    """A mask that is broadcast to the scores, and the axes that it has; None where it lacks the keys'."""
    rank = len(value.shape)
    if rank > _RANK or rank == 0:
        return None
    sizes = (1,) * (_RANK - rank) + value.shape
    if (
        any(size is None or size not in (1, own) for size, own in zip(sizes, whole, strict=True))
        or sizes[-1] != whole[-1]
    ):
        return None
    present = [own != 1 and size == own for size, own in zip(sizes, whole, strict=True)]
    present[-1] = True
    axes = [axis for axis in range(_RANK) if present[axis]]
    is_repeated = present[0] and not isinstance(whole[0], int)
    letters = "".join("bhmn"[axis] for axis in axes if not (axis == 0 and is_repeated))
    view = View.of(value)
    taken = replace(view, axes=tuple((axis - _RANK + rank,) for axis in axes))
    extents: list[Any] = [whole[0], whole[1], *names]
    return taken.taken([extents[axis] for axis in axes if not (axis == 0 and is_repeated)], is_repeated), letters
