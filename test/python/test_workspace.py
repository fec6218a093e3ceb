# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scratch buffers in one workspace: those that are live together share no byte, and others may."""

from __future__ import annotations

import random

from tilewright.lowering.passes import dynamic_workspace, workspace
from tilewright.mlir import ir
from tilewright.mlir.dialects import func


def test_buffers_in_use_at_the_same_time_share_no_byte():
    chosen = random.Random(0)
    for _ in range(300):
        count = chosen.randrange(1, 8)
        sizes = [chosen.randrange(1, 5) for _ in range(count)]
        firsts = [chosen.randrange(6) for _ in range(count)]
        times = [(first, chosen.randrange(first, 6)) for first in firsts]
        starts = workspace.offsets(sizes, times, 3)
        assert min(starts) >= 3
        for one in range(count):
            for other in range(one):
                together = times[one][0] <= times[other][1] and times[other][0] <= times[one][1]
                apart = starts[one] + sizes[one] <= starts[other] or starts[other] + sizes[other] <= starts[one]
                assert apart or not together


def test_the_bytes_of_a_buffer_are_used_again_behind_its_last_use():
    assert workspace.offsets([4, 4, 4], [(0, 1), (2, 3), (4, 5)]) == [0, 0, 0]
    # The op that reads the first one writes the second.
    assert workspace.offsets([4, 4], [(0, 2), (2, 3)]) == [0, 4]
    assert workspace.offsets([2, 4, 2], [(0, 5), (0, 1), (2, 3)]) == [0, 2, 2]


OPEN = """
func.func @f(%a: memref<?xf32>) {
  %zero = arith.constant 0 : index
  %n = memref.dim %a, %zero : memref<?xf32>
  %p = memref.alloc(%n) : memref<?xf32>
  %q = memref.alloc(%n) : memref<?xf32>
  %r = memref.alloc(%n) : memref<?xf32>
  memref.copy %a, %p : memref<?xf32> to memref<?xf32>
  memref.copy %p, %q : memref<?xf32> to memref<?xf32>
  memref.copy %q, %r : memref<?xf32> to memref<?xf32>
  memref.copy %r, %a : memref<?xf32> to memref<?xf32>
  return
}
"""


def test_open_buffers_in_use_at_the_same_time_share_no_byte():
    with ir.Context():
        module = ir.Module.parse(OPEN)
        function = next(op for op in module.body if isinstance(op, func.FuncOp))
        assert dynamic_workspace.is_needed(function)
        dynamic_workspace.gather(module, function)
        views = {
            str(op.operation.results[0].get_name()): op.operation.operands[1]
            for op in function.entry_block
            if op.operation.name == "memref.view"
        }
    p, q, r = views.values()
    assert p != q
    assert q != r
    assert p == r, "whose bytes are free again"


def test_bytes_that_are_no_number_of_64_bits_are_told_as_too_many():
    with ir.Context():
        module = ir.Module.parse(OPEN.replace("?xf32", "?x?xf32").replace("alloc(%n)", "alloc(%n, %n)"))
        function = next(op for op in module.body if isinstance(op, func.FuncOp))
        dynamic_workspace.gather(module, function)
        bytes_of = next(
            op for op in module.body if isinstance(op, func.FuncOp) and op.name.value == dynamic_workspace.BYTES
        )
        names = [op.operation.name for op in bytes_of.entry_block]
        # Each product's upper half is compared with zero, and each buffer's size with what a buffer may have.
        assert names.count("arith.mului_extended") == 4
        compared = [op.operation for op in bytes_of.entry_block if op.operation.name == "arith.cmpi"]
        uppers = [
            each for each in compared if each.operands[0].owner.operation.name == "arith.mului_extended"
            and each.operands[0] == each.operands[0].owner.operation.results[1]
        ]  # fmt: skip
        assert len(uppers) == 4
