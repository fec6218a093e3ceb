# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM's optimizer and code generators, and that what they refuse is a ValueError."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tilewright as tw
from tilewright import _codegen
from tilewright.emit.hotloop import hottest

V3: dict[str, Any] = {"triple": "x86_64-unknown-linux-gnu", "cpu": "x86-64-v3", "features": "+avx2,+fma"}
MULTIPLY_ADD = """
define double @f(double %a, double %b, double %c) {{
  %m = fmul {0} double %a, %b
  %s = fadd {0} double %m, %c
  ret double %s
}}
"""


def test_assembly_fuses_only_where_the_ir_says_so():
    fused = _codegen.emit(MULTIPLY_ADD.format("contract"), kind="asm", **V3).decode()
    separate = _codegen.emit(MULTIPLY_ADD.format(""), kind="asm", **V3).decode()
    assert "vfmadd" in fused
    assert "vfmadd" not in separate
    assert "vmulsd" in separate


def test_object_is_elf():
    assert _codegen.emit(MULTIPLY_ADD.format(""), kind="obj", **V3).startswith(b"\x7fELF")


def test_jumps_can_be_kept_off_boundaries():
    """Conditional jumps of six bytes, with what they fuse with, in all places: each ends in the 32 bytes that it starts in."""
    tests = "".join(
        f"""
  b{i}:
  %c{i} = icmp eq i32 %a, {i}
  br i1 %c{i}, label %end, label %b{i + 1}"""
        for i in range(1000, 1400)
    )
    ir = f"define void @f(i32 %a) {{\n  br label %b1000{tests}\n  b1400:\n  br label %end\n  end:\n  ret void\n}}"
    plain, aligned, again = (_codegen.emit(ir, kind="obj", align_branches=each, **V3) for each in (False, True, False))
    assert plain == again

    def crossing(code: bytes) -> int:
        """How many pairs of a comparison with a number of four bytes and a jump as long cross 32 bytes, or end with them."""
        places = [each.start() for each in re.finditer(rb"\x81\xff..\0\0\x0f\x84", code, re.DOTALL)]
        assert len(places) >= 300
        return sum(at // 32 != (at + 12) // 32 for at in places)

    assert crossing(plain) > 0
    assert crossing(aligned) == 0


def test_code_with_fewer_moves_is_kept():
    """LLVM's usual order of instructions keeps nine values of this loop on the stack, and moves as many from register to register."""
    sizes = {"mr": 6, "nr": 64}
    kernel = tw.compile(tw.MatmulSpec(114, 2176, 608), "znver4", schedule="unpacked", parameters=sizes, cache=False)
    loop = hottest(kernel.asm["asm"])
    assert loop is not None
    assert loop.fma == 24
    assert loop.stack_accesses <= 2
    assert not re.search(r"vmovap\w\s+%zmm\d+, %zmm", loop.text)


def test_each_function_is_ordered_the_way_that_moves_less():
    """Of a kernel with dynamic extents, one case loses a third of its speed in the order that suits the others: 64 moves in its loops."""
    code = tw.compile(tw.MatmulSpec(None, None, None), "znver4").asm["asm"]
    loops = re.findall(r"^\.LBB\w+:\n((?:\t(?!j|ret).*\n)+)\tj\w+\t\.LBB", code, re.MULTILINE)
    products = [loop for loop in loops if loop.count("vfmadd") >= 24]
    assert len(products) > 4
    assert not [loop for loop in products if re.search(r"vmov(ap|dq)\w+\s+%zmm\d+, %zmm", loop)]


def test_optimize_optimizes():
    ir = "define i32 @f(i32 %a) { %p = alloca i32\n store i32 %a, ptr %p\n %v = load i32, ptr %p\n ret i32 %v }"
    assert "alloca" not in _codegen.optimize(ir, **V3)
    assert "alloca" in _codegen.optimize(ir, level=0, **V3)


@pytest.mark.parametrize(
    ("triple", "cpu", "features", "mnemonic"),
    [
        ("aarch64-unknown-linux-gnu", "neoverse-v2", "+sve2", "fmadd"),
        ("nvptx64-nvidia-cuda", "sm_90", "+ptx80", "fma.rn.f64"),
        ("amdgcn-amd-amdhsa", "gfx942", "", "v_fma"),
        ("x86_64-unknown-linux-gnu", "", "", "mulsd"),
    ],
)
def test_every_family_of_targets_is_there(triple, cpu, features, mnemonic):
    code = _codegen.emit(MULTIPLY_ADD.format("contract"), triple=triple, cpu=cpu, features=features, kind="asm")
    assert mnemonic in code.decode()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"cpu": "rocketcastle"}, 'unknown CPU "rocketcastle"'),
        ({"features": "+avx2,+nope"}, r'unknown feature "\+nope"'),
        ({"features": "avx2"}, 'unknown feature "avx2"'),
        ({"triple": "zork"}, 'unknown triple "zork"'),
        ({"triple": ""}, 'unknown triple ""'),
        ({"kind": "exe"}, 'kind "exe"'),
        ({"llvmir": "nonsense"}, "expected top-level entity"),
        ({"llvmir": "define i32 @f() { ret i64 0 }"}, "doesn't match function result"),
        (
            {"llvmir": "define i32 @f(i32 %a) { %b = add i32 %a, %c\n %c = add i32 %b, 1\n ret i32 %c }"},
            "does not dominate",
        ),
        ({"llvmir": 'target datalayout = "e-p:32:32"\ndefine void @f() { ret void }'}, "data layout"),
        ({"llvmir": 'define void @f() { call void asm sideeffect "bogus", ""()\n ret void }', "kind": "obj"}, "bogus"),
    ],
)
def test_what_is_wrong_is_a_value_error(wrong, reason):
    arguments: dict[str, Any] = {"llvmir": MULTIPLY_ADD.format(""), "kind": "asm", **V3, **wrong}
    with pytest.raises(ValueError, match=reason):
        _codegen.emit(**arguments)


