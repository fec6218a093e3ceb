# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the model of strategy `warpgroup` expects of timings on a card, in the form of measured records, and a limit in place of a peer.

Nothing in here is measured. The model (`schedules.gpu.warpgroup_time`) has no rate of the vendor's library, so our rate is compared
with one that no kernel exceeds: that of the tensor cores or of memory, whichever is reached first. Needs the compiler, as the machine
with the card does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tilewright import targets
from tilewright.bench.card import aims, plan
from tilewright.bench.suites import Shape
from tilewright.runtime.emulated_time import CLOCK_GHZ
from tilewright.schedules.gpu import warpgroup_sizes
from tilewright.schedules.gpu.warpgroup_time import L2_BYTES

LIMIT = "the limit"
"""The name of the rate that no kernel exceeds."""
# The vendor's library is slower than the limit, so that an aim that is missed beside this may be met all the same.
SOURCE = aims.Source((LIMIT,), "expected", "open")


def bars() -> list[tuple[str, str, str, str]]:
    """What is aimed at, what is wanted, the estimated ratio to the limit, and the verdict, in words."""
    wanted = (
        (name, layout, shape, epilogue)
        for name, layout, shape, epilogue in plan.timings()
        if any(aim.takes(name, layout, epilogue, str(shape)) for aim in aims.AIMS)
    )
    return [*aims.bars([*records(wanted)], SOURCE)]


def records(timings: Iterable[tuple[str, str, Shape, str]]) -> Iterator[dict[str, Any]]:
    """A record of each measurement, as `plan.timings` has them, with the model's rate of the sizes that it selects.

    Rates are in TFLOP/s at the clock of the emulator's estimate. Where there is an epilogue, the limit is that of a product without
    one and a kernel behind it, which reads the result from the L2 cache and writes it there.
    """
    target = targets.gpu(plan.TARGET)
    assert target is not None, "it is a GPU"
    for types, layout, shape, epilogue in timings:
        spec = plan.spec_of(types, layout, epilogue, shape)
        cycles = warpgroup_sizes.predicted(spec, warpgroup_sizes.sizes(spec, target, {}))
        least = warpgroup_sizes.least(spec)
        assert cycles is not None, "all extents are known"
        assert least is not None, "likewise"
        if epilogue:
            least += 2 * shape.m * shape.n * spec.c_type.bits // 8 / L2_BYTES
        about = {"kind": "time", "types": types, "layout": layout, "epilogue": epilogue, "shape": str(shape)}
        yield {**about, "rates": {"tilewright": _rate(shape, cycles), LIMIT: _rate(shape, least)}}


def _rate(shape: Shape, cycles: float) -> dict[str, float]:
    return {"tflops": 2 * shape.m * shape.n * shape.k / cycles * CLOCK_GHZ * 1e-3}
