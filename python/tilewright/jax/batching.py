# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`vmap` of kernels: a batch becomes more rows of A, or a batch of the kernel; where neither can be, a loop of calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from tilewright.dims import Dim
from tilewright.jax.primitive import Value, call, kernel_p
from tilewright.operator_specs import AttentionSpec, Conv2dSpec
from tilewright.payload.spec_tables import Spec
from tilewright.spec import MatmulSpec

jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")
_batching: Any = import_module("jax.interpreters.batching")

_EXACT = 2
"""Axes of an operand that has an element for each of a matrix."""


def _batched(operands: Sequence[Value], axes: Sequence[Any], *, spec: Spec, threads: int) -> tuple[Value, int]:
    """The result for a batch, whose axis is the first."""
    has = [axis is not None for axis in axes]
    size = next(each.shape[axis] for each, axis in zip(operands, axes, strict=True) if axis is not None)
    given = [each if axis is None else jnp.moveaxis(each, axis, 0) for each, axis in zip(operands, axes, strict=True)]
    if isinstance(spec, MatmulSpec):
        if _shares_b(spec, has):
            return _as_rows(spec, size, given, has, threads), 0
        if _takes_batch(spec, has):
            return _as_batch(spec, size, given, has, threads), 0
    elif isinstance(spec, Conv2dSpec) and _takes_images(spec, has) and not _is_dynamic(size):
        return _as_images(spec, size, given, has, threads), 0
    elif isinstance(spec, AttentionSpec) and not spec.is_ragged and not _is_dynamic(size):
        return _as_heads(spec, size, given, has, threads), 0
    return _one_by_one(spec, given, has, threads), 0


def _is_dynamic(size: Any) -> bool:  # noqa: ANN401 - an int, or a symbol
    return not isinstance(size, int)


def _extent(size: Any) -> Any:  # noqa: ANN401 - an int, or a symbol
    return Dim() if _is_dynamic(size) else size


def _along_rows(spec: MatmulSpec) -> list[bool]:
    """Which operands have an extent for the rows of A."""
    return ["m" in each.axes for each in spec.operands]


def _shares_b(spec: MatmulSpec, has: Sequence[bool]) -> bool:
    """Whether all of the batch are rows of one product: only A, and what goes along its rows, have a batch."""
    rows = _along_rows(spec)
    inside = all(not batched or along for batched, along in zip(has, rows, strict=True))
    first = [each.axes.startswith("m") for each, along in zip(spec.operands, rows, strict=True) if along]
    return has[0] and inside and all(first) and not spec.batch and not spec.gathers


def _as_rows(spec: MatmulSpec, size: Any, given: Sequence[Value], has: Sequence[bool], threads: int) -> Value:  # noqa: ANN401
    operands = []
    for each, batched, along in zip(given, has, _along_rows(spec), strict=True):
        whole = each if batched or not along else jnp.broadcast_to(each, (size, *each.shape))
        operands.append(whole.reshape(whole.shape[0] * whole.shape[1], *whole.shape[2:]) if along else whole)
    rows = given[0].shape[1]
    m = Dim() if isinstance(spec.m, Dim) or _is_dynamic(size) else spec.m * size
    result = call(replace(spec, m=m), *operands, threads=threads)
    return result.reshape(size, rows, *result.shape[1:])


def _takes_batch(spec: MatmulSpec, has: Sequence[bool]) -> bool:
    """Whether the kernel can have the batch: those operands have one that have an element for each of a matrix."""
    fits = all(not batched or len(each.axes) == _EXACT for each, batched in zip(spec.operands, has, strict=True))
    return fits and not spec.gathers


def _as_batch(spec: MatmulSpec, size: Any, given: Sequence[Value], has: Sequence[bool], threads: int) -> Value:  # noqa: ANN401
    """One more axis of the batch, which A and B have where they, or what is applied to them, have one."""
    of = ["a", "b", *("a" for _ in spec.chain_a.operands), *("b" for _ in spec.chain_b.operands)]
    of += ["b" if each.role == "b" else "c" for each in spec.chain.operands]
    takes = {"a": False, "b": False, "c": True}
    for matrix, batched in zip(of, has, strict=True):
        takes[matrix] |= batched
    whole = (_extent(size), *spec.batch)
    own = {
        name: (whole[0], *(1,) * (len(spec.batch) - len(batch)), *batch) if takes[matrix] else batch
        for name, matrix, batch in (("a_batch", "a", spec.a_batch or ()), ("b_batch", "b", spec.b_batch or ()))
    }
    wanted = replace(spec, batch=whole, **own)
    operands = []
    for each, batched, matrix, shaped in zip(given, has, of, wanted.operands, strict=True):
        if takes[matrix] and len(shaped.axes) == _EXACT:
            inner = each.shape[batched:]
            ones = (1,) * (len(shaped.shape) - 1 - len(inner))
            placed = each.reshape((each.shape[0] if batched else 1), *ones, *inner)
            operands.append(placed if batched else jnp.broadcast_to(placed, (size, *placed.shape[1:])))
        else:
            operands.append(each)
    return call(wanted, *operands, threads=threads)


def _takes_images(spec: Conv2dSpec, has: Sequence[bool]) -> bool:
    """Whether all of the batch are images of one convolution: the filters, and what goes along channels, are the same."""
    each = zip(spec.product.chain.operands, has[2:], strict=True)
    return has[0] and not has[1] and all(not batched or operand.axes == "mn" for operand, batched in each)


def _as_images(spec: Conv2dSpec, size: int, given: Sequence[Value], has: Sequence[bool], threads: int) -> Value:
    axes = ["mn", "", *(each.axes for each in spec.product.chain.operands)]
    operands = []
    for each, batched, along in zip(given, has, axes, strict=True):
        whole = each if batched or along != "mn" else jnp.broadcast_to(each, (size, *each.shape))
        operands.append(whole.reshape(-1, *whole.shape[2:]) if along == "mn" else whole)
    result = call(replace(spec, n=spec.n * size), *operands, threads=threads)
    return result.reshape(size, spec.n, *result.shape[1:])


def _as_heads(spec: AttentionSpec, size: int, given: Sequence[Value], has: Sequence[bool], threads: int) -> Value:
    """One more axis of the batch, which every operand but the mask has."""
    operands = [
        each if batched else jnp.broadcast_to(each, (size, *each.shape))
        for each, batched in zip(given[:3], has[:3], strict=True)
    ]
    axes = spec.mask_axes
    for mask, batched in zip(given[3:], has[3:], strict=True):
        inner = mask.shape[batched:]
        if batched or "b" in axes:
            own = len(spec.batch) if "b" in axes else 0
            placed = mask.reshape(size if batched else 1, *(inner[:own] or (1,) * len(spec.batch)), *inner[own:])
            operands.append(jnp.broadcast_to(placed, (size, *spec.batch, *inner[own:])))
            axes = f"b{axes.removeprefix('b')}"
        else:
            operands.append(mask)
    return call(replace(spec, batch=(size, *spec.batch), mask_axes=axes), *operands, threads=threads)


def _one_by_one(spec: Spec, given: Sequence[Value], has: Sequence[bool], threads: int) -> Value:
    def one(batched: Sequence[Value]) -> Value:
        rest = iter(batched)
        operands = [next(rest) if own else each for each, own in zip(given, has, strict=True)]
        return call(spec, *operands, threads=threads)

    return jax.lax.map(one, tuple(each for each, own in zip(given, has, strict=True) if own))


_batching.primitive_batchers[kernel_p] = _batched
