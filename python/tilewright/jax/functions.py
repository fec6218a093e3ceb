# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products, convolutions and attention of JAX's arrays, with their specs inferred: what `tilewright.jax` offers."""

from __future__ import annotations

import math
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from tilewright.dims import Dim
from tilewright.dtypes import from_numpy
from tilewright.errors import OperandError, SpecError
from tilewright.jax import promotion
from tilewright.jax.primitive import Value, call
from tilewright.operator_specs import AttentionSpec, Conv2dSpec
from tilewright.operator_specs.attention import Causal
from tilewright.operator_specs.conv2d import FILTERS
from tilewright.schedules.models.threads import check
from tilewright.spec import MatmulSpec

jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")

_MATRIX, _IMAGE = 2, 4


def matmul(
    a: Value,
    b: Value,
    *,
    preferred_element_type: Any = None,  # noqa: ANN401
    dynamic: str = "",
    threads: int = 1,
) -> Value:
    """A·B of what ``jax.numpy.matmul`` takes: matrices, batches of them, which are broadcast, and vectors.

    Types are promoted as JAX promotes them; what no kernel multiplies or makes is converted before and after. A batch of A that meets one
    B is one product of all their rows.

    Args:
        a: A.
        b: B.
        preferred_element_type: The result's type; None: that of the operands, and int32 of 8-bit integers.
        dynamic: Those of "m", "n" and "k" that the kernel leaves open, so that one serves every size. Sizes that a traced
            program leaves open are so by themselves.
        threads: As for `tilewright.compile`.

    Raises:
        OperandError: Shapes do not fit.
        SpecError: The types are not multiplied, or `threads` is no int from 1 to 1024.
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    for name, each in (("a", a), ("b", b)):
        if not each.ndim:
            raise OperandError("has no dimensions", operand=name, expected="a matrix or a vector", remedy="Write a * b")
    result = promotion.result(a.dtype, b.dtype, preferred_element_type)
    one, other = promotion.factors(a, b)
    left, right = (one[None] if a.ndim == 1 else one), (other[:, None] if b.ndim == 1 else other)
    rows = _rows(left) if left.ndim > _MATRIX == right.ndim else left
    c = promotion.made(rows.dtype, right.dtype, result)
    spec = _product(_shape(rows), _shape(right), rows.dtype, right.dtype, c, "nn", _letters(dynamic), ())
    product = call(spec, rows, right, threads=check(threads, "matmul"))
    if rows is not left:
        product = product.reshape(*left.shape[:-1], product.shape[-1])
    dropped = tuple(axis for axis, each in ((-2, a), (-1, b)) if each.ndim == 1)
    return (product.squeeze(dropped) if dropped else product).astype(result)


def linear(
    x: Value,
    w: Value,
    *further: Value,
    epilogue: tuple[Any, ...] = (),
    transposed: bool = False,
    preferred_element_type: Any = None,  # noqa: ANN401
    dynamic: str = "",
    threads: int = 1,
) -> Value:
    """X·W, and what an epilogue makes of it in the same kernel.

    With x of more than two dimensions, all but the last one are rows; operands of the epilogue with an element for each of the
    result's ("mn") have the result's shape. Operands of the epilogue are converted to the types that it takes, and so are x and w, as JAX
    promotes them, where no kernel multiplies the two as they are.

    Args:
        x: Inputs, (*, k).
        w: Weights, (k, n).
        *further: The operands of the epilogue, in its order.
        epilogue: What is done to each sum: ``(tw.bias("n"), tw.gelu())``, Python functions of an element.
        transposed: Whether weights are (n, k), as torch's are.
        preferred_element_type: The result's type; None: that of x.
        dynamic: As for `matmul`.
        threads: As for `tilewright.compile`.

    Raises:
        OperandError: Shapes or types do not fit.
        SpecError: An entry does not fit, or types are not multiplied.
    """
    x, w = jnp.asarray(x), jnp.asarray(w)
    if not x.ndim or w.ndim != _MATRIX:
        raise OperandError(f"is of shape {w.shape}", operand="w", expected="a matrix, and x of one dimension at least")
    x, w = promotion.factors(x, w)
    wanted = x.dtype if preferred_element_type is None else jnp.dtype(preferred_element_type)
    rows = _rows(x)
    c = from_numpy(wanted).name if jnp.issubdtype(wanted, jnp.floating) else None
    layout, letters = "nt" if transposed else "nn", _letters(dynamic)
    spec = _product(_shape(rows), _shape(w), rows.dtype, w.dtype, c, layout, letters, tuple(epilogue))
    if len(spec.further) != len(further):
        names = ", ".join(each.name for each in spec.further)
        expected = f"{len(spec.further)} ({names})"
        raise OperandError(f"{len(further)} operands of the epilogue", where="linear", expected=expected)
    operands = [
        each.reshape(rows.shape[0], *each.shape[x.ndim - 1 :]) if own.axes.startswith("m") else each
        for each, own in zip(promotion.further(further, spec.further), spec.further, strict=True)
    ]
    result = call(spec, rows, w, *operands, threads=check(threads, "linear"))
    return result.reshape(*x.shape[:-1], *result.shape[1:])


def conv2d(
    x: Value,
    w: Value,
    *further: Value,
    layout: str = "nhwc",
    filter: str | None = None,
    stride: int | tuple[int, int] = 1,
    dilation: int | tuple[int, int] = 1,
    padding: Any = 0,  # noqa: ANN401 - a number, a name, or pairs
    groups: int = 1,
    epilogue: tuple[Any, ...] = (),
    threads: int = 1,
) -> Value:
    """The images `x` convolved with the filters `w`; arguments are those of `tilewright.conv2d`.

    Raises:
        OperandError: Shapes or types do not fit.
        SpecError: An option is not supported.
    """
    x, w = jnp.asarray(x), jnp.asarray(w)
    for name, each in (("x", x), ("w", w)):
        if each.ndim != _IMAGE:
            raise OperandError(f"is of {each.ndim} dimensions", operand=name, expected="an array of four dimensions")
    if layout not in FILTERS:
        raise SpecError(f"layout is {layout!r}", where="conv2d", expected=f"one of {', '.join(FILTERS)}")
    stored = FILTERS[layout][0] if filter is None else filter
    if stored not in FILTERS[layout]:
        raise SpecError(f"filter is {stored!r}", where="conv2d", expected=f"one of {', '.join(FILTERS[layout])}")
    image, bank = dict(zip(layout, x.shape, strict=True)), dict(zip(stored, w.shape, strict=True))
    if not all(isinstance(size, int) for size in (*x.shape, *w.shape)):
        raise OperandError(
            "an extent is dynamic", operand="x", expected="sizes", remedy="Export the program for each size"
        )
    if isinstance(groups, int) and bank["i"] * groups != image["c"]:
        raise OperandError(
            f"has filters of {bank['i']} channels", operand="w", expected=f"{image['c']} channels in {groups} groups"
        )
    spec = Conv2dSpec(
        *(image[axis] for axis in "nhwc"),
        oc=bank["o"],
        kh=bank["h"],
        kw=bank["w"],
        a=_type(x),
        b=_type(w),
        c=_type(x) if jnp.issubdtype(x.dtype, jnp.floating) else None,
        layout=layout,
        filter=stored,
        stride=stride,
        dilation=dilation,
        padding=padding,
        groups=groups,
        epilogue=tuple(epilogue),
    )
    own = promotion.further(further, spec.operands[2:]) if len(further) + 2 == len(spec.operands) else further
    return call(spec, x, w, *own, threads=check(threads, "conv2d"))


def attention(
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    *,
    causal: Causal = False,
    scale: float | None = None,
    threads: int = 1,
) -> Value:
    """softmax(scale · Q·Kᵀ + mask) · V; shapes and arguments are those of `tilewright.attention`: heads before positions.

    Raises:
        OperandError: Shapes or types do not fit.
        SpecError: An option is not supported.
    """
    q, k, v = map(jnp.asarray, (q, k, v))
    if q.ndim < _MATRIX or not q.ndim == k.ndim == v.ndim:
        expected = "arrays of shape (*batch, heads, length, head), or (length, head)"
        raise OperandError(
            f"q, k and v have {q.ndim}, {k.ndim} and {v.ndim} dimensions", where="attention", expected=expected
        )
    one = q.ndim == _MATRIX
    if one:
        q, k, v = q[None], k[None], v[None]
    batch = q.shape[:-3]
    seen = () if mask is None else (_mask(mask, (*q.shape[:-1], k.shape[-2])),)
    spec = AttentionSpec(
        queries=_size(q.shape[-2]),
        keys=_size(k.shape[-2]),
        head=q.shape[-1],
        heads=q.shape[-3],
        kv_heads=k.shape[-3],
        value_head=v.shape[-1],
        batch=batch,
        q=_type(q),
        k=_type(k),
        v=_type(v),
        scale=scale,
        causal=causal,
        mask=_type(seen[0]) if seen else None,
        mask_axes="bhmn" if batch else "hmn",
    )
    result = call(spec, q, k, v, *seen, threads=check(threads, "attention"))
    return result[0] if one else result


def _mask(mask: Value, scores: tuple[Any, ...]) -> Value:
    """The mask with an element for each score; bytes for one of bool."""
    mask = jnp.broadcast_to(mask, scores)
    return mask.astype(jnp.uint8) if mask.dtype == jnp.bool_ else mask


def _rows(x: Value) -> Value:
    """All rows of an array of matrices, or of vectors, as those of one matrix."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _type(array: Value) -> str:
    return from_numpy(np.dtype(array.dtype)).name


