# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention: right numbers, nothing but operands touched, little memory, and clear errors."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import attention_cases
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from processes import in_new_process
from products import LEVELS
from tilewright.dtypes import to_numpy
from tilewright.emit import operators
from tilewright.payload.reference import within_bound
from tilewright.payload.samples import of_operator

PROGRAM = Path(__file__).with_name("attention_guard_pages.py")
FEW = ("1", "5", "9", "10")
needs_emulator = pytest.mark.skipif(
    os.uname().machine == "x86_64" and not shutil.which("qemu-aarch64"), reason="qemu-aarch64 is not installed"
)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def plain(q: np.ndarray, k: np.ndarray, v: np.ndarray, added: Any = 0.0) -> np.ndarray:
    """The definition, in float64."""
    group = q.shape[-3] // k.shape[-3]
    q, k, v = q.astype(np.float64), *(np.repeat(each.astype(np.float64), group, -3) for each in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + added
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def run(target: str, *numbers: str) -> None:
    child = subprocess.run(
        [sys.executable, str(PROGRAM), target, *numbers], capture_output=True, text=True, check=False
    )
    announced = child.stdout.splitlines() or ["nothing"]
    assert child.returncode == 0, f"{announced[-1]}: status {child.returncode}\n{child.stderr}"
    assert len(announced) == len(numbers)


def test_numbers_and_memory_between_guard_pages():
    run("host", *map(str, range(attention_cases.COUNT)))


@pytest.mark.parametrize("target", LEVELS)
def test_the_same_on_other_registers(target):
    run(target, *FEW)


@needs_emulator
@pytest.mark.parametrize("target", ["neoverse-n1", "neoverse-n2"])
def test_the_same_on_arm(target):
    run(target, *FEW[:3])


@pytest.mark.parametrize("queries", [1, 20])
def test_a_query_that_sees_no_key_gets_zeros(queries):
    spec = tw.AttentionSpec(queries=queries, keys=5, head=8, heads=2, mask="f32", mask_axes="mn")
    q, k, v, _ = attention_cases.operands(spec, seed=1)
    hidden = np.full((queries, 5), -np.inf, np.float32)
    assert (tw.compile(spec)(q, k, v, hidden) == 0).all()
    assert (tw.compile(tw.AttentionSpec(queries=queries, keys=0, head=8, heads=2))(q, k[:, :0], v[:, :0]) == 0).all()


def test_without_queries_there_is_no_result():
    spec = tw.AttentionSpec(queries=0, keys=5, head=8)
    assert tw.compile(spec)(*attention_cases.operands(spec, seed=0)).shape == (1, 0, 8)


@pytest.mark.parametrize("queries", [1, 20])
def test_huge_scores_do_not_overflow(queries):
    spec = tw.AttentionSpec(queries=queries, keys=40, head=8)
    kernel = tw.compile(spec)
    q, k, v = attention_cases.operands(spec, seed=2)
    for size in (1e3, 1e9, 1e18):
        result, operands = (
            kernel(q * np.float32(size), k * np.float32(size), v),
            (q * np.float32(size), k * np.float32(size), v),
        )
        assert np.isfinite(result).all()
        assert within_bound(result, tw.reference(spec, *operands), tw.error_bound(spec, *operands)).all()
        # One weight is all there is, so that one value is the result, but for scores that lie close together.
        assert np.median(np.abs(result - tw.reference(spec, *operands))) < 1e-6


@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 1e-6), (ml_dtypes.bfloat16, 2**-7)])
def test_the_lowest_number_as_a_mask_leaves_means(dtype, error):
    """As float32 has it: a score added to the lowest number is the lowest number."""
    lowest = np.full((20, 40), np.finfo(np.float32).min)
    q, k, v = (random(1, rows, 8).astype(dtype) for rows in (20, 40, 40))
    means = v.astype(np.float32).mean(axis=1, keepdims=True)
    assert np.allclose(tw.attention(q, k, v, lowest).astype(np.float32), means, atol=error)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("growth", [0.3, 3.0, 40.0])
