# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A step of training a layer in JAX, whose products are kernels of ours, forwards and backwards; then one program for every batch.

Run it with a Python that has JAX, such as that of `make setup-frameworks`.
"""

import jax  # pyright: ignore[reportMissingImports] - not in the project's own environment
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
import tilewright as tw
import tilewright.jax as twj
from jax import export  # pyright: ignore[reportMissingImports]

x, w, b, y = (
    jax.random.normal(key, shape)
    for key, shape in zip(jax.random.split(jax.random.key(0), 4), ((128, 64), (64, 96), (96,), (128, 96)), strict=True)
)


def layer(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    """The layer on a kernel of ours."""
    return twj.linear(x, w, b, epilogue=(tw.bias("n"), tw.gelu()))


def loss(w: jax.Array, b: jax.Array) -> jax.Array:
    """How far the layer is from what it should give."""
    return jnp.mean((layer(x, w, b) - y) ** 2)


def expected(w: jax.Array, b: jax.Array) -> jax.Array:
    """The same without kernels of ours."""
    return jnp.mean((jax.nn.gelu(x @ w + b, approximate=False) - y) ** 2)


value, gradients = jax.jit(jax.value_and_grad(loss, (0, 1)))(w, b)
wanted = jax.grad(expected, (0, 1))(w, b)
print("gradients", all(jnp.allclose(*pair, atol=1e-4) for pair in zip(gradients, wanted, strict=True)))

members = jnp.stack([w, 2 * w, 3 * w])
each = jax.vmap(twj.matmul, (None, 0))(x, members)
print("an ensemble of three", each.shape, jnp.allclose(each[2], 3 * (x @ w), atol=1e-3))

batch = export.symbolic_shape("batch")[0]
program = export.export(jax.jit(layer), disabled_checks=[export.DisabledSafetyCheck.custom_call(twj.TARGET)])(
    jax.ShapeDtypeStruct((batch, 64), jnp.float32), w, b
)
stored = program.serialize()
loaded = export.deserialize(stored)
print(
    "one program for every batch",
    all(jnp.allclose(loaded.call(x[:n], w, b), layer(x[:n], w, b), atol=1e-4) for n in (1, 77)),
)
print("kernels", *(f"{spec}" for spec in twj.kernels().values()), sep="\n  ")
