# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of a model, MatMul and Gemm with what comes after them, as groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright.entries import Epilogue
from tilewright.onnx.graph import FLOATS, Node, Size, Value
from tilewright.onnx.groups import Further, Group, Grouping, Tail, axes_of, shape_of, tail
from tilewright.onnx.views import View, trace
from tilewright.payload import epilogues
from tilewright.spec import MatmulSpec


def product(grouping: Grouping, node: Node) -> Group | None:
    """The group of a MatMul or Gemm; None for another node, or one that no kernel computes.

    Raises:
        SpecError: No kernel computes it, as the error says.
    """
    a, b = node.input(0), node.input(1)
    if node.op not in ("MatMul", "Gemm") or a is None or b is None or node.output is None:
        return None
    if a.type not in FLOATS or b.type != a.type or not a.shape or not b.shape or not node.output.shape:
        return None
    if node.op == "Gemm":
        return _gemm(grouping, node, a, b)
    if len(b.shape) == 2:
        return _of_matrix(grouping, node, a, b)
    return _batched(grouping, node, a, b) if min(len(a.shape), len(b.shape)) > 1 else None


def _gemm(grouping: Grouping, node: Node, a: Value, b: Value) -> Group | None:
    """A Gemm: alpha · A·B + beta · C."""
    given, c = node.attributes, node.input(2)
    if c is not None and given.get("beta", 1) != 1:
        return None
    assert node.output is not None
    rows = View.of(a).transposed((1, 0)) if given.get("transA") else View.of(a)
    columns = View.of(b).transposed((1, 0)) if given.get("transB") else View.of(b)
    entries: tuple[Epilogue, ...] = ()
    further: tuple[Further, ...] = ()
    if given.get("alpha", 1) != 1:
        entries += (epilogues.scale(given["alpha"]),)
    if c is not None:
        axes = axes_of(c.shape, node.output.shape, -1)
        if axes is None or c.type != a.type or not (c.shape or c.is_constant):  # Without a shape it is of unknown rank.
            return None
        entries += (epilogues.residual(axes, a.type),)
        further += (Further(c, axes),)
    after = tail(grouping, node.output, -1)
    whole = Tail((node, *after.nodes), (*entries, *after.entries), (*further, *after.further), after.value)
    return _group(_Matrices(rows, columns, whole, ()))


def _of_matrix(grouping: Grouping, node: Node, a: Value, b: Value) -> Group | None:
    """A·B where all rows of A meet one matrix."""
    assert node.output is not None
    rank = len(a.shape)
    rows = View.of(a).joined([range(rank - 1), [rank - 1]])
    behind = trace(grouping.graph, b, grouping.is_free)
    if rows is None:
        return None
    after = tail(grouping, node.output, -1)
    whole = Tail((*behind.nodes, node, *after.nodes), after.entries, after.further, after.value)
    return _group(_Matrices(rows, behind.view, whole, ()))


def _batched(grouping: Grouping, node: Node, a: Value, b: Value) -> Group | None:
    """Products of matrices, one by one."""
    assert node.output is not None
    behind = [trace(grouping.graph, each, grouping.is_free) for each in (a, b)]
    after = tail(grouping, node.output, -1)
    if any(each.op == "Reshape" for each in after.nodes):
        return None
    nodes = (*behind[0].nodes, *behind[1].nodes, node, *after.nodes)
    whole = Tail(nodes, after.entries, after.further, after.value)
    return _group(_Matrices(behind[0].view, behind[1].view, whole, node.output.shape[:-2]))


@dataclass(frozen=True, slots=True)
class _Matrices:
    """A product: A and B as matrices, or batches of them, what comes after it, and the batch of the result."""

    a: View
    b: View
    tail: Tail
    batch: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class _Names:
    """Numbers of extents, and names for those that are dynamic, which the provider compares between operands."""

    m: int | str
    n: int | str
    k: int | str
    batch: tuple[int | str, ...]

    def of_batch(self, shape: tuple[Size, ...]) -> tuple[int | str, ...]:
        """Those of the batch of an operand, whose last axes are those of the batch of the product."""
        return tuple(1 if own == 1 else self.batch[axis - len(shape)] for axis, own in enumerate(shape))