def test_maxima_that_grow_from_block_to_block(dtype, growth):
    """By less than what sums may lag behind, by more, and beyond what a weight can be."""
    spec = tw.AttentionSpec(queries=70, keys=900, head=32, q=dtype)
    q, k, v = attention_cases.operands(spec, seed=3)
    q = np.abs(q)
    k = (np.abs(k) * np.linspace(0, growth, spec.keys)[:, None]).astype(k.dtype)
    given = q, k, v
    assert within_bound(tw.compile(spec)(*given), tw.reference(spec, *given), tw.error_bound(spec, *given)).all()


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_nothing_that_scratch_memory_held_before_is_in_a_sum(dtype):
    nothing = tw.AttentionSpec(queries=200, keys=300, head=64, q=dtype)
    spec = tw.AttentionSpec(queries=70, keys=130, head=40, value_head=24, causal=True, q=dtype)
    before, kernel = tw.compile(nothing), tw.compile(spec)
    before(*(np.full(each.shape, np.nan, to_numpy(each.type)) for each in nothing.operands))
    given = attention_cases.operands(spec, seed=4)
    assert within_bound(kernel(*given), tw.reference(spec, *given), tw.error_bound(spec, *given)).all()


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_nan_stays_in_its_row(dtype):
    q, k, v = (random(1, rows, 16).astype(dtype) for rows in (70, 40, 40))
    right = tw.attention(q, k, v)
    q[0, 33, 5] = np.nan
    result = tw.attention(q, k, v)
    assert np.isnan(result[0, 33].astype(np.float32)).all()
    rest = np.arange(70) != 33
    assert (result[0, rest] == right[0, rest]).all()


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_threads_give_the_same_bits(dtype):
    q, k, v = (random(3, 150, 16, seed=seed).astype(dtype) for seed in range(3))
    one, two = (tw.attention(q, k, v, causal=True, threads=threads) for threads in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_one_kernel_for_all_lengths():
    kernel = tw.compile(tw.AttentionSpec(queries=None, keys=tw.Dim(1, 400), head=24, heads=2, causal="lower_right"))
    for queries, keys in [(1, 1), (1, 400), (3, 17), (64, 64), (65, 130), (200, 96), (0, 5)]:
        spec = tw.AttentionSpec(queries=queries, keys=keys, head=24, heads=2, causal="lower_right")
        operands = attention_cases.operands(spec, seed=keys)
        result = kernel(*operands)
        assert within_bound(result, tw.reference(spec, *operands), tw.error_bound(spec, *operands)).all(), (
            queries,
            keys,
        )
    with pytest.raises(tw.OperandError, match="n is 401; expected an extent from 1 to 400"):
        kernel(random(2, 1, 24), random(2, 401, 24), random(2, 401, 24))
    with pytest.raises(tw.OperandError, match=r"operand v: shape \(2, 8, 24\); expected \(2, 9, 24\)"):
        kernel(random(2, 1, 24), random(2, 9, 24), random(2, 8, 24))


@pytest.mark.parametrize(
    ("sizes", "rest"),
    [
        ((2048, 2048, 128), {"heads": 16}),
        ((2048, 2048, 128), {"heads": 16, "q": "bf16", "causal": True}),
        ((None, None, 128), {"heads": 32, "kv_heads": 8, "q": "f16", "mask": "f32"}),
        ((512, 512, 256), {"q": "bf16", "k": "f8E4M3FN"}),
        ((1, 4096, 128), {"heads": 32, "kv_heads": 4, "q": "bf16"}),
    ],
)
def test_memory_beyond_operands_is_less_than_a_megabyte_for_each_thread(sizes, rest):
    spec = tw.AttentionSpec(*sizes, **rest)
    for threads in (1, 2):
        built = operators.build(spec, tw.targets.resolve("x86-64-v4"), threads=threads, until="bufferized")
        assert 0 < built.functions[0].workspace <= threads * 2**20


@pytest.mark.parametrize(
    "shape", [(9,), (7, 9), (7, 1), (4, 1, 9), (2, 1, 1, 9), (2, 1, 7, 9), (1, 4, 7, 9), (2, 4, 7, 9)]
)
def test_masks_are_broadcast(shape):
    q, k, v, mask = random(2, 4, 7, 16), random(2, 2, 9, 16), random(2, 2, 9, 5), random(*shape)
    assert np.allclose(tw.attention(q, k, v, mask), plain(q, k, v, mask), atol=1e-6)
    seen = mask > -0.5
    seen[..., 0] = True
    assert np.allclose(tw.attention(q, k, v, seen), plain(q, k, v, np.where(seen, 0, -np.inf)), atol=1e-6)


@pytest.mark.parametrize("number", attention_cases.RAGGED)
def test_arrays_with_tables(number):
    spec, _ = attention_cases.specs(number)
    operands = attention_cases.operands(spec, seed=number)
    tables = dict(zip([each.name for each in spec.operands[3:]], operands[3:], strict=True))
    out = np.zeros(spec.result.shape, operands[0].dtype)
    assert tw.attention(*operands[:3], causal=spec.causal, out=out, **tables) is out
    assert within_bound(out, tw.reference(spec, *operands), tw.error_bound(spec, *operands)).all()


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"sequences": 2}, {"k_starts": [0, 5, 10]}),
        ({"sequences": 2}, {"q_starts": [0, 5, 4]}),
        ({"sequences": 2}, {"k_starts": [-1, 5, 9]}),
        ({"batch": (2,), "page": 4}, {"lengths": [9, 13]}),
        ({"batch": (2,), "page": 4}, {"lengths": [-1, 0]}),
        ({"batch": (2,), "page": 4}, {"table": [[0, 1, 5], [2, 6, 0]]}),
        ({"batch": (2,), "page": 4}, {"table": [[0, 1, -1], [2, 3, 4]]}),
    ],
)
def test_tables_that_name_what_there_is_not(fields, wrong):
    spec = tw.AttentionSpec(4, 9, 8, **fields)
    operands = of_operator(np.random.default_rng(0), spec)
    names = [each.name for each in spec.operands]
    kernel = tw.compile(spec)
    kernel(*operands)
    ((name, table),) = wrong.items()
    operands[names.index(name)] = np.array(table, np.int32)
    with pytest.raises(tw.OperandError, match="name rows, keys or pages that there are not"):
        kernel(*operands)
    with pytest.raises(tw.OperandError, match=f"operand {name}: (names|has)"):
        tw.reference(spec, *operands)


