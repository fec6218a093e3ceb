# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels in programs of JAX: a program for the environment that has JAX. `test_frameworks` runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import numpy as np
import tilewright as tw
from framework_cases import case, run

jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")
twj: Any = import_module("tilewright.jax")
export: Any = import_module("jax.export")
P, F32 = jax.P, jnp.float32
RNG = np.random.default_rng(0)
BIAS_RELU = (tw.bias("n"), tw.relu())


def some(*shape: int, type: Any = F32) -> Any:
    return jnp.asarray(RNG.uniform(-1, 1, shape), type)


def same(one: Any, other: Any, tolerance: float = 1e-5) -> None:
    one, other = np.asarray(one, "f8"), np.asarray(other, "f8")
    assert one.shape == other.shape, (one.shape, other.shape)
    assert np.allclose(one, other, tolerance, tolerance), np.abs(one - other).max()


def says(error: type[Exception], words: str, call: Callable[[], object]) -> None:
    said = None
    try:
        call()
    except error as raised:
        said = str(raised)
    assert said is not None, "no error"
    assert re.search(words, said, re.DOTALL), said


def gradient(function: Callable[..., Any], *operands: Any) -> Any:
    squares = jax.grad(lambda *each: (function(*each).astype(F32) ** 2).sum(), tuple(range(len(operands))))
    return jax.jit(squares)(*operands)


def same_gradients(one: Any, other: Any, *operands: Any, tolerance: float = 1e-4) -> None:
    for own, wanted in zip(gradient(one, *operands), gradient(other, *operands), strict=True):
        assert own.dtype == wanted.dtype
        same(own, wanted, tolerance)


def bias_relu(x: Any, w: Any, b: Any) -> Any:
    return twj.linear(x, w, b, epilogue=BIAS_RELU)


def plain_bias_relu(x: Any, w: Any, b: Any) -> Any:
    return jax.nn.relu(x @ w + b)


def exported(function: Callable[..., Any], *operands: Any) -> Any:
    allowed = [export.DisabledSafetyCheck.custom_call(twj.TARGET)]
    return export.export(jax.jit(function), disabled_checks=allowed)(*operands)


@case
def products_as_of_jax() -> None:
    shapes = [((4, 6), (6, 5)), ((6,), (6, 5)), ((4, 6), (6,)), ((6,), (6,)), ((3, 4, 6), (6, 5)), ((0, 6), (6, 5))]
    shapes += [((2, 1, 4, 6), (3, 6, 5)), ((4, 6), (3, 6, 5)), ((4, 0), (0, 5)), ((1, 1), (1, 1))]
    for a, b in ((some(*one), some(*other)) for one, other in shapes):
        same(jax.jit(twj.matmul)(a, b), jnp.matmul(a, b))
    same(twj.matmul(a := some(4, 6), b := some(6, 5)), a @ b)
    same(twj.matmul(a := some(64, 96), b := some(96, 80), threads=2), a @ b)


@case
def types_of_products() -> None:
    a, b = some(4, 6, type=jnp.bfloat16), some(6, 5, type=jnp.bfloat16)
    assert twj.matmul(a, b).dtype == jnp.bfloat16
    same(twj.matmul(a, b, preferred_element_type=F32), a.astype(F32) @ b.astype(F32))
    assert twj.matmul(a, b.astype(F32)).dtype == F32
    small = twj.matmul(jnp.ones((4, 6), jnp.int8), jnp.full((6, 5), 200, jnp.uint8))
    assert small.dtype == jnp.int32
    assert (small == 1200).all()


@case
def types_that_no_kernel_multiplies() -> None:
    for name in ("bool", "int16", "uint16", "uint32", "int4"):
        a, b = (jnp.asarray(RNG.integers(0, 3, shape), name) for shape in ((4, 6), (6, 5)))
        made, wanted = twj.matmul(a, b), jnp.matmul(a, b)
        assert made.dtype == wanted.dtype
        assert (made == wanted).all()
    a, b = some(4, 6), some(6, 5)
    for own, preferred in ((F32, jnp.bfloat16), (jnp.bfloat16, jnp.float16), (jnp.int8, F32)):
        left, right = a.astype(own), b.astype(own)
        made = twj.matmul(left, right, preferred_element_type=preferred)
        assert made.dtype == preferred
        same(made, jnp.matmul(left, right, preferred_element_type=preferred), 2e-2)
    same(twj.matmul(jnp.ones((2, 3, 0)), jnp.ones((0, 5))), jnp.zeros((2, 3, 5)))


