# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of arrays, without a spec: `tilewright.attention`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.dims import Dim
from tilewright.dtypes import from_numpy
from tilewright.errors import OperandError
from tilewright.operator_specs.attention import AttentionSpec, Causal
from tilewright.runtime.arrays import ANY_ARRAY, Array, empty, kind, like, view, wants_lines
from tilewright.runtime.compile import compile
from tilewright.runtime.kernel import Kernel
from tilewright.schedules.models.threads import check

_LEAST_AXES = 2
_EXPECTED = "an array of shape (*batch, heads, length, head), or (length, head)"


def attention(
    q: ANY_ARRAY,
    k: ANY_ARRAY,
    v: ANY_ARRAY,
    mask: ANY_ARRAY | None = None,
    *,
    causal: Causal = False,
    scale: float | None = None,
    threads: int = 1,
    out: ANY_ARRAY | None = None,
    q_starts: ANY_ARRAY | None = None,
    k_starts: ANY_ARRAY | None = None,
    lengths: ANY_ARRAY | None = None,
    table: ANY_ARRAY | None = None,
) -> ANY_ARRAY:
    """softmax(scale · Q·Kᵀ + mask) · V, with the spec inferred, compiled once for each set of shapes and types, and kept.

    Operands are arrays of any library, used where they lie; a mask that is broadcast or has gaps is copied.

    Args:
        q: Queries of shape (*batch, heads, queries, head), or (queries, head) for one head.
        k: Keys of shape (*batch, kv_heads, keys, head), of a divisor of the heads.
        v: Values of shape (*batch, kv_heads, keys, value_head).
        mask: What is added to the scores, or, of bool or uint8, which keys are seen; its shape is broadcast to
            (*batch, heads, queries, keys), as numpy does it.
        causal: As `AttentionSpec.causal`.
        scale: What scores are multiplied with; None: 1 / sqrt(head).
        threads: As for `tilewright.compile`.
        out: Where the result is written; None: a new array, of the library of the first operand that is not numpy's.
        q_starts: Of int32: sequences lie end to end in q, of shape (heads, rows, head), and start at these rows; one number more is where
            the last one ends. One kernel serves all numbers of rows and sequences.
        k_starts: The same of keys and values.
        lengths: Of int32: how many keys each entry of the batch, or each sequence, has.
        table: Of int32: for each of these, the numbers of the pages with its keys. Then k is (pages, kv_heads, page, head), and v likewise.

    Returns:
        The result, of shape (*batch, heads, queries, value_head) and the type of the queries. A query that sees no key gets zeros.

    Raises:
        OperandError: An operand is no array, or shapes or types do not fit.
        SpecError: An element type is not supported, or an option is not what it can be.
    """
    operands = [view(name, array, _EXPECTED) for name, array in (("q", q), ("k", k), ("v", v))]
    for name, operand in zip("qkv", operands, strict=True):
        if operand.ndim < _LEAST_AXES:
            raise OperandError(f"is of shape {operand.shape}", operand=name, expected=_EXPECTED)
    result = None if out is None else view("out", out, written=True)
    given_tables = {"q_starts": q_starts, "k_starts": k_starts, "lengths": lengths, "table": table}
    tables = {name: view(name, array) for name, array in given_tables.items() if array is not None}
    seen = None if mask is None else view("mask", mask)
    wanted = kind(each for each in (q, k, v, mask) if each is not None) if out is None else None
    one = operands[0].ndim == _LEAST_AXES
    if one:
        operands = [each[None] if each.ndim == _LEAST_AXES else each for each in operands]
        result = None if result is None else result[None]
    if tables:
        if seen is not None:
            raise OperandError(
                "is given beside tables", operand="mask", expected="None: lengths say which keys there are"
            )
        numbers = (causal, None if scale is None else float(scale), check(threads, "attention"))
        made = _kept_ragged(_ragged(operands, tables), *numbers)(*operands, *tables.values(), out=result)
        return like(made, wanted) if out is None else out
    given = _mask(seen, (*operands[0].shape[:-1], operands[1].shape[-2]), operands[0].ndim - 3)
    shapes = [each.shape for each in operands]
    kernel = _kept(
        shapes[0],
        shapes[1],
        shapes[2],
        tuple(each.dtype for each in operands),
        None if given is None else (given[0].dtype, given[1]),
        causal,
        None if scale is None else float(scale),
        check(threads, "attention"),
    )
    if wants_lines(wanted):
        result = empty((*shapes[0][:-1], shapes[2][-1]), operands[0].dtype)
    made = kernel(*operands, *(() if given is None else (given[0],)), out=result)
    return like(made[0] if one else made, wanted) if out is None else out


