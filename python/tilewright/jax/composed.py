# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a fused spec computes, as a plain product of ours and functions of JAX: what derivatives of fused kernels are taken of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType
from typing import Any

from tilewright.dtypes import dtype as dtype_of
from tilewright.dtypes import to_numpy
from tilewright.entries import TRUTH, Chain, TypedEntry
from tilewright.errors import SpecError
from tilewright.expressions import number
from tilewright.jax.primitive import Value, call
from tilewright.operator_specs import AttentionSpec, Conv2dSpec
from tilewright.payload.spec_tables import Spec
from tilewright.spec import MatmulSpec

jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")

_PLAIN: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        name: getattr(jnp, name)
        for name in (
            *("add", "subtract", "multiply", "maximum", "minimum", "divide", "negative", "absolute", "where"),
            *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
            *("sqrt", "exp", "log", "tanh", "floor", "round"),
        )
    }
    | {"and": jnp.logical_and, "or": jnp.logical_or, "not": jnp.logical_not, "erf": jax.scipy.special.erf}
)
"""What the operations of a program are in JAX."""


def is_linear(spec: Spec) -> bool:
    """Whether the result is linear in each of the two operands that there are."""
    if isinstance(spec, MatmulSpec):
        return not (spec.epilogue or spec.prologue_a or spec.prologue_b)
    return isinstance(spec, Conv2dSpec) and not spec.epilogue


def composed(spec: Spec, operands: Sequence[Value], threads: int) -> Value:
    """The result of a fused spec, step by step.

    Raises:
        SpecError: A prologue has operands: what it computes has no such form.
    """
    if isinstance(spec, AttentionSpec) and spec.is_ragged:
        raise SpecError(
            "entries have lengths of their own",
            where="the derivative of a kernel of tilewright.jax",
            expected="attention without tables",
            remedy="Compute entry by entry, or with a mask",
        )
    if isinstance(spec, AttentionSpec):
        return _attention(spec, *operands, threads=threads)
    if isinstance(spec, Conv2dSpec):
        sums = call(replace(spec, epilogue=(), c=None), *operands[:2], threads=threads)
        channels = spec.layout.index("c")
        return _finished(spec.product.chain, sums, operands[2:], channels).astype(to_numpy(spec.result.type))
    assert isinstance(spec, MatmulSpec)
    return _product(spec, operands, threads)


def _product(spec: MatmulSpec, operands: Sequence[Value], threads: int) -> Value:
    if spec.chain_a.operands or spec.chain_b.operands or spec.gathers:
        raise SpecError(
            "a prologue has operands",
            where="the derivative of a kernel of tilewright.jax",
            expected="prologues without operands",
            remedy="Compute what the prologue does with jax.numpy, before the product",
        )
    a, *matrices = (
        _finished(chain, each, (), None).astype(to_numpy(element))
        for chain, element, each in [
            (spec.chain_a, spec.a_type, operands[0]),
            *[
                (spec.chain_b, spec.b_type, each)
                for each, role in zip(operands[1:], ["b", *(each.role for each in spec.chain.operands)], strict=True)
                if role == "b"
            ],
        ]
    )
    plain = replace(
        spec.plain_sums, prologue_a=(), prologue_b=(), a=spec.a_type.name, b=spec.b_type.name, alpha=spec.alpha
    )
    sums = iter([call(plain, a, each, threads=threads) for each in matrices])
    first = next(sums)
    further = [
        next(sums) if each.role == "b" else array for each, array in zip(spec.chain.operands, operands[2:], strict=True)
    ]
    return _finished(spec.chain, first, further, first.ndim - 1).astype(to_numpy(spec.c_type))


def _finished(chain: Chain, value: Value, operands: Sequence[Value], columns: int | None) -> Value:
    """What the entries of a chain make of a value, whose axis `columns` is that of operands for each column."""
    given = list(operands)
    for entry in chain.entries:
        own, given = given[: len(entry.operands)], given[len(entry.operands) :]
        placed = [
            _placed(array, operand.axes, value.ndim, columns)
            for array, operand in zip(own, entry.operands, strict=True)
        ]
        value = _rows(entry, value) if entry.entry.form in _ROWS else _run(entry, value, placed, chain.compute)
    return value


