# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles one product for the lit tests, and prints what its hot loop is made of, one fact a line.

Usage: hot_loop.py MxNxK DTYPES TARGET STRATEGY [NAME=SIZE]… [cpu=MODEL] [threads=N]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping

from tilewright.emit import hotloop, mca, stages
from tilewright.schedules import make
from tilewright.schedules.models.blocking import ceil_div
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets import registry
from tilewright.targets.base import Target

_BITS = {"%x": "128", "%y": "256", "%z": "512", "v": "128", "z": "scalable"}
# Of a vector to memory, and under a mask of AVX-512 or AVX2.
_STORE = re.compile(r"v?(?:mask)?mov[ua]?p[sd]\s(%[xyz]mm\d+, )?%[xyz]mm\d+, [-\d]*\(")
_MASKED = re.compile(r"\{%k\d\}|vmaskmov")


def main(shape: str, element: str, target_name: str, strategy: str, *settings: str) -> None:
    m, n, k = (int(extent) for extent in shape.split("x"))
    given = dict(setting.split("=") for setting in settings)
    cpu = given.pop("cpu", None)
    threads = int(given.pop("threads", "1"))
    target = registry.get(target_name)
    spec = MatmulSpec.from_dtypes(m, n, k, element)
    plan, asm = compiled(spec, target, strategy, {name: int(size) for name, size in given.items()}, threads)
    loop = hotloop.hottest(asm, target.architecture)
    assert loop is not None, "no loop multiplies"
    analysis = mca.analyze(loop, target, cpu=cpu)
    rows, registers = plan.sizes["mr"], ceil_div(plan.sizes["nr"], target.lanes(spec.acc_type))
    facts = [
        ("rows", rows),
        ("registers a row", registers),
        *loop_facts(loop),
        *function_facts(asm, rows * registers),
        ("percent of the FMA bound", round(analysis.percent_of_bound)),
        ("percent of what the resources allow", round(100 * analysis.block_throughput / analysis.cycles)),
        ("model", analysis.cpu),
    ]
    sys.stdout.write("".join(f"{fact}: {value}\n" for fact, value in facts) + loop.text)


def compiled(
    spec: MatmulSpec, target: Target, strategy: str, sizes: Mapping[str, int] | None = None, threads: int = 1
) -> tuple[Plan, str]:
    """The plan of a product, and its assembly."""
    plan = make.make(spec, target, strategy, sizes or {}, threads)
    return plan, stages.build(spec, target, plan, until="asm").texts["asm"]


def bits(register: str) -> str:
    """The width of a vector register, as far as the text tells it."""
    return next(width for start, width in _BITS.items() if register.startswith(start))


def loop_facts(loop: hotloop.HotLoop) -> Iterator[tuple[str, object]]:
    """What the loop computes, with which registers, and what it should not do."""
    additions = [each for each in loop.instructions if re.match(r"v?addp[sd]", each.mnemonic)]
    sums = [each.destination for each in loop.instructions if each.fma] + [each.destination for each in additions]
    updates = [each for each in loop.instructions if each.destination in sums]
    yield "multiply-adds", loop.fma
    yield "multiplications", loop.multiplies
    yield "additions", len(additions)
    yield "sums", len(set(sums))
    yield "writes of sums", len(updates)
    yield "bits", "+".join(sorted({bits(register) for register in sums}))
    yield "scalar multiplications", sum(each.lanes == 1 and (each.fma or each.multiply) for each in loop.instructions)
    yield "stack accesses", loop.stack_accesses
    yield "gathers", loop.gathers
    yield "stores", loop.stores
    yield "calls", loop.calls
    yield "blocks", loop.blocks
    yield "tile products", loop.tile_products
    yield "tile loads", sum(loop.counts.get(each, 0) for each in ("tileloadd", "tileloaddt1"))
    yield "tiles of sums", len({each.operands[-1] for each in loop.instructions if each.tile_product})
    yield "configurations in the loop", loop.configurations


def function_facts(asm: str, tile: int) -> Iterator[tuple[str, object]]:
    """How many masks the whole text has, and what it stores with and without one; `tile` registers are a full tile."""
    lines = [line.strip() for line in asm.splitlines()]
    stores = [line for line in lines if _STORE.match(line)]
    yield "configurations", sum(line.startswith("ldtilecfg") for line in lines)
    yield "masks", sum(_MASKED.search(line) is not None for line in lines)
    yield "masked stores", sum(_MASKED.search(line) is not None for line in stores)
    yield "a tile of whole stores", sum(_MASKED.search(line) is None for line in stores) >= tile


if __name__ == "__main__":
    main(*sys.argv[1:])