def _mask(mask: Array | None, scores: tuple[int, ...], batch: int) -> tuple[Array, str] | None:
    """The mask as a kernel takes it, and its axes: those along which it is one for all are left out."""
    if mask is None:
        return None
    try:
        whole = np.broadcast_to(mask, scores)
    except ValueError:
        raise OperandError(
            f"is of shape {mask.shape}", operand="mask", expected=f"one that is broadcast to {scores}"
        ) from None
    shape = (1,) * (len(scores) - mask.ndim) + mask.shape
    present = (any(size != 1 for size in shape[:batch]), shape[batch] != 1, shape[batch + 1] != 1)
    axes = "".join(axis for axis, has in zip("bhm", present, strict=True) if has)
    kept = (
        *[slice(None) if present[0] else slice(1)] * batch,
        *(slice(None) if has else slice(1) for has in present[1:]),
    )
    dropped = (
        *(range(batch) if not present[0] else ()),
        *(batch + at for at, has in enumerate(present[1:]) if not has),
    )
    whole = np.ascontiguousarray(whole[kept].squeeze(dropped) if 0 not in scores else _empty(scores, dropped, mask))
    return whole.view(np.uint8) if whole.dtype == np.bool_ else whole, f"{axes}n"


def _empty(scores: tuple[int, ...], dropped: tuple[int, ...], mask: Array) -> Array:
    """A mask without elements, or of none that is used."""
    return np.zeros([size for axis, size in enumerate(scores) if axis not in dropped], mask.dtype)


@lru_cache(maxsize=1024)
def _kept(
    q: tuple[int, ...],
    k: tuple[int, ...],
    v: tuple[int, ...],
    types: tuple[np.dtype[Any], ...],
    mask: tuple[np.dtype[Any], str] | None,
    causal: Causal,
    scale: float | None,
    threads: int,
) -> Kernel:
    """The kernel for operands of these shapes and types."""
    expected = {"k": (*q[:-3], "a divisor of the heads", "keys", q[-1]), "v": (*k[:-1], "value_head")}
    if len(k) != len(q) or k[:-3] != q[:-3] or k[-1] != q[-1] or not k[-3] or q[-3] % k[-3]:
        raise OperandError(f"is of shape {k}", operand="k", expected=f"({', '.join(map(str, expected['k']))})")
    if v[:-1] != k[:-1]:
        raise OperandError(f"is of shape {v}", operand="v", expected=f"({', '.join(map(str, expected['v']))})")
    named: dict[str, Any] = {name: from_numpy(each).name for name, each in zip("qkv", types, strict=True)}
    spec = AttentionSpec(
        queries=q[-2],
        keys=k[-2],
        head=q[-1],
        heads=q[-3],
        kv_heads=k[-3],
        value_head=v[-1],
        batch=q[:-3],
        **named,
        scale=scale,
        causal=causal,
        mask=None if mask is None else from_numpy(mask[0]).name,
        mask_axes="mn" if mask is None else mask[1],
    )
    return compile(spec, threads=threads)


_FORMS = (("q_starts", "k_starts"), ("q_starts", "lengths", "table"), ("lengths",), ("lengths", "table"))
"""Tables that say together how long entries are, and where they lie."""


def _ragged(operands: list[Array], tables: Mapping[str, Array]) -> tuple[tuple[str, Any], ...]:
    """The fields of the spec for operands with tables: rows, keys and sequences are open; entries of a batch and their queries known."""
    if tuple(tables) not in _FORMS:
        expected = "; ".join(" and ".join(each) for each in _FORMS)
        raise OperandError(f"are {', '.join(tables)}", where="tables", expected=expected)
    q, k, v = (each.shape for each in operands)
    packed, paged = "q_starts" in tables, "table" in tables
    axes = _LEAST_AXES + 1 if packed else len(tables["lengths"].shape) + _LEAST_AXES + 1
    if len(q) != axes or (not packed and q[:-3] != tables["lengths"].shape):
        lead = "heads" if packed else "*lengths.shape, heads"
        raise OperandError(f"is of shape {q}", operand="q", expected=f"({lead}, queries, head)")
    for name, shape, last in (("k", k, q[-1:]), ("v", v, v[-1:])):
        lead, rows = (("pages",), "page") if paged else (q[:-3], "keys")
        fits = len(shape) == (4 if paged else axes) and shape[-1:] == last and shape[-3] and q[-3] % shape[-3] == 0
        if not fits or shape[-3:-1] != k[-3:-1] or (not paged and shape[:-3] != lead):
            expected = (*lead, "a divisor of the heads", rows, *(last if name == "k" else ("value_head",)))
            raise OperandError(f"is of shape {shape}", operand=name, expected=f"({', '.join(map(str, expected))})")
    fields = {
        "queries": None if packed else q[-2],
        "keys": None,
        "head": q[-1],
        "heads": q[-3],
        "kv_heads": k[-3],
        "value_head": v[-1],
        "batch": q[:-3],
        "sequences": Dim() if packed else None,
        "lengths": "lengths" in tables,
        "page": k[-2] if paged else None,
        **{name: from_numpy(each.dtype).name for name, each in zip("qkv", operands, strict=True)},
    }
    return tuple(fields.items())


@lru_cache(maxsize=1024)
def _kept_ragged(fields: tuple[tuple[str, Any], ...], causal: Causal, scale: float | None, threads: int) -> Kernel:
    """The kernel for operands with tables."""
    return compile(AttentionSpec(**dict(fields), causal=causal, scale=scale), threads=threads)
