# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilation: how long it takes, and the kernel that it gives."""

from __future__ import annotations

import ctypes
import gc
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import products
import pytest
import tilewright as tw
from processes import in_new_process
from tilewright.emit.pipeline import CPU_TEXTS
from tilewright.schedules.models.register_tiles import MANY_REGISTERS

SPEC = tw.MatmulSpec(16, 48, 40)
A, B, C = products.uniform(SPEC)


@pytest.fixture
def cache(monkeypatch, tmp_path) -> Path:
    """An empty cache for this process and its children."""
    folder = tmp_path / "kernels"
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(folder))
    monkeypatch.delenv("TILEWRIGHT_NO_CACHE", raising=False)
    return folder


def entries(cache: Path) -> list[Path]:
    return sorted(cache.iterdir())


# Time, of this process, beside that of something that takes as long on a busy machine. These guard against mistakes, and are no
# benchmark: the bars are wide, and the best of several runs counts.


def best_of(count: int, program: str) -> float:
    return min(float(in_new_process(program)) for _ in range(count))


def test_import_is_quick():
    program = """
        import time
        start = time.process_time()
        import numpy
        between = time.process_time()
        import tilewright
        tilewright.compile, tilewright.MatmulSpec, tilewright.reference
        print((time.process_time() - between) / (between - start))
    """
    assert best_of(4, program) < 2


COMPILE_OVER_IMPORT = """
    import time
    start = time.process_time()
    import tilewright as tw
    compile, spec = tw.compile, tw.MatmulSpec(384, 1024, 1024)
    between = time.process_time()
    kernel = compile(spec)
    print((time.process_time() - between) / (between - start))
"""


def test_a_cold_compilation_is_quick(cache, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_NO_CACHE", "1")
    assert best_of(3, COMPILE_OVER_IMPORT) < 6


def test_a_warm_compilation_is_quick(cache):
    in_new_process(COMPILE_OVER_IMPORT)
    assert best_of(5, COMPILE_OVER_IMPORT) < 0.3


# The kernel.


def test_the_text_of_every_stage():
    asm = tw.compile(SPEC, cache=False).asm
    assert tuple(asm) == CPU_TEXTS
    assert all(asm[stage].strip() for stage in CPU_TEXTS)
    assert "linalg.matmul" in asm["payload"]
    assert "@__transform_main" in asm["schedule"]
    assert "vector.contract" in asm["scheduled"]
    assert "linalg.matmul" not in asm["scheduled"]
    assert "memref" in asm["bufferized"]
    assert "tensor<" not in asm["bufferized"]
    assert "llvm.func @matmul(" in asm["llvm"]
    assert re.search(r"^define .*i32 @matmul\(", asm["llvmir"], re.MULTILINE)
    assert re.search(r"^matmul:", asm["asm"], re.MULTILINE)


@pytest.mark.parametrize("target", products.TARGETS)
def test_the_assembly_keeps_to_the_target(target):
    asm = tw.compile(SPEC, target=target, cache=False).asm["asm"]
    row = tw.targets.resolve(target)
    assert ("%zmm" in asm) == (row.vector_bits == 512)
    assert ("%ymm" in asm or "%zmm" in asm) == (row.vector_bits >= 256)
    assert ("vfmadd" in asm) == ("fma" in row.features)


def test_metadata():
    kernel = tw.compile(SPEC, cache=False, parameters={"kc": 20})
    host = tw.targets.resolve("host")
    facts = kernel.metadata
    assert (facts.target, facts.triple, facts.features) == ("host", host.triple, host.feature_string)
    assert facts.schedule == "unpacked"
    assert facts.parameters["kc"] == 20
    taken = {"unroll"} if host.fuses and host.vector_registers < MANY_REGISTERS else set()
    assert set(facts.parameters) == {"mr", "nr", "mc", "nc", "kc"} | taken
    assert 0 < sum(facts.seconds.values()) <= facts.compile_seconds
    assert facts.object_bytes > 100
    assert facts.version == tw.__version__
    assert (kernel.spec, kernel.target) == (SPEC, host)
    with pytest.raises(FrozenInstanceError):
        facts.target = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        facts.parameters["kc"] = 1  # type: ignore[index]


def c_function(kernel: tw.Kernel):
    """The entry of `kernel` as a function of Python."""
    address = kernel.c_function.address
    operand = [ctypes.c_void_p, ctypes.c_int64]
    return ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 3, *operand * 3)(address)


