# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The emulator's wgmma beside another account of its layouts: CUTLASS' shapes and strides, evaluated here.

Source of the shapes and strides: NVIDIA CUTLASS 082a375, include/cute/atom/mma_traits_sm90_gmma.hpp: canonical layouts of
descriptors, swizzles and accumulators. Every product gives each element another number, so that one element in a wrong place shows.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tilewright.emit import llvmir
from tilewright.mlir import ir
from tilewright.mlir.passmanager import PassManager
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel
from tilewright.runtime.launches import Launch

ROWS, THREADS, SHARED = 64, 128, 48 << 10
TYPES = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
}
SWIZZLES = {0: 0, 32: 3, 64: 2, 128: 1}
"""The descriptor's number of each pattern, by its bytes."""

KERNEL = """
llvm.mlir.global internal @tile() {{addr_space = 3 : i32, alignment = 1024 : i64}} : !llvm.array<{shared} x i8>
llvm.func @k(%in: !llvm.ptr, %out: !llvm.ptr, %a: i64, %b: i64) attributes {{nvvm.kernel}} {{
  %thread = nvvm.read.ptx.sreg.tid.x : i32
  %tile = llvm.mlir.addressof @tile : !llvm.ptr<3>
  %sixteen = llvm.mlir.constant(16 : i32) : i32
  %step = llvm.mlir.constant(2048 : i32) : i32
  %end = llvm.mlir.constant({shared} : i32) : i32
  %first = llvm.mul %thread, %sixteen : i32
  llvm.br ^copy(%first : i32)
^copy(%at: i32):
  %from = llvm.getelementptr %in[%at] : (!llvm.ptr, i32) -> !llvm.ptr, i8
  %to = llvm.getelementptr %tile[%at] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
  %piece = llvm.load %from : !llvm.ptr -> vector<4xi32>
  llvm.store %piece, %to : vector<4xi32>, !llvm.ptr<3>
  %next = llvm.add %at, %step : i32
  %more = llvm.icmp "ult" %next, %end : i32
  llvm.cond_br %more, ^copy(%next : i32), ^multiply
^multiply:
  nvvm.fence.proxy {{kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}}
  nvvm.barrier0
  %address = llvm.ptrtoint %tile : !llvm.ptr<3> to i64
  %low = llvm.mlir.constant(0x3ffff : i64) : i64
  %four = llvm.mlir.constant(4 : i64) : i64
  %masked = llvm.and %address, %low : i64
  %start = llvm.lshr %masked, %four : i64
  %da = llvm.add %a, %start : i64
  %db = llvm.add %b, %start : i64
  %zero = llvm.mlir.zero : {sums}
  nvvm.wgmma.fence.aligned
  %sums = nvvm.wgmma.mma_async %da, %db, %zero, <m = 64, n = {n}, k = {k}>, D[<{c}>, <one>],
    A[<{type}>, <one>, <{a_order}>], B[<{type}>, <one>, <{b_order}>] : {sums} -> {sums}
  nvvm.wgmma.commit.group.sync.aligned
  nvvm.wgmma.wait.group.sync.aligned 0
  %count = llvm.mlir.constant({count} : i32) : i32
  %own = llvm.mul %thread, %count : i32
{stores}
  llvm.return
}}
"""
STORE = """  %v{i} = llvm.extractvalue %sums[{i}] : {sums}
  %n{i} = llvm.mlir.constant({i} : i32) : i32
  %i{i} = llvm.add %own, %n{i} : i32
  %p{i} = llvm.getelementptr %out[%i{i}] : (!llvm.ptr, i32) -> !llvm.ptr, {element}
  llvm.store %v{i}, %p{i} : {element}, !llvm.ptr
"""


def compiled(type_: str, n: int, orders: tuple[str, str]) -> EmulatedGpuKernel:
    """A warp group that copies bytes to shared memory, multiplies there once, and stores what each thread then has."""
    depth = 256 // (8 * np.dtype(TYPES[type_]).itemsize)
    c, element = ("s32", "i32") if type_ in ("s8", "u8") else ("f32", "f32")
    count = n // 2
    sums = f"!llvm.struct<({', '.join([element] * count)})>"
    stores = "".join(STORE.format(i=each, sums=sums, element=element) for each in range(count))
    about = {
        "shared": SHARED,
        "sums": sums,
        "n": n,
        "k": depth,
        "c": c,
        "type": type_,
        "count": count,
        "stores": stores,
    }
    with ir.Context():
        module = ir.Module.parse(KERNEL.format(**about, a_order=orders[0], b_order=orders[1]))
        PassManager.parse("builtin.module(convert-nvvm-to-llvm)").run(module.operation)
        return EmulatedGpuKernel(llvmir.translated(module.operation), "k")


