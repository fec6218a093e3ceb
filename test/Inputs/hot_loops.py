# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles products of many types for one target, and prints for each what its hot loop is made of, a line a type.

Usage: hot_loops.py TARGET[:STRATEGY] [DTYPES]…

A line says: the types; the instructions that multiply, and those that add where these do not; how many registers of sums
there are; accesses of the stack, stores and calls in the loop; configurations of the tile registers in the loop, and in the
whole text; and, by llvm-mca, the percentages of what the multiply-add units and all of the core's resources allow.
"""

from __future__ import annotations

import re
import sys
from collections import Counter

from hot_loop import compiled
from tilewright.emit import hotloop, mca
from tilewright.spec import MatmulSpec
from tilewright.targets import registry

_TYPES = ("f32", "f64", "f16,f16,f32", "bf16,bf16,f32", "i8,i8,i32", "u8,u8,i32", "u8,i8,i32", "i8,u8,i32")
_ADD = re.compile(r"v?(addp[sd]|paddd)")
_SHAPE = (192, 192, 256)


def main(what: str, *types: str) -> None:
    target_name, _, strategy = what.partition(":")
    target = registry.get(target_name)
    cpu = mca.model(target)
    for element in types or _TYPES:
        _, asm = compiled(MatmulSpec.from_dtypes(*_SHAPE, element), target, strategy or "packed")
        loop = hotloop.hottest(asm, target.architecture)
        assert loop is not None, "no loop multiplies"
        multiplying = [each for each in loop.instructions if each.fma or each.multiply or each.tile_product]
        adding = [each for each in loop.instructions if _ADD.fullmatch(each.mnemonic)]
        mix = Counter(each.mnemonic for each in (*multiplying, *adding))
        sums = {each.destination for each in (adding or multiplying)}
        analysis = mca.analyze(loop, target, cpu=cpu)
        configurations = sum(line.strip().startswith("ldtilecfg") for line in asm.splitlines())
        facts = [
            " + ".join(f"{count} {mnemonic}" for mnemonic, count in sorted(mix.items(), reverse=True)),
            f"{len(sums)} sums",
            f"{loop.stack_accesses} stack, {loop.stores} stores, {loop.calls} calls",
            f"configurations {loop.configurations} of {configurations}",
            f"{round(analysis.percent_of_bound)} % of the bound",
            f"{round(100 * analysis.block_throughput / analysis.cycles)} % of the resources",
        ]
        sys.stdout.write(f"{element}: {', '.join(facts)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
