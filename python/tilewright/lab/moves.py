# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the loops of a kernel touch, and what comes from beyond each cache, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tilewright.build import contexts
from tilewright.emit import traffic
from tilewright.emit.traffic import Nest
from tilewright.mlir import ir
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

MEMORY = "memory"
"""What is beyond all caches, by its name here and in `bench.bandwidth`."""

_SIZES: Mapping[str, str] = MappingProxyType({"ic": "mc", "jc": "nc", "pc": "kc", "ir": "mr", "jr": "nr"})
"""By loop, BLIS's name of the size by which it steps."""


def read(spec: MatmulSpec, texts: Mapping[str, str]) -> Nest | None:
    """The nest of a product's kernel, from its stage "bufferized"; None where what it moves is not known here."""
    text = texts.get("bufferized", "")
    if not text or "// -----" in text:
        return None
    further = [f"operand {number}" for number in range(3, len(spec.operands) + 1)]
    with contexts.new() as context, ir.Location.unknown():
        return traffic.read(ir.Module.parse(text, context), ["A", "B", *further, "C"])


def caches(target: Target) -> dict[str, int]:
    """The bytes of each cache of a target."""
    found = {"L1": target.l1.bytes, "L2": target.l2.bytes}
    return found | ({"L3": target.l3.bytes} if target.l3 is not None else {})


def is_private(cache: str) -> bool:
    """Whether each core has a cache of that name of its own."""
    return cache != "L3"


def loops(nest: Nest, target: Target) -> list[dict[str, Any]]:
    """Each loop that runs, with the bytes of each buffer that one iteration touches, those of all iterations, and what is used again.

    ``fits`` is the first cache that holds what one iteration touches, from which the next one gets what it uses again.
    """
    found = []
    for number, loop in enumerate(nest.loops):
        touched, times = nest.touched(number), nest.times(number)
        if times == 0:
            continue
        each = sum(touched.values())
        found.append(
            {
                "name": loop.name,
                "depth": loop.depth,
                "step": loop.step,
                "trips": loop.trips,
                "shares": list(loop.shares),
                "touched": touched,
                "moved": each * times,
                "reused": list(nest.reused(number)),
                "fits": next((name for name, size in caches(target).items() if each <= size), MEMORY),
            }
        )
    return found


def sizes(nest: Nest) -> dict[str, int]:
    """The sizes of blocks and of the register tile, by the steps of the loops that have BLIS's names; none where no loop has one.

    Where a name occurs more than once, the largest step: the others are of tails.
    """
    found: dict[str, int] = {}
    for loop in nest.loops:
        if name := _SIZES.get(loop.name):
            found[name] = max(found.get(name, 0), loop.step)
    return {"mr": 1, "nr": 1, **found} if found else {}


def beyond(nest: Nest, target: Target) -> dict[str, dict[str, float]]:
    """By cache, the bytes of each buffer that come from beyond it."""
    return {name: nest.moved(size, private=is_private(name)) for name, size in caches(target).items()}


def came_from(nest: Nest, target: Target, threads: int) -> dict[str, float]:
    """By level, the bytes that a call after others gets from it; none from what is nearer holds all."""
    found: dict[str, float] = {}
    sizes = caches(target)
    held, last = 0, ""
    for name in (*sizes, MEMORY):
        if nest.footprint > held * (threads if is_private(last) else 1):  # Otherwise it is there from the call before.
            found[name] = sum(nest.moved(held, private=is_private(last)).values())
        held, last = sizes.get(name, held), name
    return found


def as_json(nest: Nest, target: Target, threads: int) -> dict[str, Any]:
    """What a page shows."""
    return {
        "loops": loops(nest, target),
        "beyond": {"registers": nest.moved(0), **beyond(nest, target)},
        "from": came_from(nest, target, threads),
        "caches": caches(target),
        "buffers": dict(nest.sizes),
    }