@case
def operands_of_layers_are_promoted() -> None:
    x, w, b, r = some(4, 6), some(6, 5), some(5), some(4, 5)
    half = [each.astype(jnp.bfloat16) for each in (x, w, b, r)]
    entries = (*BIAS_RELU, tw.residual())

    def layer(x: Any, w: Any, b: Any, r: Any) -> Any:
        return twj.linear(x, w, b, r, epilogue=entries)

    made = layer(*half)
    assert made.dtype == jnp.bfloat16
    same(made, plain_bias_relu(*half[:3]) + half[3], 3e-2)
    same_gradients(layer, lambda x, w, b, r: plain_bias_relu(x, w, b) + r, *half, tolerance=5e-2)
    same(layer(x, half[1], b, r), plain_bias_relu(x, half[1], b) + r)
    image, filters = some(1, 6, 6, 3), some(3, 3, 3, 5)
    own = twj.conv2d(image, filters, half[2], epilogue=(tw.bias("n"),))
    same(own, twj.conv2d(image, filters) + half[2].astype(F32))


@case
def one_custom_call_and_no_address() -> None:
    text = jax.jit(twj.matmul).lower(some(4, 6), some(6, 5)).as_text()
    assert text.count("custom_call @tilewright_kernel") == 1
    assert re.search(r'name = "matmul_[0-9a-f]{20}"', text)


@case
def gradients_of_products() -> None:
    for one, other in (((4, 6), (6, 5)), ((3, 4, 6), (6, 5)), ((2, 1, 4, 6), (3, 6, 5))):
        same_gradients(twj.matmul, jnp.matmul, some(*one), some(*other))
    for layout in ("nn", "nt", "tn", "tt"):
        spec = tw.MatmulSpec(4, 5, 6, layout=layout, alpha=2)
        turned = [each == "t" for each in layout]

        def plain(a: Any, b: Any, turned: list[bool] = turned) -> Any:
            return 2 * (a.T if turned[0] else a) @ (b.T if turned[1] else b)

        same_gradients(lambda a, b, spec=spec: twj.call(spec, a, b), plain, some(*spec.a_shape), some(*spec.b_shape))
    a, b = some(4, 6), some(6, 5)
    second = [jax.jit(jax.hessian(lambda a, b, f=f: (f(a, b) ** 2).sum()))(a, b) for f in (twj.matmul, jnp.matmul)]
    same(*second)
    half = some(8, 6, type=jnp.bfloat16), some(6, 5, type=jnp.bfloat16)
    same_gradients(twj.matmul, jnp.matmul, *half, tolerance=5e-2)


@case
def gradients_of_fused_kernels() -> None:
    x, w, b, r = some(4, 6), some(6, 5), some(5), some(4, 5)
    same_gradients(bias_relu, plain_bias_relu, x, w, b)
    same(bias_relu(x, w, b), plain_bias_relu(x, w, b))
    entries = (tw.glu("silu"), tw.residual())
    same_gradients(
        lambda x, w, u, r: twj.linear(x, w, u, r, epilogue=entries),
        lambda x, w, u, r: jax.nn.silu(x @ w) * (x @ u) + r,
        *(x, w, some(6, 5), r),
    )
    for entry in (tw.softmax(), tw.row_sum(), tw.hardswish(), tw.gelu(), tw.cast("bf16")):
        fused = tw.MatmulSpec(4, 5, 6, epilogue=(tw.scale(0.5), entry))
        composed = jax.jit(
            lambda x, w, fused=fused: import_module("tilewright.jax.composed").composed(fused, (x, w), 1)
        )
        same(twj.call(fused, x, w), composed(x, w), 1e-2)
    own = (lambda c, s: tw.math.where(c < 0, c * s, tw.math.max(c, 0.25)),)
    same_gradients(
        lambda x, w, s: twj.linear(x, w.T, s, epilogue=own, transposed=True),
        lambda x, w, s: jnp.where(x @ w < 0, x @ w * s, jnp.maximum(x @ w, 0.25)),
        *(x, w, b),
    )


@case
def batches_of_vmap_are_one_kernel() -> None:
    a, b = some(3, 4, 6), some(3, 6, 5)
    for axes in ((0, 0), (0, None), (None, 0)):
        operands = [each if axis == 0 else each[0] for each, axis in zip((a, b), axes, strict=True)]
        mapped = jax.vmap(twj.matmul, axes)
        same(mapped(*operands), jax.vmap(jnp.matmul, axes)(*operands))
        text = str(jax.make_jaxpr(mapped)(*operands))
        assert text.count("tilewright_kernel") == 1
        assert "scan" not in text
    twice = some(2, 3, 4, 6), some(2, 3, 6, 5)
    same(jax.vmap(jax.vmap(twj.matmul))(*twice), jnp.matmul(*twice))
    same(jax.vmap(twj.matmul, (0, None))(twice[0], b), jnp.matmul(twice[0], b))
    same(jax.vmap(jax.grad(lambda a, b: twj.matmul(a, b).sum()))(a, b), jnp.broadcast_to(b.sum(2)[:, None], (3, 4, 6)))


