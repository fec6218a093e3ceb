# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions, attention and modules in a library, called as C programs call them."""

import ctypes
import shutil
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from dlpack_arrays import Foreign
from tilewright import standalone
from tilewright.dtypes import from_numpy
from tilewright.errors import OperandError, SpecError, TilewrightError
from tilewright.payload.abi import WRONG_PACKING, dlpack_code

LINKER = shutil.which("ld.lld-22") or shutil.which("ld.lld")
pytestmark = pytest.mark.skipif(LINKER is None, reason="no lld")
MODULE = """
func.func @scores(%x: tensor<6x8xf32>, %w: tensor<8x5xf32>) -> tensor<6x5xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<6x5xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<6x5xf32>) -> tensor<6x5xf32>
  %sums = linalg.matmul ins(%x, %w : tensor<6x8xf32>, tensor<8x5xf32>) outs(%start : tensor<6x5xf32>) -> tensor<6x5xf32>
  %p = linalg.softmax dimension(1) ins(%sums : tensor<6x5xf32>) outs(%empty : tensor<6x5xf32>) -> tensor<6x5xf32>
  return %p : tensor<6x5xf32>
}
"""
CONV = tw.Conv2dSpec(1, 6, 6, 3, oc=4, kh=3, kw=3, epilogue=(tw.bias("n"), tw.relu()))
PACKED = tw.Conv2dSpec(1, 6, 6, 16, oc=24, kh=3, kw=3, w_packed=True)
ATTENTION = tw.AttentionSpec(queries=None, keys=7, head=8, heads=2)


class Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def tensor(array):
    """The DLTensor of an array."""
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    code = Type(*dlpack_code(from_numpy(array.dtype).name), 1)
    return Tensor(array.ctypes.data, Device(1, 0), array.ndim, code, shape, None, 0)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("operators")
    (folder / "scores.mlir").write_text(MODULE)
    (folder / "two.mlir").write_text(MODULE + MODULE.replace("@scores", "@others").replace("6x", "4x"))
    kernels = {
        "convolve": CONV,
        "packed": PACKED,
        "attend": ATTENTION,
        "softmax_scores": folder / "scores.mlir",
        "two": folder / "two.mlir",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CACHE_DIR", str(folder / "cache"))
        return tw.library(kernels, targets=["x86-64", "x86-64-v3", "x86-64-v4"], name="ops", out=folder / "out")


def call(library, name, *arrays):
    loaded = ctypes.CDLL(str(library.folder / "libops.so"))
    loaded.ops_selected.restype = ctypes.c_char_p
    for level in (None, b"x86-64", b"x86-64-v3"):
        arrays[-1][...] = -5
        assert loaded.ops_isa(level) == 0
        assert getattr(loaded, name)(*(ctypes.byref(tensor(each)) for each in arrays)) == 0
        yield arrays[-1].copy()


def values(rng, shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def test_a_convolution(library):
    rng = np.random.default_rng(1)
    given = [values(rng, each.shape) for each in CONV.operands]
    expected, bound = tw.reference(CONV, *given), tw.error_bound(CONV, *given)
    for result in call(library, "convolve", *given, np.empty(CONV.result.shape, np.float32)):
        assert (abs(result - expected) <= bound).all()


def test_attention_of_any_number_of_queries(library):
    rng = np.random.default_rng(2)
    for queries in (1, 5):
        spec = tw.AttentionSpec(queries=queries, keys=7, head=8, heads=2)
        given = [values(rng, each.shape) for each in spec.operands]
        expected, bound = tw.reference(spec, *given), tw.error_bound(spec, *given)
        for result in call(library, "attend", *given, np.empty(spec.result.shape, np.float32)):
            assert (abs(result - expected) <= bound).all()


def test_a_module(library):
    rng = np.random.default_rng(3)
    x, w = values(rng, (6, 8)), values(rng, (8, 5))
    sums = np.exp(x.astype(np.float64) @ w)
    for result in call(library, "softmax_scores", x, w, np.empty((6, 5), np.float32)):
        np.testing.assert_allclose(result, sums / sums.sum(axis=1, keepdims=True), rtol=1e-5)


def test_python_calls_them_without_the_compiler(library):
    loaded, rng = standalone.load(library.folder / "libops.so"), np.random.default_rng(5)
    x, w = values(rng, (4, 8)), values(rng, (8, 5))
    sums = np.exp(x.astype(np.float64) @ w)
    np.testing.assert_allclose(loaded.two_others(x, w), sums / sums.sum(axis=1, keepdims=True), rtol=1e-5)
    assert loaded.two_others.selected() == loaded.two_scores.selected() == loaded.selected()
    spec = tw.AttentionSpec(queries=3, keys=7, head=8, heads=2)
    given = [values(rng, each.shape) for each in spec.operands]
    error = abs(loaded.attend(*given) - tw.reference(spec, *given))
    assert (error <= tw.error_bound(spec, *given)).all()
    plain = tw.Conv2dSpec(1, 6, 6, 16, oc=24, kh=3, kw=3)
    x, w = (values(rng, each.shape) for each in plain.operands)
    error = abs(loaded.packed(x, loaded.packed.pack("w", Foreign(w))) - tw.reference(plain, x, w))
    assert (error <= tw.error_bound(plain, x, w)).all()
    with pytest.raises(OperandError, match=r"operand w: ndarray is not packed; .*Pass kernel.pack\('w', w\)"):
        loaded.packed(x, w)
    assert loaded.packed.signature == "packed(x: 1x6x6x16 f32, w: packed) -> 1x4x4x24 f32"


def test_functions_of_one_module(library):
    rng = np.random.default_rng(4)
    for name, rows in (("two_scores", 6), ("two_others", 4)):
        x, w = values(rng, (rows, 8)), values(rng, (8, 5))
        sums = np.exp(x.astype(np.float64) @ w)
        for result in call(library, name, x, w, np.empty((rows, 5), np.float32)):
            np.testing.assert_allclose(result, sums / sums.sum(axis=1, keepdims=True), rtol=1e-5)


def test_filters_that_the_library_packs(library):
    rng = np.random.default_rng(5)
    x, w = (values(rng, each.shape) for each in PACKED.operands)
    expected, bound = tw.reference(PACKED, x, w), tw.error_bound(PACKED, x, w)
    loaded = ctypes.CDLL(str(library.folder / "libops.so"))
    bytes_of, pack, convolve = loaded.packed_w_packed_b_bytes, loaded.packed_w_pack_b, loaded.packed
    bytes_of.restype = ctypes.c_int64
    bytes_of.argtypes = [ctypes.c_int64] * 2
    pack.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    assert loaded.ops_isa(None) == 0
    assert bytes_of(16, 24) == -1
    room = np.zeros(bytes_of(9 * 16, 24), np.int8)
    assert pack(9 * 16, 24, w.ctypes.data, 24, room.ctypes.data) == 0
    result = np.empty(PACKED.result.shape, np.float32)
    tensors = [ctypes.byref(tensor(each)) for each in (x, room, result)]
    assert convolve(*tensors) == 0
    assert (abs(result - expected) <= bound).all()
    assert loaded.ops_isa(b"x86-64") == 0  # which packs in another order
    assert convolve(*tensors) == WRONG_PACKING


def test_the_header_and_the_page_say_what_they_take(library):
    header = (library.folder / "ops.h").read_text()
    assert "int32_t attend(const DLTensor *q_, const DLTensor *k_, const DLTensor *v_, DLTensor *" in header
    assert "/* softmax_scores(x: 6x8xf32" in header or "/* softmax_scores(x: 6x8 f32" in header
    assert "int32_t two_others(const DLTensor *x_, const DLTensor *w_, DLTensor *" in header
    assert "int32_t packed_w_pack_b(int64_t k, int64_t n, const void *b, int64_t ldb, void *packed);" in header
    assert "when the extents are not k = 144 and n = 24." in header
    assert "| `convolve` |" in (library.folder / "ops.md").read_text()


def test_what_libraries_do_not_have_is_said(tmp_path):
    (tmp_path / "two.mlir").write_text(MODULE + MODULE.replace("@scores", "@others"))
    kernels = {"a": tmp_path / "two.mlir", "a_others": tw.MatmulSpec(2, 2, 2)}
    with pytest.raises(SpecError, match="a_others, which is that of an entry of the kernel a"):
        tw.library(kernels, targets=["x86-64"], out=tmp_path)
    with pytest.raises(TilewrightError, match="cannot read it"):
        tw.library({"a": Path("absent.mlir")}, targets=["x86-64"], out=tmp_path)
