# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels called on arrays of other libraries: DLPack of every version, its C functions, and `__array_interface__`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from dlpack_arrays import COPIED, CUDA, CUDA_HOST, READ_ONLY, Exchanged, Foreign, Library
from handmade import call, matrix
from tilewright.errors import OperandError
from tilewright.standalone import _native

A, B = matrix(3, 7), matrix(7, 5)
C = A @ B


def close(c: Any) -> bool:
    return np.allclose(c.array if isinstance(c, Foreign) else c, C, rtol=1e-5)


@pytest.fixture(scope="module")
def kernel() -> Any:
    return call(3, 5, 7)


@pytest.fixture(scope="module")
def biased() -> Any:
    return tw.compile(tw.MatmulSpec(3, 5, 7, epilogue=(tw.bias("n"),)))


@pytest.fixture(scope="module")
def function() -> Any:
    return tw.compile_module("""
        func.func @add(%x: tensor<3x5xf32>, %y: memref<3x5xf32>) -> tensor<3x5xf32> {
          %e = tensor.empty() : tensor<3x5xf32>
          %r = linalg.add ins(%x, %x : tensor<3x5xf32>, tensor<3x5xf32>) outs(%e : tensor<3x5xf32>) -> tensor<3x5xf32>
          %one = arith.constant 1.0 : f32
          linalg.fill ins(%one : f32) outs(%y : memref<3x5xf32>)
          return %r : tensor<3x5xf32>
        }""")


# What is taken: the memory as it lies.

WAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "version 1": Foreign,
    "without versions": lambda x: Foreign(x, versioned=False),
    "pinned memory": lambda x: Foreign(x, device=CUDA_HOST),
    "without strides": lambda x: Foreign(x, strides=()),
    "an offset": lambda x: Foreign(x, offset=64),
    "C functions": Exchanged,
    "an interface of arrays": lambda x: SimpleNamespace(__array_interface__=x.__array_interface__, owner=x),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_operands_are_taken_where_they_lie(way: Callable[[np.ndarray], Any], kernel: Any, biased: Any):
    assert close(kernel(way(A), way(B), out=np.empty_like(C)))
    assert close(biased(way(A), way(B), way(np.zeros(5, "f4")), out=np.empty_like(C)))
    view = _native.array_view(way(A), "a")
    assert view.ctypes.data == A.ctypes.data
    assert view.shape == A.shape
    assert view.strides == A.strides
    assert view.dtype == A.dtype


def test_rows_may_lie_apart(kernel: Any):
    wide = np.zeros((3, 10), "f4")
    wide[:, :7] = A
    assert close(kernel(Foreign(wide[:, :7]), B))
    assert close(kernel(Exchanged(wide[:, :7]), B).array)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "c8", "c16", "?"])
def test_types_of_numpy(dtype: str):
    array = np.ones((2, 3), dtype)
    given = Foreign(array, changes={"kind": 6} if dtype == "?" else {})
    assert _native.array_view(given, "a").dtype == array.dtype


@pytest.mark.parametrize(
    ("name", "kind"),
    [("bfloat16", 4), ("float8_e3m4", 7), ("float8_e4m3fn", 10), ("float8_e5m2", 12), ("float8_e8m0fnu", 14)],
)
def test_types_of_ml_dtypes(name: str, kind: int):
    array = np.ones((2, 3), getattr(ml_dtypes, name))
    assert _native.array_view(Foreign(array, changes={"kind": kind}), "a").dtype == array.dtype


@pytest.mark.parametrize("shape", [(), (0, 3), (3, 0), (1, 1, 1)])
def test_shapes_of_few_elements(shape: tuple[int, ...]):
    array = np.ones(shape, "f4")
    empty = {"data": None} if not array.size else {}
    view = _native.array_view(Foreign(array, changes=empty), "a")
    assert view.shape == shape
    assert view.size == array.size


