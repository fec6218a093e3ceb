# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Latencies of tile instructions in a hot loop (AMX, and SME's outer products), which LLVM does not model.

LLVM 22's scheduling models have AMX with placeholders (latency 100, on no port), so llvm-mca analyzes the other instructions
of a loop, and this model those of tiles: the unit that multiplies takes one product of whole tiles every 16 cycles; a sum
is there 52 cycles later; loading a tile from L1 takes 8 cycles, two of its lines each. Figures: Sapphire Rapids in Intel 64
and IA-32 Architectures Optimization Reference Manual (order number 248966), "Intel Advanced Matrix Extensions"; uops.info.

They have none of SME's. The unit takes an outer product of 32- or 64-bit floats every cycle, one of narrower elements every two,
and a sum is there four cycles later. Figures: of Apple M4 in Remke and Breuer, "Hello SME! Generating Fast Matrix
Multiplication Kernels Using the Scalable Matrix Extension" (2024).
"""

from __future__ import annotations

from collections import Counter

from tilewright.emit.assembly import Instruction
from tilewright.emit.hotloop import HotLoop

OUTER_CYCLES = 1
NARROW_OUTER_CYCLES = 2
OUTER_LATENCY = 4
PRODUCT_CYCLES = 16
PRODUCT_LATENCY = 52
LOAD_CYCLES = 8
LOAD_LATENCY = 45
STORE_CYCLES = 16


def cost(instruction: Instruction) -> tuple[int, float] | None:
    """The latency and the reciprocal throughput of a tile instruction, in cycles; None for other instructions."""
    if instruction.tile_product:
        return _product(instruction)
    if instruction.mnemonic.startswith("tileload"):
        return LOAD_LATENCY, LOAD_CYCLES
    if instruction.mnemonic.startswith("tilestore"):
        return STORE_CYCLES, STORE_CYCLES
    if instruction.mnemonic == "tilezero":
        return 0, 0
    return None


def _product(instruction: Instruction) -> tuple[int, float]:
    """The same for a product of tiles, or an outer product."""
    if not _is_outer(instruction):
        return PRODUCT_LATENCY, PRODUCT_CYCLES
    narrow = instruction.operands[-1].endswith((".h", ".b"))
    return OUTER_LATENCY, NARROW_OUTER_CYCLES if narrow else OUTER_CYCLES


def _is_outer(instruction: Instruction) -> bool:
    """Whether a product of tiles is one of SME's."""
    return instruction.mnemonic.endswith("mopa")


def bound(loop: HotLoop) -> float:
    """Cycles of an iteration in which its products of tiles keep their unit busy."""
    return sum(_product(each)[1] for each in loop.instructions if each.tile_product)


def busy(loop: HotLoop) -> dict[str, float]:
    """Cycles of an iteration in which each unit is busy with tiles: that of products, and the ports of loads and stores."""
    found: dict[str, float] = {"TMUL": 0.0, "SME": 0.0, "tile loads": 0.0, "tile stores": 0.0}
    for each in loop.instructions:
        if each.tile_product:
            found["SME" if _is_outer(each) else "TMUL"] += _product(each)[1]
        elif each.mnemonic.startswith("tileload"):
            found["tile loads"] += LOAD_CYCLES
        elif each.mnemonic.startswith("tilestore"):
            found["tile stores"] += STORE_CYCLES
    return {unit: cycles for unit, cycles in found.items() if cycles}


def chain(loop: HotLoop) -> float:
    """Cycles of an iteration that the sums allow: products that add to one sum wait for each other."""
    sums = Counter[str]()
    for each in loop.instructions:
        if each.tile_product:
            sums[each.destination] += _product(each)[0]
    return max(sums.values(), default=0)
