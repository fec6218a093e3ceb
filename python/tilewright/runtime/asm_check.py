# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks claims about the assembly of a kernel."""

from __future__ import annotations

from tilewright.emit import claims as claims_
from tilewright.errors import SpecError
from tilewright.runtime.kernel import Kernel
from tilewright.targets import Target


def check_asm(kernel: Kernel, *claims: str) -> None:
    """Checks claims about the assembly of a kernel: its instruction mix, spills, and cycles by llvm-mca.

    Args:
        kernel: The kernel, of a processor.
        *claims: Each a name, a comparison and a number, another name or a multiple of one: ``"fma == 24"``, ``"loads <= 0.5 * fma"``.
            Of the hot loop: instructions, fma, tile_products, multiplies, flops, loads, stores, spills, gathers, calls, blocks, depth,
            bytes (of machine code, by llvm-mc; ``all.bytes`` is of all of the kernel); by
            llvm-mca: cycles, bound, percent (of the multiply-add bound), ipc, pressure (busy cycles of the busiest
            port). ``count(vdivps)`` is how often a mnemonic occurs in the hot loop, ``all.count(vdivps)`` in all of the kernel.

    Raises:
        ClaimError: A claim does not hold. It is an AssertionError too, so that tests show it as a failure.
        SpecError: The kernel is none of a processor.
        TilewrightError: A claim is none, or about what is not known: there is no hot loop, or no llvm-mca or llvm-mc.
    """
    if not isinstance(kernel.target, Target):
        raise SpecError(f"{kernel!r} is for a GPU", where=claims_.WHERE, expected="a kernel of a processor")
    claims_.check(kernel.asm["asm"], kernel.target, claims)
