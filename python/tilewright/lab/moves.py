# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the loops of a kernel touch, and what comes from beyond each cache, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.build import contexts
from tilewright.emit import traffic
from tilewright.emit.traffic import Nest
from tilewright.mlir import ir
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def read(spec: MatmulSpec, texts: Mapping[str, str], sizes: Mapping[str, int]) -> Nest | None:
    """The nest of a product's kernel, from its stage "bufferized"; None where what it moves is not known here."""
    text = texts.get("bufferized", "")
    if not text or "// -----" in text:
        return None
    further = [f"operand {number}" for number in range(3, len(spec.operands) + 1)]
    with contexts.new() as context, ir.Location.unknown():
        return traffic.read(ir.Module.parse(text, context), ["A", "B", *further, "C"], sizes)


def caches(target: Target) -> dict[str, int]:
    """The bytes of each cache of a target."""
    found = {"L1": target.l1.bytes, "L2": target.l2.bytes}
    return found | ({"L3": target.l3.bytes} if target.l3 is not None else {})


def is_private(cache: str) -> bool:
    """Whether each core has a cache of that name of its own."""
    return cache != "L3"


def loops(nest: Nest) -> list[dict[str, Any]]:
    """Each loop, with the bytes of each buffer that one iteration touches."""
    return [
        {
            "name": loop.name,
            "depth": loop.depth,
            "step": loop.step,
            "trips": loop.trips,
            "shares": list(loop.shares),
            "touched": nest.touched(number),
        }
        for number, loop in enumerate(nest.loops)
    ]


def beyond(nest: Nest, target: Target) -> dict[str, dict[str, float]]:
    """By cache, the bytes of each buffer that come from beyond it."""
    return {name: nest.moved(size, private=is_private(name)) for name, size in caches(target).items()}


def as_json(nest: Nest, target: Target) -> dict[str, Any]:
    """What a page shows."""
    return {
        "loops": loops(nest),
        "beyond": {"registers": nest.moved(0), **beyond(nest, target)},
        "caches": caches(target),
        "buffers": dict(nest.sizes),
    }
