# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutants of the front end: specs, element types, quantized weights, payloads and references."""

from __future__ import annotations

from mutant import Mutant

ROWS = (
    Mutant("scaling.py", "math.where(factor == 0, -0.0, x)", "x", ("test_scaling.py",)),
    Mutant("payload/matmul.py", "nothing = 0 in (spec.k, spec.alpha)", "nothing = spec.k == 0", ("test_scaling.py",)),
    Mutant(
        "spec.py",
        "for axis in self.batch_axes if axis not in self.b_axes)",
        "for axis in self.batch_axes if axis in self.b_axes)",
        ("test_spec.py", "test_batches.py"),
    ),
    Mutant("spec.py", "self.m * self.n * self.k * self.products\n", "self.m * self.n * self.k\n", ("test_spec.py",)),
    Mutant(
        "spec.py",
        "return bool(self.epilogue) or self.c != self.acc",
        "return bool(self.epilogue)",
        ("test_spec.py", "test_shape_classes.py", "test_kernel_types.py"),
    ),
    Mutant(
        "spec.py",
        'like_b = operand.role == "b" or operand.axes == "gn"',
        'like_b = operand.role == "b"',
        ("test_quantized.py",),
    ),
    Mutant(
        "dims.py",
        "return max(min(extent, self.max) // self.multiple * self.multiple, self.min)",
        "return max(min(extent, self.max), self.min)",
        ("test_spec.py", "test_dynamic.py"),
    ),
    Mutant(
        "dims.py",
        "return self.min <= extent <= self.max and extent % self.multiple == 0",
        "return self.min <= extent <= self.max",
        ("test_spec.py", "test_dynamic.py"),
    ),
    Mutant(
        "batches.py",
        "whole != 1 and axis >= missing and own[axis - missing] != 1",
        "whole != 1 and axis >= missing",
        ("test_spec.py", "test_batches.py"),
    ),
    Mutant(
        "nibbles.py",
        '_OTHER_SIGN.get(met, default) if own == "u4" else default',
        "default",
        ("test_spec.py", "test_small_types.py"),
    ),
    Mutant("nibbles.py", "= x & 15, x >> 4", "= x >> 4, x & 15", ("test_small_types.py",)),
    Mutant(
        "groups.py", "        if each.group % UNIT:\n", "        if False:\n", ("test_spec.py", "test_quantized.py")
    ),
    Mutant("groups.py", "else -(-k // group)", "else k // group", ("test_quantized.py",)),
    Mutant("quantized.py", "np.where(most > -least,", "np.where(most < -least,", ("test_quantized.py",)),
    Mutant("quantized.py", "1, scales.astype(np.float64))", "1, exact)", ("test_quantized.py",)),
    Mutant("quantized.py", "np.frexp(most)[1] - 1 - _LARGEST", "np.frexp(most)[1] - _LARGEST", ("test_quantized.py",)),
    Mutant(
        "dtypes.py",
        '("f8E5M2", 8, "float8_e5m2", 2.0**-3,',
        '("f8E5M2", 8, "float8_e5m2", 2.0**-4,',
        ("test_dtypes.py",),
    ),
    Mutant(
        "expressions.py",
        "        wants_truth = [True, False, False]\n",
        "        wants_truth = [False, False, False]\n",
        ("test_epilogues.py",),
    ),
    Mutant(
        "payload/rounding.py",
        "if largest / step % 2 == 0 else tie",
        "if largest / step % 2 == 1 else tie",
        ("test_rounding.py",),
    ),
    Mutant(
        "payload/rounding.py",
        "(2 * products * spec.k + 2) * tiny)",
        "(products * spec.k + 2) * tiny)",
        ("test_rounding.py",),
    ),
    Mutant(
        "payload/reference.py",
        "        bound[~(largest <= float(np.finfo(to_numpy(spec.acc_type)).max))] = np.inf\n",
        "",
        ("test_reference.py", "test_reference_types.py"),
    ),
    Mutant(
        "payload/reference.py",
        "return (c == ref) | (np.isnan(c) & np.isnan(ref))",
        "return c == ref",
        ("test_reference.py",),
    ),
    Mutant(
        "payload/reference.py",
        "    rounded[exact - bound >= limit] = 0.0\n",
        "",
        ("test_reference.py", "test_reference_types.py"),
    ),
    Mutant(
        "payload/propagation.py",
        "np.abs(y.value) * x.error + x.error * y.error",
        "np.abs(y.value) * x.error",
        ("test_propagation.py",),
    ),
    Mutant(
        "payload/propagation.py",
        "np.where(lead < -reach, y.error, np.maximum(x.error, y.error))",
        "np.where(lead < -reach, y.error, x.error)",
        ("test_propagation.py",),
    ),
    Mutant(
        "payload/propagation.py",
        "    value = np.where(infinite, np.copysign(beyond(row), value), value)\n",
        "",
        ("test_propagation.py",),
    ),
    Mutant(
        "payload/epilogues.py",
        "convert(math.round(c * inverse) + float(zero), type)",
        "convert(math.round(c * inverse + float(zero)), type)",
        ("test_epilogues.py",),
    ),
    Mutant(
        "payload/epilogues.py",
        "math.where(c > 0, c, c * factor)",
        "math.where(c >= 0, c, c * factor)",
        ("test_epilogues.py",),
        equivalent="only c = 0 differs, which is 0 times the slope too",
    ),
    Mutant(
        "standalone/packing.py",
        "        if version != VERSION:\n",
        "        if version > VERSION + 1:\n",
        ("test_pack_b.py",),
    ),
    Mutant(
        "payload/attention_reference.py",
        'later = keys - queries if spec.causal == "lower_right" else 0',
        "later = 0",
        ("test_attention.py",),
    ),
    Mutant(
        "payload/modules/groups.py",
        "    except programs.Untold:\n        return None\n    last",
        "    except Exception:\n        return None\n    last",
        ("test_module_errors.py",),
    ),
    Mutant(
        "payload/modules/contractions.py",
        "maps = [each for each in found if each is not None and len(set(each)) == len(each)]",
        "maps = [each for each in found if each is not None]",
        ("test_modules.py", "test_module_errors.py", "test_importer.py"),
    ),
    Mutant(
        "payload/modules/contractions.py",
        'unsigned=how == "arith.extui")',
        "unsigned=False)",
        ("test_modules.py",),
    ),
    Mutant(
        "payload/conv2d_products.py",
        'return replace(whole, layout="nt" if spec.filter == "ohwi" else "nn", b_packed=spec.w_packed)',
        'return replace(whole, layout="nn", b_packed=spec.w_packed)',
        ("test_conv2d.py",),
    ),
)
