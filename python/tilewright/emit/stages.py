# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a product for a CPU, stage by stage, from the payload to the object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilewright.emit import pipeline
from tilewright.emit.machine_code import MachineCode, Text, texts
from tilewright.emit.pipeline import Wanted
from tilewright.emit.product_part import ProductPart
from tilewright.errors import LoweringError
from tilewright.lowering import complex_products
from tilewright.lowering.entries import dispatch
from tilewright.payload.abi import ENTRY
from tilewright.payload.complex_products import computed
from tilewright.schedules import calls, cases
from tilewright.schedules.calls import Calls
from tilewright.schedules.plan import Plan
from tilewright.schedules.steps import nothing
from tilewright.spec import MatmulSpec
from tilewright.standalone.packing import PackedFormat
from tilewright.targets.base import Target


@dataclass(slots=True)
class Stages(pipeline.Record):
    """The results of `build`.

    Attributes:
        spec: What is computed.
        target: For which target.
        plan: Under which schedule.
        workspace: Bytes of scratch memory that a call needs.
        packed: The format of B when it comes packed; otherwise None.
    """

    spec: MatmulSpec = field(kw_only=True)
    target: Target = field(kw_only=True)
    plan: Plan = field(kw_only=True)
    workspace: int = 0
    packed: PackedFormat | None = None

    def as_json(self) -> dict[str, Any]:
        """What a child process answers."""
        packed = None if self.packed is None else self.packed.header.hex()
        return pipeline.Record.as_json(self) | {"workspace": self.workspace, "packed": packed}


def build(spec: MatmulSpec, target: Target, plan: Plan, **wanted: Any) -> Stages:  # noqa: ANN401 - fields of Wanted
    """Compiles `spec` under `plan` for `target`, which this machine need not be able to run.

    Args:
        spec: What to compute.
        target: For which target.
        plan: The schedule (`schedules.plan`).
        **wanted: Fields of `pipeline.Wanted`.

    Raises:
        ScheduleError: The schedule does not fit.
        LoweringError: A later stage failed, or the last one is unknown.
    """
    product = _Product(spec, target, plan, Wanted(**wanted))
    product.run()
    return product.made


class _Product(MachineCode):
    """A product on its way, with a method for each stage."""

    def __init__(self, spec: MatmulSpec, target: Target, plan: Plan, wanted: Wanted) -> None:
        self._made = self.made = Stages(spec=spec, target=target, plan=plan)
        super().__init__(target, self.made, wanted, str(spec))
        self._spec = computed(spec)
        self.made.plan = plan.read(self._spec, self._context)
        self._symbol = self._symbol or ENTRY
        self._parts = [ProductPart(*each) for each in self.made.plan.kernels] or [
            ProductPart(self._spec, self.made.plan)
        ]

    def payload(self) -> Text:
        for part in self._parts:
            part.make_payload(self._context)
        return texts(part.module for part in self._parts)

    def schedule(self) -> Text:
        plan = self._made.plan
        for number, part in enumerate(self._parts):
            part.make_schedule(self._made.target, self._context)
            if plan.cases and plan.text is None:
                part.schedule = part.schedule or nothing()
                extents = {name: getattr(part.spec, name) for name in ("m", "n", "k")}
                calls.record(part.schedule, Calls(part.plan.threads, part.plan.share, extents, plan.among(number)))
        return texts(part.schedule for part in self._parts)

    def scheduled(self) -> Text:
        for part in self._parts:
            part.apply_schedule(self._made.target)
        return texts(part.module for part in self._parts)

    def bufferized(self) -> Text:
        made = self._made
        for part in self._parts:
            part.bufferize(made.target)
        if len({part.packed for part in self._parts}) > 1:
            raise LoweringError("the cases pack B differently", stage="bufferized")
        made.workspace, made.packed = max(part.workspace for part in self._parts), self._parts[-1].packed
        return texts(part.module for part in self._parts)

    def llvm(self) -> Text:
        made, parts, is_complex = self._made, [*self._parts], self._spec is not self._made.spec
        symbol = complex_products.inner(self._symbol) if is_complex else self._symbol
        zero = dispatch.zero(self._spec)
        if zero is not None:
            parts.append(ProductPart(zero, Plan("trivial", None)))
            parts[-1].make_payload(self._context)
            parts[-1].bufferize(made.target)
            parts[-1].packed = None  # There is no B to compare with.
        for number, part in enumerate(parts):
            name = f"{symbol}_case{number}" if made.plan.cases or zero is not None else symbol
            checked = number >= len(made.plan.kernels) or not cases.implied(self._spec, made.plan, number)
            part.add_entry(made.target, name, asks_for_tiles=self._wanted.for_linking, checked=checked)
        made.workspace = max(part.workspace for part in parts)  # Of all threads that share a call.
        self.module = parts[0].module
        if made.plan.cases or zero is not None:
            modules = [part.module for part in parts]
            told = cases.first_tile(self._spec, made.plan.cases, made.target)
            self.module = dispatch.join(modules, self._spec, made.plan, made.target, symbol, told)
        if is_complex:
            complex_products.add_entry(self.module, made.spec, made.target, self._symbol)
        return texts([self.module])
