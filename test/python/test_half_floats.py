# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""16-bit floats in LLVM's dialect: what moves them moves integers, what computes gets floats, and nothing else changes."""

import pytest
from tilewright.lowering.types import half_floats
from tilewright.mlir import ir
from tilewright.spec import MatmulSpec
from tilewright.targets import get

MODULE = """
llvm.func @f(%p: !llvm.ptr, %mask: vector<8xi1>, %c: i1) -> vector<8xf32> {
  %zero = llvm.mlir.constant(dense<0.0> : vector<8xHALF>) : vector<8xHALF>
  %one = llvm.mlir.constant(dense<1.0> : vector<8xHALF>) : vector<8xHALF>
  %x = llvm.intr.masked.load %p, %mask, %zero {alignment = 2 : i32}
    : (!llvm.ptr, vector<8xi1>, vector<8xHALF>) -> vector<8xHALF>
  llvm.cond_br %c, ^bb1(%x : vector<8xHALF>), ^bb1(%one : vector<8xHALF>)
^bb1(%y: vector<8xHALF>):
  %z = llvm.select %mask, %y, %x : vector<8xi1>, vector<8xHALF>
  %w = llvm.fpext %z : vector<8xHALF> to vector<8xf32>
  %n = llvm.fptrunc %w : vector<8xf32> to vector<8xHALF>
  llvm.store %n, %p {alignment = 2 : i64} : vector<8xHALF>, !llvm.ptr
  llvm.return %w : vector<8xf32>
}
"""


@pytest.mark.parametrize("half", ["f16", "bf16"])
def test_moves_are_of_integers(half):
    with ir.Context():
        module = ir.Module.parse(MODULE.replace("HALF", half))
        half_floats.move_as_integers(module.operation)
        assert module.operation.verify()
        lines = [line.strip() for line in str(module).splitlines()]
    assert {line.split("llvm.")[1].split()[0] for line in lines if half in line} <= {
        *("bitcast", "fpext", "fptrunc"),
        *("mlir.constant(dense<1.000000e+00>",),
    }
    for moved in ("intr.masked.load", "select", "store", "mlir.zero"):
        assert any(f"llvm.{moved}" in line and "vector<8xi16>" in line for line in lines), moved


@pytest.mark.parametrize(
    ("target", "missing"),
    [("x86-64", {"f16", "bf16"}), ("x86-64-v3", {"bf16"}), ("x86-64-v4", {"bf16"}), ("znver4", set())],
)
def test_conversions_are_written_out_by_feature(target, missing):
    for name in ("f16", "bf16"):
        assert half_floats.to_expand(MatmulSpec(1, 1, 1, a=name, c=name), get(target)) == missing & {name}
    assert not half_floats.to_expand(MatmulSpec(1, 1, 1, a="i8"), get(target))