def test_optimize_refuses_too():
    with pytest.raises(ValueError, match="optimization level 4"):
        _codegen.optimize(MULTIPLY_ADD.format(""), level=4, **V3)
    with pytest.raises(ValueError, match="unknown CPU"):
        _codegen.optimize(MULTIPLY_ADD.format(""), **{**V3, "cpu": "rocketcastle"})


UNSELECTABLE = """
declare <16 x float> @llvm.x86.avx512.add.ps.512(<16 x float>, <16 x float>, i32)
define <16 x float> @f(<16 x float> %a) {
  %b = call <16 x float> @llvm.x86.avx512.add.ps.512(<16 x float> %a, <16 x float> %a, i32 4)
  ret <16 x float> %b
}
"""


def test_a_fatal_error_of_llvm_does_not_end_the_process():
    """An intrinsic that the features do not allow is a fatal error in LLVM; here it is an exception, also twice."""
    for _ in range(2):
        with pytest.raises(ValueError, match="LLVM cannot compile this"):
            _codegen.emit(UNSELECTABLE, kind="obj", **V3)
    assert _codegen.emit(MULTIPLY_ADD.format(""), kind="obj", **V3)


def test_threads_compile_at_once():
    with ThreadPoolExecutor(8) as pool:
        texts = [MULTIPLY_ADD.format("contract"), UNSELECTABLE] * 16
        futures = [pool.submit(_codegen.emit, text, kind="obj", **V3) for text in texts]
        outcomes = [future.exception() for future in futures]
    assert outcomes[::2] == [None] * 16
    assert all(isinstance(outcome, ValueError) for outcome in outcomes[1::2])


def test_nothing_goes_to_stderr(tmp_path: Path):
    program = (
        "from tilewright import _codegen\n"
        "try: _codegen.emit('define void @f() { ret void }', triple='x86_64-linux-gnu', cpu='no', features='', kind='asm')\n"
        "except ValueError: pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stderr == ""


_LOOP = """
define void @f(ptr %p) {
  br label %l
l:
  %i = phi i64 [0, %0], [%n, %l]
  store volatile i64 %i, ptr %p
  %n = add i64 %i, 1
  %c = icmp ult i64 %n, 100
  br i1 %c, label %l, label %e
e:
  ret void
}
"""
"""A loop that O3 unrolls as a whole early, and O2 does not."""


def test_a_pipeline_as_text_unrolls_as_far_as_the_pipeline():
    runs = [
        _codegen.optimize(_LOOP, passes=passes, level=level, **V3)
        for level in (2, 3)
        for passes in (None, _codegen.default_passes(level=level, **V3))
    ]
    assert runs[0] == runs[1]
    assert runs[2] == runs[3]
    assert runs[0] != runs[2]


def test_passes_are_left_out_by_name():
    texts = [_codegen.optimize(_LOOP, without=without, **V3) for without in ([], ["loop-unroll-full", "loop-unroll"])]
    assert [text.count("store volatile") for text in texts] == [100, 1]
    _, runs = _codegen.optimize_watched(_LOOP, without=["instcombine"], **V3)
    assert "instcombine" not in [name for name, *_ in runs]
