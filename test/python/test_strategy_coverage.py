# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A fixed set of calls runs at least 95 % of the code of every strategy: more is dead code, or lacks a test.

Caches of the target are small, so that small products have several blocks. Elements are small integers, so that results are exact.
Kernels for GPUs run in the emulator; shaders of Vulkan run in a driver, which records nothing.
"""

import itertools
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import test_gpu_attention
import test_gpu_convolution
import tilewright as tw
from test_quantized import dequantizing, operands_of
from tilewright import targets
from tilewright.dtypes import to_numpy
from tilewright.payload.reference import within_bound
from tilewright.schedules import select
from tilewright.schedules.gpu_strategies import ATTENTION_STRATEGIES, GPU_STRATEGIES

AVX2 = targets.get("x86-64-v3")
SMALL = replace(AVX2, name="small-caches", l1=replace(AVX2.l1, bytes=8192), l2=replace(AVX2.l2, bytes=65536))
needs_avx2 = pytest.mark.skipif(bool(targets.runnable(AVX2)), reason="this machine does not run x86-64-v3")
needs_qemu = pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="qemu-aarch64 is not installed")
LEAST = 95
Extents = tuple[int, int, int]


@dataclass(frozen=True)
class Kernel:
    """A kernel of a strategy: its extents, of which 0 is any, the layout, its sizes, and the extents of calls."""

    extents: Extents
    calls: Iterable[Extents] = ()
    layout: str = "nn"
    sizes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


ANY = (0, 0, 0)
BLOCKS = {"mc": 12, "nc": 48, "kc": 16}
ON_X86 = {
    "packed": (
        Kernel(ANY, itertools.product((1, 5, 6, 12, 33), (1, 8, 16, 17, 40, 47, 100), (0, 1, 31, 300))),
        Kernel((37, 125, 67), sizes=BLOCKS),  # the last block has a whole panel and one that is not
    ),
    "unpacked": (
        Kernel(ANY, itertools.product((1, 2, 3, 4, 5, 6, 7, 9, 11), (1, 2, 7, 8, 9, 15, 16, 17, 23, 40), (0, 1, 31))),
        Kernel((37, 101, 67)),
    ),
    "streamed": (
        Kernel(ANY, itertools.product((*range(1, 16), 40), (1, 7, 8, 9, 16, 23, 104, 520), (0, 1, 8, 300))),
        Kernel((13, 101, 67), sizes={"nc": 48, "kc": 16}),
    ),
    "inner_product": (
        Kernel(ANY, itertools.product(range(1, 14), range(1, 14), (0, 7, 9, 100)), "nt"),
        Kernel((37, 11, 67), layout="nt"),
        Kernel((37, 1, 67)),
    ),
}
OF_ANY_LENGTH = [(3, 5, 4), (17, 70, 9), (40, 33, 33), (5, 40, 0), (5, 100, 40), (18, 18, 20)]
ON_ARM = {
    "scalable": ("armv9-a", (Kernel(ANY, OF_ANY_LENGTH, sizes={"kc": 16}), Kernel((37, 53, 29)))),
    "outer_product": ("sme", (Kernel(ANY, OF_ANY_LENGTH, sizes={"kc": 16}),)),
}

ON_GPUS: Mapping[str, tuple[str, str, list[Extents], dict[str, int]]] = {
    "simt": ("sm_80", "f32", [(65, 67, 33)], {}),
    "mma_sync": ("sm_80", "bf16", [(129, columns, 33) for columns in range(1, 129, 8)], {}),
    # Rows of whole pieces of 16 bytes are stored by boxes, others by threads: each is code of its own.
    "warpgroup": (
        "sm_90a",
        "bf16",
        [(129, n, 33) for n in (*range(1, 129, 8), 129, *range(4, 129, 8), 132)],
        {"bn": 128},
    ),
    "tensor_memory": ("sm_100a", "bf16", [(129, columns, 33) for columns in range(1, 129, 8)], {}),
    "matrix_cores": ("gfx942", "bf16", [(65, columns, 33) for columns in range(3, 65, 16)], {"bm": 64, "bn": 64}),
}
ATTENTION = {
    "warp_group_softmax": ("sm_90a", {"bm": 64, "kc": 32}),
    "shared_softmax": ("sm_80", {}),
}


def calls_of(kernel: Kernel) -> list[Extents]:
    return list(kernel.calls) or [kernel.extents]


def assert_covered(strategy: str, target: str | tw.Target, kernels: Iterable[Kernel]) -> tw.Coverage:
    """Checks the numbers of all calls, every other one on rows with gaps between them, and what they ran."""
    chance = np.random.default_rng(0)

    def matrix(rows: int, columns: int, gap: int) -> np.ndarray:
        return chance.integers(-4, 5, (rows, columns + gap)).astype(np.float32)[:, :columns]

    with tw.coverage() as seen:
        for kernel in kernels:
            beta = 0 if kernel.extents == ANY else 1
            m, n, k = (each or None for each in kernel.extents)
            spec = tw.MatmulSpec(m, n, k, layout=kernel.layout, beta=beta)
            compiled = tw.compile(spec, target, schedule=strategy, parameters=kernel.sizes)
            for number, (m, n, k) in enumerate(calls_of(kernel)):
                gap = 3 * (number % 2)
                a, b = matrix(m, k, gap), matrix(*((n, k) if spec.b_transposed else (k, n)), gap)
                c = matrix(m, n, gap)
                expected = a @ (b.T if spec.b_transposed else b) + beta * c
                assert np.array_equal(compiled(a, b, out=c), expected), (m, n, k)
    assert seen.percent >= LEAST, str(seen)
    return seen


@needs_avx2
@pytest.mark.parametrize("strategy", ON_X86)
def test_the_code_of_strategies_runs(strategy):
    seen = assert_covered(strategy, SMALL, ON_X86[strategy])
    assert any(strategy in block.origin for each in seen.kernels for block in each.table.blocks)


@needs_qemu
@pytest.mark.parametrize("strategy", ON_ARM)
def test_the_code_of_strategies_for_vectors_of_any_length_runs(strategy):
    assert_covered(strategy, *ON_ARM[strategy])


@needs_avx2
def test_the_code_of_sums_of_codes_runs():
    with tw.coverage() as seen:
        for layout, b, zero in (("nt", "i4", 0), ("nt", "u4", "u8"), ("nn", "i4", 0)):
            spec = dequantizing("f32", b, layout, 32, zero, 3, 45, 200)
            operands = operands_of(spec)
            result = tw.compile(spec, AVX2, schedule="scaled_sums")(*operands)
            assert result.dtype == to_numpy(spec.c_type)
            assert within_bound(result, tw.reference(spec, *operands), tw.error_bound(spec, *operands)).all()
    seen.check(LEAST)


@needs_avx2
def test_the_code_of_attention_runs():
    spec = tw.AttentionSpec(None, None, 40, causal=True)
    with tw.coverage() as seen:
        kernel = tw.compile(spec, AVX2)
        for queries, keys in itertools.product((1, 7, 13, 40), (0, 1, 9, 97)):
            called = replace(spec, queries=queries, keys=keys)
            operands = test_gpu_attention.operands_of(called)
            assert test_gpu_attention.is_right(called, kernel(*operands), operands)
    seen.check(LEAST)


IMAGES = [
    tw.Conv2dSpec(2, 11, 13, 16, 24, 3, 3, stride=(2, 2), padding=(1, 1)),
    tw.Conv2dSpec(2, 11, 13, 3, 8, 3, 3, padding=(1, 1)),
    tw.Conv2dSpec(2, 11, 13, 19, 19, 3, 3, padding=(1, 1), groups=19),
]


@needs_avx2
@pytest.mark.parametrize("spec", IMAGES, ids=str)
def test_the_code_of_convolutions_runs(spec):
    with tw.coverage() as seen:
        operands = test_gpu_convolution.operands_of(spec)
        assert test_gpu_convolution.is_right(spec, tw.compile(spec, AVX2)(*operands), operands)
    seen.check(LEAST)


def matrix(rows: int, columns: int, aligned: bool, dtype: Any, chance: np.random.Generator) -> np.ndarray:
    """A matrix with rows that start at multiples of 16 bytes, or do not."""
    width = -(-columns // 16) * 16 if aligned else columns | 1
    return chance.integers(-4, 5, (rows, width)).astype(dtype)[:, :columns]


@pytest.mark.parametrize("strategy", ON_GPUS)
def test_the_code_of_strategies_for_gpus_runs(strategy):
    name, dtype, calls, sizes = ON_GPUS[strategy]
    target, chance = targets.gpu(name).emulated(), np.random.default_rng(0)
    with tw.coverage() as seen:
        kernel = tw.compile(
            tw.MatmulSpec(None, None, None, a=dtype, b=dtype), target, schedule=strategy, parameters=sizes
        )
        for (m, n, k), whole in itertools.product(calls, (True, False)):
            a, b = (matrix(*each, whole, to_numpy(kernel.spec.a_type), chance) for each in ((m, k), (k, n)))
            c = matrix(m, n, whole, np.float32, chance)
            assert np.array_equal(kernel(a, b, out=c), a.astype(np.float32) @ b.astype(np.float32)), (m, n, k)
            # Threads that store a result store pairs of elements where its rows start at pairs.
            c = np.zeros((m, n + 2 + n % 2), np.float32)[:, :n]
            assert np.array_equal(kernel(a, b, out=c), a.astype(np.float32) @ b.astype(np.float32)), (m, n, k)
    assert any(strategy in each.title for each in seen.kernels)
    for each in seen.kernels:  # Of unaligned rows too, by whichever strategy.
        assert 100 * each.ran >= LEAST * each.instructions, str(seen)


@pytest.mark.parametrize("strategy", ATTENTION)
def test_the_code_of_attention_on_gpus_runs(strategy):
    name, sizes = ATTENTION[strategy]
    with tw.coverage() as seen:
        spec = tw.AttentionSpec(None, None, 64, q="bf16", causal=True)
        kernel = tw.compile(spec, targets.gpu(name).emulated(), parameters=sizes)
        for queries, keys, whole in itertools.product((1, 65, 70), (0, 1, 97), (True, False)):
            called = replace(spec, queries=queries, keys=keys)
            operands = test_gpu_attention.operands_of(called, aligned=whole)
            assert test_gpu_attention.is_right(called, kernel(*operands), operands)
            rows = np.empty((1, queries, 65), operands[0].dtype)[..., :64]
            assert test_gpu_attention.is_right(called, kernel(*operands, out=rows), operands)
    assert any(strategy in each.title for each in seen.kernels)
    seen.check(LEAST)


def test_the_code_for_whole_rows_on_gpus_runs():
    columns = 1499
    spec = tw.MatmulSpec(None, columns, None, epilogue=(tw.softmax(),))
    with tw.coverage() as seen:
        kernel = tw.compile(spec, targets.gpu("sm_80").emulated())
        for rows in (1, 65):
            result = kernel(np.zeros((rows, 33), np.float32), np.zeros((33, columns), np.float32))
            assert np.allclose(result, 1 / columns, rtol=1e-6)
    assert any("rows" in each.title for each in seen.kernels)
    seen.check(LEAST)


def test_every_strategy_is_covered():
    assert {*ON_X86, *ON_ARM, "scaled_sums"} == set(select.STRATEGIES)
    assert set(ON_GPUS) == set(GPU_STRATEGIES)
    assert set(ATTENTION) == set(ATTENTION_STRATEGIES)
