# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Derivatives of kernels: those of products are products of ours, with the operands in the layouts that they have."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tilewright.errors import SpecError
from tilewright.jax.composed import composed, is_linear
from tilewright.jax.primitive import Value, call, kernel_p
from tilewright.operator_specs import Conv2dSpec
from tilewright.payload.spec_tables import Spec
from tilewright.spec import MatmulSpec

jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")
_ad: Any = import_module("jax.interpreters.ad")

_OTHER = {"n": "t", "t": "n"}
"""How a matrix is stored that is stored so, where its transpose is multiplied."""


def _jvp(primals: Sequence[Value], tangents: Sequence[Value], *, spec: Spec, threads: int) -> tuple[Value, Value]:
    """The result and its derivative along tangents."""
    if not is_linear(spec):
        made = [_ad.instantiate_zeros(each) for each in tangents]
        return jax.jvp(lambda *operands: composed(spec, operands, threads), tuple(primals), tuple(made))
    result = call(spec, *primals, threads=threads)
    terms = [
        call(spec, *primals[:at], tangent, *primals[at + 1 :], threads=threads)
        for at, tangent in enumerate(tangents)
        if not isinstance(tangent, _ad.Zero)
    ]
    total = sum(terms[1:], terms[0]) if terms else _ad.Zero(jax.typeof(result).to_tangent_aval())
    return result, total


def _transpose(cotangent: Value, *operands: Value, spec: Spec, threads: int) -> list[Value | None]:
    """What the operand that is not known adds to a derivative, which the result is linear in."""
    wanted = next(at for at, each in enumerate(operands) if _ad.is_undefined_primal(each))
    results: list[Value | None] = [None, None]
    if not isinstance(cotangent, _ad.Zero):
        known, aval = operands[1 - wanted], operands[wanted].aval
        if isinstance(spec, Conv2dSpec):
            results[wanted] = _of_image(spec, cotangent, known, wanted, aval)
        elif isinstance(spec, MatmulSpec):
            results[wanted] = _of_matrix(spec, cotangent, known, wanted, aval, threads)
    return results


def _of_matrix(spec: MatmulSpec, cotangent: Value, known: Value, wanted: int, aval: Any, threads: int) -> Value:  # noqa: ANN401
    """dC·Bᵀ or Aᵀ·dC, stored as the operand is; dC is rounded to the type of the other one.

    With A stored transposed it is B·dCᵀ, and with B stored so dCᵀ·A.
    """
    if "c" in spec.layout:
        raise SpecError(
            f"layout is {spec.layout}", where="the derivative of a kernel", expected="n and t, of no conjugates"
        )
    own, other = spec.layout[wanted], spec.layout[1 - wanted]
    extents = (spec.m, spec.k) if wanted == 0 else (spec.k, spec.n)
    summed = spec.n if wanted == 0 else spec.m
    batches = (spec.batch, spec.b_batch if wanted == 0 else spec.a_batch)
    cotangent = cotangent.astype(known.dtype)
    # The cotangent comes first where the operand's rows, as they are stored, are its rows or columns.
    cotangent_first = (wanted == 0) == (own == "n")
    stored = "n" if own == "n" else "t"
    known_stored = _OTHER[other] if own == "n" else other
    rows, columns = extents if own == "n" else extents[::-1]
    given = (cotangent, known) if cotangent_first else (known, cotangent)
    layout = f"{stored}{known_stored}" if cotangent_first else f"{known_stored}{stored}"
    a_batch, b_batch = batches if cotangent_first else batches[::-1]
    element = str(spec.b if wanted == 0 else spec.a)
    narrow = aval.dtype == known.dtype and spec.acc != element
    made = MatmulSpec(
        rows,
        columns,
        summed,
        a=element,
        c=element if narrow else None,
        layout=layout,
        batch=spec.batch,
        a_batch=a_batch,
        b_batch=b_batch,
        alpha=spec.alpha,
        deterministic=spec.deterministic,
        tf32=spec.tf32,
        precision=spec.precision,
    )
    return _summed(call(made, *given, threads=threads), aval).astype(aval.dtype)


def _summed(value: Value, aval: Any) -> Value:  # noqa: ANN401 - an abstract value
    """The sum over the axes of the batch along which the operand was one for all."""
    missing = value.ndim - len(aval.shape)
    value = value.sum(tuple(range(missing))) if missing else value
    pairs = enumerate(zip(value.shape, aval.shape, strict=True))
    axes = tuple(axis for axis, (has, wanted) in pairs if has is not wanted and has != wanted)
    return value.sum(axes, keepdims=True) if axes else value


def _of_image(spec: Conv2dSpec, cotangent: Value, known: Value, wanted: int, aval: Any) -> Value:  # noqa: ANN401
    """The convolution's derivative, which XLA computes."""
    names = (spec.layout.upper(), str(spec.filter).upper(), spec.layout.upper())

    def convolved(unknown: Value) -> Value:
        x, w = (unknown, known) if wanted == 0 else (known, unknown)
        return jax.lax.conv_general_dilated(
            x,
            w,
            spec.stride,
            spec.padding,
            rhs_dilation=spec.dilation,
            dimension_numbers=names,
            feature_group_count=spec.groups,
            preferred_element_type=cotangent.dtype if cotangent.dtype == known.dtype else None,
        )

    transposed = jax.linear_transpose(convolved, jax.ShapeDtypeStruct(aval.shape, known.dtype))
    return transposed(cotangent.astype(known.dtype))[0].astype(aval.dtype)


_ad.primitive_jvps[kernel_p] = _jvp
_ad.primitive_transposes[kernel_p] = _transpose
