# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What kernels compute, on every target that this machine runs: the right numbers, the same bits, and nothing beside C."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import products
import pytest
import tilewright as tw
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from products import NUMPY, TARGETS
from strategies import STRATEGIES
from tilewright.bench.suites import SUITES


# Compiling dominates, and how long it takes depends on the machine's other work.
def examples(count: int) -> settings:
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])


ONE_COLUMN = {"inner_product"}
"""Strategies for products with one column only."""


def fitting(spec: tw.MatmulSpec, schedule: str | None) -> tw.MatmulSpec:
    """`spec`, with one column where `schedule` takes no more."""
    return replace(spec, n=1) if schedule in ONE_COLUMN else spec


def compiled(spec: tw.MatmulSpec, **how) -> tw.Kernel:
    # Not from the disk: these are tests of what the compiler makes now.
    return tw.compile(spec, cache=False, **how)


# Extents around the sizes of vectors and tiles, where tails begin and end.
extents = st.one_of(
    st.integers(1, 9),
    st.sampled_from([15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 95, 96, 97, 127, 128, 129, 130]),
    st.integers(1, 150),
)
specs = st.builds(
    tw.MatmulSpec, m=extents, n=extents, k=extents, a=st.sampled_from(sorted(NUMPY)), beta=st.sampled_from([0, 1])
)
strategies = st.sampled_from([None, *STRATEGIES])
overrides = st.fixed_dictionaries(
    {},
    optional={
        "mr": st.integers(1, 14),
        "nr": st.integers(1, 80),
        "mc": st.integers(1, 100),
        "nc": st.integers(1, 150),
        "kc": st.integers(1, 100),
    },
)
gaps = st.tuples(*[st.integers(0, 20)] * 3)


@examples(30)
@given(specs, st.sampled_from(TARGETS), strategies, gaps, st.integers(0, 2**32))
def test_any_shape(spec, target, schedule, gaps, seed):
    spec = fitting(spec, schedule)
    kernel = compiled(spec, target=target, schedule=schedule)
    event(f"schedule {kernel.metadata.schedule}")
    products.check(kernel, products.uniform(spec, seed), gaps=gaps)


@examples(25)
@given(specs, st.sampled_from(TARGETS), strategies, overrides)
def test_any_sizes_of_blocks(spec, target, schedule, parameters):
    spec = fitting(spec, schedule)
    kernel = compiled(spec, target=target, schedule=schedule, parameters=parameters)
    assert parameters.items() <= kernel.metadata.parameters.items()
    products.check(kernel, products.uniform(spec))


def of_suite(name: str, shrunk: int = 1, limit: int = 10**9) -> list[tuple[int, ...]]:
    """The shapes of a suite with all extents up to `limit`; those above 512 are made `shrunk` times smaller first."""
    shapes = [
        tuple(extent // shrunk if extent > 512 else extent for extent in (each.m, each.n, each.k))
        for each in SUITES[name].shapes
    ]
    return list(dict.fromkeys(shape for shape in shapes if max(shape) <= limit))


@pytest.mark.parametrize("shape", of_suite("square", limit=512), ids=str)
@pytest.mark.parametrize("dtype", NUMPY)
def test_square(shape, dtype):
    spec = tw.MatmulSpec(*shape, a=dtype)
    products.check(compiled(spec), products.uniform(spec))


@pytest.mark.parametrize("shape", of_suite("bert", shrunk=8), ids=str)
@pytest.mark.parametrize("schedule", sorted(set(STRATEGIES) - ONE_COLUMN))
def test_bert(shape, schedule):
    spec = tw.MatmulSpec(*shape)
    products.check(compiled(spec, schedule=schedule), products.uniform(spec))


@pytest.mark.parametrize("shape", of_suite("odd"), ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_odd(shape, target):
    spec = tw.MatmulSpec(*shape)
    products.check(compiled(spec, target=target), products.uniform(spec))


@pytest.mark.parametrize("shape", of_suite("skinny", shrunk=16), ids=str)
@pytest.mark.parametrize("dtype", NUMPY)
def test_skinny(shape, dtype):
    spec = tw.MatmulSpec(*shape, a=dtype, beta=1)
    products.check(compiled(spec), products.uniform(spec))


@pytest.mark.parametrize("beta", [0, 1])
@pytest.mark.parametrize("schedule", STRATEGIES)
@pytest.mark.parametrize("target", TARGETS)
def test_several_blocks_along_every_loop(target, schedule, beta):
    # Each of the five loops has full steps and a short one.
    spec = fitting(tw.MatmulSpec(43, 157, 101, beta=beta), schedule)
    sizes = {"mr": 4, "nr": 32, "mc": 12, "nc": 64, "kc": 40}
    kernel = compiled(spec, target=target, schedule=schedule, parameters=sizes)
    products.check(kernel, products.uniform(spec))


# NaN, Inf and tiny numbers.

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 2.0, 1e-30]


@st.composite
def special_operands(draw):
    """A spec of a small product, and operands of which some elements are special."""
    small = st.integers(1, 40)
    spec = tw.MatmulSpec(
        draw(small), draw(small), draw(small), a=draw(st.sampled_from(sorted(NUMPY))), beta=draw(st.integers(0, 1))
    )
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    share = draw(st.sampled_from([0.01, 0.1, 0.9]))
    operands = tuple(
        np.where(random.random(each.shape) < share, random.choice(SPECIAL, each.shape), each).astype(each.dtype)
        for each in products.uniform(spec)
    )
    return spec, operands


@examples(25)
@given(special_operands(), st.sampled_from(TARGETS), strategies)
def test_nan_and_inf_are_where_ieee_has_them(case, target, schedule):
    spec, (a, b, c) = case
    if schedule in ONE_COLUMN:
        spec, b, c = fitting(spec, schedule), b[:, :1], c[:, :1]
    result = products.check(compiled(spec, target=target, schedule=schedule), (a, b, c))
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64) + (c if spec.beta else 0)
    for kind in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(kind(result), kind(expected))


