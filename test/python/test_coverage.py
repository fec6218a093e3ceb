# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Coverage of kernels: what ran is recorded exactly, on this machine and in emulators, and reports name it."""

import ctypes
import shutil
import sys

import numpy as np
import pytest
import tilewright as tw
from own_schedules import MATCH, TILED, written
from tilewright import knobs, targets
from tilewright.cli import main
from tilewright.emit import code, coverage
from tilewright.runtime import coverage as recording

HOST = targets.resolve("host")
needs_avx2 = pytest.mark.skipif(
    bool(targets.runnable(targets.get("x86-64-v3"))), reason="this machine does not run x86-64-v3"
)
CODE = """
define i32 @f(i64 %n, ptr %to) #0 {
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %0 ], [ %next, %"odd one" ], [ %next, %loop ]
  %next = add i64 %i, 1
  switch i64 %next, label %loop [
    i64 5, label %"odd one"
    i64 8, label %done
  ]
"odd one":
  %one = insertelement <4 x i64> zeroinitializer, i64 %n, i64 0
  %all = shufflevector <4 x i64> %one, <4 x i64> poison, <4 x i32> zeroinitializer
  %mask = icmp ugt <4 x i64> %all, <i64 6, i64 7, i64 8, i64 9>
  call void @llvm.masked.store.v4i64.p0(<4 x i64> %all, ptr align 8 %to, <4 x i1> %mask)
  call void @llvm.masked.store.v4i64.p0(<4 x i64> %all, ptr align 8 %to, <4 x i1> splat (i1 true))
  br label %loop
done:
  ret i32 0
}
declare void @llvm.masked.store.v4i64.p0(<4 x i64>, ptr, <4 x i1>)
attributes #0 = { nounwind memory(argmem: write) }
"""
BLOCKS = ["entry", "loop", '"odd one"', "done"]


@pytest.fixture
def hand_made():
    """Code that is recorded: what it records, and the function."""
    object_ = code.object_file(coverage.instrumented(CODE), HOST)
    with tw.coverage() as seen:
        linked = recording.linked(object_, "f", [], "a test")
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p)(linked.address)
    memory = (ctypes.c_int64 * 4)()
    return seen, lambda n: function(n, ctypes.addressof(memory)), linked


@pytest.mark.parametrize(
    ("calls", "ran", "masks"),
    [
        ((), (0, 0, 0, 0), ()),
        ((0,), (1, 0, 0, 1), ()),
        ((1,), (1, 1, 1, 1), ("empty",)),
        ((0, 8), (1, 1, 1, 1), ("partial",)),
        ((1, 10), (1, 1, 1, 1), ("empty", "full")),
    ],
)
def test_what_ran_is_recorded_exactly(hand_made, calls, ran, masks):
    seen, function, _code = hand_made
    for n in calls:
        assert function(n) == 0
    (kernel,) = seen.kernels
    assert [each.label for each in kernel.table.blocks] == BLOCKS
    assert tuple(kernel.recorded[: len(BLOCKS)]) == ran
    assert [each.op for each in kernel.table.masks] == ["masked.store"]  # A constant mask is none.
    assert tuple(what for what in coverage.MASKS if kernel.masks(what) == [True]) == masks
    counts = [2, 2, 6, 1]
    assert [each.instructions for each in kernel.table.blocks] == counts
    assert seen.percent == pytest.approx(
        100 * sum(n for n, each in zip(counts, ran, strict=True) if each) / sum(counts)
    )


def test_every_function_is_recorded_but_naked_ones():
    text = "define void @g() naked {\n  ret void\n}\ndefine void @h() {\n  ret void\n}\n"
    text += "define void @i() #3 {\n  ret void\n}\nattributes #3 = { naked nounwind }\n"
    object_ = code.object_file(coverage.instrumented(text), HOST)
    table = coverage.read(object_)
    assert table is not None
    assert [each.function for each in table.blocks] == ["h"]
    assert coverage.read(code.object_file(text, HOST)) is None


@pytest.fixture(scope="module")
def by_rows():
    """A kernel for any number of rows, and what calls it."""
    with tw.coverage() as seen:
        kernel = tw.compile(tw.MatmulSpec(m=None, n=40, k=8), "x86-64-v3", schedule="unpacked", cache=False)
    return seen, lambda m: kernel(np.ones((m, 8), np.float32), np.ones((8, 40), np.float32))


