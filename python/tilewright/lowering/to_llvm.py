# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes a bufferized module to the LLVM dialect, without its C entry."""

from __future__ import annotations

from tilewright.lowering import driver, pipelines, written_out
from tilewright.lowering.driver import Codegen
from tilewright.lowering.entries import entry
from tilewright.lowering.passes import narrow_stores, near_use, prepack, tile_hints, unroll
from tilewright.lowering.run import payload_function, run_own_script, run_passes
from tilewright.lowering.types import half_floats
from tilewright.mlir import ir
from tilewright.schedules import decisions
from tilewright.spec import MatmulSpec
from tilewright.standalone.packing import PackedFormat
from tilewright.targets.base import Target

_ALL_EXTENTS = 3
"""How many extents a product has."""


def body(
    module: ir.Module, spec: MatmulSpec, target: Target, codegen: Codegen, packed: PackedFormat | None = None
) -> None:
    """Takes a bufferized module to the LLVM dialect, without an entry: what `entry.add_entry` puts one around.

    Raises:
        LoweringError: A pass failed.
    """
    function = payload_function(module, "llvm")
    run_passes(module, driver.prefetch(function, target), "llvm")
    dots = target.dots(*spec.multiplied)
    lanes = target.lanes(spec.acc_type)
    vectors = pipelines.lower_vectors(
        lanes, dots, part=lanes // target.passes, sums_of_products=pipelines.has_sums_of_products(module)
    )
    run_own_script(module, vectors, "llvm")
    asked = decisions.number(function.operation, "unroll", 0)
    past_l1 = decisions.number(function.operation, "past_l1", 0)
    if target.by_lane or asked:
        run_own_script(module, unroll.script(unroll.mark(module, asked)), "llvm")
    if len(spec.dynamic) == _ALL_EXTENTS:
        unroll.keep(module)
    tiles = any(dot.is_tile for dot in dots)
    if tiles:
        near_use.move(payload_function(module, "llvm").operation)
    for function in prepack.FUNCTIONS[: 1 if packed is None else 2]:
        entry.prepare_body(payload_function(module, "llvm", function), target, tiles=tiles)
    written_out.write(module, spec, target)
    run_passes(module, pipelines.to_llvm(), "llvm")
    tile_hints.pass_l1(module.operation, past_l1)
    if tiles:
        tile_hints.keep_awake(module.operation)
    unroll.hand_on(module)
    codegen.define(module, spec, target)
    if spec.c_type.bits == 8 and "avx512bw" in target.features:
        with module.context:
            narrow_stores.protect(module.operation)
    if half_floats.of(spec):
        half_floats.move_as_integers(module.operation)
