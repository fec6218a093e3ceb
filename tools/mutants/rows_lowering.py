# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutants of the lowering of a schedule's result to the LLVM dialect, for CPUs."""

from __future__ import annotations

from mutant import Mutant

ROWS = (
    Mutant(
        "lowering/entries/dispatch.py",
        "return replace(spec, alpha=0) if spec.alpha == ARG else None",
        "return None",
        ("test_scaling.py",),
    ),
    Mutant("lowering/entries/dispatch.py", "    if test.multiple > 1:\n", "    if False:\n", ("test_dispatch.py",)),
    Mutant(
        "lowering/entries/dispatch.py",
        '[] if test.most is None else [("sle", test.most)]',
        '[] if test.most is None else [("slt", test.most)]',
        ("test_dispatch.py",),
    ),
    Mutant(
        "lowering/entries/extents.py",
        'return [*lines, f"%same_{name} = llvm.and %within_{name}, %whole_{name} : i1"]',
        'return [*lines, f"%same_{name} = llvm.and %within_{name}, %within_{name} : i1"]',
        ("test_dynamic.py",),
    ),
    Mutant(
        "lowering/passes/unroll.py",
        'op.attributes[f"llvm.{_ANNOTATION}"] = ir.Attribute.parse(',
        "ir.Attribute.parse(",
        ("emit/neoverse-v2.test",),
    ),
    Mutant(
        "lowering/passes/unroll.py",
        "and (trips is None or 2 * count * _LEAST_TRIPS <= trips)",
        "and trips is not None",
        ("emit/neoverse-v2.test", "emit/neoverse-n1.test"),
    ),
    Mutant(
        "lowering/passes/races.py",
        "    if any(access.writes and access.buffer is None for access in touched):\n",
        "    if False:\n",
        ("test_races.py",),
    ),
    Mutant(
        "lowering/passes/races.py",
        "return not difference.terms and difference.constant >= last",
        "return not difference.terms and difference.constant > 0",
        ("test_races.py",),
    ),
    Mutant(
        "lowering/passes/races.py",
        "            and from_zero\n",
        "",
        ("test_races.py",),
    ),
    Mutant(
        "lowering/passes/slices.py",
        "    if any(stride != 1 for stride in strides):\n",
        "    if False:\n",
        ("test_races.py",),
    ),
    Mutant(
        "lowering/passes/slices.py",
        "    if right.terms or left.constant or len(left.terms) != 1:\n",
        "    if right.terms or len(left.terms) != 1:\n",
        ("test_races.py",),
    ),
    Mutant(
        "lowering/passes/parallel.py",
        "_MOST_PRIVATE_BYTES = 16 << 10",
        "_MOST_PRIVATE_BYTES = 1 << 30",
        ("test_races.py",),
    ),
    Mutant(
        "lowering/passes/parallel.py",
        "        alone = arith.cmpi(arith.CmpIPredicate.ne, inside, arith.constant(i32, 0))\n",
        "        alone = arith.cmpi(arith.CmpIPredicate.slt, inside, arith.constant(i32, 0))\n",
        ("test_threads.py", "test_threads_linked.py"),
    ),
    Mutant(
        "lowering/passes/privatization.py",
        'if op.name == "scf.for" and ENTRIES in op.attributes and len(op.results) == 1:',
        'if op.name == "scf.for" and ENTRIES in op.attributes:',
        ("test_races.py", "test_threads.py", "test_batches.py", "lowering/parallel.test"),
    ),
    Mutant(
        "lowering/passes/workspace.py",
        "            if times[other][0] <= last and first <= times[other][1]\n",
        "            if times[other][0] < last and first < times[other][1]\n",
        ("test_workspace.py",),
    ),
    Mutant(
        "lowering/passes/workspace.py",
        "        while values:\n            for use in values.pop().uses:\n",
        "        while values:\n            for use in values.pop(0).uses:\n",
        ("test_workspace.py",),
        equivalent="uses are looked through in another order, and the first and last of them are the same",
    ),
    Mutant(
        "lowering/passes/dynamic_workspace.py",
        "return all(times[each][0] > last or times[each][1] < first for each in users)",
        "return True",
        ("test_workspace.py", "test_module_extents.py"),
    ),
    Mutant(
        "lowering/passes/dynamic_workspace.py",
        "            fits = arith.andi(fits, arith.cmpi(arith.CmpIPredicate.eq, beyond, none))\n",
        "",
        ("test_workspace.py", "test_module_extents.py"),
    ),
    Mutant(
        "lowering/passes/prepack.py",
        "about = [origin or _text(packer), str(packing.buffer),",
        'about = [origin or "own", str(packing.buffer),',
        ("test_prepack_layouts.py",),
    ),
    Mutant(
        "lowering/passes/prepack.py",
        "    if not nr or buffer.rank < 2 or buffer.shape[-1] % nr:\n",
        "    if not nr or buffer.rank < 2:\n",
        ("test_prepack_layouts.py", "test_pack_b.py"),
    ),
    Mutant(
        "lowering/entries/pack_entry.py",
        '    %alike = llvm.icmp "eq" %any, %zero : i64\n',
        '    %alike = llvm.icmp "sle" %any, %any : i64\n',
        ("test_pack_b.py",),
    ),
    Mutant(
        "lowering/passes/prefetch_panels.py",
        "k * stride + (size + ahead // width)",
        "k * stride + ahead // width",
        ("lowering/prefetch-panels.test",),
    ),
    Mutant(
        "codegen/attention/decode.py",
        "index.signed_min(index.add(number, distance), last)",
        "index.signed_min(number, last)",
        ("lowering/attention.test",),
    ),
    Mutant(
        "codegen/attention/bodies.py",
        "{name: sign * factor for name, factor in right.items()}",
        "{name: factor for name, factor in right.items()}",
        ("test_attention.py",),
    ),
    Mutant(
        "codegen/attention/chain.py",
        "replace(chain, causal=True, offset=_offset(chain, found.last, scores))",
        "replace(chain, causal=True)",
        ("test_attention.py",),
    ),
    Mutant(
        "codegen/attention/maps.py",
        "    return tuple(order.index(each) for each in found)\n",
        "    return tuple(range(len(order) - len(found), len(order)))\n",
        ("test_attention.py",),
    ),
    Mutant(
        "codegen/attention/maps.py",
        "any(each != written for each in read)",
        "not read",
        ("test_attention_schedules.py",),
    ),
    Mutant(
        "codegen/attention/blocks.py",
        "repeat(self.code.seen(last), tiling.kc, keys)",
        "repeat(self.code.problem.keys, tiling.kc, keys)",
        ("lowering/attention.test", "test_attention.py"),
    ),
    Mutant(
        "lowering/types/small_floats.py",
        "constant(i32, (1 << (cut - 1)) - 1 - rebias)), odd)",
        "constant(i32, (1 << (cut - 1)) - rebias)), constant(i32, 0))",
        ("test_small_types.py",),
    ),
    Mutant(
        "codegen/convolution/problem.py",
        "return pad.operands[0], (low[1], low[2])",
        "return pad.operands[0], (low[2], low[1])",
        ("test_operator_schedules.py",),
    ),
    Mutant(
        "codegen/convolution/patch_layout.py",
        "(self.filter, self.stride, self.before) == (one, one, (0, 0))",
        "(self.filter, self.before) == (one, (0, 0))",
        ("test_conv2d.py",),
    ),
    Mutant(
        "codegen/convolution/problem.py",
        "return (s, t), (d, e)",
        "return (s, t), (s, t)",
        ("test_conv2d.py",),
    ),
    Mutant(
        "codegen/convolution/in_place.py",
        "    if depth != spec.k or spec.m % rows:\n",
        "    if depth != spec.k:\n",
        ("test_conv2d.py",),
    ),
    Mutant(
        "codegen/convolution/skipped_rows.py",
        "end = _quotient(add(first, above + patches.extents[0]), dilation)",
        "end = _quotient(add(first, above + patches.extents[0] - 1), dilation)",
        ("test_conv2d.py",),
    ),
    Mutant(
        "lowering/entries/tensor_entry.py",
        "            (DEVICE, DLPACK_CPU),\n",
        "",
        ("test_batches.py", "test_kernel_epilogues.py", "test_runtime_call.py"),
    ),
    Mutant(
        "lowering/modules.py",
        "size = workspace.gather(_function(module), reuse=True)",
        "size = workspace.gather(_function(module), reuse=False)",
        ("test_memory.py", "test_modules.py"),
    ),
    Mutant(
        "lowering/types/packed_elements.py",
        "        if not in_bounds and not (isinstance(self.extent, int) and self.extent % 2 == 0):\n",
        "        if False:\n",
        ("test_small_types.py",),
        equivalent="past the end the other operand has zeros, and every number of four bits is finite",
    ),
    Mutant(
        "lowering/types/float_arithmetic.py",
        "exp_range = -104.5, 89.5",
        "exp_range = -87.0, 89.5",
        ("test_epilogues.py", "test_fusion.py"),
    ),
)
