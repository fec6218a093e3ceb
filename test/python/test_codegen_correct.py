# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Objects, linked by the machine's linker and called from C: the code itself, without the runtime that loads kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import products
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from products import LEVELS
from tilewright import targets
from tilewright.emit import shared, stages
from tilewright.errors import TargetError
from tilewright.schedules import make
from tilewright.spec import MatmulSpec

OK, WRONG_EXTENTS = 0, 1
ROWS = [row.name for row in targets.all() if not targets.runnable(row)]
STRATEGIES = ("packed", "unpacked")
DTYPES = ("f32", "f64")

try:
    shared.linker()
except TargetError as e:
    pytest.skip(str(e), allow_module_level=True)

Entry = Callable[..., int]


def entry(spec: MatmulSpec, target: str, strategy: str | None, sizes: Mapping[str, int] | None = None) -> Entry:
    """Compiles and links the product, and returns its C entry."""
    row = targets.get(target)
    plan = make.make(spec, row, strategy, sizes)
    library = shared.link(stages.build(spec, row, plan, for_linking=True).object)
    with TemporaryDirectory() as folder:
        path = Path(folder, "kernel.so")
        path.write_bytes(library)
        function = ctypes.CDLL(str(path)).matmul
    function.argtypes = [ctypes.c_int64] * 3 + [ctypes.c_void_p, ctypes.c_int64] * 3
    function.restype = ctypes.c_int32
    return function


def call(function: Entry, extents: tuple[int, ...], *operands: products.Bordered) -> int:
    """Calls a C entry with matrices that have a border."""
    pointers = ((each.inner.ctypes.data, each.whole.shape[1]) for each in operands)
    return function(*extents, *(argument for pair in pointers for argument in pair))


def check(spec: MatmulSpec, target: str, strategy: str | None, sizes: Mapping[str, int] | None = None) -> None:
    """Runs the product among NaN, in scratch memory that is full of NaN from the call before, and checks every element."""
    function = entry(spec, target, strategy, sizes)
    extents = (spec.m, spec.n, spec.k)
    values = products.uniform(spec)
    poison = [products.Bordered.of(np.full_like(each, np.nan)) for each in values]
    assert call(function, extents, *poison) == OK
    former = values[2] if spec.beta else np.full_like(values[2], np.nan)
    a, b, c = (products.Bordered.of(each, gap) for each, gap in ((values[0], 5), (values[1], 4), (former, 7)))
    assert call(function, extents, a, b, c) == OK
    assert a.is_untouched()
    assert b.is_untouched()
    assert c.border_is_untouched()
    products.assert_right(spec, values, c.inner)


# None is a multiple of a register tile in more than one direction.
SHAPES = ((1, 1, 1), (3, 2, 41), (15, 7, 37), (9, 17, 33), (41, 81, 19), (64, 64, 64), (67, 131, 70))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", LEVELS)
def test_odd_shapes(target, dtype, strategy, shape):
    check(MatmulSpec(*shape, a=dtype), target, strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", ROWS)
def test_every_target(target, dtype, strategy):
    check(MatmulSpec(41, 81, 19, a=dtype), target, strategy)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", LEVELS)
def test_one_column(target, dtype):
    check(MatmulSpec(37, 1, 45, a=dtype), target, "inner_product")


def odd_sizes(lanes: int) -> dict[str, dict[str, int]]:
    """Sizes that no model would choose."""
    return {
        "one row": {"mr": 1},
        "one register": {"mr": 1, "nr": lanes, "mc": 1, "nc": lanes, "kc": 1},
        "one column": {"nr": 1},
        "steps of one in K": {"kc": 1},
        "blocks of one tile": {"mr": 3, "nr": lanes, "mc": 3, "nc": lanes},
        "blocks that hold no whole tiles": {"mr": 4, "nr": 2 * lanes, "mc": 7, "nc": 3 * lanes - 1},
        "a part of a register": {"mr": 2, "nr": lanes + 1},
        "a tile larger than C": {"mr": 40, "nr": 64, "kc": 8},
        "blocks larger than the operands": {"mc": 1000, "nc": 1000, "kc": 1000},
        "a short last step in K": {"kc": 9},
    }


@pytest.mark.parametrize("name", odd_sizes(1))
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("target", LEVELS)
def test_odd_sizes(target, strategy, name):
    spec = MatmulSpec(13, 37, 23, a="f64" if name.startswith("blocks") else "f32")
    check(spec, target, strategy, odd_sizes(targets.get(target).lanes(spec.acc_type))[name])


# Whole C is one tile, larger than C, in a loop over K: a tile that is padded in place.
@pytest.mark.parametrize("beta", [0, 1])
@pytest.mark.parametrize("shape", [(2, 1, 61), (7, 12, 21), (1, 11, 64)], ids=str)
def test_one_padded_tile_in_a_loop_over_k(shape, beta):
    check(MatmulSpec(*shape, beta=beta), ROWS[-1], "packed", {"mr": 8, "nr": 16, "kc": 19})


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    spec=st.builds(
        MatmulSpec,
        m=st.integers(1, 70),
        n=st.integers(1, 70),
        k=st.integers(1, 70),
        a=st.sampled_from(DTYPES),
        beta=st.sampled_from([0, 0, 0, 1]),
    ),
    target=st.sampled_from(ROWS),
    strategy=st.sampled_from(STRATEGIES),
    sizes=st.fixed_dictionaries(
        {},
        optional={
            "mr": st.integers(1, 12),
            "nr": st.one_of(st.integers(1, 70), st.sampled_from([2, 4, 8, 16, 32, 48, 64])),
            "mc": st.integers(1, 75),
            "nc": st.integers(1, 75),
            "kc": st.integers(1, 75),
        },
    ),
)
def test_any_sizes(spec, target, strategy, sizes):
    check(spec, target, strategy, sizes)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_other_extents_are_refused_and_nothing_is_touched(strategy):
    spec = MatmulSpec(6, 20, 9)
    function = entry(spec, ROWS[0], strategy)
    a, b, c = (products.Bordered.of(each) for each in products.uniform(spec))
    for wrong in ((5, 20, 9), (6, 21, 9), (6, 20, 0), (-6, 20, 9), (20, 6, 9), (6 + (1 << 32), 20, 9)):
        assert call(function, wrong, a, b, c) == WRONG_EXTENTS
        assert function(*wrong, None, 0, None, 0, None, 0) == WRONG_EXTENTS
    assert c.is_untouched()
    assert call(function, (6, 20, 9), a, b, c) == OK


@pytest.mark.parametrize("shape", [(0, 5, 3), (3, 0, 5), (3, 5, 0), (0, 0, 0)], ids=str)
@pytest.mark.parametrize("beta", [0, 1])
def test_empty_extents(shape, beta):
    check(MatmulSpec(*shape, beta=beta), ROWS[0], None)