def _size(size: Any) -> Any:  # noqa: ANN401 - an int, or a symbol
    return size if isinstance(size, int) else None


def _shape(array: Value) -> tuple[Any, ...]:
    """The extents, None where one is a symbol."""
    return tuple(map(_size, array.shape))


def _letters(dynamic: str) -> str:
    """Which of m, n and k are dynamic.

    Raises:
        SpecError: Something else is named.
    """
    if not isinstance(dynamic, str) or set(dynamic) - set("mnk"):
        raise SpecError(f"dynamic is {dynamic!r}", where="tilewright.jax", expected='some of the letters "mnk"')
    return dynamic


@lru_cache(maxsize=4096)
def _product(
    a: tuple[Any, ...],
    b: tuple[Any, ...],
    a_type: np.dtype[Any],
    b_type: np.dtype[Any],
    c: str | None,
    layout: str,
    dynamic: str,
    epilogue: tuple[Any, ...],
) -> MatmulSpec:
    """The spec of a product of arrays of these shapes, where None is a dynamic extent.

    Raises:
        OperandError: They do not fit.
    """
    (m, k), (rows, n) = a[-2:], b[-2:] if layout[1] == "n" else b[:-3:-1]
    if None not in (k, rows) and k != rows:
        raise OperandError(f"has {rows} rows", operand="b", expected=f"{k}, the columns of a")
    sizes = {name: None if name in dynamic else size for name, size in (("m", m), ("n", n), ("k", k if rows else rows))}
    batches: dict[str, Any] = {}
    if len(a) > _MATRIX or len(b) > _MATRIX:
        batches = {"batch": _batch(a[:-2], b[:-2]), "a_batch": a[:-2], "b_batch": b[:-2]}
    named = {"a": from_numpy(a_type).name, "b": from_numpy(b_type).name, "c": c}
    return MatmulSpec(**sizes, layout=layout, epilogue=epilogue, **named, **batches)


def _batch(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """The batch to which two are broadcast; an extent that is dynamic stays so.

    Raises:
        OperandError: They cannot be.
    """
    found: list[Any] = []
    for at in range(1, max(len(a), len(b)) + 1):
        sizes = {batch[-at] for batch in (a, b) if len(batch) >= at} - {1}
        if len(sizes) > 1:
            raise OperandError(f"has a batch of {b}", operand="b", expected=f"one that is broadcast with {a}")
        found.insert(0, next(iter(sizes), 1))
    return tuple(Dim() if size is None else size for size in found)
