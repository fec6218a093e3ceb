# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of libraries that programs of tvm-ffi call; here without tvm-ffi in the process. Example 24 runs with it."""

import ctypes
import subprocess

import numpy as np
import pytest
import tilewright as tw
from tilewright.libraries.tvm_ffi import PREFIX

KERNELS = {
    "gemm": tw.MatmulSpec(m=4, n=5, k=6),
    "turned": tw.MatmulSpec(m=None, n=5, k=6, layout="tt"),
    "adds": tw.MatmulSpec(m=4, n=5, k=6, beta=1),
    "layer": tw.MatmulSpec(m=4, n=5, k=6, epilogue=(tw.bias("n"),)),
    "attend": tw.AttentionSpec(queries=3, keys=4, head=8),
    "packed": tw.MatmulSpec(m=4, n=5, k=6, b_packed=True),
    "scaled": tw.MatmulSpec(m=4, n=5, k=6, alpha="arg"),
}
ADDRESS, OBJECT, INT, HEADER = 7, 70, 1, 24


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("rank", ctypes.c_int32),
        ("type", ctypes.c_uint8 * 2),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class Value(ctypes.Structure):
    """TVMFFIAny."""

    _fields_ = (("kind", ctypes.c_int32), ("padding", ctypes.c_uint32), ("pointer", ctypes.c_void_p))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    tw.library(KERNELS, targets=["host"], name="called", out=folder)
    return folder / "libcalled.so"


@pytest.fixture(scope="module")
def call(library):
    """Calls a function on arrays, as tvm-ffi does."""
    loaded = ctypes.CDLL(str(library))

    def call(name, *arrays, kind=ADDRESS, device=1, compact=False):
        tensors = []
        for array in arrays:
            sizes = ctypes.c_int64 * array.ndim
            steps = sizes(*(step // array.itemsize for step in array.strides))
            tensor = Tensor(array.ctypes.data, (device, 0), array.ndim, (2, 8 * array.itemsize), 1, sizes(*array.shape))
            tensor.strides = None if compact else steps
            tensors.append((tensor, steps))
        pointers = [ctypes.addressof(tensor) - (HEADER if kind == OBJECT else 0) for tensor, _ in tensors]
        values = (Value * len(arrays))(*(Value(kind, 0, pointer) for pointer in pointers))
        return loaded[f"{PREFIX}{name}"](None, values, len(arrays), ctypes.byref(Value()))

    return call


def some(*shape, type="f4"):
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(type)


def result(*shape):
    return np.full(shape, 0.5, "f4")


@pytest.mark.parametrize("options", [{}, {"kind": OBJECT}, {"compact": True}], ids=["address", "object", "compact"])
def test_a_product_of_two_matrices(call, options):
    a, b, c = some(4, 6), some(6, 5), result(4, 5)
    assert call("gemm", a, b, c, **options) == 0
    np.testing.assert_allclose(c, a @ b, atol=1e-5)
    assert call("adds", a, b, c) == 0
    np.testing.assert_allclose(c, 2 * (a @ b), atol=1e-5)


def test_rows_apart_and_other_layouts(call):
    a, b, c = some(6, 9)[:, 1:4], some(5, 8)[:, :6], result(3, 7)[:, :5]
    assert call("turned", a, b, c) == 0
    np.testing.assert_allclose(c, a.T @ b.T, atol=1e-5)
    one = some(6, 1)[:, :1]
    assert call("turned", one, b, c[:1]) == 0
    np.testing.assert_allclose(c[:1], one.T @ b.T, atol=1e-5)


def test_functions_of_tensors(call):
    a, b, bias, c = some(4, 6), some(6, 5), some(5), result(4, 5)
    assert call("layer", a, b, bias, c) == 0
    np.testing.assert_allclose(c, a @ b + bias, atol=1e-5)
    q, k, out = some(1, 3, 8), some(1, 4, 8), result(1, 3, 8)
    assert call("attend", q, k, k, out) == 0
    np.testing.assert_allclose(out, tw.attention(q, k, k), atol=1e-5)


@pytest.mark.parametrize(
    ("wrong", "options"),
    [
        ((some(4, 6), some(6, 5)), {}),
        ((some(4, 6), some(6, 5), result(4, 5), result(4, 5)), {}),
        ((some(4, 6), some(6, 5), result(4, 6)), {}),
        ((some(4, 7), some(7, 5), result(4, 5)), {}),
        ((some(5, 6), some(6, 5), result(4, 5)), {}),
        ((some(4, 6), some(6, 5), result(4, 10)[:, ::2]), {}),
        ((some(4, 6), some(12, 5)[::-2], result(4, 5)), {}),
        ((some(4, 6), some(6, 5, type="f8"), result(4, 5)), {}),
        ((some(4, 6), some(30), result(4, 5)), {}),
        ((some(4, 6), some(6, 5), result(4, 5)), {"kind": INT}),
        ((some(4, 6), some(6, 5), result(4, 5)), {"device": 2}),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(call, wrong, options):
    assert call("gemm", *wrong, **options) == -1
    assert (wrong[-1] == wrong[-1].flat[0]).all() or len(wrong) == 2


def test_what_has_no_such_function(library, tmp_path):
    said = subprocess.run(["nm", "-D", str(library)], capture_output=True, text=True, check=True).stdout
    found = {line.split()[2].partition("@")[0] for line in said.splitlines() if PREFIX in line}
    assert found == {f"{PREFIX}{name}" for name in KERNELS} - {f"{PREFIX}packed", f"{PREFIX}scaled"}
    assert " w dlsym" in said  # and of tvm-ffi nothing
    assert "TVMFFI" not in said
    tw.library({"gemm": KERNELS["gemm"]}, targets=["host"], name="plain", out=tmp_path, tvm_ffi=False)
    said = subprocess.run(["nm", "-D", tmp_path / "libplain.so"], capture_output=True, text=True, check=True).stdout
    assert PREFIX not in said
    assert "dlsym" not in said