def test_a_scalar_operand_may_be_an_array():
    kernel = tw.compile(tw.MatmulSpec(3, 5, 7, alpha="arg"))
    assert close(kernel(A, B, alpha=Foreign(np.array(1, "f4"))))


def test_extents_are_told_by_foreign_arrays():
    kernel = tw.compile(tw.MatmulSpec(None, 5, 7, epilogue=(tw.bias("n"),)))
    assert close(kernel(Foreign(A), B, np.zeros(5, "f4")))
    assert close(call(None, 5, 7)(Foreign(A), B))


def test_packing_takes_foreign_arrays():
    kernel: Any = tw.compile(tw.MatmulSpec(3, 5, 7, b_packed=True))
    assert close(kernel(Library(A), kernel.pack_b(Foreign(B))))


# How long memory is kept.


def test_a_tensor_is_kept_until_the_call_ends(kernel: Any):
    a, b, out = Foreign(A), Foreign(B), Foreign(np.empty_like(C))
    kernel(a, b, out=out)
    assert (a.alive, b.alive, out.alive) == (0, 0, 0)
    assert close(out)
    view = _native.array_view(a, "a")
    assert a.alive == 1
    del view
    assert a.alive == 0


def test_a_refused_tensor_is_dropped(kernel: Any):
    a = Foreign(A)
    with pytest.raises(OperandError):
        kernel(a, matrix(2, 2))
    assert a.alive == 0


def test_a_copy_is_not_asked_for(kernel: Any):
    a = Foreign(A)
    kernel(a, B)
    assert a.asked == [{"max_version": (1, 1), "copy": False}]


def test_a_result_outlives_everything():
    c = call(3, 5, 7)(Library(A), B)
    gc.collect()
    assert isinstance(c, Library)
    assert close(c)


# What comes back.


@pytest.mark.parametrize("kind", [Library, Exchanged])
def test_results_are_of_the_kind_of_the_first_array_that_is_not_numpys(kind: type[Foreign], kernel: Any, biased: Any):
    bias = np.zeros(5, "f4")
    for result in (kernel(kind(A), B), kernel(A, kind(B)), biased(A, B, kind(bias)), biased(kind(A), Foreign(B), bias)):
        assert type(result) is kind
        assert close(result)
    assert type(kernel(A, B)) is np.ndarray


@pytest.mark.parametrize("way", [Foreign, WAYS["an interface of arrays"]])
def test_without_a_way_back_results_are_numpys(way: Callable[[np.ndarray], Any], kernel: Any):
    c = kernel(way(A), B)
    assert type(c) is np.ndarray
    assert close(c)


def test_a_result_starts_at_a_cache_line(kernel: Any):
    assert all(kernel(Library(A), B).array.ctypes.data % 64 == 0 for _ in range(20))


def test_results_of_functions(function: Any):
    y = Library(np.zeros((3, 5), "f4"))
    result = function(Library(C), y)
    assert type(result) is Library
    assert (y.array == 1).all()
    np.testing.assert_array_equal(result.array, 2 * C)
    out = Foreign(np.empty_like(C))
    assert function(C, np.ones((3, 5), "f4"), out=out) is out
    np.testing.assert_array_equal(out.array, 2 * C)


def test_a_kind_that_lacks_the_type_of_the_result():
    kernel = tw.compile(tw.MatmulSpec(2, 2, 2, a="i8"))
    ones = np.ones((2, 2), "i1")
    with pytest.raises(OperandError, match=r"operand out: an array of int32 cannot become a .*Exchanged"):
        kernel(Exchanged(ones), ones)


def test_out_may_be_foreign(kernel: Any):
    for kind in (Foreign, Library, Exchanged):
        out = kind(np.full_like(C, np.nan))
        assert kernel(A, B, out=out) is out
        assert close(out)


