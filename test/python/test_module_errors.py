# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What modules do not take is refused with its place; calls that do not fit, with the argument."""

import pickle

import numpy as np
import pytest
import tilewright as tw
from matrix_targets import QEMU_ARM
from tilewright import targets
from tilewright.emit import modules
from tilewright.payload.modules import groups

MATMUL = """
func.func @f(%a: tensor<8x16xf32>, %b: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %c0 = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x8xf32>) outs(%c0 : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}
"""
CUBE = """
func.func @cube(%a: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  %e = tensor.empty() : tensor<2x3x4xf32>
  %x = linalg.exp ins(%a : tensor<2x3x4xf32>) outs(%e : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %y = linalg.square ins(%a : tensor<2x3x4xf32>) outs(%e : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %x, %y : tensor<2x3x4xf32>, tensor<2x3x4xf32>
}
"""
A, B = np.ones((8, 16), np.float32), np.ones((16, 8), np.float32)


@pytest.fixture(scope="module")
def module():
    return tw.compile_module(MATMUL)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("func.func @f(", r"m\.mlir:1:\d+: not valid MLIR"),
        ("", "m.mlir: no function; expected a func.func with linalg ops"),
        ("memref.global @g : memref<4xf32>", r"m\.mlir:1:1: memref\.global is not supported yet"),
        ("func.func private @f(tensor<4xf32>)", r"m\.mlir:1:1: the function has no body"),
        ("func.func @double() {\n  return\n}", r"m\.mlir:1:1: the function is called 'double'"),
        ("func.func @f(%a: f32) {\n  return\n}", r"m\.mlir:1:1: an argument is a f32"),
        ("func.func @f(%a: tensor<*xf32>) {\n  return\n}", r"m\.mlir:1:1: an argument is a tensor<\*xf32>"),
        ("func.func @f(%a: tensor<4xcomplex<f32>>) {\n  return\n}", r"m\.mlir:1:1: elements of complex<f32>"),
        ("func.func @f(%a: tensor<4xi1>) {\n  return\n}", r"m\.mlir:1:1: elements of i1 are not supported"),
        (
            "func.func @f(%a: memref<4x4xf32, strided<[1, 4]>>) {\n  return\n}",
            r"m\.mlir:1:1: a memref<4x4xf32, strided",
        ),
        ("func.func @f(%a: memref<4xf32, 1>) {\n  return\n}", r"m\.mlir:1:1: a memref<4xf32, 1>"),
        (
            "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
            "  %r = func.call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>\n  return %r : tensor<4xf32>\n}",
            r"m\.mlir:2:8: func\.call is not supported yet; expected linalg ops",
        ),
        (
            "func.func @f(%a: tensor<8xf32>, %i: tensor<1xi32>) -> tensor<4xf32> {\n  %c = arith.constant 0 : index\n"
            "  %d = tensor.dim %a, %c : tensor<8xf32>\n"
            "  %r = tensor.extract_slice %a[%d] [4] [1] : tensor<8xf32> to tensor<4xf32>\n  return %r : tensor<4xf32>\n}",
            r"m\.mlir:4:8: tensor\.extract_slice with an offset or a size that is no constant",
        ),
        (
            "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
            '  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}'
            " outs(%a : tensor<4xf32>) {\n  ^bb0(%x: f32):\n    %t = arith.constant true\n"
            '    cf.assert %t, "no"\n    linalg.yield %x : f32\n  } -> tensor<4xf32>\n  return %r : tensor<4xf32>\n}',
            r"m\.mlir:5:5: cf\.assert in linalg\.generic is not supported yet",
        ),
    ],
)
def test_what_is_not_taken_is_refused_at_its_place(text, says):
    with pytest.raises(tw.SpecError, match=says):
        tw.compile_module(text, filename="m.mlir", cache=False)


def test_the_text_has_to_be_text():
    with pytest.raises(tw.SpecError, match="the module is a bytes; expected its text"):
        tw.compile_module(MATMUL.encode())  # type: ignore[arg-type]


def test_a_module_for_another_machine_refuses_calls_and_writes_files(tmp_path):
    module = tw.compile_module(MATMUL, target="neoverse-n1", threads=2)
    for call in (module, module["f"], lambda *_: module.c_function):
        with pytest.raises(tw.TargetError, match=r"emulated here, on one thread.*kernel\.write"):
            call(A, B)
    module.write(tmp_path / "matmul.o")
    assert (tmp_path / "matmul.o").read_bytes()[:4] == b"\x7fELF"