@case
def vmap_of_fused_kernels() -> None:
    entries = (*BIAS_RELU, tw.residual())
    whole = some(3, 4, 6), some(3, 6, 5), some(3, 5), some(3, 4, 5)
    for axes in (
        (0, None, None, 0),
        (0, 0, None, 0),
        (0, 0, 0, 0),
        (0, None, None, None),
        (None, 0, None, None),
        (None, None, 0, None),
    ):
        operands = [each if axis == 0 else each[0] for each, axis in zip(whole, axes, strict=True)]
        made = jax.vmap(lambda x, w, b, r: twj.linear(x, w, b, r, epilogue=entries), axes)(*operands)
        same(made, jax.vmap(lambda x, w, b, r: plain_bias_relu(x, w, b) + r, axes)(*operands))


@case
def convolutions() -> None:
    def plain(x: Any, w: Any, b: Any) -> Any:
        names = ("NHWC", "HWIO", "NHWC")
        return jax.nn.relu(jax.lax.conv_general_dilated(x, w, (2, 2), ((1, 1), (1, 1)), dimension_numbers=names) + b)

    def fused(x: Any, w: Any, b: Any) -> Any:
        return twj.conv2d(x, w, b, stride=2, padding=1, epilogue=BIAS_RELU)

    def channels_first(x: Any, w: Any, b: Any) -> Any:
        x, w = jnp.moveaxis(x, 3, 1), jnp.transpose(w, (3, 2, 0, 1))
        made = twj.conv2d(x, w, b, layout="nchw", stride=2, padding=1, epilogue=BIAS_RELU)
        return jnp.moveaxis(made, 1, 3)

    x, w, b = some(2, 7, 6, 4), some(3, 3, 4, 8), some(8)
    for each in (fused, channels_first):
        same(jax.jit(each)(x, w, b), plain(x, w, b))
        same_gradients(each, plain, x, w, b)
    more = some(3, 2, 7, 6, 4)
    for one in (
        jax.vmap(fused, (0, None, None))(more, w, b),
        jax.vmap(fused)(more, *(jnp.stack([z] * 3) for z in (w, b))),
    ):
        same(one, jnp.stack([plain(each, w, b) for each in more]))


@case
def attentions() -> None:
    def plain(q: Any, k: Any, v: Any, mask: Any = None, causal: Any = False) -> Any:
        k, v = (jnp.repeat(each, q.shape[-3] // each.shape[-3], -3) for each in (k, v))
        scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
        if mask is not None:
            scores = jnp.where(mask, scores, -jnp.inf) if mask.dtype == jnp.bool_ else scores + mask
        seen = jnp.tril(
            jnp.ones(scores.shape[-2:], jnp.bool_), 0 if causal != "lower_right" else k.shape[-2] - q.shape[-2]
        )
        return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf) if causal else scores) @ v

    q, k, v = some(2, 4, 5, 8), some(2, 2, 7, 8), some(2, 2, 7, 6)
    truth = jnp.asarray(RNG.random((5, 7)) < 0.7).at[:, 0].set(True)
    for options in (
        {},
        {"causal": "upper_left"},
        {"causal": "lower_right"},
        {"mask": truth},
        {"mask": some(2, 1, 5, 7)},
    ):
        fused, wanted = (lambda *each, f=f, o=options: f(*each, **o) for f in (twj.attention, plain))
        same(fused(q, k, v), wanted(q, k, v))
        same_gradients(fused, wanted, q, k, v)
    mask = some(2, 4, 5, 7)
    mapped = jax.jit(jax.vmap(twj.attention))
    same(mapped(q, k, v, mask), jax.jit(plain)(q, k, v, mask))
    shared = jax.jit(jax.vmap(twj.attention, (0, None, None, None)))(q, k[0], v[0], mask[0])
    same(shared[1], mapped(q, k[:1].repeat(2, 0), v[:1].repeat(2, 0), mask[:1].repeat(2, 0))[1])


@case
def shards() -> None:
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    x, w, b = some(8, 6), some(6, 4), some(4)
    rows = jax.shard_map(bias_relu, mesh=mesh, in_specs=(P("d"), P(), P()), out_specs=P("d"))
    same(jax.jit(rows)(x, w, b), plain_bias_relu(x, w, b))
    same_gradients(rows, plain_bias_relu, x, w, b)
    summed = jax.shard_map(
        lambda x, w: jax.lax.psum(twj.matmul(x, w), "d"), mesh=mesh, in_specs=(P(None, "d"), P("d")), out_specs=P()
    )
    same(summed(x, w), x @ w)
    split = jax.device_put(x, jax.NamedSharding(mesh, P("d")))
    same(jax.jit(twj.matmul)(split, w), x @ w)
    with jax.set_mesh(jax.make_mesh((2,), ("d",))):
        split = jax.device_put(x, P("d"))
        says(tw.OperandError, "split over a mesh.*shard_map", lambda: twj.matmul(split, w))
        same(jax.shard_map(twj.matmul, in_specs=(P("d"), P()), out_specs=P("d"))(split, jax.device_put(w, P())), x @ w)