def test_out_must_say_that_it_may_be_written(kernel: Any):
    for out in (
        Foreign(np.empty_like(C), flags=READ_ONLY),
        Exchanged(np.empty_like(C), flags=READ_ONLY),
        Foreign(np.empty_like(C), versioned=False),
        SimpleNamespace(__array_interface__=np.broadcast_to(np.float32(1), (3, 5)).__array_interface__),
    ):
        with pytest.raises(OperandError, match="operand out: the array is read-only"):
            kernel(A, B, out=out)


def test_read_only_operands_are_read(kernel: Any):
    assert close(kernel(Foreign(A, flags=READ_ONLY), Exchanged(B, flags=READ_ONLY), out=np.empty_like(C)))


def test_what_a_function_writes_must_be_writable(function: Any):
    with pytest.raises(OperandError, match="operand y: the array is read-only"):
        function(C, Foreign(np.ones((3, 5), "f4"), versioned=False))


def test_out_that_overlaps(kernel: Any):
    square = call(3, 3, 3)
    a = matrix(3, 3)
    for kind in (Foreign, Exchanged):
        with pytest.raises(OperandError, match="it overlaps operand b"):
            square(matrix(3, 3), a, out=kind(a))


# What is refused.

_WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a card's memory": (lambda: Foreign(A, device=CUDA), "device of DLPack's kind 2.*x.cpu"),
    "a card's memory, by C functions": (lambda: Exchanged(A, device=CUDA), "device of DLPack's kind 2"),
    "a later version": (lambda: Foreign(A, major=2), "version 2 of DLPack"),
    "a copy": (lambda: Foreign(A, flags=COPIED), "gives a copy"),
    "no dimensions": (lambda: Foreign(A, changes={"rank": -1}), "number of dimensions"),
    "many dimensions": (lambda: Foreign(A, changes={"rank": 1000}), "number of dimensions"),
    "no shape": (lambda: Foreign(A, changes={"shape": None}), "shape is missing"),
    "no memory": (lambda: Foreign(A, changes={"data": None}), "memory is missing"),
    "lanes": (lambda: Foreign(A, changes={"lanes": 4}), "4 lanes"),
    "half bytes": (lambda: Foreign(A, changes={"kind": 17, "bits": 4}), "kind 17, 4 bits"),
    "no type": (lambda: Foreign(A, changes={"kind": 200}), "kind 200"),
    "far strides": (lambda: Foreign(A, strides=(1 << 62, 1)), "stride is out of range"),
    "another type": (lambda: Foreign(A.astype("f8")), "element type float64"),
    "another shape": (lambda: Foreign(B), "shape"),
    "backwards": (lambda: Foreign(A, strides=(-7, 1)), "backwards"),
    "off by a byte": (lambda: Foreign(A, changes={"byte_offset": 1}), "1 bytes off"),
    "negated": (lambda: _negated(), "negated when they are read.*resolve_neg"),
    "no capsule": (lambda: _speaks(lambda **_: "?"), "gives no tensor"),
    "an error": (lambda: _speaks(_raise), "cannot be shared: not today"),
    "no device": (lambda: _speaks(_raise, device=lambda: None), "no pair of numbers|cannot be shared"),
    "a wrong interface": (lambda: SimpleNamespace(__array_interface__={"version": 3}), "cannot be shared"),
    "a list": (lambda: A.tolist(), "a list is not a numpy array"),
}


def _negated() -> Exchanged:
    array = Exchanged(A)
    array.negated = True
    return array


def _speaks(dlpack: Callable[..., Any], device: Callable[[], Any] = lambda: (1, 0)) -> Any:
    members = {"__dlpack__": lambda self, **options: dlpack(**options), "__dlpack_device__": lambda self: device()}
    return type("Speaking", (), members)()


def _raise(**_: Any) -> None:
    raise BufferError("not today")


