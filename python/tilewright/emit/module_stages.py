# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles functions that call matrix products for a CPU, stage by stage: a module's, a convolution's, or a chain's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tilewright.emit.built import Built
from tilewright.emit.machine_code import MachineCode, Text, texts
from tilewright.emit.pipeline import Wanted
from tilewright.emit.product_part import CalledProduct
from tilewright.lowering import modules, run
from tilewright.lowering.entries import module_entries
from tilewright.mlir import ir
from tilewright.mlir.dialects import func
from tilewright.payload.modules import chains
from tilewright.payload.signature import Signature, renamed
from tilewright.schedules import make
from tilewright.schedules.operators import chains as model
from tilewright.schedules.operators import nests
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


@dataclass(slots=True)
class FunctionPart:
    """A function on its way.

    Attributes:
        module: The module that holds it alone.
        signature: What it takes and gives.
        nests: What is left between its products.
        schedule: The schedule of that.
    """

    module: ir.Module
    signature: Signature
    nests: Sequence[nests.Nest] = ()
    schedule: ir.Module | None = None


def functions_of(module: ir.Module) -> list[func.FuncOp]:
    """The functions of a module."""
    return [op for op in module.body if isinstance(op, func.FuncOp)]


class Builder(MachineCode):
    """Functions and their products on their way, with a method for each stage."""

    def __init__(  # noqa: D107 - as `build`
        self,
        source: Callable[[ir.Context, list[MatmulSpec]], list[FunctionPart]],
        target: Target,
        threads: int,
        wanted: Wanted,
        name: Callable[[ir.Location], str],
        *,
        title: str,
        plain: bool = False,
    ) -> None:
        self._built = Built()
        super().__init__(target, self._built, wanted, title)
        self._source = source
        self._name = name
        self._threads = threads
        self._plain = plain
        self._functions: list[FunctionPart] = []
        self._products: list[CalledProduct] = []

    def build(self) -> Built:
        """All stages up to the one that is wanted."""
        self.run()
        return self._built

    @property
    def _signatures(self) -> tuple[Signature, ...]:
        return tuple(each.signature for each in self._functions)

    def _text(self) -> Text:
        return texts(each.module for each in (*self._functions, *self._kernels))

    @property
    def _kernels(self) -> list[CalledProduct]:
        return [kernel for each in self._products for kernel in each.kernels]

    def plan(self, spec: MatmulSpec) -> make.Plan:
        """How a product is scheduled."""
        return make.make(spec, self._target, threads=self._threads)

    def payload(self) -> Text:
        """Splits each function into products and the rest, and joins chains of products where that pays."""
        specs: list[MatmulSpec] = []
        self._functions = self._source(self._context, specs)
        rows, packs = partial(model.rows, target=self._target), partial(model.packs, target=self._target)
        for each in self._functions:
            chains.fuse(functions_of(each.module)[0], specs, rows, packs)
            run.run_passes(each.module, modules.RESOLVE if each.signature.is_open else modules.TIDY, "payload")
        for spec in chains.renumber([functions_of(each.module)[0] for each in self._functions], specs):
            self._products.append(self._product(spec, self.plan(spec)))
        for each in self._functions:
            each.signature = chains.name_packed(functions_of(each.module)[0], each.signature)
        return self._text()

    def _product(self, spec: MatmulSpec, plan: make.Plan) -> CalledProduct:
        made = CalledProduct(spec, plan, cases=[self._product(*each) for each in plan.kernels])
        made.make_payload(self._context)
        return made

    def schedule(self) -> Text:
        """The schedules of what is between products, and of the products."""
        for each in [] if self._plain else self._functions:
            each.nests, others = nests.nests(each.module.body.operations[0].operation, self._target)
            each.schedule = nests.schedule(each.nests, range(len(each.nests)))
            self._say_slow(each, others)
        for each in self._kernels:
            each.make_schedule(self._target, self._context)
        return texts(each.schedule for each in (*self._functions, *self._kernels))

    def scheduled(self) -> Text:
        """Each function and product once its schedule ran."""
        for each in self._functions:
            if each.schedule is not None:
                ops = nests.numbers(each.module.body.operations[0].operation)
                made, failed = modules.scheduled(each.module, partial(nests.schedule, each.nests), len(each.nests))
                self._say_slow(each, [ops[number] for number in failed])
                each.module = made
        for each in self._kernels:
            each.apply_schedule(self._target)
        return self._text()

    def _say_slow(self, function: FunctionPart, ops: Sequence[ir.Operation]) -> None:
        """Notes the ops that are not vectorized."""
        function.signature = function.signature.with_slow(self._name(op.location) for op in ops)

    def bufferized(self) -> Text:
        """Memrefs for tensors."""
        for each in self._kernels:
            each.bufferize(self._target)
            each.read_images(self._target)
        products = [each.lowered for each in self._products]
        formats = {number: each.packed.header for number, each in enumerate(products) if each.packed is not None}
        for each in self._functions:
            size = modules.bufferize(each.module, products)
            each.signature = each.signature.with_formats(formats).with_workspace(size)
        self._built.functions = self._signatures
        return self._text()

    def llvm(self) -> Text:
        """One module of all functions and products, with their C entries."""
        for each in self._kernels:
            each.lower(self._target)
        bodies = {}
        for each, signature in zip(self._functions, renamed(self._signatures, self._symbol), strict=True):
            each.signature = signature
        for each in self._functions:
            name = f"{each.signature.name}_body"
            modules.to_llvm(each.module, name, self._target)
            bodies[name] = each.signature, each.module
        products = [each.lowered for each in self._products]
        self.module = module_entries.join(bodies, products, self._target, asks_for_tiles=self._wanted.for_linking)
        return texts([self.module])
