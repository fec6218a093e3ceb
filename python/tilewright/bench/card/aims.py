# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The performance goals on a card, as data, and whether records, measured or the model's, meet them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from tilewright.bench.card import peers, plan

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Aim:
    """A ratio of our rate to cuBLASLt's, the better one of its own interface and of torch.

    Attributes:
        what: What is meant, in words.
        types: A row of `plan.TYPES`.
        least: The ratio at least.
        epilogue: That of the kernels; cuBLASLt then has a kernel of its own behind it.
        cube: The edge of the product; None: those of the linear layers.
        layout: How A and B are stored; "": in any way.
        mean: Whether the geometric mean of the shapes is meant, and not each of them.
    """

    what: str
    types: str
    least: float
    epilogue: str = ""
    cube: int | None = None
    layout: str = ""
    mean: bool = False

    def takes(self, types: str, layout: str, epilogue: str, shape: str) -> bool:
        """Whether a measurement belongs to it."""
        if (types, epilogue) != (self.types, self.epilogue):
            return False
        if self.layout not in ("", layout):
            return False
        if self.cube is not None:
            return shape == "x".join(3 * [str(self.cube)])
        return epilogue != "" or shape in map(str, plan.linear())


AIMS = (
    *(Aim(f"{name}, {edge}³", name, 0.95, cube=edge, layout="nn") for name in ("bf16", "f16") for edge in (4096, 8192)),
    *(
        Aim(f"{name}, linear layers of language models, geometric mean", name, 0.95, layout="nt", mean=True)
        for name in ("bf16", "f16")
    ),
    Aim("bf16, bias and GELU fused, beside cuBLASLt and a kernel behind it, every shape", "bf16", 1.0, plan.FUSED),
    *(Aim(f"f8E4M3FN, {edge}³", "f8E4M3FN", 0.9, cube=edge) for edge in (4096, 8192)),
    Aim("f8E4M3FN, linear layers of language models, geometric mean", "f8E4M3FN", 0.9, layout="nt", mean=True),
)


@dataclass(frozen=True, slots=True)
class Source:
    """Where rates come from.

    Attributes:
        beside: Names of the rates of which the best is compared with ours.
        met: The verdict where an aim is reached.
        missed: That where it is not.
    """

    beside: Sequence[str]
    met: str
    missed: str

    def ratio(self, record: Record) -> float | None:
        """Our rate over the best of the others; None where there is none."""
        rates = record["rates"]
        others = [rates[name]["tflops"] for name in self.beside if name in rates]
        return rates["tilewright"]["tflops"] / max(others) if others else None


MEASURED = Source(peers.VENDORS, "met", "not met")


def verdicts(records: Sequence[Record]) -> Iterator[tuple[str, str, str, str]]:
    """What is aimed at, what is wanted, what was measured, and the verdict, in words."""
    for kind, what in (
        ("layout", "the emulator's bits, every kernel"),
        ("check", "right on random data, every kernel"),
        ("operator", "right attention and convolutions"),
    ):
        some = [each for each in records if each["kind"] == kind]
        right = sum(each.get("right") is True for each in some)
        planned = {"layout": plan.layouts, "check": plan.checks, "operator": plan.operators}[kind]
        wanted = {step.key for step in planned()}
        seen = {each["step"] for each in some} & wanted
        verdict = "not met" if right < len(some) else "met" if seen == wanted else "not all measured"
        yield what, f"all {len(wanted)}", f"{right} of {len(some)}", verdict
    yield from bars(records)


def bars(records: Sequence[Record], source: Source = MEASURED) -> Iterator[tuple[str, str, str, str]]:
    """Of each ratio that is aimed at the same as `verdicts`."""
    for aim in AIMS:
        yield aim.what, f"{'≥' if aim.least != 1 else '>'} {aim.least:.2f}", *_verdict(aim, records, source)


def is_measured(records: Sequence[Record]) -> bool:
    """Whether any ratio was measured."""
    return any(each["kind"] == "time" and "rates" in each and MEASURED.ratio(each) is not None for each in records)


def _verdict(aim: Aim, records: Sequence[Record], source: Source) -> tuple[str, str]:
    wanted = {
        (layout, str(shape))
        for name, layout, shape, epilogue in plan.timings()
        if aim.takes(name, layout, epilogue, str(shape))
    }
    ratios: dict[tuple[str, str], float] = {}
    for each in records:
        if each["kind"] != "time" or "rates" not in each:
            continue
        found, about = source.ratio(each), (each["types"], each["layout"], each["epilogue"], each["shape"])
        if found is not None and aim.takes(*about):
            ratios[each["layout"], each["shape"]] = found
    if not ratios:
        return "nothing", "not measured"
    least = min(ratios.values())
    count = "" if len(wanted) == 1 else f", {len(ratios)} of {len(wanted)} shapes"
    text = f"{geometric_mean(ratios.values()):.3f}, worst {least:.3f}{count}" if count else f"{least:.3f}"
    reached = geometric_mean(ratios.values()) if aim.mean else least
    is_met = reached > aim.least if aim.least == 1 else reached >= aim.least
    if not is_met:
        return text, source.missed
    return text, source.met if len(ratios) == len(wanted) else f"{source.met} so far"
