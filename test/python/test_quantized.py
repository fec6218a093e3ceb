# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Quantized weights: what the helpers make of floats, and kernels that dequantize, against the reference."""

import numpy as np
import pytest
import tilewright as tw
from ml_dtypes import bfloat16, float8_e8m0fnu
from products import TARGETS
from tilewright.dtypes import dtype, stored_numpy, to_numpy
from tilewright.payload.reference import within_bound


def numbers(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("scale_type", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("group", [0, 32])
@pytest.mark.parametrize(
    ("type", "symmetric"), [("i4", True), ("i4", False), ("u4", False), ("i8", True), ("u8", False)]
)
def test_weights_come_back_within_half_a_step(type, symmetric, group, axis, scale_type):
    w = numbers((7, 100))
    w[3] = 0
    w[4, :32] = np.linspace(1, 2, 32)  # of one sign
    given = w if axis else np.ascontiguousarray(w.T)
    made = tw.quantize_weights(given, type, group, symmetric=symmetric, axis=axis, scale_type=scale_type)
    back, scales = (each if axis else each.T for each in (made.floats(), made.scales.astype(np.float32)))
    step = np.repeat(scales, 32, 1)[:, :100] if group else (scales.reshape(7, 1))
    assert scales.shape == ((7, 4) if group else (7,))
    # Also where the scale's type is coarse: one that is rounded down would leave the largest numbers beyond the last code.
    assert (np.abs(back - w) <= np.abs(step) * 0.5001).all()
    assert not back[3].any()


@pytest.mark.parametrize("sign", [1, -1])
def test_codes_that_are_not_symmetric_are_all_used(sign):
    w = sign * numbers((64, 32))
    w[:, 5] = sign * 1.5 * np.abs(w).max(1)  # the largest magnitude, and nothing near it on the other side
    made = tw.quantize_weights(w, "i4", 32)
    codes = tw.unpack_nibbles(made.codes, "i4", 32).astype(int)
    assert (codes[:, 5] == -8).all()
    np.testing.assert_allclose(made.scales[:, 0], -w[:, 5] / 8.5, rtol=1e-6)
    # Rounding to the nearest of codes on a line: a step's twelfth, squared; a scale of the largest over 7 has 1.5 times that error.
    of_seven = np.abs(w).max(1, keepdims=True) / 7
    plain = np.rint(w / of_seven) * of_seven
    assert np.square(made.floats() - w).mean() < 0.8 * np.square(plain - w).mean()


@pytest.mark.parametrize(
    ("type", "largest", "least"), [("f8E4M3FN", 448, 2**-9), ("f8E5M2", 57344, 2**-16), ("f4E2M1FN", 6, 0.5)]
)
def test_mx_blocks(type, largest, least):
    x = numbers((3, 70))
    x[1, :32] = 0
    x[2, 5], x[2, 40] = np.inf, np.nan
    made = tw.mx_quantize(x, type)
    scales = made.scales.astype(np.float32)
    assert made.scales.dtype == float8_e8m0fnu
    assert scales.shape == (3, 3)
    assert scales[1, 0] == 2.0**-127
    assert np.isnan(scales[2, :2]).all()
    # The largest magnitude of each block lies in the largest binade of the type, in units of the scale.
    most = np.abs(x[0, :32]).max() / scales[0, 0]
    assert 2.0 ** np.floor(np.log2(largest)) <= most < 2.0 ** (np.floor(np.log2(largest)) + 1)
    back, unit = made.floats(), np.repeat(scales, 32, 1)[:, :70]
    exact = np.clip(x / unit, -largest, largest)[0]
    error = np.abs(back[0] / unit[0] - exact)
    assert (error <= np.maximum(np.abs(exact) * dtype(type).roundoff, least / 2)).all()
    assert np.array_equal(
        tw.mx_quantize(np.ascontiguousarray(x.T), type, axis=0).scales.T.astype(np.float32), scales, equal_nan=True
    )
    again = tw.mx_quantize(back[:2], type)
    assert np.array_equal(again.floats(), back[:2])


def dequantizing(a, b, layout, group, zero_point, m, n, k, scale_type="float", **fields):
    axes = "gn" if group else "n"
    entry = tw.dequantize(axes, zero_point, group, scale_type=scale_type)
    return tw.MatmulSpec(m, n, k, a=a, b=b, c="f32", layout=layout, prologue_b=(entry,), **fields)


def operands_of(spec, seed=0):
    random = np.random.default_rng(seed)
    made = []
    for each in spec.operands:
        kind = stored_numpy(each.type)
        if each.type.name == "f8E8M0FNU":
            made.append(random.integers(120, 132, each.shape).astype(np.uint8).view(kind))
        elif each.type.kind == "float" and each.type.packed == 1:
            made.append(random.standard_normal(each.shape).astype(kind))
        else:
            limits = np.iinfo(kind)
            made.append(random.integers(limits.min, limits.max, each.stored, endpoint=True).astype(kind))
    return made


def check(spec, target="host", operands=None):
    operands = operands_of(spec) if operands is None else operands
    result = tw.compile(spec, target=target)(*operands)
    assert within_bound(result, tw.reference(spec, *operands), tw.error_bound(spec, *operands)).all()
    return result


@pytest.mark.parametrize(
    ("a", "b", "layout", "group", "zero_point", "extents", "scale_type"),
    [
        ("bf16", "i4", "nt", 128, 0, (1, 34, 384), "f32"),  # by tables, two columns at a time
        ("bf16", "u4", "nt", 128, "u8", (3, 33, 256), "bf16"),  # an odd number of columns
        ("f16", "i4", "nt", 0, "i8", (2, 6, 256), "f16"),
        ("f32", "u4", "nt", 256, "u8", (1, 6, 512), "f32"),
        ("bf16", "i4", "nt", 32, 3, (1, 9, 100), "f32"),  # K is no multiple of the group
        ("bf16", "i8", "nt", 48, "i8", (5, 9, 130), "f16"),
        ("bf16", "i4", "nt", 32, 0, (70, 33, 100), "f32"),  # packed
        ("f32", "u4", "nt", 32, "f32", (17, 6, 96), "f32"),  # zero points that are floats
        ("f16", "u4", "nn", 16, "u8", (37, 33, 90), "bf16"),
        ("f32", "i8", "nn", 0, 0, (1, 33, 90), "f32"),
        ("bf16", "i4", "nn", 64, 0, (1, 130, 150), "f32"),
    ],
)
def test_kernels(a, b, layout, group, zero_point, extents, scale_type):
    m, n, k = extents
    check(dequantizing(a, b, layout, group, zero_point, m, n, k, scale_type))


@pytest.mark.parametrize("target", ["host", *(each for each in ("x86-64-v3", "neoverse-n1") if each in TARGETS)])
@pytest.mark.parametrize(("b", "zero_point"), [("i4", 0), ("u4", "u8"), ("i8", 0)])
def test_many_rows_by_columns_that_fill_no_tile(target, b, zero_point):
    """A tile that is short in columns packs none of its groups' scales from beyond them."""
    check(dequantizing("f32", b, "nt", 32, zero_point, 70, 1000, 96), target)


@pytest.mark.parametrize("target", [each for each in ("x86-64-v3", "neoverse-n1") if each in TARGETS])
def test_kernels_of_other_targets(target):
    check(dequantizing("f32", "u4", "nt", 32, "u8", 2, 9, 100), target)
    check(dequantizing("bf16", "i4", "nn", 32, 0, 9, 19, 70), target)


@pytest.mark.parametrize("element", ["f8E4M3FN", "f4E2M1FN"])
@pytest.mark.parametrize("layout", ["nt", "tn"])
def test_mx_products(element, layout):
    a, b = (tw.dequantize(axes, group=tw.quantized.MX_BLOCK, scale_type="f8E8M0FNU") for axes in ("mg", "gn"))
    spec = tw.MatmulSpec(6, 18, 80, a=element, b=element, c="f32", layout=layout, prologue_a=(a,), prologue_b=(b,))
    assert (spec.a_type.name, spec.b_type.name) == ("bf16", "bf16")
    x, y = numbers((6, 80)), numbers((18, 80), 1)
    left, right = tw.mx_quantize(x, element), tw.mx_quantize(y, element)
    if layout == "tn":
        left, right = (tw.mx_quantize(np.ascontiguousarray(each.T), element, axis=0) for each in (x, y))
        want = left.floats().T @ right.floats()
    else:
        want = left.floats() @ right.floats().T
    result = check(spec, operands=[left.codes, right.codes, left.scales, right.scales])
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4)


def test_what_a_model_has():
    """Weights N x K, quantized, by a row of activations."""
    w, x = numbers((24, 256)), numbers((1, 256), 1).astype(bfloat16)
    made = tw.quantize_weights(w, "u4", 128, symmetric=False, scale_type="bf16")
    spec = tw.MatmulSpec(
        1,
        24,
        256,
        a="bf16",
        b="u4",
        c="f32",
        layout="nt",
        prologue_b=(tw.dequantize("gn", "u8", 128, scale_type="bf16"),),
    )
    result = check(spec, operands=[x, *made.operands])
    np.testing.assert_allclose(result, x.astype(np.float32) @ made.floats().T, rtol=0.02, atol=0.05)


def test_extreme_numbers():
    spec = dequantizing("bf16", "i4", "nt", 128, 0, 1, 8, 256, "f32")
    a, b, scales = operands_of(spec)
    scales[0], scales[1, 0], scales[2, 1], scales[3], scales[4] = 0, np.inf, np.nan, 3e38, 1e-38
    b[6] = 0
    b[7] = 0x88  # -8 throughout
    with np.errstate(all="ignore"):
        sizes = (a, (a.astype(np.float32) * 1e38).astype(a.dtype), (a.astype(np.float32) * 1e-38).astype(a.dtype))
    for each in (*sizes, np.where(np.arange(256) == 3, np.inf, a).astype(a.dtype)):
        result = check(spec, operands=[each, b, scales])
    result = check(spec, operands=[a, b, scales])
    assert result[0, 0] == 0
    assert result[0, 6] == 0
    assert np.isnan(result[0, 2])


def test_no_groups():
    spec = dequantizing("bf16", "i4", "nt", 128, 0, 2, 4, 0, "f32")
    assert [each.shape for each in spec.further] == [(4, 0)]
    assert not check(spec).any()


def test_what_is_multiplied():
    def entry(**further):
        return (tw.dequantize("n", **further),)

    assert tw.MatmulSpec(2, 3, 4, a="f16", b="i8", prologue_b=entry()).b_type.name == "f16"
    assert tw.MatmulSpec(2, 3, 4, a="f32", b="i4", layout="nt", prologue_b=entry()).b_type.name == "f32"
    both = tw.MatmulSpec(2, 3, 4, a="i8", b="i8", prologue_a=(tw.dequantize("m"),), prologue_b=entry())
    assert (both.a_type.name, both.b_type.name) == ("bf16", "bf16")
    with pytest.raises(tw.SpecError, match="not supported"):
        tw.MatmulSpec(2, 3, 4, a="bf16", b="i8", prologue_b=entry(type="f32"))


@pytest.mark.parametrize(
    ("entry", "fields", "what"),
    [
        (("gn", 0, 24), {}, "groups of 24"),
        (("gn",), {}, "axes 'gn' and group 0"),
        (("n", 0, 32), {}, "axes 'n' and group 32"),
        (("gn", 0, 32), {"k": None}, "a dynamic k"),
        (("mg", 0, 32), {}, "axes 'mg' in prologue_b"),
        ((2.0, "u8"), {}, "zero point"),
        (("gn", "u9", 32), {}, "unknown element type"),
    ],
)
def test_what_is_refused(entry, fields, what):
    with pytest.raises(tw.SpecError, match=what):
        tw.MatmulSpec(
            **{"m": 2, "n": 3, "k": 64, "a": "bf16", "b": "i8", **fields}, prologue_b=(tw.dequantize(*entry),)
        )


def test_what_helpers_refuse():
    w = numbers((4, 64))
    wrong = ({"type": "u4"}, {"group": 20}, {"type": "f32"}, {"axis": 2}, {"scale_type": "i8"})
    for fields in wrong:
        with pytest.raises(tw.SpecError):
            tw.quantize_weights(w, **{"group": 32, **fields})
    with pytest.raises(tw.SpecError, match="MX elements"):
        tw.mx_quantize(w, "bf16")
    for other in (w[0], w.tolist(), np.where(w > 0, np.nan, w), w * 1e38):
        with pytest.raises(tw.OperandError):
            tw.quantize_weights(other, "i4", 32, scale_type="f16")
    assert to_numpy(dtype("bf16")) == tw.quantize_weights(w, "i4", 32, scale_type="bf16").scales.dtype


def test_rows_that_only_a_call_tells():
    spec = dequantizing("bf16", "i4", "nt", 128, 0, None, 16, 256, "f32")
    kernel = tw.compile(spec)
    for rows in (1, 3, 11):
        operands = operands_of(spec.at(rows, 16, 256))
        result = kernel(*operands)
        assert within_bound(result, tw.reference(spec, *operands), tw.error_bound(spec, *operands)).all()


def test_threads_share_columns_that_are_far_apart():
    spec = dequantizing("bf16", "i4", "nt", 128, 0, 1, 514, 2048, "f32", epilogue=(tw.bias("n"), tw.residual("mn")))
    operands = operands_of(spec)
    result = tw.compile(spec, threads=2)(*operands)
    assert within_bound(result, tw.reference(spec, *operands), tw.error_bound(spec, *operands)).all()
