# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A product on its way through the stages for a CPU: all of a static spec, or one case of a dynamic one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tilewright.codegen import registry
from tilewright.codegen.convolution import images
from tilewright.lowering import driver, large_vectors, modules, origins, run, to_llvm
from tilewright.lowering.entries import entry, shared_calls
from tilewright.mlir import ir
from tilewright.payload import matmul
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.standalone.packing import PackedFormat
from tilewright.targets.base import Target


@dataclass(slots=True)
class ProductPart:
    """A product on its way, with a method for each stage.

    Attributes:
        spec: What it computes.
        plan: How it is scheduled.
        module: The module that holds it alone.
        schedule: Its schedule.
        workspace: Bytes of scratch memory that it needs.
        packed: The format of B when it comes packed.
        origin: The strategy whose schedule it is, where B comes packed.
    """

    _entered: ClassVar[bool] = True

    spec: MatmulSpec
    plan: Plan
    module: ir.Module = field(init=False)
    schedule: ir.Module | None = None
    workspace: int = 0
    packed: PackedFormat | None = None
    origin: str = ""

    def make_payload(self, context: ir.Context) -> None:
        """The product in linalg on tensors."""
        self.module = matmul.build(self.spec, context)

    def make_schedule(self, target: Target, context: ir.Context) -> None:
        """Its schedule; None without arithmetic."""
        self.schedule = self.plan.module(self.spec, target, context)

    def apply_schedule(self, target: Target) -> None:
        """The product once its schedule ran."""
        if self.schedule is not None:
            run.apply_schedule(self.module, self.schedule, self.spec, name=self.plan.name)
            if self.plan.text is not None:
                large_vectors.refuse(self.module, self.schedule, self.plan.name)
            self.origin = origins.origin_of(self.schedule, self.module, self.spec, target)

    def bufferize(self, target: Target) -> None:
        """Memrefs for tensors; decisions are carried out."""
        threads = self.plan.threads if self.plan.share == "loops" else 1
        self.workspace, self.packed = driver.bufferize(
            self.module, self.spec, target, registry, threads, self.origin, entered=self._entered
        )

    def add_entry(self, target: Target, name: str, *, asks_for_tiles: bool, checked: bool = True) -> None:
        """The LLVM dialect, with the C entry `name`, which may check extents; an object may ask to use AMX when it is loaded."""
        self.lower(target)
        entry.add_entry(
            self.module,
            self.spec,
            target,
            self.workspace,
            name,
            self.packed,
            asks_for_tiles=asks_for_tiles,
            checked=checked,
        )

    def lower(self, target: Target) -> None:
        """The LLVM dialect, without an entry."""
        to_llvm.body(self.module, self.spec, target, registry, self.packed)
        if self.plan.share == "calls":
            threads, each = self.plan.threads, self.workspace
            self.workspace = shared_calls.share(self.module, self.spec, target, threads, entry.BODY, each)


@dataclass(slots=True)
class CalledProduct(ProductPart):
    """A product on its way, which any of the functions may call.

    Attributes:
        images: By number of an operand that is a matrix of patches, the shape of the images that the function takes for it.
        cases: Where extents are known only at the call, the kernels of the plan's cases, in place of a module.
    """

    _entered: ClassVar[bool] = False

    images: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    cases: Sequence[CalledProduct] = ()

    def read_images(self, target: Target) -> None:
        """Which operands, of a bufferized product, are matrices of patches."""
        self.images = images.read(self.module, self.spec, target)

    @property
    def kernels(self) -> Sequence[CalledProduct]:
        """What is lowered: the cases, or the product itself."""
        return self.cases or [self]

    @property
    def lowered(self) -> modules.Product:
        """As those that call it know it."""
        bodies = [(each.module, each.workspace) for each in self.kernels]
        plan = self.plan if self.cases else None
        return modules.Product(self.spec, bodies, self.packed, self.images, plan)
