# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the MLIR contexts that kernels are compiled in."""

from __future__ import annotations

from tilewright.mlir import ir

_DIALECTS = ["transform", "tilewright", "omp"]
"""Dialects that have others loaded: the transform dialect those of all that its ops make, which are most of those of CPUs and GPUs.
Of the rest of MLIR's, those of which text has ops, and those that passes make, are loaded then."""


def new() -> ir.Context:
    """A context with the dialects of which this package builds ops, and no threads, as modules have one function.

    A context with all dialects takes a tenth of the time of a compilation: to load them, and to look through their patterns in each
    canonicalization.
    """
    made = ir.Context(load_on_create_dialects=_DIALECTS)
    made.enable_multithreading(False)
    return made
