# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Triton as a peer: the sizes that are tried, their launches, and their compilation in processes that need no card.

All sizes of each product are timed, and the best is compared with ours, as Triton's autotuner does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tilewright.bench.card import plan
from tilewright.processes import calls

_ROW_BYTES = 128
_BAND = 8
_CAPABILITY = 90


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a product in Triton.

    Attributes:
        bm: Rows of a tile.
        bn: Columns of it.
        lines: Of 128 bytes that its depth is.
        stages: How many steps along K are under way.
        warps: Of a block.
        parts: In how many a tile is stored.
    """

    bm: int
    bn: int
    lines: int
    stages: int
    warps: int
    parts: int = 1

    def __str__(self) -> str:
        """As records name it."""
        return f"{self.bm}x{self.bn}x{self.lines * _ROW_BYTES}B, {self.stages} stages, {self.warps} warps"


_MANY = (
    Sizes(128, 256, 1, 3, 8, parts=2),
    Sizes(128, 256, 1, 4, 8, parts=2),
    Sizes(256, 128, 1, 3, 8, parts=2),
    Sizes(128, 128, 1, 4, 8),
    Sizes(128, 128, 1, 3, 4),
    Sizes(64, 256, 1, 4, 4),
    Sizes(64, 256, 1, 3, 4, parts=2),
    Sizes(64, 128, 1, 4, 4),
)
_FEW = (
    Sizes(16, 128, 2, 4, 4),
    Sizes(16, 64, 2, 5, 4),
    Sizes(16, 32, 2, 6, 4),
    Sizes(64, 64, 2, 4, 4),
    Sizes(64, 32, 2, 5, 4),
    Sizes(64, 128, 1, 4, 4),
)
"""Where there are at most `plan.FEW` rows."""


def tried(rows: int) -> tuple[Sizes, ...]:
    """The sizes that are tried of products of so many rows."""
    return _FEW if rows <= plan.FEW else _MANY


def launcher(a: Any, b: Any, c: Any, sizes: Sizes, processors: int) -> Callable[[], object]:  # noqa: ANN401 - torch's tensors
    """What multiplies A (M x K, by rows) and B (K x N, by rows or by columns) to C (M x N, by rows)."""
    m, n = c.shape
    grid = (min(processors, -(-m // sizes.bm) * -(-n // sizes.bn)),)
    given, options = _arguments(a, b, c, sizes)
    return lambda: _kernel()[grid](*given, **options)


def _kernel() -> Any:  # noqa: ANN401 - Triton's
    return import_module("tilewright.bench.card.triton_matmul").matmul


def _arguments(a: Any, b: Any, c: Any, sizes: Sizes) -> tuple[tuple[Any, ...], dict[str, Any]]:  # noqa: ANN401 - torch's tensors
    described = import_module("triton.tools.tensor_descriptor").TensorDescriptor.from_tensor
    (m, k), n = a.shape, c.shape[1]
    bm, bn, bk = sizes.bm, sizes.bn, sizes.lines * _ROW_BYTES // a.element_size()
    along = b.stride(0) == 1
    to = described(c, [bm, bn // sizes.parts])
    right = described(b.t(), [bn, bk]) if along else described(b, [bk, bn])
    options = {
        "WHOLE": not a.dtype.is_floating_point,
        "ALONG_K": along,
        "BM": bm,
        "BN": bn,
        "BK": bk,
        "BAND": _BAND,
        "PARTS": sizes.parts,
        "num_stages": sizes.stages,
        "num_warps": sizes.warps,
    }
    return (described(a, [bm, bk]), right, to, m, n, k), options


class _NoCard:
    """Replaces Triton's driver where kernels are only compiled."""

    def get_current_target(self) -> Any:  # noqa: ANN401 - Triton's
        return import_module("triton.backends.compiler").GPUTarget("cuda", _CAPABILITY, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return device


def compiled(types: str, layout: str, sizes: Sizes) -> Any:  # noqa: ANN401 - Triton's
    """A kernel, put into Triton's cache on disk. For a process that uses no card: it changes Triton's driver."""
    from tilewright.dtypes import dtype

    import_module("triton.runtime").driver.set_active(_NoCard())
    torch, row = import_module("torch"), plan.TYPES[types]
    a, b, c = (torch.empty(256, 256, dtype=getattr(torch, dtype(name).numpy)) for name in (row.a, row.a, row.c))
    given, options = _arguments(a, b.t() if layout == "nt" else b, c, sizes)
    return _kernel().warmup(*given, **options, grid=(1,))


def every() -> Iterator[tuple[str, str, Sizes]]:
    """All kernels of the plan: types, layout and sizes."""
    pairs = dict.fromkeys((name, layout) for name, layout, _, epilogue in plan.timings() if not epilogue)
    for name, layout in pairs:
        for sizes in dict.fromkeys((*_MANY, *_FEW)):
            yield name, layout, sizes


def compile_one(one: tuple[str, str, Sizes]) -> str:
    """A line where a kernel cannot be compiled."""
    try:
        compiled(*one)
    except Exception as e:  # Whatever Triton's compiler raises: the peer goes without these sizes.
        return f"{one[0]} {one[1]} {one[2]}: {type(e).__name__}"
    return ""


def main(arguments: list[str] | None = None) -> int:
    """Compiles all of them: ``python -m tilewright.bench.card.triton_peer --workers 14``."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--workers", type=int, default=2)
    workers = parser.parse_args(arguments).workers
    for _, line in calls.each(compile_one, [(one,) for one in every()], workers):
        if line:
            print(line)  # noqa: T201 - it is a program
    return 0


if __name__ == "__main__":
    # Under its own name, by which other processes find its function.
    from tilewright.bench.card import triton_peer

    sys.exit(triton_peer.main())
