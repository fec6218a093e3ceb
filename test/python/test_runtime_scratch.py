# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scratch memory that kernels keep from call to call, and calls from several threads and after a fork."""

from __future__ import annotations

import ctypes
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import handmade
import numpy as np
import pytest
from handmade import call, matrix
from hypothesis import given
from hypothesis import strategies as st
from tilewright import _runtime

MIB = 1 << 20
A, B = matrix(3, 7), matrix(7, 5)


def in_new_thread(work: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_scratch_stays_from_call_to_call():
    def work() -> list[tuple[int, int]]:
        product = call(3, 5, 7, object_=handmade.packing(3 * MIB))
        states = [_runtime.scratch_state()]
        for _ in range(3):
            np.testing.assert_allclose(product(A, B), A @ B, rtol=1e-5)
            states.append(_runtime.scratch_state())
        return states

    before, *after = in_new_thread(work)
    assert before == (0, 0)
    assert after == [(4 * MIB, 0)] * 3


def test_scratch_is_bounded():
    def work() -> tuple[int, int]:
        product = call(3, 5, 7, object_=handmade.packing(_runtime.SCRATCH_LIMIT + 4096))
        np.testing.assert_allclose(product(A, B), A @ B, rtol=1e-5)
        return _runtime.scratch_state()

    assert in_new_thread(work) == (0, 0)


def test_scratch_goes_with_its_thread():
    def mapped() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGESIZE")

    def work() -> int:
        call(3, 5, 7, object_=handmade.packing(60 * MIB))(A, B)
        return mapped()

    assert mapped() <= in_new_thread(work) - 60 * MIB


@pytest.mark.parametrize("bytes_", [1 << 46, 1 << 62, (1 << 63) - 4096, -4096])
def test_no_scratch_is_a_memory_error(bytes_):
    with pytest.raises(MemoryError, match="packed panels"):
        call(3, 5, 7, object_=handmade.packing(bytes_))(A, B)


GET, RELEASE = "_mlir_memref_to_llvm_aligned_alloc", "_mlir_memref_to_llvm_free"
FORWARD_GET = f"""
declare ptr @{GET}(i64, i64)
define ptr @f(i64 %alignment, i64 %bytes) {{
  %block = call ptr @{GET}(i64 %alignment, i64 %bytes)
  ret ptr %block
}}
"""
FORWARD_RELEASE = f"""
declare void @{RELEASE}(ptr)
define void @f(ptr %block) {{
  call void @{RELEASE}(ptr %block)
  ret void
}}
"""
CODE = [_runtime.Code(handmade.compiled(ir), "f") for ir in (FORWARD_GET, FORWARD_RELEASE)]


def scratch_functions() -> tuple[Any, Any]:
    """The allocation functions that kernels call, in C: get(alignment, bytes) and release(block)."""
    get = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(CODE[0].address)
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(CODE[1].address)
    return get, release


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 64, 4096, 2 * MIB]), st.integers(0, 3 * MIB), st.integers(0, 10**6)), max_size=12
    )
)
def test_scratch_blocks_are_apart_in_any_order(requests):
    get, release = scratch_functions()

    def work() -> None:
        live: list[tuple[int, int]] = []
        for alignment, size, choice in requests:
            block = get(alignment, size)
            assert block % max(alignment, 64) == 0
            assert all(block + size <= start or start + length <= block for start, length in live if length and size)
            if size:
                ctypes.memset(block, 0xAB, size)
            live.append((block, size))
            if choice % 3 == 0:
                release(live.pop(choice % len(live))[0])
        for block, _ in live:
            release(block)
        capacity, used = _runtime.scratch_state()
        assert used == 0
        assert capacity <= _runtime.SCRATCH_LIMIT

    in_new_thread(work)


def test_scratch_of_another_thread_can_be_released():
    get, release = scratch_functions()
    block = get(64, 1000)
    in_new_thread(lambda: release(block))
    assert _runtime.scratch_state()[1] == 0
    orphan = in_new_thread(lambda: get(64, 1000))
    ctypes.memset(orphan, 1, 1000)
    release(orphan)


def test_threads_share_a_kernel():
    m, n, k = 40, 50, 60
    product = call(m, n, k, object_=handmade.packing(4 * MIB))
    barrier = threading.Barrier(8)

    def work(seed: int) -> None:
        chance = np.random.default_rng(seed)
        barrier.wait()
        for _ in range(100):
            a, b = (chance.uniform(-1, 1, shape).astype("f4") for shape in ((m, k), (k, n)))
            np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-3, atol=1e-4)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_other_threads_run_during_a_long_call():
    flag = np.zeros((128, 128), np.float32)
    product = call(128, 128, 128, object_=handmade.waiting(10**9))
    timer = threading.Timer(0.05, lambda: flag.__setitem__((0, 0), 1.0))
    timer.start()
    product(flag, flag.copy())  # would give up with status 7 if the timer's thread had to wait
    timer.join()


def test_a_forked_child_can_call():
    product = call(3, 5, 7, object_=handmade.packing(3 * MIB))
    expected = product(A, B)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(product(A, B), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(product(A, B), expected)