def test_pages_behind_an_entry_are_not_looked_up():
    spec = tw.AttentionSpec(1, 9, 8, batch=(2,), page=4)
    q, k, v, lengths, table = of_operator(np.random.default_rng(0), spec)
    lengths[:] = 5, 0
    kernel = tw.compile(spec)
    expected = kernel(q, k, v, lengths, table)
    table[0, 2], table[1] = -7, 1 << 30
    assert (kernel(q, k, v, lengths, table) == expected).all()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"sequences": 2, "batch": (2,)}, "batch=()"),
        ({"sequences": 2, "lengths": True}, "k_starts"),
        ({"lengths": True}, "a batch, or sequences"),
        ({"page": 0, "batch": (2,)}, "page is 0"),
        ({"sequences": -1}, "sequences is -1"),
        ({"lengths": 1, "batch": (2,)}, "lengths is 1"),
        ({"page": 4, "batch": (2,), "mask": "f32"}, "mask=None"),
    ],
)
def test_specs_with_tables_that_do_not_fit(fields, words):
    with pytest.raises(tw.SpecError, match=re.escape(words)):
        tw.AttentionSpec(4, 9, 8, **fields)


def test_arrays_with_tables_that_do_not_fit():
    q, k = random(2, 3, 8), random(2, 4, 8)
    starts, lengths = np.array([0, 3], np.int32), np.array([3], np.int32)
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"q_starts": starts}, "tables: are q_starts; expected q_starts and k_starts"),
        ({"lengths": lengths}, r"operand q: is of shape \(2, 3, 8\); expected \(\*lengths.shape"),
        ({"q_starts": starts, "k_starts": starts.astype(np.int64)}, "operand k_starts: element type int64"),
        ({"q_starts": starts, "k_starts": starts, "mask": random(3, 4)}, "operand mask: is given beside tables"),
    )
    for tables, words in cases:
        with pytest.raises(tw.OperandError, match=words):
            tw.attention(q, k, k, **tables)
    with pytest.raises(tw.OperandError, match=r"operand v: is of shape .*expected \(pages, a divisor"):
        tw.attention(q[None], k[None], k, lengths=lengths, table=lengths[None])


def test_heads_lie_as_a_projection_leaves_them():
    rows = random(7, 3 * 4 * 16)
    q, k, v = (rows[:, at : at + 64].reshape(7, 4, 16).swapaxes(0, 1) for at in (0, 64, 128))
    result = np.zeros((7, 4, 16), np.float32)
    tw.attention(q, k, v, out=result.swapaxes(0, 1))
    assert np.allclose(result.swapaxes(0, 1), plain(q, k, v), atol=1e-6)