@pytest.mark.skipif(QEMU_ARM is None, reason="qemu-aarch64 is not installed")
def test_a_module_for_another_machine_is_emulated():
    module = tw.compile_module(MATMUL, target="neoverse-n1")
    np.testing.assert_allclose(module(A, B), A @ B, rtol=1e-4)
    assert module.metadata.emulator.startswith("qemu-aarch64")
    assert module["f"].metadata == module.metadata


def test_a_chain_for_another_machine_is_compiled():
    stage = tw.MatmulSpec(8, 8, 8)
    chain = tw.compile_chain([stage, stage], target="neoverse-n1")
    assert "fmla" in chain.asm["asm"]


def test_a_crash_is_an_error(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_COMPILE_TIMEOUT_S", "0.001")
    with pytest.raises(
        tw.LoweringError, match=r"took more than 0\.001 s, .*module and how to compile it are in"
    ) as raised:
        tw.compile_module(MATMUL, cache=False)
    folder = raised.value.reproducer
    assert folder is not None
    assert (folder / "module.mlir").read_text() == MATMUL


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((A.astype(np.float64), B), r"operand a: element type float64; expected float32"),
        ((A[:, :8], B), r"operand a: shape \(8, 8\); expected \(8, 16\)"),
        ((A, B.T.copy().T), r"operand b: strides"),
        ((A, [1.0]), r"operand b: a list is not a numpy array"),
    ],
)
def test_arguments_that_do_not_fit(module, arguments, says):
    with pytest.raises(tw.OperandError, match=says):
        module(*arguments)


def test_results_that_do_not_fit(module):
    with pytest.raises(tw.OperandError, match="operand out: shape"):
        module(A, B, out=np.empty((8, 9), np.float32))
    whole = np.ones((16, 16), np.float32)
    with pytest.raises(tw.OperandError, match="operand out: it overlaps operand a"):
        module(whole[:8], B, out=whole[4:12, :8])


def test_ways_to_call(module):
    out = np.empty((8, 8), np.float32)
    assert module(A, b=B, out=out) is out
    np.testing.assert_array_equal(out, np.full((8, 8), 16, np.float32))
    for arguments, named, says in (
        ((A,), {}, "takes 2 arguments .a, b, ., out=None., and b is missing"),
        ((A, B, B), {}, "takes 2 positional arguments"),
        ((A, B), {"c": B}, "no keyword 'c'"),
        ((A, B), {"a": A}, "got several values for 'a'"),
    ):
        with pytest.raises(TypeError, match=says):
            module(*arguments, **named)


def test_tensors_of_three_dimensions_have_no_gaps():
    cube = tw.compile_module(CUBE)
    a = np.arange(48, dtype=np.float32).reshape(4, 3, 4) / 48
    x, y = cube(a[:2])
    np.testing.assert_allclose(x, np.exp(a[:2]), rtol=1e-6)
    np.testing.assert_allclose(y, a[:2] ** 2, rtol=1e-6)
    with pytest.raises(tw.OperandError, match="operand a: there are gaps between its elements"):
        cube(a[::2])
    with pytest.raises(TypeError, match="out is no tuple of 2 arrays"):
        cube(a[:2], out=x)
    assert cube(a[:2], out=(x, y))[1] is y


def test_a_module_is_no_value(module):
    with pytest.raises(tw.TilewrightError, match="cannot be pickled or copied"):
        pickle.dumps(module)


def test_a_warm_module_comes_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    assert [tw.compile_module(MATMUL).metadata.cached for _ in range(2)] == [False, True]
    warm = tw.compile_module(MATMUL)
    np.testing.assert_array_equal(warm(A, B), np.full((8, 8), 16, np.float32))
    assert "linalg.generic" in warm.asm["payload"]
    assert not tw.compile_module(MATMUL.replace("@f", "@g")).metadata.cached


RELU = MATMUL.replace(
    "  return %c",
    "  %m = linalg.max ins(%c, %c0 : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>\n"
    "  return %m",
)


def test_only_what_has_no_program_is_left_to_the_rest(monkeypatch):
    """A defect in what fuses ends the compilation: it must not make kernels that fuse nothing, and are slower in silence."""
    host = targets.resolve("host")

    def raises(error):
        def program(*given):
            raise error

        monkeypatch.setattr(groups.programs, "program", program)

    raises(groups.programs.Untold("an op that has none"))
    assert modules.build(RELU, "m.mlir", host, until="payload").texts
    raises(KeyError("a defect"))
    with pytest.raises(KeyError, match="a defect"):
        modules.build(RELU, "m.mlir", host, until="payload")
