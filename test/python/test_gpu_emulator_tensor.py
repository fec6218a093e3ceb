# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The emulator's tensor memory, on kernels written by hand: what no strategy uses yet, and what it says of wrong uses."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright
from tilewright.mlir.passmanager import PassManager
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel, EmulationError, Launch

# Four warps. The first one allocates; a thread of it multiplies 128 rows of 16 elements with 16 columns, in shared memory without
# swizzle, where every thread has put a row of A, and some a column of B; each warp reads its lanes, a row of sums each thread.
PRODUCT = """
llvm.mlir.global internal @memory() {addr_space = 3 : i32, alignment = 128 : i64} : !llvm.array<4640 x i8>
llvm.func @k(%a: !llvm.ptr, %b: !llvm.ptr, %out: !llvm.ptr) attributes {nvvm.kernel} {
  %thread = nvvm.read.ptx.sreg.tid.x : i32
  %memory = llvm.mlir.addressof @memory : !llvm.ptr<3>
  %place = llvm.getelementptr %memory[4608] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  %done = llvm.getelementptr %memory[4616] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  %zero = llvm.mlir.constant(0 : i32) : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %five = llvm.mlir.constant(5 : i32) : i32
  %columns = llvm.mlir.constant(COLUMNS : i32) : i32
  %warp = llvm.lshr %thread, %five : i32
  %sixteen = llvm.mlir.constant(16 : i32) : i32
  %first = llvm.icmp "eq" %thread, %zero : i32
  %isA = llvm.icmp "eq" %warp, %zero : i32
  llvm.cond_br %isA, ^allocate, ^fill
^allocate:
  nvvm.tcgen05.alloc %place, %columns : !llvm.ptr<3>, i32
  ALSO
  nvvm.tcgen05.relinquish_alloc_permit
  llvm.br ^fill
^fill:
  FILL
  nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
  llvm.cond_br %first, ^init, ^meet
^init:
  nvvm.mbarrier.init %done, %one : !llvm.ptr<3>, i32
  nvvm.fence.mbarrier.init
  llvm.br ^meet
^meet:
  nvvm.barrier0
  %start = llvm.load %place : !llvm.ptr<3> -> i32
  %sums = llvm.inttoptr %start : i32 to !llvm.ptr<6>
  llvm.cond_br %first, ^multiply, ^wait
^multiply:
  %shared = llvm.ptrtoint %memory : !llvm.ptr<3> to i32
  %four = llvm.mlir.constant(4 : i32) : i32
  %startA = llvm.lshr %shared, %four : i32
  %behind = llvm.mlir.constant(256 : i32) : i32
  %startB = llvm.add %startA, %behind : i32
  %leadingA = llvm.mlir.constant(128 : i32) : i32
  %leadingB = llvm.mlir.constant(16 : i32) : i32
  %stride = llvm.mlir.constant(8 : i32) : i32
  %byte = llvm.mlir.constant(0 : i8) : i8
  %no = llvm.mlir.constant(0 : i1) : i1
  %da = nvvm.tcgen05.mma_smem_desc(%startA, %leadingA, %stride, %byte, %no, %byte) : (i32, i32, i32, i8, i1, i8) -> i64
  %db = nvvm.tcgen05.mma_smem_desc(%startB, %leadingB, %stride, %byte, %no, %byte) : (i32, i32, i32, i8, i1, i8) -> i64
  // Sums of f32, both operands f16 and along K, 16 columns, 128 rows.
  %what = llvm.mlir.constant(134479888 : i32) : i32
  nvvm.tcgen05.mma %sums, %da, %db, %what, %no
      {kind = #nvvm.tcgen05_mma_kind<f16>, ctaGroup = #nvvm.cta_group<cta_1>} : (!llvm.ptr<6>, i64, i64, i32, i1)
  nvvm.tcgen05.commit %done : !llvm.ptr<3>
  llvm.br ^wait
^wait:
  %ticks = llvm.mlir.constant(1000 : i32) : i32
  nvvm.mbarrier.try_wait.parity %done, %zero, %ticks : !llvm.ptr<3>, i32, i32
  nvvm.tcgen05.fence #nvvm.tcgen05_fence<after>
  %twentyone = llvm.mlir.constant(21 : i32) : i32
  %lane = llvm.shl %warp, %twentyone : i32
  %place_mine = llvm.add %start, %lane : i32
  %mine = llvm.inttoptr %place_mine : i32 to !llvm.ptr<6>
  %row = nvvm.tcgen05.ld %mine {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<16xi32>
  nvvm.tcgen05.wait #nvvm.tcgen05_wait<load>
  nvvm.tcgen05.fence #nvvm.tcgen05_fence<before>
  %at = llvm.getelementptr %out[%thread] : (!llvm.ptr, i32) -> !llvm.ptr, vector<16xi32>
  llvm.store %row, %at {alignment = 4 : i64} : vector<16xi32>, !llvm.ptr
  nvvm.barrier0
  %frees = llvm.mlir.constant(FREES : i32) : i32
  %is = llvm.icmp "eq" %warp, %frees : i32
  llvm.cond_br %is, ^free, ^end
^free:
  LAST
  nvvm.tcgen05.dealloc %sums, %columns : !llvm.ptr<6>, i32
  llvm.br ^end
^end:
  llvm.return
}
"""
# Elements lie by 8 rows of 16 bytes: those of one K of 8 behind one another, the other half of K behind all of them.
FILL = """
  %c16 = llvm.mlir.constant(16 : i32) : i32
  %fa = llvm.getelementptr %a[%thread] : (!llvm.ptr, i32) -> !llvm.ptr, !llvm.array<32 x i8>
  %fb = llvm.getelementptr %fa[16] : (!llvm.ptr) -> !llvm.ptr, i8
  %left = llvm.load %fa {alignment = 16 : i64} : !llvm.ptr -> vector<4xi32>
  %right = llvm.load %fb {alignment = 16 : i64} : !llvm.ptr -> vector<4xi32>
  %ta = llvm.getelementptr %memory[%thread] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, !llvm.array<16 x i8>
  %tb = llvm.getelementptr %ta[2048] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  llvm.store %left, %ta {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
  llvm.store %right, %tb {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
  %few = llvm.icmp "ult" %thread, %c16 : i32
  llvm.cond_br %few, ^column, ^filled
^column:
  %ga = llvm.getelementptr %b[%thread] : (!llvm.ptr, i32) -> !llvm.ptr, !llvm.array<32 x i8>
  %gb = llvm.getelementptr %ga[16] : (!llvm.ptr) -> !llvm.ptr, i8
  %upper = llvm.load %ga {alignment = 16 : i64} : !llvm.ptr -> vector<4xi32>
  %lower = llvm.load %gb {alignment = 16 : i64} : !llvm.ptr -> vector<4xi32>
  %behind_a = llvm.getelementptr %memory[4096] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  %ua = llvm.getelementptr %behind_a[%thread] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, !llvm.array<16 x i8>
  %ub = llvm.getelementptr %ua[256] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  llvm.store %upper, %ua {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
  llvm.store %lower, %ub {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
  llvm.br ^filled
^filled:"""
AFTER = "nvvm.tcgen05.fence #nvvm.tcgen05_fence<after>"
TWO = "{group = #nvvm.cta_group<cta_2>}"
# Everything as a pair does it, but that each block begins a product; and the same where the second block ends at once.
PAIR = (
    ("<cta_1>", "<cta_2>"),
    ("%place, %columns", f"%place, %columns {TWO}"),
    ("relinquish_alloc_permit", f"relinquish_alloc_permit {TWO}"),
    ("%sums, %columns", f"%sums, %columns {TWO}"),
    ("commit %done", f"commit %done {TWO}"),
)
ALONE = (
    "  llvm.cond_br %isA, ^allocate, ^fill",
    """  %rank = nvvm.read.ptx.sreg.ctaid.x : i32
  %second = llvm.icmp "ne" %rank, %zero : i32
  llvm.cond_br %second, ^end, ^begin
^begin:
  llvm.cond_br %isA, ^allocate, ^fill""",
)


