# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adds the C entry of a complex product to the kernel of the real product that computes it."""

from __future__ import annotations

from tilewright.lowering import pipelines
from tilewright.lowering.entries import complex_entry
from tilewright.lowering.run import run_passes
from tilewright.mlir import ir
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def add_entry(module: ir.Module, spec: MatmulSpec, target: Target, symbol: str) -> None:
    """Adds the C entry `symbol` of a complex product to a module in the LLVM dialect with that of the real one, called `inner`.

    Args:
        module: The module.
        spec: The complex product.
        target: For which target.
        symbol: The C entry's name.

    Raises:
        LoweringError: A pass failed.
    """
    written = complex_entry.ComplexEntry(spec, target, symbol)
    functions = ir.Module.parse(written.functions, module.context)
    run_passes(functions, pipelines.to_llvm(), "llvm")
    complex_entry.add(module, functions, written.entry)


def inner(symbol: str) -> str:
    """The name of the real product's entry, which the one called `symbol` calls."""
    return f"{symbol}{complex_entry.INNER}"
