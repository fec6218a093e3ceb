# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The strategies for GPUs: one row each, of which the first that does a product is chosen. `codegen.gpu.strategies` carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class GpuRow:
    """A strategy for GPUs.

    Attributes:
        purpose: What it is for, in a phrase.
        needs: The instruction that a target has to have; empty for none.
        unaligned: The strategy for operands whose rows are not aligned to 16 bytes.
        short_sums: Whether its instruction adds up products of f8 in fewer bits than f32 has.
        promoted: Whether such sums are added to those of f32 after some steps.
        from_shared: Whether its instruction takes operands from shared memory, those of 8 bits and of tf32 contiguous along K.
        by_call: The module in `schedules.gpu` whose `of_call` chooses sizes for calls with dynamic extents; empty where all take the same.
        scattered: Of images: "pieces" where threads compute where each piece of A and B is, "boxes" where patches are copied in boxes.
    """

    purpose: str
    needs: str = ""
    unaligned: str = ""
    short_sums: bool = True
    promoted: bool = False
    from_shared: bool = False
    by_call: str = ""
    scattered: str = ""


GPU_STRATEGIES: Mapping[str, GpuRow] = MappingProxyType(
    {
        "tensor_memory": GpuRow(
            "tcgen05, with sums in tensor memory",
            "tcgen05",
            "mma_sync",
            promoted=True,
            from_shared=True,
            by_call="tensor_memory_sizes",
            scattered="boxes",
        ),
        "warpgroup": GpuRow(
            "wgmma, with operands by TMA",
            "wgmma",
            "mma_sync",
            promoted=True,
            from_shared=True,
            by_call="warpgroup_sizes",
            scattered="boxes",
        ),
        "matrix_cores": GpuRow("AMD's matrix cores", unaligned="matrix_cores", scattered="pieces"),
        "mma_sync": GpuRow("mma.sync, with operands by cp.async", "mma.sync", "mma_sync", scattered="pieces"),
        "simt": GpuRow(
            "multiply-adds of each thread, for every type", unaligned="simt", short_sums=False, scattered="pieces"
        ),
    }
)
"""The strategies by name, the best one first: each multiplies faster than those after it, and fewer types and layouts."""

ATTENTION_STRATEGIES: Mapping[str, GpuRow] = MappingProxyType(
    {
        "warp_group_softmax": GpuRow("wgmma, with keys and values by TMA", "wgmma", "shared_softmax"),
        "shared_softmax": GpuRow(
            "whatever multiplies, with keys and values by all threads", unaligned="shared_softmax"
        ),
    }
)
"""Those for attention, likewise."""


def for_any_rows(name: str) -> str:
    """The strategy that takes the place of one for operands whose rows are not aligned to 16 bytes; itself where none is known."""
    row = GPU_STRATEGIES.get(name) or ATTENTION_STRATEGIES.get(name)
    return name if row is None else row.unaligned
