# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands that are stored transposed: the same products, by every strategy, in every type, and never out of bounds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from products import check, uniform
from strategies import STRATEGIES
from tilewright.dtypes import COMBINATIONS

LAYOUTS = ["nt", "tn", "tt"]
SHAPES = [(32, 64, 96), (29, 41, 53), (1, 1, 1), (1, 37, 70), (40, 1, 33), (13, 66, 1)]
GUARDED = ["33x15x65", "7x129x19", "5x2x127"]


def kernel_of(spec: tw.MatmulSpec, schedule: str | None = None, **how: Any) -> tw.Kernel:
    return tw.compile(spec, schedule=schedule, cache=False, **how)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("schedule", STRATEGIES)
def test_every_strategy_takes_every_layout(layout, schedule):
    for index, (m, n, k) in enumerate(SHAPES):
        if schedule == "inner_product" and n != 1 and (m != 1 or layout[1] == "n"):
            continue
        spec = tw.MatmulSpec(m, n, k, a=("f32", "bf16", "i8")[index % 3], layout=layout, beta=index % 2)
        check(kernel_of(spec, schedule), uniform(spec, index))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("types", COMBINATIONS, ids=str)
def test_every_type_is_packed_from_every_layout(types, layout):
    spec = tw.MatmulSpec(19, 70, 37, a=types.a, b=types.b, acc=types.acc, c=types.c, layout=layout)
    check(kernel_of(spec, "packed"), uniform(spec))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "shape", [(133, 201, 77), (16, 48, 1), (1, 300, 65), (65, 1, 300), (0, 3, 5), (4, 0, 5), (3, 5, 0)]
)
def test_what_is_chosen_is_right(shape, layout):
    for beta in (0, 1):
        spec = tw.MatmulSpec(*shape, layout=layout, beta=beta)
        check(kernel_of(spec), uniform(spec))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_blocks_and_their_remains(layout):
    spec = tw.MatmulSpec(70, 150, 90, layout=layout)
    sizes = {"mr": 5, "nr": 48, "mc": 20, "nc": 96, "kc": 37}
    check(kernel_of(spec, "packed", parameters=sizes), uniform(spec))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_threads(layout):
    spec = tw.MatmulSpec(300, 310, 320, layout=layout)
    one, two = (kernel_of(spec, threads=threads) for threads in (1, 2))
    assert two.metadata.threads == 2
    operands = uniform(spec)
    assert (check(one, operands) == check(two, operands)).all()


@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
def test_packed_ahead(element):
    plain, stored = (tw.MatmulSpec(9, 70, 80, a=element, layout=layout, b_packed=True) for layout in ("nn", "nt"))
    a, b, _ = uniform(stored)
    kernel = kernel_of(stored)
    packed = kernel.pack_b(b)
    with pytest.raises(tw.OperandError, match=r"shape \(80, 70\)"):
        kernel.pack_b(b.T.copy())
    # Packed, it is no longer to be told how B was stored.
    other = kernel_of(plain)
    assert kernel.packed_format == other.packed_format
    assert (packed.array == other.pack_b(b.T.copy()).array).all()
    assert (kernel(a, packed) == other(a, packed)).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_epilogue(layout):
    spec = tw.MatmulSpec(21, 67, 45, layout=layout, epilogue=(tw.bias("n"), tw.relu()))
    a, b, _ = uniform(spec)
    bias = np.linspace(-1, 1, 67, dtype=np.float32)
    for schedule in ("packed", "unpacked"):
        result = kernel_of(spec, schedule)(a, b, bias)
        assert (np.abs(result - tw.reference(spec, a, b, bias)) <= tw.error_bound(spec, a, b, bias)).all()


def test_operands_have_the_stored_shape():
    kernel = kernel_of(tw.MatmulSpec(3, 5, 7, layout="tt"))
    a, b = np.ones((7, 3), np.float32), np.ones((5, 7), np.float32)
    assert (kernel(a, b) == 7).all()
    with pytest.raises(tw.OperandError, match=r"shape \(3, 7\)"):
        kernel(a.T.copy(), b)
    with pytest.raises(tw.OperandError, match=r"shape \(7, 5\)"):
        kernel(a, b.T.copy())


def test_matmul_takes_transposed_views_as_they_are(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_NO_CACHE", "1")
    random = np.random.default_rng(0)
    for a_shape, b_shape in (((6, 40), (40, 9)), ((6, 1), (1, 9)), ((1, 8), (8, 1))):
        a, b = (random.integers(-9, 9, shape).astype(np.float32) for shape in (a_shape, b_shape))
        wider = np.asfortranarray(np.pad(b, ((0, 5), (0, 0))))[: len(b)]
        for left in (a, np.asfortranarray(a)):
            for right in (b, np.asfortranarray(b), b.T.copy().T, wider):
                assert (tw.matmul(left, right) == a @ b).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_is_touched_but_operands(layout):
    program = Path(__file__).with_name("guard_pages.py")
    shapes = [f"{shape}:{layout}" for shape in GUARDED]
    for schedule in ("-", "packed"):
        command = [sys.executable, str(program), "host", schedule, *shapes]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, f"{run.stdout[-200:]}\n{run.stderr[-2000:]}"
