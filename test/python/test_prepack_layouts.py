# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The format of a B that a user's schedule packs: one for each order of the elements, whatever the sizes."""

from __future__ import annotations

import tilewright as tw
from tilewright.lowering.passes import prepack
from tilewright.mlir import ir
from tilewright.standalone.packing import PackedFormat

KERNEL = """
func.func @matmul(%a: memref<4x4xf32>, %b: memref<4x4xf32>, %c: memref<4x4xf32>) {about} {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %end = arith.constant 4 : index
  %packed = memref.alloc() : memref<4x4xf32>
  scf.for %k = %zero to %end step %one {{
    scf.for %j = %zero to %end step {step} {{
      %value = memref.load %b[%k, %j] : memref<4x4xf32>
      memref.store %value, %packed[{to}] : memref<4x4xf32>
    }}
  }}
  scf.for %i = %zero to %end step %one {{
    %x = memref.load %packed[%i, {read}] : memref<4x4xf32>
    memref.store %x, %c[%i, %i] : memref<4x4xf32>
  }}
  return
}}
"""


def packed(**fields: str) -> PackedFormat:
    """The format of a schedule of a user's that packs so."""
    with ir.Context():
        module = ir.Module.parse(
            KERNEL.format(**{"to": "%k, %j", "step": "%one", "read": "%zero", "about": "", **fields})
        )
        return prepack.separate(module, tw.MatmulSpec(4, 4, 4, b_packed=True), "")


def test_two_orders_of_the_same_sizes_are_two_formats() -> None:
    assert packed() == packed()
    assert packed() != packed(to="%j, %k")
    assert packed() != packed(step="%two")


def test_what_the_kernel_does_with_it_is_no_part_of_the_format() -> None:
    assert packed() == packed(read="%one")


def test_sizes_are_those_of_a_schedule_whose_panels_fill_its_buffer() -> None:
    def sizes(nr: int) -> tuple[int, int, int, int]:
        schedule = f'#tilewright.schedule<strategy = "own", parameters = {{nr = {nr} : i64}}>'
        made = packed(about=f"attributes {{tilewright.schedule = {schedule}}}")
        return made.nr, made.kc, made.nc, made.depth

    assert sizes(2) == (2, 8, 2, 2)
    assert sizes(3) == (0, 0, 0, 0)