@needs_avx2
def test_a_tail_is_named_until_a_call_runs_it(by_rows):
    seen, call = by_rows
    with pytest.raises(tw.CoverageError, match=r"0\.0 % of the code ran; expected 95 %") as caught:
        seen.check()
    call(6)
    before = seen.percent
    assert f"never ran: {(place := 'cpu/unpacked.py')}" in str(seen)
    assert f"instructions of {place}" in str(caught.value)
    call(7)
    assert seen.percent > before
    seen.check(least=100)
    assert "never ran" not in str(seen)


@needs_avx2
def test_what_ran_is_kept_in_files_and_merged(tmp_path):
    for m in (6, 7):
        with tw.coverage(tmp_path) as seen:
            kernel = tw.compile(tw.MatmulSpec(m=None, n=40, k=8), "x86-64-v3", schedule="unpacked")
            kernel(np.ones((m, 8), np.float32), np.ones((8, 40), np.float32))
        assert len(seen.kernels) == 1
    both = tw.Coverage()
    both.read(tmp_path)
    assert len(both.kernels) == 1
    assert both.percent == 100
    next(tmp_path.iterdir()).write_text("[[1]]")
    with pytest.raises(tw.TilewrightError, match="cannot read"):
        tw.Coverage().read(tmp_path)


def test_a_kernel_without_is_another_one():
    spec = tw.MatmulSpec(5, 7, 3)
    with tw.coverage() as seen:
        inside = tw.compile(spec)
    assert tw.compile(spec).metadata.object_bytes < inside.metadata.object_bytes
    assert len(seen.kernels) == 1
    with pytest.raises(tw.TilewrightError, match="no kernel"):
        tw.Coverage().check()


@pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="qemu-aarch64 is not installed")
def test_kernels_that_an_emulator_runs():
    with tw.coverage() as seen:
        kernel = tw.compile(tw.MatmulSpec(m=None, n=24, k=4), "armv9-a", schedule="scalable")
        b = np.ones((4, 24), np.float32)
        assert (kernel(np.ones((3, 4), np.float32), b) == 4).all()
    before = seen.percent
    assert 0 < before < 100
    assert seen.kernels[0].table.masks
    for m in (8, 17):
        kernel(np.ones((m, 4), np.float32), b)
    assert seen.percent > before


def test_operators_modules_and_users_schedules(tmp_path):
    own = written(
        tmp_path / "own.mlir", MATCH, f"%t, %l = transform.structured.tile_using_for %m tile_sizes [4] {TILED}"
    )
    text = """func.func @twice(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = tensor.empty() : tensor<4x4xf32>
  %z = linalg.add ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%y : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %z : tensor<4x4xf32> }"""
    x = np.ones((4, 4), np.float32)
    with tw.coverage() as seen:
        tw.compile(tw.MatmulSpec(8, 8, 8), schedule=str(own))(np.ones((8, 8), np.float32), np.ones((8, 8), np.float32))
        tw.compile_module(text)(x)
        rows = np.ones((1, 1, 4, 4), np.float32)
        tw.attention(rows, rows, rows)
    assert len(seen.kernels) == 3
    assert all(each.ran for each in seen.kernels)
    assert any(f"{own.name}:4" in each.origin for each in seen.kernels[0].table.blocks)


@needs_avx2
def test_a_program_and_its_processes(tmp_path, capfd):
    program = tmp_path / "program.py"
    program.write_text(
        "import subprocess, sys\nimport numpy as np, tilewright as tw\n"
        "m = int(sys.argv[1])\n"
        "kernel = tw.compile(tw.MatmulSpec(m=None, n=40, k=8), 'x86-64-v3', schedule='unpacked')\n"
        "kernel(np.ones((m, 8), np.float32), np.ones((8, 40), np.float32))\n"
        "if m == 7: sys.exit(subprocess.run([sys.executable, sys.argv[0], '6']).returncode)\nsys.exit(3)\n"
    )
    into = ["coverage", "--into", str(tmp_path / "ran")]
    assert main([*into, sys.executable, str(program), "6"]) == 3
    assert "never ran" in capfd.readouterr().out
    assert main([*into, "--least", "99"]) == 1
    assert "expected 99 %" in capfd.readouterr().err
    assert main([*into, "--least", "99", sys.executable, str(program), "7"]) == 3
    assert main([*into, "--least", "99"]) == 0
    assert "1 kernels: 100.0 % of" in capfd.readouterr().out
    assert main(["coverage"]) == 2
    assert main(["coverage", str(tmp_path / "absent")]) == 2
    assert main(["coverage", "--into", str(tmp_path / "empty")]) == 2


def test_the_variable_names_a_folder(tmp_path):
    assert knobs.load({}).coverage is None
    found = knobs.load({"TILEWRIGHT_COVERAGE": str(tmp_path)})
    assert found.coverage == tmp_path
    assert found.debug_info
