# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Marks of loops whose steps may have scratch buffers of their own, so that threads can share them."""

from tilewright.schedules.steps import MARK

ENTRIES, PARTS, STRIPS = "entries", "parts", "strips"
"""Loops over entries of a batch; over parts of K; over strips of A that are packed one by one, and over the blocks of B that they meet."""


def attribute(name: str) -> str:
    """The attribute that a loop of this mark has."""
    return f"{MARK}{name}"
