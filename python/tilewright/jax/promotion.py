# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What types operands and results of JAX have, and in which of them kernels compute: they are converted where the two differ."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tilewright.dtypes import from_numpy, to_numpy
from tilewright.jax.primitive import Value
from tilewright.operand import OperandSpec
from tilewright.runtime.numpy_rules import computed

jnp: Any = import_module("jax.numpy")

_BYTES = ("int8", "uint8")


def factors(a: Value, b: Value) -> tuple[Value, Value]:
    """Two matrices in types that a kernel multiplies: their own ones, or what JAX promotes them to."""
    if computed(a.dtype, b.dtype):
        return a, b
    common = jnp.promote_types(a.dtype, b.dtype)
    if not computed(common, common):
        common = _wider(common)
    return a.astype(common), b.astype(common)


def _wider(type_: Any) -> Any:  # noqa: ANN401 - types of JAX
    """A type that a kernel multiplies, in which products have the same numbers, or the same last bits of integers."""
    if jnp.issubdtype(type_, jnp.floating):
        return jnp.float32
    return jnp.int64 if type_.itemsize > jnp.dtype(jnp.int32).itemsize else jnp.int32


def result(a: Any, b: Any, preferred: Any) -> Any:  # noqa: ANN401 - types of JAX
    """The type of a product: `preferred`, or that to which JAX promotes those of its operands; int32 of 8-bit integers."""
    if preferred is not None:
        return jnp.dtype(preferred)
    eight = a.name in _BYTES and b.name in _BYTES
    return jnp.dtype(jnp.int32) if eight else jnp.promote_types(a, b)


def made(a: Any, b: Any, wanted: Any) -> str | None:  # noqa: ANN401 - types of JAX
    """The name of the type `wanted`, where a kernel of `a` and `b` makes it; None where its result is to be converted."""
    return from_numpy(wanted).name if computed(a, b, wanted) else None


def further(operands: Sequence[Value], wanted: Sequence[OperandSpec]) -> list[Value]:
    """The operands of an epilogue, in the types that it takes."""
    return [jnp.asarray(each, to_numpy(own.type)) for each, own in zip(operands, wanted, strict=True)]
