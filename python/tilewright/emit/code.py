# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Optimizes LLVM IR and makes assembly and objects of it, through LLVM's libraries in this process."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright import _codegen
from tilewright.emit import za_state
from tilewright.errors import LoweringError
from tilewright.lowering import chosen_passes, instrument, pass_list
from tilewright.targets.base import Target
from tilewright.targets.gpu import GpuTarget

_LEVEL = 3
"""Of LLVM's optimizations: O3."""
_WITHOUT = ("loop-load-elim",)
"""Passes of O3 that gain nothing in kernels. This one compares every two accesses, half of LLVM's time in a large loop that packs, and
changes the assembly of one of 756 kernels for 23 processors."""


def optimize(llvmir: str, target: Target | GpuTarget) -> str:
    """Runs O3 for `target` but `_WITHOUT`, or what a user has put in its place, on `llvmir` and what saves ZA where that is needed.

    Raises:
        LoweringError: LLVM refused the IR or the target.
    """
    if za_state.is_needed(llvmir):
        llvmir += za_state.text(target.feature_string, tables="!llvm.dbg.cu" in llvmir)
    machine = {"triple": target.triple, "cpu": target.cpu, "features": target.feature_string}
    passes = chosen_passes.of_llvm("llvmir", lambda level: _default_passes(level, machine), _LEVEL)
    without = _WITHOUT if passes is None else ()
    with instrument.group("llvmir", "LLVM's passes", "ll", lambda: llvmir) as group:
        try:
            if group is None:
                return _codegen.optimize(llvmir, level=_LEVEL, passes=passes, without=without, **machine)
            texts = group.text is not None
            text, runs = _codegen.optimize_watched(
                llvmir, level=_LEVEL, passes=passes, without=without, texts=texts, **machine
            )
        except ValueError as e:
            raise LoweringError(str(e), stage="llvmir") from None
        for name, seconds, after in runs:
            group.add(name, seconds, after=after)
    return text


def _default_passes(level: int, machine: Mapping[str, str]) -> str:
    """LLVM's pipeline of a level but `_WITHOUT`, as text."""
    return pass_list.without(_codegen.default_passes(level=level, **machine), _WITHOUT)


def assembly(llvmir: str, target: Target | GpuTarget) -> str:
    """The assembly text of optimized LLVM IR.

    Raises:
        LoweringError: LLVM refused the IR or the target.
    """
    return _emit(llvmir, target, "asm").decode()


def object_file(llvmir: str, target: Target | GpuTarget) -> bytes:
    """The position-independent ELF object of optimized LLVM IR.

    Raises:
        LoweringError: LLVM refused the IR or the target.
    """
    return _emit(llvmir, target, "obj")


def _emit(llvmir: str, target: Target | GpuTarget, kind: str) -> bytes:
    aligned = isinstance(target, Target) and target.aligns_branches
    triple, cpu, features = target.triple, target.cpu, target.feature_string
    try:
        return _codegen.emit(llvmir, triple=triple, cpu=cpu, features=features, kind=kind, align_branches=aligned)
    except ValueError as e:
        raise LoweringError(str(e), stage=kind) from None
