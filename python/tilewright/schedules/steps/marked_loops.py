# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Marks of loops whose steps may have scratch buffers of their own, so that threads can share them."""

from tilewright.dims import most
from tilewright.schedules.models import strips_of_a
from tilewright.schedules.models.sizes import Blocking
from tilewright.schedules.steps import MARK, Handle, mark
from tilewright.spec import MatmulSpec

ENTRIES, PARTS, STRIPS = "entries", "parts", "strips"
"""Loops over entries of a batch; over parts of K; over strips of A that are packed one by one, and over the blocks of B that they meet."""


def mark_strips(loop: Handle, sizes: Blocking, spec: MatmulSpec) -> None:
    """Marks a loop over strips of A, or over blocks of B that they meet, if the sizes of a schedule are such (`strips_of_a`)."""
    if strips_of_a.are(sizes, most(spec.m)):
        mark(loop, STRIPS)


def attribute(name: str) -> str:
    """The attribute that a loop of this mark has."""
    return f"{MARK}{name}"
