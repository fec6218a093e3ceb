# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The hot loop with llvm-mca's analysis as plain data, for pages."""

from __future__ import annotations

from typing import Any

from tilewright.emit.assembly import CATEGORIES
from tilewright.emit.hotloop import HotLoop
from tilewright.emit.mca import Analysis
from tilewright.targets.base import Target
from tilewright.targets.gpu import GpuTarget


def report(loop: HotLoop, analysis: Analysis | None, target: Target | GpuTarget) -> dict[str, Any]:
    """What a page shows of a loop.

    Args:
        loop: The loop.
        analysis: llvm-mca's analysis of it, or None.
        target: For which target it is.
    """
    data: dict[str, Any] = {
        "label": loop.label,
        "function": loop.function,
        "blocks": loop.blocks,
        "mix": loop.mix,
        "categories": CATEGORIES,
        "tiles": loop.tile_products,
        "fma": loop.fma,
        "multiplies": loop.multiplies,
        "flops": loop.flops,
        "loads": loop.loads,
        "stores": loop.stores,
        "stack": loop.stack_accesses,
        "gathers": loop.gathers,
        "instructions": [
            {"text": each.text, "category": each.category, "origin": each.origin} for each in loop.instructions
        ],
        "analysis": None,
    }
    if analysis is not None:
        for shown, cost in zip(data["instructions"], analysis.costs, strict=True):
            shown |= {"latency": cost.latency, "throughput": cost.throughput}
        data["analysis"] = {
            "model": analysis.model,
            "notes": analysis.notes,
            "rates": "" if isinstance(target, GpuTarget) else target.rates,
            "cycles": analysis.cycles,
            "bound": analysis.bound,
            "percent": analysis.percent_of_bound,
            "block": analysis.block_throughput,
            "ipc": analysis.ipc,
            "width": analysis.dispatch_width,
            "pressure": analysis.pressure,
            "text": analysis.text,
        }
    return data
