# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutants of GPU kernels: their threads and blocks, and the emulator's Python side."""

from __future__ import annotations

from mutant import Mutant

ROWS = (
    Mutant(
        "runtime/gpu_passes.py",
        "    called, arrays = without_products(called, arrays)\n",
        "",
        ("test_scaling.py",),
    ),
    Mutant(
        "codegen/gpu_attention/softmax.py",
        "arith.addf(arith.mulf(total, factor), reduced(row, arith.addf))",
        "arith.addf(total, reduced(row, arith.addf))",
        ("test_gpu_attention.py",),
    ),
    Mutant(
        "codegen/gpu_attention/softmax.py",
        "chain.mask is None and 0 < chain.scale",
        "0 < chain.scale",
        ("test_gpu_attention_groups.py",),
    ),
    Mutant(
        "codegen/gpu_attention/group_consumer.py",
        "keys.release(turn.slot, self.lane)\n            block",
        "block",
        ("test_gpu_attention_groups.py",),
    ),
    Mutant(
        "codegen/gpu_attention/group_block.py",
        "first = minimum(mul(own, self.rank), count)",
        "first = minimum(own, count)",
        ("test_gpu_attention_groups.py",),
    ),
    Mutant(
        "codegen/gpu_attention/group_split.py",
        "inverse(_weighted(own, scale))",
        "inverse(reduce(arith.addf, own))",
        ("test_gpu_attention_groups.py",),
    ),
    Mutant(
        "codegen/gpu_attention/scores.py",
        "        cut = less(self.keys, last)\n",
        "        cut = less(last, self.keys)\n",
        ("test_gpu_attention.py",),
    ),
    Mutant(
        "codegen/gpu/patches.py",
        "return one.before[axis] > 0 or last >= one.extents[axis]",
        "return one.before[axis] > 0",
        ("test_gpu_convolution.py",),
    ),
    Mutant(
        "codegen/gpu/patches.py",
        "any(each % width for each in (patches.channels, *patches.pitches[:3]))",
        "patches.pitches[2] % width",
        ("test_gpu_convolution.py",),
    ),
    Mutant(
        "codegen/gpu/stepping.py",
        "                results = self._multiply(block, slot)\n                gpu.barrier()\n",
        "                results = self._multiply(block, slot)\n",
        ("test_gpu_pipeline.py",),
    ),
    Mutant(
        "codegen/gpu/stepping.py",
        "            nvvm.cp_async_wait_group(ahead - 1)",
        "            nvvm.cp_async_wait_group(ahead)",
        ("test_gpu_mma_sync.py",),
    ),
    Mutant(
        "codegen/gpu/stepping.py",
        "return self._multiplier.copies and self._multiplier.sizes.stages > 1 and self._aligned and as_it_lies",
        "return self._multiplier.copies and self._multiplier.sizes.stages > 1 and as_it_lies",
        ("test_gpu_mma_sync.py", "test_gpu_pipeline.py"),
    ),
    Mutant(
        "codegen/gpu/staging.py",
        "inside = minimum(sub(extents[1], minimum(inner, extents[1])), width)",
        "inside = width",
        ("test_gpu_mma_sync.py",),
    ),
    Mutant(
        "codegen/gpu/staging.py",
        "turn = rem(div(outer, max(1, among // in_row)), min(in_row, among))",
        "turn = rem(outer, min(in_row, among))",
        ("test_gpu_pipeline.py",),
    ),
    Mutant(
        "codegen/gpu/reads.py",
        "            held = arith.select(inside, held, zero(held.type))\n",
        "",
        ("test_gpu_pipeline.py",),
    ),
    Mutant(
        "codegen/gpu/filling.py",
        "            inside = arith.andi(outer, less(piece.inner, extents[across]))\n",
        "            inside = outer\n",
        ("test_gpu_pipeline.py", "test_gpu_forms.py"),
    ),
    Mutant(
        "codegen/gpu/ring.py",
        "        _await(self.empty(turn.slot), arith.xori(turn.parity, value(1)))",
        "        _await(self.empty(turn.slot), turn.parity)",
        ("test_gpu_warpgroup.py",),
    ),
    Mutant(
        "codegen/gpu/ring.py",
        "        nvvm.fence_mbarrier_init()\n",
        "",
        ("test_gpu_warpgroup.py",),
    ),
    Mutant(
        "codegen/gpu/streamed_order.py",
        "        first = arith.subi(arith.maxui(self.begin, start), start)\n",
        "        first = arith.subi(start, start)\n",
        ("test_gpu_warpgroup.py",),
    ),
    Mutant(
        "codegen/gpu/streamed_sums.py",
        "                self._tell(at, warp, shared.i32(0), llvm.AtomicOrdering.monotonic)\n",
        "                pass\n",
        ("test_card.py",),
    ),
    Mutant(
        "codegen/gpu/finished_tiles.py",
        "group=product * self._sizes.groups + self._chunk.group",
        "group=self._chunk.group",
        ("test_gpu_warpgroup.py",),
    ),
    Mutant("codegen/gpu/streamed_sums.py", '_SCOPE = "device"\n', '_SCOPE = "block"\n', ("test_gpu_warpgroup.py",)),
    Mutant(
        "codegen/gpu/tile_order.py",
        "        height = arith.minui(arith.subi(rows, first), shared.i32(self.band))\n",
        "        height = shared.i32(self.band)\n",
        ("test_gpu_warpgroup.py",),
    ),
    Mutant(
        "codegen/gpu/whole_rows.py",
        "        gpu.barrier()  # Nobody reads what was reduced before.\n",
        "",
        ("test_gpu_forms.py",),
    ),
    Mutant(
        "codegen/gpu/whole_rows.py",
        "                result = combine(result, arith.select(is_one, element(column), nothing))\n",
        "                result = combine(result, element(column))\n",
        ("test_gpu_forms.py",),
    ),
    Mutant(
        "codegen/gpu/tensor_roles.py",
        "column = add(column, mul(self._order.rank(), self._sizes.held_columns))",
        "pass",
        ("test_gpu_tensor_memory.py",),
    ),
    Mutant(
        "codegen/gpu/tensor_roles.py",
        "            self._earlier = streamed.await_others(has_first, self._warp)\n",
        "            streamed.await_others(has_first, self._warp)\n",
        ("test_gpu_tensor_memory.py",),
    ),
    Mutant(
        "codegen/gpu/tma_tiles.py",
        "return ATOM if self.along_k or self.bits < 32 else WIDE_ATOM",
        "return ATOM",
        ("test_gpu_tensor_memory.py", "test_gpu_warpgroup.py"),
    ),
    Mutant(
        "codegen/gpu/matrix_cores.py",
        '"f64": _mfma(4, 1, step=4),',
        '"f64": _mfma(4, 1),',
        ("test_gpu_matrix_cores.py",),
    ),
    Mutant(
        "runtime/gpu.py",
        "form=(aligned, boxed),",
        "form=None,",
        ("test_cache_key.py",),
    ),
    Mutant(
        "runtime/gpu.py",
        "return aligned, boxed or not aligned or not self._stages.boxes",
        "return aligned, True",
        ("test_gpu_warpgroup.py",),
    ),
    Mutant(
        "runtime/gpu_call.py",
        "    except np.exceptions.TooHardError:\n        return True\n",
        "    except np.exceptions.TooHardError:\n        return False\n",
        ("test_gpu_call.py",),
    ),
    Mutant(
        "runtime/gpu_call.py",
        "        if stride < reach:\n            return True\n",
        "        if not stride:\n            return True\n",
        ("test_gpu_call.py",),
    ),
    Mutant(
        "runtime/gpu_call.py",
        "return not array.size or all(0 < each < _FARTHEST for each in steps)",
        "return True",
        ("test_gpu_call.py", "test_gpu_warpgroup.py"),
    ),
    Mutant(
        "runtime/gpu_call.py",
        "return not any(each % row_multiple for each in rows) and all(",
        "return all(",
        ("test_gpu_pipeline.py",),
    ),
    Mutant(
        "runtime/gpu_call.py",
        "not 0 <= numbers.min() <= numbers.max() < rows:",
        "not 0 <= numbers.min() <= numbers.max() <= rows:",
        ("test_gpu_forms.py",),
    ),
    Mutant(
        "runtime/gpu_passes.py",
        "        start, size = start // operand.type.packed, -(-size // operand.type.packed)\n",
        "        pass\n",
        ("test_gpu_forms.py", "test_gpu_pipeline.py"),
    ),
    Mutant(
        "runtime/card_calls.py",
        "    gpu_call.check_result(called, result, arrays)\n",
        "    gpu_call.check(called.result, result)\n",
        ("test_card.py",),
    ),
    Mutant(
        "runtime/device_arrays.py",
        "tensor, writable = versioned.tensor, not versioned.flags & _READ_ONLY",
        "tensor, writable = versioned.tensor, True",
        ("test_gpu_call.py",),
    ),
    Mutant(
        "runtime/device_arrays.py",
        "address=(tensor.data or 0) + tensor.byte_offset",
        "address=(tensor.data or 0)",
        ("test_gpu_call.py", "test_card.py"),
    ),
    Mutant(
        "runtime/emulated_gpu.py",
        "[each for each in steps if each <= 0]",
        "[]",
        ("test_gpu_emulator.py", "test_gpu_warpgroup.py"),
    ),
    Mutant(
        "runtime/emulated_amd.py",
        "  %barrier = add i32 %number, 1",
        "  %barrier = add i32 0, 1",
        ("test_gpu_matrix_cores.py", "test_gpu_amd.py"),
    ),
    Mutant(
        "ptx/bits.py",
        "c = (values[at] if row >> (2 - at) & 1 else inverse[at]",
        "c = (values[at] if row >> at & 1 else inverse[at]",
        ("test_ptx.py",),
    ),
    Mutant(
        "ptx/conversions.py",
        "enumerate(reversed(one.operands[1:3]))",
        "enumerate(one.operands[1:3])",
        ("test_ptx.py",),
    ),
    Mutant(
        "ptx/copies.py",
        'name = "cp.async.mbarrier.arrive" + (".noinc" if one.has("noinc") else "")',
        'name = "cp.async.mbarrier.arrive"',
        ("test_ptx.py",),
    ),
    Mutant(
        "ptx/module.py",
        """        if one.unless:
            holds = function.value(f"xor i1 {holds}, true")
""",
        "",
        ("test_ptx.py", "test_emulate.py"),
    ),
)