def product(
    *,
    columns: int = 32,
    also: str = "",
    frees: int = 0,
    last: str = AFTER,
    edits: tuple[tuple[str, str], ...] = (),
    blocks: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """What four warps of each block of a cluster have written of a product, and what it is."""
    text = PRODUCT.replace("FILL", FILL).replace("COLUMNS", str(columns)).replace("ALSO", also)
    text = text.replace("FREES", str(frees)).replace("LAST", last)
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    with ir.Context():
        module = ir.Module.parse(text)
        PassManager.parse("builtin.module(convert-nvvm-to-llvm)").run(module.operation)
        kernel = EmulatedGpuKernel(_tilewright.translate_to_llvmir(module.operation), "k")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, (rows, 16)).astype(np.float16) for rows in (128, 16))
    out = np.zeros((128, 16), np.float32)
    kernel(Launch((blocks, 1, 1), (128, 1, 1), (blocks, 1, 1)), a, b, out)
    return out, a.astype(np.float32) @ b.T.astype(np.float32)


def test_a_lane_each_thread_of_a_product_without_swizzle() -> None:
    np.testing.assert_array_equal(*product())


@pytest.mark.parametrize(
    ("wrong", "finding"),
    [
        ({"columns": 24}, "24 columns; expected a power of two from 32 to 512"),
        ({"columns": 512, "also": "nvvm.tcgen05.alloc %place, %columns : !llvm.ptr<3>, i32"}, "than are left"),
        ({"also": "nvvm.tcgen05.alloc %place, %columns : !llvm.ptr<3>, i32"}, "without a tcgen05.dealloc"),
        (
            {"last": "nvvm.tcgen05.alloc %place, %columns : !llvm.ptr<3>, i32"},
            "after tcgen05.relinquish_alloc_permit",
        ),
        ({"frees": 1}, "by another warp than the one that has allocated"),
        ({"edits": (("<cta_1>", "<cta_2>"),)}, "in a cluster of 1 blocks; expected pairs"),
        ({"edits": (("<cta_1>", "<cta_2>"),), "blocks": 2}, "in one kernel; expected one"),
        ({"edits": PAIR, "blocks": 2}, "that the second block of a pair begins"),
        ({"edits": (*PAIR, ALONE), "blocks": 2}, "deadlock: .* for the other block of its pair at a tcgen05.alloc"),
        ({"last": ""}, "race: .* a tcgen05.dealloc, .* a tcgen05.ld of warp .* reads"),
    ],
)
def test_wrong_uses_of_tensor_memory_are_reported(wrong: dict[str, object], finding: str) -> None:
    with pytest.raises(EmulationError, match=finding):
        product(**wrong)  # pyright: ignore[reportArgumentType]
