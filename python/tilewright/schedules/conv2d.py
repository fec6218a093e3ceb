# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the products of a convolution are scheduled: packed, in blocks of K that are whole rows and columns of the filter."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from tilewright.operator_specs.conv2d import Conv2dSpec
from tilewright.schedules import make, select
from tilewright.schedules.blocking import ceil_div
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_UNIT = 64
"""Channels that are read together: as many bytes as the widest vectors have."""


def plan(
    spec: Conv2dSpec, product: MatmulSpec, target: Target, parameters: Mapping[str, int], threads: int
) -> make.Plan:
    """The plan of the product of one group.

    That of one row and column of the filter is a product as any other. Others are always packed: it is packing that reads
    their patches.

    Raises:
        ScheduleError: A parameter is unknown, or wrong.
    """
    if spec.is_pointwise:
        return make.make(product, target, None, parameters or None, threads)
    sizes = dict(parameters)
    if "kc" not in sizes:
        blocking = select.sized("packed", product, target, parameters or None, threads).parameters
        if blocking is not None and blocking.kc < product.k:
            # Blocks begin where a vector of channels does.
            sizes["kc"] = ceil_div(blocking.kc, unit := gcd(spec.ic // spec.groups, _UNIT)) * unit
    return make.make(product, target, "packed", sizes or None, threads)
