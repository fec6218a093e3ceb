# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Marks of loops whose steps may have scratch buffers of their own, so that threads can share them."""

from tilewright.dims import most
from tilewright.schedules.models import parts, strips_of_a
from tilewright.schedules.models.sizes import Blocking
from tilewright.schedules.steps import MARK, Handle, mark
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

ENTRIES, PARTS, STRIPS, BLOCKS = "entries", "parts", "strips", "blocks"
"""Loops over entries of a batch; over parts of K; over strips of A packed one by one, and over the blocks of B that they meet; over
blocks of C that threads have of their own."""


def mark_strips(loop: Handle, sizes: Blocking, spec: MatmulSpec, target: Target) -> None:
    """Marks a loop over blocks of A or B whose steps may be whole threads' (`strips_of_a`, `parts`), if the sizes are such."""
    if parts.has_own_blocks(sizes, spec, target):
        mark(loop, BLOCKS)
    elif strips_of_a.are(sizes, most(spec.m)):
        mark(loop, STRIPS)


def attribute(name: str) -> str:
    """The attribute that a loop of this mark has."""
    return f"{MARK}{name}"
