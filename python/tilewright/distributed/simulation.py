# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Predicts how long a product takes on many nodes: its steps, message by message, on a network of the LogGP model.

Source of the model: Alexandrov, Ionescu, Schauser, Scheiman, LogGP: incorporating long messages into the LogP model, 1995.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tilewright.distributed.partition import program
from tilewright.distributed.shardings import Sharding, named
from tilewright.errors import SpecError
from tilewright.spec import MatmulSpec

Clocks = NDArray[np.float64]
"""Seconds at each node, with the grid's shape."""


@dataclass(frozen=True, slots=True)
class Network:
    """What a message costs.

    Attributes:
        latency: L, seconds that a message travels.
        overhead: o, seconds of a processor for each message that it sends, and for each that it receives.
        gap: g, seconds between two messages of a node at least.
        per_byte: G, seconds of a node's link for each byte.
        source: Where the figures are from.
    """

    latency: float
    overhead: float
    gap: float
    per_byte: float
    source: str


NETWORKS: Mapping[str, Network] = MappingProxyType(
    {
        "red-storm": Network(
            5e-6,
            0.0,
            0.0,
            1 / 1.5e9,
            "Brightwell et al., Portals 3.3 on the Sandia/Cray Red Storm system, 2005: MPI's latency between the furthest nodes, with"
            " its overheads, and the bandwidth into a node, as required",
        ),
        "aries": Network(
            2.2e-6,
            0.0,
            0.0,
            1 / 16e9,
            "Cray, XC Series Network, 2012, and Austin, Characterization of the Cray Aries network, as quoted by the Performance Prediction"
            " Toolkit: latency between groups, with its overheads, and the peak of a node's link",
        ),
    }
)
"""By name. Latencies are MPI's from end to end, so that overheads are in them."""


@dataclass(frozen=True, slots=True)
class Times:
    """What is predicted of a product.

    Attributes:
        nodes: How many there are.
        seconds: From the first start to the last end.
        computing: Seconds that each node multiplies.
        serial: Seconds of one node for the whole product.
    """

    nodes: int
    seconds: float
    computing: float
    serial: float

    @property
    def efficiency(self) -> float:
        """The part of the nodes' speed that is used."""
        return self.serial / (self.nodes * self.seconds)


def simulate(
    spec: MatmulSpec, grid: tuple[int, ...], network: Network, *, flops: float, schedule: str | Sharding = "summa"
) -> Times:
    """Runs the steps of a product on nodes that have clocks alone.

    Each node does what `compile` makes it do: gathers, one product, reductions. Collectives are rings: in each step of one every
    node sends a block to the next node, and waits for that of the one before. Links are never shared, and nodes start together.

    Args:
        spec: The whole product.
        grid: How many nodes each axis of the grid has.
        network: What messages cost; one of `NETWORKS`, or your own.
        flops: What a node's kernel multiplies and adds in a second.
        schedule: As for `compile`.

    Raises:
        SpecError: The product, the grid or the schedule do not fit each other; or `flops` is no number above zero.
    """
    if not (flops > 0 and math.isfinite(flops)):
        raise SpecError(f"flops={flops}", where="simulate", expected="a number above zero")
    steps = program(spec, named(schedule), grid)
    clocks: Clocks = np.zeros(grid)
    blocks = dict(steps.blocks)
    for step in steps.gathers:
        count = _count(grid, step.axes)
        rows, columns = blocks[step.operand]
        bits = (spec.a_type if step.operand == "a" else spec.b_type).bits
        clocks = _ring(clocks, step.axes, count - 1, rows * columns * bits / 8, network)
        blocks[step.operand] = (rows * count, columns) if step.dimension == 0 else (rows, columns * count)
    local = steps.local
    computing = local.flops / flops
    clocks = clocks + computing
    for step in steps.reduces:
        count = _count(grid, step.axes)
        part = int(local.m) * int(local.n) * spec.c_type.bits / 8
        rounds = (count - 1) * (1 if step.scatter is not None else 2)
        clocks = _ring(clocks, step.axes, rounds, part / count, network)
    return Times(math.prod(grid), float(clocks.max()), computing, spec.flops / flops)


def _count(grid: tuple[int, ...], axes: tuple[int, ...]) -> int:
    return math.prod(grid[axis] for axis in axes)


def _ring(clocks: Clocks, axes: tuple[int, ...], rounds: int, size: float, network: Network) -> Clocks:
    """The clocks after so many rounds of a ring among the nodes that differ along some axes."""
    others = [axis for axis in range(clocks.ndim) if axis not in axes]
    order = [*others, *axes]
    lines = clocks.transpose(order)
    shape = lines.shape
    nodes = lines.reshape(math.prod(shape[: len(others)]), -1)
    sending = max(network.gap, network.overhead + max(0.0, size - 1) * network.per_byte)
    for _ in range(rounds):
        arrival = nodes + network.overhead + max(0.0, size - 1) * network.per_byte + network.latency
        nodes = np.maximum(nodes + sending, np.roll(arrival, 1, axis=1)) + network.overhead
    return nodes.reshape(shape).transpose(np.argsort(order))
