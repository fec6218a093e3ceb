# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What AMX instructions cost in a hot loop.

LLVM 22's scheduling models have AMX with placeholders (latency 100, on no port), so llvm-mca analyses the other instructions
of a loop, and this model those of tiles: the unit that multiplies takes one product of whole tiles every 16 cycles; a sum
is there 52 cycles later; loading a tile from L1 takes 8 cycles, two of its lines each. Figures: Sapphire Rapids in Intel 64
and IA-32 Architectures Optimization Reference Manual (order number 248966), "Intel Advanced Matrix Extensions"; uops.info.
"""

from __future__ import annotations

from collections import Counter

from tilewright.emit.assembly import Instruction
from tilewright.emit.hotloop import HotLoop

PRODUCT_CYCLES = 16
PRODUCT_LATENCY = 52
LOAD_CYCLES = 8
LOAD_LATENCY = 45
STORE_CYCLES = 16


def cost(instruction: Instruction) -> tuple[int, float] | None:
    """The cycles until the result of an AMX instruction can be used, and between two of its kind; None for another one."""
    if instruction.tile_product:
        return PRODUCT_LATENCY, PRODUCT_CYCLES
    if instruction.mnemonic.startswith("tileload"):
        return LOAD_LATENCY, LOAD_CYCLES
    if instruction.mnemonic.startswith("tilestore"):
        return STORE_CYCLES, STORE_CYCLES
    if instruction.mnemonic == "tilezero":
        return 0, 0
    return None


def busy(loop: HotLoop) -> dict[str, float]:
    """Cycles of an iteration in which each unit is busy with tiles: that of products, and the ports of loads and stores."""
    found: dict[str, float] = {"TMUL": PRODUCT_CYCLES * loop.tile_products, "tile loads": 0.0, "tile stores": 0.0}
    for each in loop.instructions:
        if each.mnemonic.startswith("tileload"):
            found["tile loads"] += LOAD_CYCLES
        elif each.mnemonic.startswith("tilestore"):
            found["tile stores"] += STORE_CYCLES
    return {unit: cycles for unit, cycles in found.items() if cycles}


def chain(loop: HotLoop) -> float:
    """Cycles of an iteration that the sums allow: products that add to one sum wait for each other."""
    sums = Counter(each.operands[-1] for each in loop.instructions if each.tile_product)
    return PRODUCT_LATENCY * max(sums.values(), default=0)
