# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels for AArch64 that run in an emulator: numbers, and the same interface and errors as any kernel."""

import dataclasses
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from processes import in_new_process
from tilewright import targets
from tilewright.dtypes import from_numpy, to_numpy
from tilewright.emit import code
from tilewright.errors import OperandError, TargetError, TilewrightError
from tilewright.payload.reference import within_bound
from tilewright.runtime import emulated, emulators

ODD = (13, 11, 9)
needs_emulator = pytest.mark.skipif(
    os.uname().machine == "x86_64" and not shutil.which("qemu-aarch64"), reason="qemu-aarch64 is not installed"
)
pytestmark = needs_emulator


def operands(spec: tw.MatmulSpec) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and a former C, over each type's whole range where that is an integer's of 8 bits."""
    rng = np.random.default_rng(7)

    def make(shape, element):
        numpy = to_numpy(element)
        if element.kind == "float":
            return rng.uniform(-1, 1, shape).astype(numpy)
        info = np.iinfo(numpy) if element.bits == 8 else np.iinfo(np.int16)
        return rng.integers(info.min, info.max, shape, endpoint=True).astype(numpy)

    return (
        make((spec.m, spec.k), spec.a_type),
        make((spec.k, spec.n), spec.b_type),
        make((spec.m, spec.n), spec.c_type),
    )


def check(spec: tw.MatmulSpec, target: str, schedule: str | None = None, **parameters: int) -> tw.Kernel:
    """Runs a kernel on random operands, and compares."""
    kernel = tw.compile(spec, target, schedule=schedule, parameters=parameters, cache=False)
    a, b, former = operands(spec)
    c = former.copy() if spec.beta else np.full((spec.m, spec.n), 99, to_numpy(spec.c_type))
    packed = kernel.pack_b(b) if spec.b_packed else b
    assert kernel(a, packed, out=c) is c
    before = former if spec.beta else None
    assert within_bound(c, tw.reference(spec, a, b, before), tw.error_bound(spec, a, b, before)).all()
    return kernel


@pytest.mark.parametrize("target", ["armv8-a", "neoverse-v2"])
@pytest.mark.parametrize("schedule", ["packed", "unpacked"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_numbers(target, schedule, dtype):
    m, n, k = ODD
    for beta in (0, 1):
        check(tw.MatmulSpec.from_dtypes(m, n, k, dtype, beta=beta), target, schedule)
    check(tw.MatmulSpec.from_dtypes(40, 24, 32, dtype), target, schedule, mc=16, nc=16, kc=16)


# armv8-a has nothing for narrow types, neoverse-n1 dot products of equal signs, neoverse-v2 all of them.
@pytest.mark.parametrize("target", ["armv8-a", "neoverse-n1", "neoverse-v2"])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "i8", "u8", "u8,i8,i32", "i8,u8,i32"])
def test_numbers_of_narrow_types(target, dtype):
    for shape, schedule in ((ODD, "packed"), ((4, 9, 20), "unpacked"), ((9, 5, 1), "packed"), ((24, 16, 32), "packed")):
        check(tw.MatmulSpec.from_dtypes(*shape, dtype), target, schedule)


@pytest.mark.parametrize("target", ["armv8-a", "neoverse-n1", "neoverse-v2"])
@pytest.mark.parametrize("a_type", [np.int8, np.uint8])
@pytest.mark.parametrize("b_type", [np.int8, np.uint8])
def test_extremes_of_bytes_are_exact(target, a_type, b_type):
    a = np.full((9, 37), np.iinfo(a_type).min, a_type)
    b = np.full((37, 10), np.iinfo(b_type).max, b_type)
    a[::2], b[:, ::3] = np.iinfo(a_type).max, np.iinfo(b_type).min
    kernel = tw.compile(tw.MatmulSpec(9, 10, 37, a=from_numpy(a.dtype).name, b=from_numpy(b.dtype).name), target)
    assert (kernel(a, b) == a.astype(np.int32) @ b.astype(np.int32)).all()


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 9, 4), (9, 1, 17), (5, 3, 1), (0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_extents_of_one_and_none(shape):
    for beta in (0, 1):
        check(tw.MatmulSpec(*shape, beta=beta), "neoverse-n1")


def test_b_that_comes_packed():
    check(tw.MatmulSpec(9, 20, 15, b_packed=True), "neoverse-v2")


def test_it_says_that_it_is_emulated():
    kernel = tw.compile(tw.MatmulSpec(4, 4, 4), "neoverse-v2")
    assert kernel.metadata.emulator.startswith("qemu-aarch64")
    assert "emulated by qemu-aarch64" in repr(kernel)
    assert "fmla" in kernel.asm["asm"]
    assert tw.compile(tw.MatmulSpec(4, 4, 4)).metadata.emulator == ""


def test_operands_lie_where_they_lie():
    spec = tw.MatmulSpec(3, 5, 7)
    kernel = tw.compile(spec, "neoverse-v2")
    a, b, _ = operands(spec)
    wide_a, wide_b, wide_c = (np.full((x.shape[0], 20), 7, np.float32) for x in (a, b, np.empty((3, 5))))
    wide_a[:, :7], wide_b[:, :5] = a, b
    kernel(wide_a[:, :7], wide_b[:, :5], out=wide_c[:, :5])
    np.testing.assert_allclose(wide_c[:, :5], a @ b, rtol=1e-5, atol=1e-6)
    assert (wide_c[:, 5:] == 7).all()


def test_its_c_function_can_be_called():
    import ctypes

    kernel = tw.compile(tw.MatmulSpec(2, 2, 2), "neoverse-v2")
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *emulated._SIGNATURES["matmul"])(kernel.c_function.address)
    a = np.arange(4, dtype=np.float32).reshape(2, 2)
    b, c = np.eye(2, dtype=np.float32), np.zeros((2, 2), np.float32)
    assert function(2, 2, 2, a.ctypes.data, 2, b.ctypes.data, 2, c.ctypes.data, 2) == 0
    assert (c == a).all()
    assert function(2, 2, 3, a.ctypes.data, 3, b.ctypes.data, 2, c.ctypes.data, 2) == 1


def test_operands_are_checked_as_ever():
    kernel = tw.compile(tw.MatmulSpec(2, 2, 2), "neoverse-v2")
    a = np.ones((2, 2), np.float32)
    with pytest.raises(OperandError, match="float64"):
        kernel(a, a.astype(np.float64))


def test_what_the_emulator_refuses_is_an_error(tmp_path, monkeypatch):
    broken = tmp_path / "qemu-aarch64"
    broken.write_text("#!/bin/sh\necho no room >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    kernel = tw.compile(tw.MatmulSpec(2, 2, 2), "neoverse-v2")
    a = np.ones((2, 2), np.float32)
    with pytest.raises(TilewrightError, match="qemu-aarch64 ended with status 3: no room"):
        kernel(a, a)


def test_without_an_emulator_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    kernel, a = tw.compile(tw.MatmulSpec(2, 2, 2), "neoverse-v2"), np.ones((2, 2), np.float32)
    with pytest.raises(TargetError, match=r"neoverse-v2: it lacks aarch64.*no emulator.*Install the package qemu-user"):
        kernel(a, a)


def test_no_emulator_for_features_of_this_architecture_or_for_threads():
    strange = dataclasses.replace(targets.get("x86-64"), features=targets.get("x86-64").features | {"avx10.2"})
    a = np.ones((2, 2), np.float32)
    with pytest.raises(TargetError, match=r"lacks avx10\.2"):
        tw.compile(tw.MatmulSpec(2, 2, 2), strange)(a, a)
    with pytest.raises(TargetError, match="on one thread"):
        tw.compile(tw.MatmulSpec(2048, 2048, 2048), "neoverse-v2", threads=2)(a, a)


def test_a_shared_library_is_linked_for_the_target(tmp_path):
    from tilewright.emit import shared, stages
    from tilewright.schedules import make

    spec, row = tw.MatmulSpec(4, 4, 4), targets.get("neoverse-v2")
    object_ = stages.build(spec, row, make.make(spec, row), for_linking=True).object
    library = Path(tmp_path, "mm.so")
    library.write_bytes(shared.link(object_))
    header = library.read_bytes()[:20]
    assert (header[:4], header[16], header[18]) == (b"\x7fELF", 3, 183)


@pytest.mark.parametrize("b_packed", [False, True])
def test_further_operands(b_packed):
    layer = (tw.bias("n"), tw.residual(), tw.scale_by(""), tw.gelu())
    spec = tw.MatmulSpec(*ODD, layout="tt", beta=1, b_packed=b_packed, epilogue=layer)
    kernel = tw.compile(spec, "neoverse-v2", cache=False)
    random = np.random.default_rng(0)
    given = [random.uniform(-1, 1, each.shape).astype(np.float32) for each in spec.operands]
    # Each in rows that are longer, which stay as they are.
    wide = [
        np.full((*x.shape[:-1], x.shape[-1] + 5), 7, np.float32) for x in (*given, np.empty(spec.c_shape)) if x.ndim
    ]
    views = [each[..., :-5] for each in wide]
    a, b, bias, residual, c = views
    for view, x in zip(views, [x for x in given if x.ndim], strict=False):
        view[...] = x
    c[...] = 2
    kernel(a, kernel.pack_b(b) if b_packed else b, bias, residual, given[-1], out=c)
    former = np.full(spec.c_shape, 2, np.float32)
    assert within_bound(c, tw.reference(spec, *given, former), tw.error_bound(spec, *given, former)).all()
    assert all((each[..., -5:] == 7).all() for each in wide)


def test_a_kernel_that_strays_ends_the_program():
    from tilewright.runtime.emulated_call import Operand, Program

    text = """
define i32 @matmul(ptr %start, i64 %offset) {
  %p = getelementptr i8, ptr %start, i64 %offset
  %x = load volatile i8, ptr %p
  ret i32 0
}
"""
    row = targets.get("neoverse-v2")
    program = Program(code.object_file(text, row), ["matmul"], row, emulators.find(row))
    array = np.zeros((3, 5), np.uint8)
    operand = Operand(array.ctypes.data, (3, 5), (5,))
    assert program.call("matmul", [operand, 14]) == 0
    for offset in (-4095, 15):
        with pytest.raises(TilewrightError, match="ended with status"):
            program.call("matmul", [operand, offset])


def test_operands_in_memory_that_cannot_be_written(tmp_path):
    file = tmp_path / "a"
    np.eye(8, dtype=np.float32).tofile(file)
    in_new_process(
        f"""
        import numpy as np, tilewright as tw
        a = np.asarray(np.memmap({str(file)!r}, np.float32, "r", shape=(8, 8)))
        b = np.arange(64, dtype=np.float32).reshape(8, 8)
        assert (tw.compile(tw.MatmulSpec(8, 8, 8), target="armv8-a")(a, b) == b).all()
        """
    )
