# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions: numbers against the reference, and that against the definition; memory, layouts, errors."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import re
import shutil
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from guard_pages import PLACINGS, Guarded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import in_new_process
from tilewright.dtypes import to_numpy
from tilewright.emit import operators
from tilewright.errors import ScheduleError
from tilewright.payload.conv2d_products import product
from tilewright.payload.reference import within_bound
from tilewright.schedules.models import image_copies
from tilewright.schedules.operators import conv2d

needs_qemu = pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="qemu-aarch64 is not installed")
is_x86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the target is x86-64's")
WITHOUT_TILES = "host" if not tw.targets.resolve("host").dot("u8", "i8").is_tile else "icelake-server"
"""This machine's target, or one without tile registers that it runs too."""
FLOATS = ({"a": "f32"}, {"a": "f64"}, {"a": "f16"}, {"a": "bf16", "c": "bf16"})
INTEGERS = ({"a": "i8"}, {"a": "u8", "b": "i8"}, {"a": "i8", "b": "u8"}, {"a": "u8"})


def operands(spec: tw.Conv2dSpec, seed: int = 0) -> list[np.ndarray]:
    """Floats uniform in [-1, 1], integers of 8 bits over their whole range."""
    rng = np.random.default_rng(seed)

    def make(shape, element):
        kind = to_numpy(element)
        if element.kind == "float":
            return rng.uniform(-1, 1, shape).astype(kind)
        return rng.integers(-100, 100, shape).astype(kind) if element.bits > 8 else _bytes(rng, shape, kind)

    return [make(each.shape, each.type) for each in spec.operands]


def _bytes(rng, shape, kind):
    return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)


def call(kernel, arrays: list[np.ndarray], **options) -> np.ndarray:
    """The kernel's result, with filters packed where it takes them so."""
    if kernel.spec.w_packed:
        arrays = [arrays[0], kernel.pack("w", arrays[1]), *arrays[2:]]
    return kernel(*arrays, **options)


def is_right(spec: tw.Conv2dSpec, y: np.ndarray, arrays: list[np.ndarray]) -> bool:
    return y.shape == spec.result.shape and bool(
        within_bound(y, tw.reference(spec, *arrays), tw.error_bound(spec, *arrays)).all()
    )


