# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls on JAX's arrays: a program for the environment that has JAX. `test_frameworks` runs it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import tilewright as tw
from framework_cases import case, refuses, run

jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")
KERNEL = tw.compile(tw.MatmulSpec(4, 5, 6))
A, B = jnp.asarray(np.random.default_rng(0).random((4, 6), np.float32)), jnp.ones((6, 5), jnp.float32)


def close(c: Any, a: Any = A, b: Any = B) -> bool:
    return isinstance(c, jax.Array) and np.allclose(
        np.asarray(c, "f4"), np.asarray(a, "f4") @ np.asarray(b, "f4"), 1e-5
    )


@case
def elements_of_four_bits_are_packed() -> None:
    x = jnp.arange(-8, 8).reshape(2, 8).astype(jnp.int4)
    packed = tw.pack_nibbles(x)
    assert (tw.unpack_nibbles(jnp.asarray(packed), "i4", 8) == np.asarray(x)).all()


@case
def results_are_arrays_of_jax() -> None:
    assert close(KERNEL(A, B))
    assert close(KERNEL(np.asarray(A), B))
    assert close(KERNEL(A, np.asarray(B)))


@case
def results_are_not_copied() -> None:
    taken: list[Any] = []

    from_dlpack = jnp.from_dlpack
    try:
        jnp.from_dlpack = lambda exported: taken.append(np.from_dlpack(exported)) or from_dlpack(exported)
        c = KERNEL(A, B)
    finally:
        jnp.from_dlpack = from_dlpack
    assert c.unsafe_buffer_pointer() == taken[0].ctypes.data


@case
def operands_are_not_copied() -> None:
    from tilewright.standalone import _native

    assert _native.array_view(A, "a").ctypes.data == A.unsafe_buffer_pointer()


@case
def types() -> None:
    for name in ("bf16", "f16"):
        own = {"bf16": jnp.bfloat16, "f16": jnp.float16}[name]
        for result in ("f32", name):
            kernel = tw.compile(tw.MatmulSpec(4, 5, 6, a=name, c=result))
            c = kernel(A.astype(own), B.astype(own))
            assert c.dtype == (own if result == name else jnp.float32)
            assert np.allclose(np.asarray(c, "f4"), np.asarray(A) @ np.asarray(B), rtol=2e-2)
    small = tw.compile(tw.MatmulSpec(4, 5, 6, a="bf16", b="f8E4M3FN", c="f32"))
    a = A.astype(jnp.bfloat16)
    assert close(small(a, B.astype(jnp.float8_e4m3fn)), a)


@case
def results_of_pending_work() -> None:
    """What is passed may still be computed: JAX waits before it hands its memory out."""
    kernel = tw.compile(tw.MatmulSpec(512, 512, 512))
    x = jax.jit(lambda y: (y @ y) / 512)(jnp.ones((512, 512), jnp.float32))
    assert np.allclose(np.asarray(kernel(x, x)), 512, 1e-5)


@case
def out_is_refused() -> None:
    refuses("operand out: the array is read-only", lambda: KERNEL(A, B, out=jnp.zeros((4, 5), jnp.float32)))


@case
def tracers_and_other_types_are_refused() -> None:
    refuses("operand a: ", lambda: jax.jit(lambda x: KERNEL(x, B))(A))
    refuses("operand a: .*int4|operand a: .*S4", lambda: KERNEL(jnp.ones((4, 6), jnp.int4), B))


@case
def out_may_be_numpys() -> None:
    out = np.empty((4, 5), "f4")
    assert KERNEL(A, B, out=out) is out
    assert np.allclose(out, np.asarray(A) @ np.asarray(B), 1e-5)


@case
def inferred() -> None:
    assert close(tw.matmul(A, B))
    assert close(tw.matmul(np.asarray(A), B))
    refuses("operand out: .*read-only", lambda: tw.matmul(A, B, out=jnp.zeros((4, 5), jnp.float32)))
    q = jnp.ones((2, 5, 8), jnp.float32)
    assert np.allclose(np.asarray(tw.attention(q, q, q)), 1, 1e-5)
    image = tw.conv2d(jnp.ones((1, 5, 5, 4), jnp.float32), jnp.ones((3, 3, 4, 8), jnp.float32))
    assert isinstance(image, jax.Array)
    assert (np.asarray(image) == 36).all()


if __name__ == "__main__":
    run()