def _open(sizes: tuple[int | str, ...]) -> tuple[Any, ...]:
    """Extents as a spec has them."""
    return tuple(each if isinstance(each, int) else None for each in sizes)


def _group(given: _Matrices) -> Group | None:
    a, b, after = given.a, given.b, given.tail
    if not all(view.is_row_major or view.is_column_major for view in (a, b)):
        return None
    (m, k), (inner, n) = a.shape[-2:], b.shape[-2:]
    outer = [view.shape[:-2] for view in (a, b)]
    if None in given.batch or not all(_fits(each, given.batch) for each in outer):
        return None
    if isinstance(k, int) and isinstance(inner, int) and k != inner:
        return None
    names = _Names(
        m if isinstance(m, int) else "m",
        n if isinstance(n, int) else "n",
        k if isinstance(k, int) else inner if isinstance(inner, int) else "k",
        tuple(each if isinstance(each, int) else f"b{axis}" for axis, each in enumerate(given.batch)),
    )
    turned = [not view.is_row_major for view in (a, b)]
    packed = b.value.is_constant and not given.batch and isinstance(names.n, int) and isinstance(names.k, int)
    by_batch: dict[str, Any] = {"batch": _open(names.batch)}
    if given.batch:
        by_batch |= {"a_batch": _open(names.of_batch(outer[0])), "b_batch": _open(names.of_batch(outer[1]))}
    spec = MatmulSpec(
        *_open((names.m, names.n, names.k)),
        **dict.fromkeys("abc", a.value.type),
        layout="".join("t" if each else "n" for each in turned),
        epilogue=after.entries,
        b_packed=packed,
        **by_batch,
    )
    views = [
        _stored(view, transposed).taken([*names.of_batch(view.shape[:-2]), *(sizes[::-1] if transposed else sizes)])
        for view, transposed, sizes in ((a, turned[0], (names.m, names.k)), (b, turned[1], (names.k, names.n)))
    ]
    if packed:
        leading = names.k if turned[1] else names.n
        views[1] = replace(views[1], pack=("", int(names.k), int(names.n), int(leading)))
    results = [_as_matrices(View.of(after.value), names)]
    results += [_further(each, names) for each in after.further]
    shape = shape_of(after.value, views)
    if None in results or shape is None:
        return None
    result, *further = (each for each in results if each)
    return Group(after.nodes, spec, (*views, *further), result, shape)


def _fits(own: tuple[Size, ...], whole: tuple[Size, ...]) -> bool:
    """Whether the batch of an operand is broadcast to that of the product."""
    return len(own) <= len(whole) and all(
        one is not None and one in (1, each) for one, each in zip(own[::-1], whole[::-1], strict=False)
    )


def _stored(view: View, transposed: bool) -> View:
    """A view with its matrices as they lie in memory."""
    rank = len(view.axes)
    return view.transposed((*range(rank - 2), rank - 1, rank - 2)) if transposed else view


def _as_matrices(view: View, names: _Names) -> View | None:
    """A view of as many elements as the result, as the kernel takes it: without a batch, all axes but the last are rows."""
    rank = len(view.axes)
    own = view if names.batch else view.joined([range(rank - 1), [rank - 1]]) if rank else None
    return None if own is None else own.taken([*names.batch, names.m, names.n])


def _further(further: Further, names: _Names) -> View | None:
    """An operand of the epilogue as the kernel takes it."""
    view = View.of(further.value)
    if further.axes == "mn":
        return _as_matrices(view, names)
    own = view.joined([range(len(view.axes))] if further.axes else [])
    return None if own is None else own.taken([names.n] if further.axes else [])