def by_definition(spec: tw.Conv2dSpec, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Sums of products, one after the other, of images in NHWC and filters in HWIO."""
    y = np.zeros((spec.n, spec.oh, spec.ow, spec.oc))
    wide, own = spec.oc // spec.groups, spec.ic // spec.groups
    for i, j, u, v in itertools.product(*map(range, (spec.oh, spec.ow, spec.kh, spec.kw))):
        row = i * spec.stride[0] + u * spec.dilation[0] - spec.padding[0][0]
        column = j * spec.stride[1] + v * spec.dilation[1] - spec.padding[1][0]
        if not (0 <= row < spec.h and 0 <= column < spec.w):
            continue
        for o in range(spec.oc):
            first = o // wide * own
            y[:, i, j, o] += x[:, row, column, first : first + own].astype(float) @ w[u, v, :, o].astype(float)
    return y


@pytest.mark.parametrize("groups", [1, 2])
def test_reference_is_the_definition(groups):
    fields = {"stride": (2, 1), "dilation": (1, 2), "padding": ((1, 2), (0, 3)), "groups": groups}
    spec = tw.Conv2dSpec(2, 5, 6, 4, 6, 3, 2, **fields)
    x, w = operands(spec)
    expected = by_definition(spec, x, w)
    assert np.allclose(tw.reference(spec, x, w), expected, rtol=1e-13, atol=1e-13)
    turned = tw.Conv2dSpec(2, 5, 6, 4, 6, 3, 2, layout="nchw", **fields)
    found = tw.reference(turned, x.transpose(0, 3, 1, 2).copy(), w.transpose(3, 2, 0, 1).copy())
    assert np.allclose(found, expected.transpose(0, 3, 1, 2), rtol=1e-13, atol=1e-13)


@st.composite
def specs(draw) -> tw.Conv2dSpec:
    """Odd sizes, strides, dilations, paddings larger than the filter, groups, one row and column."""
    small, types = st.integers(1, 3), draw(st.sampled_from([*FLOATS, *INTEGERS]))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    ic, oc = groups * draw(st.sampled_from([1, 3, 8, 16, 33])), groups * draw(st.sampled_from([1, 5, 17]))
    if draw(st.integers(0, 3)) == 0:
        groups, oc = ic, ic * draw(st.sampled_from([1, 1, 2]))
    layout = draw(st.sampled_from(["nhwc", "nhwc", "nchw"]))
    choices = ["same", 0, 1, (2, 3), ((0, 1), (4, 0)), ((3, 3), (9, 2))]
    entries: tuple = ()
    if types in FLOATS:
        entries = draw(st.sampled_from([(), (tw.bias(), tw.relu()), (tw.residual(), tw.gelu()), (tw.scale_by(""),)]))
    elif types["a"] == "u8":
        entries = draw(st.sampled_from([(), (tw.scale_by("n"), tw.quantize(2.5, 3, "u8"))]))
    kh, kw = draw(st.sampled_from([1, 1, 2, 3, 5])), draw(st.sampled_from([1, 1, 2, 3, 7]))
    stride, dilation = (draw(small), draw(small)), (draw(small), draw(small))
    # As many rows and columns more than needed as there are.
    h, w = ((size - 1) * step + draw(st.integers(1, 9)) for size, step in zip((kh, kw), dilation, strict=True))
    return tw.Conv2dSpec(
        draw(small),
        h,
        w,
        ic,
        oc,
        kh,
        kw,
        stride=stride,
        dilation=dilation,
        padding=draw(st.sampled_from(choices)),
        groups=groups,
        layout=layout,
        filter="ohwi" if layout == "nhwc" and draw(st.booleans()) else None,
        w_packed=layout == "nhwc" and groups == 1 and draw(st.booleans()),
        epilogue=entries,
        **types,
    )


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(spec=specs(), threads=st.sampled_from([1, 1, 2]))
def test_every_convolution_is_right(spec, threads):
    arrays = operands(spec)
    kernel = tw.compile(spec, threads=threads, cache=False)
    assert is_right(spec, call(kernel, arrays), arrays)


# What has code of its own: whole vectors of channels, short runs of them, blocks of K that end early, no vectors at all.
FORMS = {
    "channels": tw.Conv2dSpec(1, 9, 11, 32, 40, 3, 3, padding=1, stride=2),
    "blocks": tw.Conv2dSpec(1, 6, 7, 528, 24, 3, 3, padding=1),
    "three channels": tw.Conv2dSpec(2, 19, 17, 3, 16, 7, 7, padding=3, stride=2, a="bf16", c="bf16"),
    "columns": tw.Conv2dSpec(2, 9, 11, 5, 24, 3, 3, padding=1, layout="nchw", a="f16"),
    "depthwise": tw.Conv2dSpec(1, 9, 11, 37, 37, 3, 3, padding="same", groups=37, epilogue=(tw.bias(), tw.residual())),
    "far": tw.Conv2dSpec(1, 3, 150, 16, 16, 1, 3, padding=((0, 0), (49, 56)), dilation=(1, 49), groups=16),
    "pointwise": tw.Conv2dSpec(2, 5, 7, 24, 40, 1, 1, epilogue=(tw.bias(), tw.residual())),
    "in place": tw.Conv2dSpec(2, 14, 7, 64, 64, 1, 1, a="bf16", epilogue=(tw.bias(),)),
    "rows that fill no panel": tw.Conv2dSpec(1, 5, 7, 64, 64, 1, 1, a="bf16", w_packed=True),
    # The result has as many pixels as the image, and is no product of its pixels as they lie.
    "strided": tw.Conv2dSpec(1, 3, 3, 16, 24, 1, 1, stride=2, padding=((0, 3), (0, 3))),
    "bytes": tw.Conv2dSpec(1, 9, 9, 64, 32, 3, 3, a="u8", b="i8", padding=1, epilogue=(tw.quantize(900.0, 9, "u8"),)),
    # Pairs of elements along K, of which the last reaches past a patch.
    "odd depth": tw.Conv2dSpec(1, 5, 16, 1, 4, 1, 7, a="bf16", layout="nchw", padding=1),
}


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("form", FORMS)
@is_x86
def test_targets(form, target):
    row = tw.targets.get(target)
    if tw.targets.runnable(row):
        pytest.skip(f"this machine does not run {target}")
    arrays = operands(FORMS[form])
    assert is_right(FORMS[form], call(tw.compile(FORMS[form], target=row), arrays), arrays)


@needs_qemu
@pytest.mark.parametrize(
    ("form", "target"), [("channels", "neoverse-n2"), ("bytes", "neoverse-n2"), ("depthwise", "sme")]
)
def test_emulated(form, target):
    arrays = operands(FORMS[form])
    kernel = tw.compile(FORMS[form], target=target)
    assert kernel.metadata.emulator
    assert is_right(FORMS[form], call(kernel, arrays), arrays)


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_nothing_beside_operands_is_touched(form, at_end):
    spec = FORMS[form]
    placing = next(each for each in PLACINGS if each.at_end == at_end and not each.fenced and not each.gap)
    arrays = operands(spec)
    fenced = [Guarded(each, placing) for each in arrays]
    out = Guarded(np.zeros(spec.result.shape, to_numpy(spec.result.type)), placing)
    kernel = tw.compile(spec)
    call(kernel, [each.matrix for each in fenced], out=out.matrix)
    assert is_right(spec, out.matrix, arrays)


def made(**fields: Any) -> tw.Conv2dSpec:
    """A convolution of one image with filters of 3 x 3, where nothing else is said."""
    usual: dict[str, Any] = {"n": 1, "kh": 3, "kw": 3}
    return tw.Conv2dSpec(**usual | fields)


COPIED = [
    {"h": 9, "w": 11, "padding": 1},
    {"h": 14, "w": 10, "padding": ((0, 2), (3, 1)), "stride": (2, 1)},
    {"h": 13, "w": 13, "kh": 5, "kw": 3, "padding": "same", "dilation": (2, 1)},
    {"h": 13, "w": 9, "kh": 2, "kw": 3, "dilation": (1, 2), "stride": 2, "padding": 1},
    {"h": 12, "w": 12, "kh": 1, "kw": 7, "padding": (0, 3), "n": 3},
    {"h": 11, "w": 11, "n": 2},  # Nothing is copied.
    {"h": 11, "w": 11, "kh": 1, "kw": 1, "stride": 2, "n": 2},
    {"h": 10, "w": 7, "ic": 24, "oc": 60, "groups": 3, "padding": 1, "n": 2},
    {"h": 7, "w": 7, "ic": 3, "kh": 7, "kw": 7, "stride": 2, "padding": 3},
    {"h": 2, "w": 2, "padding": 1, "oc": 100},
    {"h": 8, "w": 8, "padding": 9, "kh": 3, "kw": 3},  # All of some patches is padding.
]
"""Convolutions whose patches are read in copies of the images."""


@is_x86
@pytest.mark.parametrize("images", [0, 1, 2])
@pytest.mark.parametrize("fields", COPIED, ids=str)
def test_patches_are_read_in_copies_of_images(fields, images):
    for more in ({"a": "f32", "epilogue": (tw.bias(), tw.relu())}, {"a": "u8", "b": "i8"}, {"a": "f64"}):
        spec = made(**{"ic": 8, "oc": 20} | fields | more)
        arrays = operands(spec)
        # Blocks of two rows of the result, where an image has a number of them; the last one of a single image may be shorter.
        rows = 2 if images == 2 and (spec.n == 1 or spec.oh % 2 == 0) else spec.oh
        sizes = {"mr": 3, "mc": rows * spec.ow, "images": images}
        if (
            spec.ic % 4 and more["a"] == "u8"
        ):  # Four bytes are multiplied at once: patches of fewer channels are packed.
            continue
        sizes["nr"] = 16  # Of several panels of filters.
        for threads in (1, 2):
            kernel = tw.compile(spec, tw.targets.resolve(WITHOUT_TILES), threads, parameters=sizes)
            assert is_right(spec, call(kernel, arrays), arrays)


@pytest.mark.parametrize("target", ["x86-64-v3", "znver4", "rv64gcv"])
def test_copies_are_chosen_where_filters_have_several_elements(target):
    def images(threads: int = 1, **fields: Any) -> int:
        spec = made(**{"ic": 64, "oc": 64, "padding": 1} | fields)
        sizes = conv2d.plan(spec, product(spec), tw.targets.get(target), {}, threads).parameters
        assert sizes is not None
        return sizes.images

    l2 = tw.targets.get(target).l2.bytes
    assert images(h=7, w=7, ic=16) == image_copies.ALL
    assert images(h=14, w=14, ic=16, stride=2) == image_copies.ALL
    # More than half of L2 is copied in blocks of rows, for which threads would wait.
    assert images(h=128, w=l2 // 2**13, ic=16) == image_copies.BLOCKS
    assert images(h=128, w=l2 // 2**13, ic=16, threads=2) == image_copies.ALL
    assert images(n=64, h=64, w=64, threads=2) == image_copies.BLOCKS  # Scratch memory has a limit.
    assert images(h=14, w=14, kh=1, kw=1, padding=0) == images(h=14, w=14, kh=1, kw=1, padding=0, stride=2, oc=512) == 0
    assert images(h=14, w=14, stride=3) == image_copies.NONE  # No element of an image is in two patches.
    assert images(h=14, w=14, layout="nchw") == image_copies.NONE


@pytest.mark.parametrize(
    ("columns", "mr"), [(56, 28), (28, 28), (14, 28), (15, 30), (16, 32), (20, 20), (7, None), (17, None), (8, None)]
)
def test_tile_registers_read_copies_by_pixels_of_one_row(columns, mr):
    def sizes(given: dict[str, int]) -> Any:
        spec = made(h=28, w=columns, ic=64, oc=64, padding=1, a="bf16")
        return conv2d.plan(spec, product(spec), tw.targets.get("sapphirerapids"), given, 1).parameters

    assert sizes({}).images == (image_copies.ALL if mr else image_copies.PACKED)
    assert not mr or sizes({}).mr == mr
    assert sizes({"mc": 96}).images == image_copies.PACKED  # Blocks of other rows would put two rows in one register.


@pytest.mark.parametrize("threads", [1, 2])
def test_no_patch_is_packed_for_tile_registers_that_read_copies(threads):
    spec = made(h=28, w=28, ic=64, oc=64, padding=1, a="bf16", w_packed=True)
    texts = operators.build(spec, tw.targets.get("sapphirerapids"), threads=threads, until="asm").texts
    kernel = texts["bufferized"][: texts["bufferized"].index("@matmul_pack_b")]
    # All that is written is the copy, and the result.
    assert {
        re.sub(r"strided.*", "", each) for each in re.findall(r"transfer_write .* : vector<.*>, memref<(.*)>", kernel)
    } == {
        "30x1920xbf16",
        "784x64xf32, ",
    }
    assert "tdpbf16ps" in texts["asm"]


@pytest.mark.parametrize("sizes", [{"mc": 50}, {"mr": 32}, {"mr": 14, "mc": 7}])
def test_pixels_of_two_rows_in_one_tile_register_are_refused(sizes):
    spec = made(h=28, w=28, ic=64, oc=64, padding=1, a="bf16")
    with pytest.raises(ScheduleError, match="images is 1; expected 0 of this product"):
        operators.build(spec, tw.targets.get("sapphirerapids"), parameters={"images": 1, **sizes}, until="bufferized")


@pytest.mark.parametrize("filters", ["hwio", "ohwi"])
@pytest.mark.parametrize(
    ("fields", "kc"), [({"kh": 1, "kw": 1, "ic": 8}, 64), ({"kh": 7, "kw": 1, "ic": 8}, 0), ({}, 300)]
)
def test_panels_are_no_longer_than_patches(fields, kc, filters):
    """Of one tile of rows, which would be copied one by one, to be as long as panels."""
    spec = made(
        **{"h": 8, "w": 3, "ic": 5, "oc": 1, "stride": 2, "padding": 3, "filter": filters, "w_packed": True} | fields
    )
    arrays = operands(spec)
    assert is_right(spec, call(tw.compile(spec, parameters={"kc": kc} if kc else {}), arrays), arrays)


@is_x86
@pytest.mark.parametrize("types", [{"a": "u8", "b": "i8"}, {"a": "bf16"}], ids=str)
def test_borders_are_read_with_masks(types):
    """Lanes of such elements would be gathered one by one."""
    spec = made(h=9, w=9, ic=3, oc=32, kh=5, kw=5, padding=2, **types)
    assert (
        "vector.gather"
        not in operators.build(spec, tw.targets.get("icelake-server"), until="bufferized").texts["bufferized"]
    )
    arrays = operands(spec)
    assert is_right(spec, call(tw.compile(spec), arrays), arrays)


@is_x86
def test_what_cannot_be_copied_is_said():
    spec = tw.Conv2dSpec(1, 9, 9, 8, 40, 3, 3, padding=1)
    target = tw.targets.resolve(WITHOUT_TILES)
    for sizes in ({"images": 2, "mc": 10, "nr": 16}, {"images": 1, "kc": 40, "nr": 16}):
        with pytest.raises(ScheduleError, match=f"images is {sizes['images']}"):
            tw.compile(spec, target, parameters=sizes)
    with pytest.raises(ScheduleError, match="images is 1; expected 0 of this product"):
        tw.compile(tw.MatmulSpec(40, 40, 40), target, schedule="packed", parameters={"images": 1})
    with pytest.raises(ScheduleError, match="images is 4"):
        tw.compile(spec, target, parameters={"images": 4})


def test_patches_are_never_there_as_a_whole():
    # The patches would take 4 x 56 x 56 x 9 x 256 floats, 115 MB.
    spec = tw.Conv2dSpec(4, 56, 56, 256, 128, 3, 3, padding=1)
    kernel = tw.compile(spec)
    # A block of B, half of L2 of A, and what is filled up.
    assert 0 < kernel.metadata.workspace_bytes <= 5 << 20
    text = kernel.asm["bufferized"]
    assert "memref.alloc" not in text
    assert f"{spec.pixels}x{spec.depth}" not in text
    depthwise = tw.compile(tw.Conv2dSpec(1, 56, 56, 64, 64, 3, 3, padding=1, groups=64))
    assert depthwise.metadata.workspace_bytes == 0


@pytest.mark.parametrize("sizes", [{"kc": 80}, {"kc": 144, "mr": 2}, {"mr": 3, "mc": 6, "nc": 32}])
@pytest.mark.parametrize("extent", [1, 5])
def test_sizes_of_blocks(sizes, extent):
    spec = tw.Conv2dSpec(1, extent, extent, 32, 24, 3, 3, padding=1, a="u8", b="i8")
    arrays = operands(spec)
    assert is_right(spec, tw.compile(spec, parameters=sizes)(*arrays), arrays)


@pytest.mark.parametrize("sizes", [{}, {"kc": 192}])
@pytest.mark.parametrize("extents", [(14, 14, 8), (6, 10, 64)])
def test_patches_are_packed_for_tile_registers(extents, sizes):
    """Their rows are whole tiles of A, but lie in no matrix."""
    height, width, filters = extents
    spec = tw.Conv2dSpec(1, height, width, 64, filters, 3, 3, a="u8", b="i8")
    text = operators.build(spec, tw.targets.get("sapphirerapids"), parameters=sizes, until="asm").texts["asm"]
    assert "tdpbusd" in text


@pytest.mark.parametrize("sizes", [{"mr": 16, "nr": 16, "mc": 16}, {"mr": 32, "mc": 32}, {"images": 3}])
def test_strips_of_patches_are_packed_for_tile_registers(sizes):
    """The rows of one register tile, which A has a number of, would be read where they lie."""
    spec = tw.Conv2dSpec(1, 18, 18, 64, 48, 3, 3, a="u8", b="i8")
    texts = operators.build(spec, tw.targets.get("sapphirerapids"), parameters=sizes, until="asm").texts
    assert "tdpbusd" in texts["asm"]
    assert "vector<64xi8>, memref<9x" in texts["bufferized"]  # A panel of nine tiles of K.


@is_x86
def test_a_pointwise_convolution_reads_images_where_they_lie():
    spec = tw.Conv2dSpec(1, 28, 28, 64, 64, 1, 1, w_packed=True)
    text = operators.build(spec, tw.targets.get("x86-64-v4"), until="bufferized").texts["bufferized"]
    kernel = text[: text.index("@matmul_pack_b")]
    assert "vector.contract" in kernel
    assert "memref<56x14x64xf32, strided<[896, 64, 1], offset: ?>>" in kernel
    assert kernel.count("vector.transfer_write") == 1


def test_padding_is_not_multiplied_with_what_is_not_finite():
    spec = FORMS["blocks"]
    x, w = operands(spec)
    x[0, 0, 0, 0] = np.inf
    y = tw.compile(spec)(x, w)
    assert is_right(spec, y, [x, w])
    assert np.isinf(y[0, :2, :2]).all()
    assert np.isfinite(y[0, 2:]).all()


def test_conv2d_infers_the_spec():
    x, w, bias = (
        np.random.default_rng(1).uniform(-1, 1, shape).astype("f4") for shape in ((2, 9, 9, 8), (3, 3, 8, 16), 16)
    )
    options = {"padding": "same", "stride": [2, 2], "epilogue": (tw.bias(), tw.relu())}
    y = tw.conv2d(x, w, bias, **options)
    spec = tw.Conv2dSpec(2, 9, 9, 8, 16, 3, 3, padding="same", stride=2, epilogue=(tw.bias(), tw.relu()))
    assert is_right(spec, y, [x, w, bias])
    out = np.empty_like(y)
    assert tw.conv2d(x, w, bias, out=out, **options) is out
    assert (out == y).all()
    turned = tw.conv2d(x.transpose(0, 3, 1, 2).copy(), w.transpose(3, 2, 0, 1).copy(), bias, layout="nchw", **options)
    assert np.allclose(turned.transpose(0, 2, 3, 1), y, atol=1e-5)
    with pytest.raises(tw.OperandError, match="x: is of 3 dimensions"):
        tw.conv2d(x[0], w)
    with pytest.raises(tw.OperandError, match="filters of 8 channels"):
        tw.conv2d(x[..., :4].copy(), w)


def test_kernel_has_the_surface_of_every_kernel():
    spec = tw.Conv2dSpec(1, 6, 6, 16, 16, 3, 3, w_packed=True)
    kernel = tw.compile(spec)
    assert kernel.spec == pickle.loads(pickle.dumps(spec)) == spec
    assert kernel.target.name == "host"
    assert kernel.c_function.prototype == "int32_t conv2d(const DLTensor *x_, const DLTensor *w_, DLTensor *out_)"
    assert set(kernel.asm) >= {"payload", "bufferized", "llvmir", "asm"}
    assert "matmul" in kernel.asm["payload"]
    x, w = operands(spec)
    with pytest.raises(tw.OperandError, match="no packed B"):
        kernel(x, w)
    with pytest.raises(tw.OperandError, match="shape"):
        kernel.pack("w", w[:2])
    with pytest.raises(tw.OperandError, match="x: shape"):
        kernel(x[:, :5].copy(), kernel.pack("w", w))
    with pytest.raises(tw.TilewrightError, match="pickled"):
        pickle.dumps(kernel)


WARM = """
    import json, sys
    import numpy as np
    import tilewright as tw
    kernel = tw.compile(tw.Conv2dSpec(1, 6, 6, 16, 16, 3, 3))
    y = kernel(np.ones((1, 6, 6, 16), "f4"), np.ones((3, 3, 16, 16), "f4"))
    print(json.dumps([kernel.metadata.cached, bool((y == 144).all()), kernel.metadata.workspace_bytes > 0,
        [name for name in sys.modules if name.startswith(("tilewright.mlir", "tilewright.lowering"))]]))
"""


def test_a_warm_compilation_loads_no_mlir(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    tw.compile(tw.Conv2dSpec(1, 6, 6, 16, 16, 3, 3))
    assert json.loads(in_new_process(WARM)) == [True, True, True, []]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kh": 9}, "the filter reaches over 9x3"),
        ({"padding": "half"}, "padding is 'half'"),
        ({"padding": (1, -1)}, "padding is -1"),
        ({"stride": 0}, "stride is 0"),
        ({"groups": 3}, "a multiple of groups=3"),
        ({"layout": "hwcn"}, "one of nhwc, nchw"),
        ({"filter": "oihw"}, "one of hwio, ohwi"),
        ({"w_packed": True, "groups": 2}, "w_packed with groups=2"),
        ({"epilogue": (tw.softmax(),)}, "softmax"),
        ({"epilogue": (tw.bias("m"),)}, "not supported after a convolution"),
        ({"a": "f8E4M3FN"}, "f8E4M3FN"),
        ({"h": 2**16, "w": 2**16}, "an image of 65536x65536x8"),
    ],
)
def test_errors(fields, words):
    given = {"n": 1, "h": 6, "w": 6, "ic": 8, "oc": 8, "kh": 3, "kw": 3, **fields}
    with pytest.raises(tw.SpecError, match=words):
        tw.Conv2dSpec(**given)


def test_what_does_not_apply_is_refused():
    spec = tw.Conv2dSpec(1, 6, 6, 8, 8, 3, 3)
    with pytest.raises(tw.ScheduleError, match="a schedule called 'packed' for conv2d"):
        tw.compile(spec, schedule="packed")
    with pytest.raises(tw.ScheduleError, match="unknown parameter"):
        tw.compile(spec, parameters={"qq": 3})
