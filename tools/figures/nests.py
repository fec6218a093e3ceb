# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws the loop nests that pages explain, to scale, as the lab draws them: in the sizes of strategies, or in those that the page has."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from tilewright.lab import blocks, gpu_view
from tilewright.lab.blocks import Level
from tilewright.schedules import select
from tilewright.spec import MatmulSpec
from tilewright.targets import get

NESTS = Path("docs/images/nests")
"""Where the pictures are, below the root of the checkout."""
_GRAY = "#777777"
"""Text that can be read on light and dark pages: an image has no color of the page around it."""
_SIZE = 576
"""Rows and columns of the lessons' matrices, and the sizes that the lab's examples 6*.py cut them into, with AVX-512."""
_TILE, _LANES, _ROWS, _COLUMNS, _DEPTH, _BLOCK = 64, 16, 6, 64, 192, 288
_ELEMENT = 4


def drawn() -> dict[Path, str]:
    """Every picture, by its path below the root."""
    made = {name: blocks.svg(levels) for name, levels in _processors()}
    made["tensor_memory"] = gpu_view.svg(gpu_view.drawings((1024, 1024, 512), _tensor_memory(), {}))
    return {
        NESTS / f"{name}.svg": text.replace("currentColor", _GRAY).replace(' opacity="0.75"', "")
        for name, text in made.items()
    }


def write(root: Path) -> list[Path]:
    """Writes every picture; what was written, below `root`."""
    (root / NESTS).mkdir(parents=True, exist_ok=True)
    made = drawn()
    for path, text in made.items():
        (root / path).write_text(text, encoding="utf-8")
    return list(made)


def _processors() -> Iterator[tuple[str, list[Level]]]:
    spec = MatmulSpec(m=1024, n=1024, k=1024)
    yield "packed", blocks.of(spec, get("x86-64-v3"), _sizes("packed", spec, "x86-64-v3"))
    sme = blocks.of(spec, get("armv9-a+sme"), _sizes("outer_product", spec, "armv9-a+sme"))
    yield "sme", sme[:2]  # The last one would be a tile of registers, where ZA has tiles of its own.
    sve = blocks.of(spec, get("neoverse-v1"), _sizes("scalable", spec, "neoverse-v1"))
    yield "sve", sve[:2]  # The last one has as many columns as the machine's vectors.
    brains = dataclasses.replace(spec, a="bf16", b="bf16")
    amx = blocks.of(brains, get("sapphirerapids"), _sizes("packed", brains, "sapphirerapids"))
    yield "amx", amx[:2]
    few = MatmulSpec(m=8, n=512, k=512)
    yield "streamed", blocks.of(few, get("znver4"), _sizes("streamed", few, "znver4"))
    yield from _lessons()


def _lessons() -> Iterator[tuple[str, list[Level]]]:
    tile = _TILE, _TILE, _TILE
    whole = f"the product, {_SIZE}×{_SIZE}×{_SIZE}"
    three = 3 * _TILE * _TILE * _ELEMENT // 1024
    yield "lesson2", [Level(whole, _SIZE, _SIZE, _SIZE, tile, f"three tiles of {_TILE}×{_TILE}: {three} KiB")]
    step = 1, _LANES, 1
    yield (
        "lesson3",
        [Level(f"a tile, {_TILE}×{_TILE}×{_TILE}", *tile, step, "a step: an element of A, vectors of B and C")],
    )
    register = Level(
        f"C in registers, {_ROWS}×{_COLUMNS}", _ROWS, _COLUMNS, 1, None, f"{_ROWS}×4 vectors of {_LANES} sums", _LANES
    )
    strip = Level(
        f"the product, {_SIZE}×{_SIZE}×{_SIZE}",
        *(_SIZE, _SIZE, _SIZE),
        (_ROWS, _COLUMNS, _DEPTH),
        f"a register tile, and what is added to it in {_DEPTH} steps",
    )
    yield "lesson4", [strip, register]
    inner = _BLOCK, _SIZE, _BLOCK
    panels = Level(
        f"a block, {_BLOCK}×{_SIZE}×{_BLOCK}", *inner, (_ROWS, _COLUMNS, _BLOCK), "a panel of A, a panel of B"
    )
    yield "lesson5", [Level(whole, _SIZE, _SIZE, _SIZE, inner, "the block of A and that of B are copied"), panels]


def _tensor_memory() -> dict[str, int]:
    """Sizes of a block that multiplies alone: 192 KiB hold four slots of 128 and 256 rows of 128 bytes."""
    return {"bm": 128, "bn": 256, "bk": 64, "stages": 192 * 1024 // ((128 + 256) * 128)}


def _sizes(strategy: str, spec: MatmulSpec, target: str) -> dict[str, int]:
    return dataclasses.asdict(select.sized(strategy, spec, get(target)).parameters)  # pyright: ignore[reportArgumentType]