@pytest.mark.parametrize("schedule", ["packed", "unpacked"])
def test_the_c_function(schedule):
    kernel = tw.compile(SPEC, schedule=schedule, cache=False)
    assert kernel.c_function.prototype == (
        "int32_t matmul(int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b, int64_t ldb, "
        "void *c, int64_t ldc)"
    )
    function = c_function(kernel)
    a, b, c = (
        products.Bordered.of(each, gap) for each, gap in zip((A, B, np.full_like(C, np.nan)), (3, 5, 7), strict=True)
    )
    arguments = [each for x in (a, b, c) for each in (x.inner.ctypes.data, x.whole.shape[1])]
    assert function(16, 48, 40, *arguments) == 0
    products.assert_right(SPEC, (A, B, C), c.inner)
    assert c.border_is_untouched()
    done = c.inner.copy()
    for wrong in [(15, 48, 40), (16, 49, 40), (16, 48, 0), (-1, 48, 40)]:
        assert function(*wrong, *arguments) == 1
    np.testing.assert_array_equal(c.inner, done)


def test_the_c_function_keeps_its_kernel():
    kernel = tw.compile(SPEC, cache=False)
    entry, function = kernel.c_function, c_function(kernel)
    del kernel
    gc.collect()
    # Its place would be taken by these.
    others = [tw.compile(replace(SPEC, m=m), cache=False) for m in (1, 2)]
    out = np.empty_like(C)
    assert function(16, 48, 40, A.ctypes.data, 40, B.ctypes.data, 48, out.ctypes.data, 48) == 0
    products.assert_right(SPEC, (A, B, C), out)
    assert entry.address
    assert len(others) == 2


def test_kernels_are_not_pickled():
    kernel = tw.compile(SPEC, cache=False)
    with pytest.raises(tw.TilewrightError, match="cannot be pickled") as caught:
        pickle.dumps(kernel)
    assert "kernel.spec" in str(caught.value.remedy)
    assert pickle.loads(pickle.dumps(kernel.spec)) == SPEC


def test_threads_compile_and_call(cache):
    specs = [tw.MatmulSpec(m, 33, 65) for m in (40, 7, 40, 21)]

    def work(number: int) -> None:
        spec = specs[number % len(specs)]
        operands = products.uniform(spec, seed=number)
        products.check(tw.compile(spec, schedule="packed" if number % 2 else None), operands)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(24)))
    assert len(entries(cache)) == 3


def test_threads_share_a_kernel():
    # Packed, so that each call needs scratch memory.
    kernel = tw.compile(tw.MatmulSpec(130, 70, 90), schedule="packed", cache=False)

    def work(seed: int) -> None:
        for turn in range(5):
            products.check(kernel, products.uniform(kernel.spec, seed=seed * 100 + turn))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))


def test_matmul(cache):
    np.testing.assert_array_equal(tw.matmul(A, B), tw.compile(SPEC)(A, B))
    wide = tw.matmul(A.astype("f8"), B.astype("f8"))
    assert wide.dtype == np.float64
    np.testing.assert_allclose(wide, A.astype("f8") @ B, rtol=1e-12)
    kept = entries(cache)
    assert len(kept) == 2
    for entry in kept:
        entry.unlink()
    # It is kept in memory, too.
    tw.matmul(A, B)
    assert entries(cache) == []


@pytest.mark.parametrize("extents", [(0, 5, 7), (3, 0, 7), (0, 0, 7), (0, 5, 0), (3, 0, 0), (0, 0, 0), (3, 5, 0)])
@pytest.mark.parametrize("beta", [0, 1])
@pytest.mark.parametrize("schedule", [None, "packed", "unpacked"])
def test_zero_extents(cache, extents, beta, schedule):
    spec = tw.MatmulSpec(*extents, beta=beta)
    for cached in (False, True):
        kernel = tw.compile(spec, schedule=schedule)
        assert kernel.metadata.cached == cached
        a, b, c = products.uniform(spec)
        result = products.check(kernel, (a, b, c))
        np.testing.assert_array_equal(result, c if beta else np.zeros(spec.c_shape))
        assert kernel.asm["payload"]
        assert set(kernel.asm) == set(CPU_TEXTS)
    if beta == 0:
        assert kernel(a, b).shape == spec.c_shape
        assert (tw.matmul(a, b) == 0).all()