def matrices(n: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """A and B (N x K) whose product has the number m + 64 n at (m, n), of elements that every type holds."""
    a, b = np.zeros((ROWS, depth)), np.zeros((n, depth))
    down, across = np.arange(ROWS), np.arange(n)
    a[:, 0], a[:, 1], a[:, 2:6] = down % 8, down // 8, 64
    b[:, 0], b[:, 1] = 1, 8
    b[:, 2], b[:, 3] = across % 8, 8 * (across // 8 % 8)
    b[:, 4] = b[:, 5] = 32 * (across // 64)
    return a, b


def placed(rows: int, depth: int, size: int, swizzle: int, across: bool, base: int) -> tuple[np.ndarray, int, int]:
    """Where a descriptor's canonical layout has each element (index, k), in bytes, and the offsets of the descriptor.

    In units of 16 bytes, of T elements each, and of a pattern of W units: along K ((8, m), (T, 2)) : ((W T, SBO), (1, T)), LBO in place
    of the last T without a swizzle; across ((T, W, m), (8, k)) : ((1, T, LBO), (W T, SBO)).
    """
    unit, width = 16 // size, max(1, swizzle // 16)
    index, k = np.meshgrid(np.arange(rows), np.arange(depth), indexing="ij")
    if across:
        leading, stride = 8 * width * 16, rows // (unit * width) * 8 * width * 16
        place = (index % unit + index // unit % width * unit) * size + index // (unit * width) * leading
        place += k % 8 * width * 16 + k // 8 * stride
    else:
        leading, stride = (128 if not swizzle else 16), (256 if not swizzle else 8 * width * 16)
        place = index % 8 * width * 16 + index // 8 * stride + k % unit * size + k // unit * leading
    place += base
    bits = width.bit_length() - 1  # Swizzle<bits, 4, 3>
    return place ^ ((place >> 7 & (1 << bits) - 1) << 4), leading, stride


def check(made: EmulatedGpuKernel, type_: str, n: int, swizzle: int, across: tuple[bool, bool]) -> None:
    """One product, of operands and results in CUTLASS' places."""
    kind: Any = np.dtype(TYPES[type_])
    depth = 32 // kind.itemsize
    memory = np.zeros(SHARED + 256, np.uint8)
    memory = memory[-memory.ctypes.data % 256 :][:SHARED]
    descriptors, base = [], 0
    for values, is_across in zip(matrices(n, depth), across, strict=True):
        place, leading, stride = placed(len(values), depth, kind.itemsize, swizzle, is_across, base)
        elements = np.ascontiguousarray(values.astype(kind)).view(np.uint8).reshape(*values.shape, kind.itemsize)
        for byte in range(kind.itemsize):
            memory[place + byte] = elements[..., byte]
        number = base // 16 | (leading // 16 << 16) | (stride // 16 << 32) | (SWIZZLES[swizzle] << 62)
        descriptors.append(np.uint64(number).astype(np.int64))
        base += -(-(int(place.max()) - base + 16) // 1024) * 1024
    out = np.zeros((THREADS, n // 2), np.int32 if type_ in ("s8", "u8") else np.float32)
    made(Launch((1, 1, 1), (THREADS, 1, 1)), memory, out, *descriptors)
    # Accumulators: thread ((4, 8, 4)) : ((128, 1, 16)), value ((2, 2, N / 8)) : ((64, 8, 512)), of the number m + 64 n.
    thread, value = np.meshgrid(np.arange(THREADS), np.arange(n // 2), indexing="ij")
    wanted = thread % 4 * 128 + thread // 4 % 8 + thread // 32 * 16
    wanted += value % 2 * 64 + value // 2 % 2 * 8 + value // 4 * 512
    np.testing.assert_array_equal(out, wanted, err_msg=f"{type_} n={n} swizzle={swizzle} across={across}")


def cases() -> list[tuple[str, int, tuple[bool, bool]]]:
    """All element types, columns, and orders of both operands."""
    found: list[tuple[str, int, tuple[bool, bool]]] = []
    for type_, n in product(TYPES, range(8, 257, 8)):
        if type_ in ("s8", "u8") and n > 32 and n % 16:
            continue  # There is no such instruction.
        both = (False, True) if type_ in ("bf16", "f16") else (False,)
        found += [(type_, n, (a, b)) for a in both for b in both]
    return found


def test_layouts_are_those_of_cutlass(request: pytest.FixtureRequest) -> None:
    """Some of the columns of each type in a short run, every one in a long one; all swizzles that go with them."""
    every = cases()
    step = 1 if request.config.getoption("--length") == "long" else 29
    for type_, n, across in every[::step]:
        orders = ("col" if across[0] else "row", "row" if across[1] else "col")
        made = compiled(type_, n, orders)
        unit = 16 // np.dtype(TYPES[type_]).itemsize
        for swizzle in SWIZZLES:
            pattern = unit * swizzle // 16
            if any(across) and (not swizzle or (across[1] and n % pattern)):
                continue  # The emulator has no unswizzled operand across K; a pattern is whole.
            check(made, type_, n, swizzle, across)


def test_another_place_is_noticed() -> None:
    made = compiled("bf16", 16, ("row", "col"))
    check(made, "bf16", 16, 128, (False, False))
    with pytest.raises(AssertionError):
        check(compiled("bf16", 16, ("row", "row")), "bf16", 16, 32, (False, False))