def _placed(array: Value, axes: str, rank: int, columns: int | None) -> Value:
    """An operand with an extent of one for each dimension that it has no extent for."""
    if len(axes) == 2 or not axes:
        return array
    assert columns is not None, "an operand of a prologue"
    along = columns if axes == "n" else columns - 1
    return jnp.expand_dims(array, tuple(axis for axis in range(rank) if axis != along))


_ROWS: Mapping[str, Callable[[Value], Value]] = MappingProxyType(
    {
        "softmax": lambda value: jax.nn.softmax(value, axis=-1),
        "row_sum": lambda value: jnp.sum(value, axis=-1),
        "row_max": lambda value: jnp.max(value, axis=-1),
    }
)
"""What forms of entries make of whole rows."""


def _rows(entry: TypedEntry, value: Value) -> Value:
    return _ROWS[entry.entry.form](value.astype(to_numpy(dtype_of(entry.result))))


def _run(entry: TypedEntry, value: Value, operands: Sequence[Value], compute: str) -> Value:
    """The result of an entry's program."""
    done: list[Any] = []
    for step, typed in zip(entry.entry.program.steps, entry.steps, strict=True):
        work = to_numpy(dtype_of(compute if typed.work in ("", TRUTH) else typed.work))
        if step.op == "constant":
            done.append(number(step.detail))
            continue
        if step.op in ("value", "operand"):
            source = value if step.op == "value" else operands[int(step.detail)]
            done.append(source.astype(work))
            continue
        arguments = [done[each] for each in step.arguments]
        if step.op == "convert":
            done.append(jnp.asarray(arguments[0]).astype(to_numpy(dtype_of(step.detail))).astype(work))
            continue
        is_number = [step.op != "where" or at > 0 for at in range(len(arguments))]
        widened = [
            jnp.asarray(each, work) if wide and not _is_truth(each) else each
            for each, wide in zip(arguments, is_number, strict=True)
        ]
        done.append(_PLAIN[step.op](*widened))
    return jnp.asarray(done[-1])


def _is_truth(value: Any) -> bool:  # noqa: ANN401 - a number, or an array
    return getattr(value, "dtype", None) == jnp.bool_


def _attention(spec: AttentionSpec, q: Value, k: Value, v: Value, *mask: Value, threads: int) -> Value:
    """Attention with its scores in memory, from two products of ours."""
    rows, keys = q.shape[-2], k.shape[-2]
    grouped = (*q.shape[:-3], spec.kv_heads, spec.group * rows)
    outer = grouped[:-1]
    wide = jnp.float32
    scores = _matmul(q.reshape(*grouped, spec.head).astype(wide), k.astype(wide), "nt", outer, threads)
    scores = scores.reshape(*q.shape[:-1], keys) * spec.scale
    seen = jnp.ones((rows, keys), jnp.bool_)
    if spec.causal:
        seen = jnp.tril(seen, keys - rows if spec.causal == "lower_right" else 0)
    if mask:
        axes = spec.mask_axes.removeprefix("b")
        shape = [size if axis in axes else 1 for axis, size in zip("hmn", scores.shape[-3:], strict=True)]
        batch = scores.shape[:-3] if "b" in spec.mask_axes else ()
        placed = mask[0].reshape(*batch, *shape)
        if spec.mask == "u8":
            seen = seen & (placed != 0)
        else:
            scores = scores + placed.astype(wide)
    # A query that sees no key gets zeros, and passes nothing back.
    scores = jnp.where(seen, scores, -jnp.inf)
    most = jax.lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True, initial=-jnp.inf))
    weights = jnp.where(seen, jnp.exp(jnp.where(seen, scores - jnp.where(jnp.isfinite(most), most, 0), 0)), 0)
    total = jnp.sum(weights, axis=-1, keepdims=True)
    weights = weights / jnp.where(total == 0, 1, total)
    result = _matmul(weights.reshape(*grouped, keys), v.astype(wide), "nn", outer, threads)
    return result.reshape(*q.shape[:-1], spec.value_head).astype(to_numpy(spec.result.type))


def _matmul(a: Value, b: Value, layout: str, batch: tuple[int, ...], threads: int) -> Value:
    """A product of each of a batch, in f32."""
    n = b.shape[-1] if layout[1] == "n" else b.shape[-2]
    return call(
        MatmulSpec(a.shape[-2], n, a.shape[-1], layout=layout, batch=batch[: a.ndim - 2]), a, b, threads=threads
    )