@case
def one_kernel_for_every_size() -> None:
    before = len(twj.kernels())
    for m in (3, 4, 17):
        same(twj.matmul(a := some(m, 7), b := some(7, 5), dynamic="m"), a @ b)
    m, n, k = export.symbolic_shape("m, n, k")
    rows = exported(twj.matmul, jax.ShapeDtypeStruct((n, m, 7), F32), jax.ShapeDtypeStruct((7, k), F32))
    for shape in ((2, 3, 7), (4, 1, 7)):
        same(rows.call(a := some(*shape), b := some(7, 5)), a @ b)
    assert len(twj.kernels()) == before + 2
    scores = exported(lambda x: twj.attention(x, x, x), jax.ShapeDtypeStruct((2, m, 8), F32))
    for length in (3, 9):
        same(scores.call(x := some(2, length, 8)), twj.attention(x, x, x))


ELSEWHERE = """
import sys
import numpy as np, jax.export
import tilewright.jax as twj
loaded = twj.load(sys.argv[2]) if sys.argv[2:] else []
program = jax.export.deserialize(open(sys.argv[1], "rb").read())
result = program.call(np.ones((4, 6), "f4"), np.ones((6, 5), "f4"), np.full(5, 2, "f4"))
print(np.asarray(result).tolist() == [[12] * 5] * 4, len(loaded), len(twj.kernels()))
"""


@case
def exported_programs_elsewhere() -> None:
    """A program finds its kernels by name: compiled from their spec, or in a library; where neither can be, it says so."""

    def elsewhere(*words: object) -> subprocess.CompletedProcess[str]:
        (folder / "elsewhere.py").write_text(ELSEWHERE)
        command = [sys.executable, "-B", "-W", "ignore", str(folder / "elsewhere.py"), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)

    operands = jnp.ones((4, 6)), jnp.ones((6, 5)), jnp.ones(5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, entries in (("named", (tw.multiply("n"),)), ("own", (lambda c, s: c * s,))):
            before = set(twj.kernels())
            program = exported(lambda x, w, s, entries=entries: twj.linear(x, w, s, epilogue=entries), *operands)
            (folder / file).write_bytes(program.serialize())
            made = {name: spec for name, spec in twj.kernels().items() if name not in before}
            tw.library(made, name=file, out=folder, targets=["x86-64-v3" if os.uname().machine == "x86_64" else "host"])
        assert elsewhere(folder / "named").stdout == "True 0 1\n"
        assert elsewhere(folder / "own", folder / "libown.so").stdout == "True 1 0\n"
        refused = elsewhere(folder / "own").stderr
        assert re.search(r"no kernel matmul_\w+: .* is a Python function.* Trace the function", refused), refused


@case
def errors() -> None:
    a, b = some(4, 6), some(6, 5)
    spec = tw.MatmulSpec(4, 5, 6)
    says(tw.OperandError, "operand b: has 5 rows; expected 6", lambda: twj.matmul(a, some(5, 5)))
    says(tw.OperandError, "operand b: has no dimensions", lambda: twj.matmul(a, 3.0))
    says(tw.OperandError, "operand b: is of shape", lambda: twj.call(spec, a, b.T))
    says(
        tw.OperandError,
        "operand b: is of bfloat16; expected float32",
        lambda: twj.call(spec, a, b.astype(jnp.bfloat16)),
    )
    says(tw.OperandError, "1 operands; expected 2", lambda: twj.call(spec, a))
    says(tw.OperandError, "0 operands of the epilogue; expected 1", lambda: twj.linear(a, b, epilogue=BIAS_RELU))
    says(tw.OperandError, "has a batch", lambda: twj.matmul(some(3, 4, 6), some(2, 6, 5)))
    says(tw.SpecError, "beta is 1; expected 0", lambda: twj.call(tw.MatmulSpec(4, 5, 6, beta=1), a, b))
    says(tw.SpecError, "comes packed", lambda: twj.call(tw.MatmulSpec(4, 5, 6, b_packed=True), a, b))
    says(tw.SpecError, "threads is 0", lambda: twj.matmul(a, b, threads=0))
    says(tw.SpecError, "dynamic is 'x'", lambda: twj.matmul(a, b, dynamic="x"))


if __name__ == "__main__":
    run()