def test_one_head_needs_no_axis():
    q, k, v = random(7, 16), random(9, 16), random(9, 4)
    assert np.allclose(tw.attention(q, k, v), plain(q[None], k[None], v[None])[0], atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"q": 1}, "operand q: is a int"),
        ({"q": random(3)}, r"operand q: is of shape \(3,\)"),
        ({"k": random(2, 9, 15)}, r"operand k: is of shape \(2, 9, 15\)"),
        ({"k": random(3, 9, 16)}, "operand k: is of shape"),
        ({"v": random(2, 8, 16)}, r"operand v: is of shape \(2, 8, 16\); expected \(2, 9, value_head\)"),
        ({"mask": random(3, 9)}, r"operand mask: is of shape \(3, 9\)"),
        ({"mask": "no"}, "operand mask: is a str"),
        ({"q": random(4, 7, 32)[..., ::2]}, "operand q"),
        ({"out": np.zeros((4, 7, 15), np.float32)}, "operand out"),
    ],
)
def test_operands_that_do_not_fit_are_refused(changes, what):
    operands = {"q": random(4, 7, 16), "k": random(2, 9, 16), "v": random(2, 9, 16), **changes}
    with pytest.raises(tw.OperandError, match=what):
        tw.attention(**operands)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"head": 0}, "head is 0"),
        ({"heads": 3, "kv_heads": 2}, "2 heads of keys for 3 of queries"),
        ({"q": "f64"}, "q is 'f64'"),
        ({"q": "f8E5M2"}, "q is 'f8E5M2'"),
        ({"mask": "i8"}, "mask is 'i8'"),
        ({"mask": "f32", "mask_axes": "m"}, "mask_axes is 'm'"),
        ({"batch": (None,)}, "an extent of the batch is open"),
        ({"queries": -1}, "queries is -1"),
        ({"scale": float("nan")}, "scale is nan"),
        ({"causal": "left"}, "causal is 'left'"),
    ],
)
def test_specs_that_make_no_sense_are_refused(fields, what):
    with pytest.raises(tw.SpecError, match=what):
        tw.AttentionSpec(**{"queries": 3, "keys": 4, "head": 8, **fields})


def test_a_spec_is_a_value():
    spec = tw.AttentionSpec(queries=None, keys=tw.Dim(1, 9), head=8, causal=True, q="bf16")
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(spec) == hash(tw.AttentionSpec(None, tw.Dim(1, 9), 8, causal="upper_left", q="bf16", k="bf16"))
    assert str(spec) == "attention 1 heads of ?x?1..9x8 bf16, causal upper_left"


def test_parameters_override_sizes_and_are_checked():
    spec = tw.AttentionSpec(queries=100, keys=100, head=16)
    operands = attention_cases.operands(spec, seed=0)
    kernel = tw.compile(spec, parameters={"mr": 4, "nr": 2, "kc": 24, "columns": 2})
    assert kernel.metadata.parameters["products"] == (
        "online_softmax: kc=24, mr=4, nr=2, columns=2, merged=False, vectorize=queries, multiplied=f32, instructions=vectors",
    )
    assert within_bound(kernel(*operands), tw.reference(spec, *operands), tw.error_bound(spec, *operands)).all()
    for parameters, what in [({"mc": 3}, "no parameter 'mc'"), ({"kc": 25}, "kc is 25"), ({"nr": 0}, "nr is 0")]:
        with pytest.raises(tw.ScheduleError, match=what):
            tw.compile(spec, parameters=parameters)


def test_another_process_loads_it_without_mlir(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    program = """
        import sys
        import tilewright as tw
        kernel = tw.compile(tw.AttentionSpec(queries=3, keys=tw.Dim(0, 9), head=8))
        print(kernel.metadata.cached, any(name.startswith(("tilewright.mlir", "tilewright.lowering")) for name in sys.modules))
    """
    assert [in_new_process(program) for _ in range(2)] == ["False True\n", "True False\n"]


def test_keys_that_no_query_sees_are_not_read():
    spec = tw.AttentionSpec(heads=1, queries=24, keys=1024, head=64, causal="upper_left")
    q, k, v = (random(*each.shape, seed=seed) for seed, each in enumerate(spec.operands))
    seen = tw.attention(q, k[:, :24], v[:, :24], causal="upper_left")
    k[:, 768:], v[:, 768:] = np.nan, np.nan
    np.testing.assert_allclose(tw.compile(spec)(q, k, v), seen, rtol=1e-5, atol=1e-6)