@pytest.mark.parametrize(("make", "text"), _WRONG.values(), ids=_WRONG)
def test_what_is_refused(make: Callable[[], Any], text: str, kernel: Any, biased: Any):
    for each, further in ((kernel, ()), (biased, (np.zeros(5, "f4"),))):
        with pytest.raises(OperandError, match=f"operand a: .*{text}|operand a: {text}"):
            each(make(), B, *further)


def test_a_negative_extent_is_refused():
    given = Foreign(A)
    tensor = given.tensor()
    tensor.shape[0] = -3
    given.changes = {"shape": tensor.shape}
    with pytest.raises(OperandError, match="extent is negative"):
        _native.array_view(given, "a")


def test_vast_extents_are_refused():
    given = Foreign(A)
    tensor = given.tensor()
    tensor.shape[0] = tensor.shape[1] = 1 << 62
    given.changes = {"shape": tensor.shape}
    with pytest.raises(OperandError, match="extents are out of range"):
        _native.array_view(given, "a")


def test_what_is_part_of_a_graph_is_for_methods_to_refuse(kernel: Any):
    array = Exchanged(A)
    array.requires_grad = True
    kernel(array, B, out=np.empty_like(C))
    assert array.borrowed == 0
    assert len(array.asked) == 1


def test_interrupts_pass():
    def interrupted(**_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _native.array_view(_speaks(interrupted), "a")


# What other libraries take from us.


def test_results_as_others_take_them():
    array = np.arange(6, dtype="f4").reshape(2, 3)
    kind = Library(array)
    given = _native.array_like(array, kind)
    assert type(given) is Library
    assert given.array.ctypes.data == array.ctypes.data
    strided = _native.array_like(array[:, ::2].T, kind)
    np.testing.assert_array_equal(strided.array, array[:, ::2].T)


def test_an_export_that_nobody_takes_is_dropped():
    array = np.zeros((2, 2), "f4")
    seen: list[Any] = []

    class Namespace:
        @staticmethod
        def from_dlpack(exported: Any) -> Any:
            seen.append(exported.__dlpack_device__())
            for version in (None, (1, 0)):
                exported.__dlpack__(stream=None, max_version=version, copy=None)
            return "taken"

    class Other(Foreign):
        def __array_namespace__(self) -> type[Namespace]:
            return Namespace

    before = sys.getrefcount(array)
    assert _native.array_like(array, Other(A)) == "taken"
    assert seen == [(1, 0)]
    assert sys.getrefcount(array) == before


# Kernels for GPUs.


@pytest.mark.parametrize("kind", [Library, Exchanged])
def test_an_emulated_gpu(kind: type[Foreign]):
    kernel: Any = tw.compile(tw.MatmulSpec(4, 8, 8), target=tw.targets.gpu("sm_80").emulated())
    a, b = np.eye(4, 8, dtype="f4"), np.arange(64, dtype="f4").reshape(8, 8)
    result = kernel(kind(a), b)
    assert type(result) is kind
    assert (result.array == b[:4]).all()
    out = kind(np.zeros((4, 8), "f4"))
    assert kernel(a, kind(b), out=out) is out
    assert (out.array == b[:4]).all()
    with pytest.raises(OperandError, match="operand out: is read-only"):
        kernel(a, b, out=kind(np.zeros((4, 8), "f4"), flags=READ_ONLY))
    with pytest.raises(OperandError, match="operand a: is "):
        kernel(kind(a, device=CUDA), b)


def test_masked_arrays_are_refused_and_other_subclasses_taken(kernel) -> None:
    masked = np.ma.array(A, mask=A.mean() < A)
    remedy = r"masked array.*x\.filled\(0\)"
    for called in (
        lambda: kernel(masked, B),
        lambda: kernel(A, B, out=np.ma.array(C)),
        lambda: tw.matmul(masked, B),
        lambda: tw.matmul_each([masked], [B]),
    ):
        with pytest.raises(OperandError, match=remedy):
            called()
    assert close(kernel(A.view(np.matrix), B))
    assert close(tw.matmul(A.view(np.matrix), B))
