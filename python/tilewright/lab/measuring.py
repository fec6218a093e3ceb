# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls a kernel on random operands: compares its numbers with the reference, and times it beside the machine's peak."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tilewright.emit import child
from tilewright.lab import run_functions, run_products
from tilewright.lab.cpu_product import Product
from tilewright.lab.functions import Module, Operator
from tilewright.lab.gpu_kernel import Gpu
from tilewright.lab.kind import Kind
from tilewright.schedules.plan import Plan

_RUNS: Mapping[type[Kind], Callable[..., dict[str, Any]]] = MappingProxyType(
    {
        Product: run_products.product,
        Gpu: run_products.gpu,
        Operator: run_functions.operator,
        Module: run_functions.module,
    }
)


def measured(kind: Kind, plan: Plan, tell: child.Tell) -> dict[str, Any]:
    """The numbers' check and, where this machine runs it, the time.

    Raises:
        TilewrightError: Nothing here runs it.
    """
    return _RUNS[type(kind)](kind, plan, tell)