@pytest.mark.parametrize("schedule", STRATEGIES)
@pytest.mark.parametrize("target", TARGETS)
def test_padding_spreads_nothing(target, schedule):
    # With zeros as padding, Inf would become NaN where it is multiplied by them: in elements that are not part of C.
    spec = fitting(tw.MatmulSpec(7, 37, 11), schedule)
    kernel = compiled(spec, target=target, schedule=schedule, parameters={"mr": 4, "nr": 32, "kc": 8})
    for value, operand in itertools.product((np.nan, np.inf, -np.inf), (0, 1)):
        operands = products.uniform(spec)
        # In the last row and column, next to the padding: it reaches a row of C from A, a column from B.
        operands[operand][-1, -1] = value
        result = products.check(kernel, operands)
        reached = np.zeros(spec.c_shape, bool)
        reached[(-1, ...) if operand == 0 else (..., -1)] = True
        np.testing.assert_array_equal(~np.isfinite(result), reached)
        assert np.isnan(result[reached]).all() == np.isnan(value)


@pytest.mark.parametrize("schedule", STRATEGIES)
@pytest.mark.parametrize("target", TARGETS)
def test_tiny_numbers_are_not_flushed_to_zero(target, schedule):
    spec = fitting(tw.MatmulSpec(5, 17, 3), schedule)
    a = np.full(spec.a_shape, 2.0**-100, np.float32)
    b = np.full(spec.b_shape, 2.0**-40, np.float32)
    result = compiled(spec, target=target, schedule=schedule)(a, b)
    assert (result == np.float32(3 * 2.0**-140)).all()


def test_former_elements_of_c_are_not_read_with_beta_0():
    spec = tw.MatmulSpec(13, 29, 7)
    kernel = compiled(spec)
    a, b, _ = products.uniform(spec)
    results = []
    for former in (0.0, 1e30, np.inf, -np.inf, np.nan):
        results.append(kernel(a, b, out=np.full(spec.c_shape, former, np.float32)).tobytes())
    assert len(set(results)) == 1


# The same bits from run to run.


@pytest.mark.parametrize("shape", [(3, 5, 7), (64, 64, 64), (123, 789, 456), (200, 1, 500)], ids=str)
@pytest.mark.parametrize("schedule", STRATEGIES)
def test_same_bits(shape, schedule):
    spec = fitting(tw.MatmulSpec(*shape), schedule)
    a, b, _ = products.uniform(spec)
    kernel, again = (compiled(spec, schedule=schedule) for _ in range(2))
    first = kernel(a, b).tobytes()
    assert kernel(a, b).tobytes() == first
    assert again(a, b).tobytes() == first
    # Neither where operands lie nor how far their rows are apart matters.
    for gap in (1, 2, 16):
        moved = [products.Bordered.of(each, gap).inner for each in (a, b)]
        assert kernel(*moved).tobytes() == first
    with ThreadPoolExecutor(4) as pool:
        assert {each.result().tobytes() for each in [pool.submit(kernel, a, b) for _ in range(8)]} == {first}
