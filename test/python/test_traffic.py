# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a loop nest moves: computed by hand for small nests, and read off kernels."""

import pytest
import tilewright as tw
from tilewright.build import contexts
from tilewright.cli import main
from tilewright.emit import traffic
from tilewright.mlir import ir

NAIVE = """
func.func @f(%a: memref<8x32xf32>, %b: memref<32x16xf32>, %c: memref<8x16xf32>) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %8 = arith.constant 8 : index
  %16 = arith.constant 16 : index
  %32 = arith.constant 32 : index
  scf.for %i = %0 to %8 step %1 {
    scf.for %j = %0 to %16 step %1 {
      scf.for %k = %0 to %32 step %1 {
        %x = memref.load %a[%i, %k] : memref<8x32xf32>
        %y = memref.load %b[%k, %j] : memref<32x16xf32>
        %z = memref.load %c[%i, %j] : memref<8x16xf32>
        %p = arith.mulf %x, %y : f32
        %s = arith.addf %p, %z : f32
        memref.store %s, %c[%i, %j] : memref<8x16xf32>
      }
    }
  }
  return
}
"""
SHORT = """
func.func @f(%a: memref<10xf32>) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %4 = arith.constant 4 : index
  %10 = arith.constant 10 : index
  scf.for %i = %0 to %10 step %4 {
    %n = affine.min affine_map<(d0) -> (4, 10 - d0)>(%i)
    %whole = arith.cmpi eq, %n, %4 : index
    scf.if %whole {
      scf.for %j = %0 to %4 step %1 {
        %k = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%i, %j)
        %x = memref.load %a[%k] : memref<10xf32>
      }
    } else {
      scf.for %j = %0 to %n step %1 {
        %k = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%i, %j)
        %x = memref.load %a[%k] : memref<10xf32>
      }
    }
  }
  return
}
"""


def nest(text, names=("A", "B", "C")):
    with contexts.new() as context, ir.Location.unknown():
        return traffic.read(ir.Module.parse(text, context), names)


def test_a_naive_product():
    found = nest(NAIVE)
    assert found is not None
    assert [(loop.name, loop.trips) for loop in found.loops] == [("i", 8), ("j", 16), ("k", 32)]
    assert [found.reused(number) for number in range(3)] == [("B",), ("A",), ("C",)]
    assert [found.times(number) for number in range(3)] == [8, 8 * 16, 8 * 16 * 32]
    # Of rows and columns of 32 f32: one of each, for one number of C.
    assert found.touched(1) == {"A": 128, "B": 128, "C": 4}
    assert found.touched(0) == {"A": 128, "B": 2048, "C": 64}
    products = 8 * 16 * 32 * 4
    assert found.moved(0) == {"A": products, "B": products, "C": 2 * products}
    # A column of B and a row of A are held: A comes once, C is read and written once, B once for each row.
    assert found.moved(512) == {"A": 1024, "B": 8 * 2048, "C": 2 * 512}
    assert found.moved(1 << 20) == {"A": 1024, "B": 2048, "C": 2 * 512}


def test_short_blocks_count_as_often_as_they_are():
    found = nest(SHORT, ("A",))
    assert found is not None
    assert (found.loops[0].name, found.loops[0].trips) == ("ic", 3)
    # Two blocks of 4 and one of 2: whole ones in two of three iterations; of the loop of the others, the trips are an average.
    assert found.accesses[0].share == pytest.approx(2 / 3)
    assert found.accesses[1].share == pytest.approx(1 / 3)
    assert found.loops[2].trips == pytest.approx(10 / 3)


SHARED = """
func.func private @omp_get_max_threads() -> i32
func.func @f(%a: memref<10x16xf32>, %b: memref<16xf32>) {
  %n = func.call @omp_get_max_threads() : () -> i32
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %2 = arith.constant 2 : index
  %6 = arith.constant 6 : index
  %10 = arith.constant 10 : index
  %16 = arith.constant 16 : index
  omp.parallel num_threads(%n : i32) {
    omp.wsloop nowait {
      omp.loop_nest (%t) : index = (%0) to (%2) step (%1) {
        %first = arith.muli %t, %6 : index
        %next = arith.addi %first, %6 : index
        %last = arith.minui %next, %10 : index
        scf.for %i = %first to %last step %1 {
          scf.for %j = %0 to %16 step %1 {
            %x = memref.load %a[%i, %j] : memref<10x16xf32>
            %y = memref.load %b[%j] : memref<16xf32>
          }
        }
        omp.yield
      }
    }
    omp.terminator
  }
  return
}
"""


def test_threads_share_a_loop_and_have_caches_of_their_own():
    """Two threads have 6 and 4 of 10 rows; both read all of B."""
    found = nest(SHARED, ("A", "B"))
    assert found is not None
    threads, rows, _columns = found.loops
    assert (threads.name, threads.trips, threads.shares) == ("threads", 2, (6, 4))
    assert threads.balance == pytest.approx(10 / 12)
    assert (rows.trips, rows.balance) == (5, 1)
    assert found.moved(1 << 20) == {"A": 10 * 64, "B": 2 * 64}
    assert found.moved(1 << 20, private=False) == {"A": 10 * 64, "B": 64}


def test_what_only_calls_know_is_not_told():
    assert nest(NAIVE.replace("8x32xf32", "?x32xf32").replace("8x16xf32", "?x16xf32")) is None
    assert nest("func.func private @g() func.func @f(%a: memref<4xf32>) { func.call @g() : () -> () return }") is None


def test_a_kernel_moves_its_operands_once_beyond_a_large_cache():
    spec = tw.MatmulSpec(96, 128, 64)
    kernel = tw.compile(spec, "x86-64-v4", schedule="packed", cache=False)
    found = nest(kernel.asm["bufferized"])
    assert found is not None
    moved = found.moved(1 << 30)
    assert moved["A"] == pytest.approx(96 * 64 * 4, rel=0.01)
    assert moved["B"] == pytest.approx(64 * 128 * 4, rel=0.01)
    assert moved["C"] == pytest.approx(96 * 128 * 4, rel=0.01)
    assert {"packed A", "packed B"} <= set(found.buffers)
    assert (
        {"ic", "jr", "ir", "k", "pack A", "pack B"}
        >= {loop.name for loop in found.loops}
        >= {"jr", "ir", "k", "pack B"}
    )


def test_explain_measures_beside_the_model(tmp_path):
    assert main(["explain", "--shape", "64x64x64", "--measure", "-o", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "moves.txt").read_text()
    assert "What a call moves:" in text
    assert "measured" in text


def test_threads_read_their_parts_of_k_alone():
    """Two threads of four parts: each matrix comes once, into one of their caches; the sums are scratch, which C is made of."""
    spec = tw.MatmulSpec(32, 32, 4096)
    kernel = tw.compile(
        spec,
        "x86-64-v4",
        threads=2,
        schedule="unpacked",
        parameters={"parts": 4, "kc": 256, "mr": 8, "nr": 32},
        cache=False,
    )
    found = nest(kernel.asm["bufferized"])
    assert found is not None
    assert [loop.name for loop in found.loops][:3] == ["threads", "part", "pc"]
    moved = found.moved(1 << 20)
    assert moved["A"] == moved["B"] == 32 * 4096 * 4
    assert moved["C"] == 32 * 32 * 4
