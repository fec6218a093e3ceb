# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a module for a CPU, from its text to one object for all of its functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tilewright.codegen import registry
from tilewright.codegen.convolution import images
from tilewright.emit import pipeline
from tilewright.emit.machine_code import MachineCode, texts
from tilewright.lowering import driver, modules, run, to_llvm
from tilewright.lowering.entries import module_entries
from tilewright.mlir import ir
from tilewright.mlir.dialects import func
from tilewright.payload import chain_check, matmul
from tilewright.payload.modules import boundary, chains, contractions, extents, groups, supported, tensors
from tilewright.payload.packing import PackedFormat
from tilewright.payload.signature import Signature, renamed
from tilewright.payload.text import op_at, parse
from tilewright.schedules import chains as model
from tilewright.schedules import make, nests
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


@dataclass(slots=True)
class Built(pipeline.Record):
    """The results of `build`.

    Attributes:
        functions: What each of the module's functions takes and gives.
    """

    functions: tuple[Signature, ...] = ()


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


@dataclass(slots=True)
class ProductPart:
    """A product on its way, which any of the functions may call.

    Attributes:
        spec: What it computes.
        module: The module that holds it alone.
        plan: How it is scheduled.
        schedule: Its schedule.
        workspace: Bytes of scratch memory that it needs.
        packed: The format of B when it comes packed.
        origin: The strategy whose schedule it is, where B comes packed.
        images: By number of an operand that is a matrix of patches, the shape of the images that the function takes for it.
        cases: Where extents are known only at the call, the kernels of the plan's cases, in place of a module.
    """

    spec: MatmulSpec
    module: ir.Module
    plan: make.Plan
    schedule: ir.Module | None = None
    workspace: int = 0
    packed: PackedFormat | None = None
    origin: str = ""
    images: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    cases: Sequence[ProductPart] = ()

    @property
    def kernels(self) -> Sequence[ProductPart]:
        """What is lowered: the cases, or the product itself."""
        return self.cases or [self]

    @property
    def lowered(self) -> modules.Product:
        """As those that call it know it."""
        bodies = [(each.module, each.workspace) for each in self.kernels]
        plan = self.plan if self.cases else None
        return modules.Product(self.spec, bodies, self.packed, self.images, plan)


def build(
    text: str,
    filename: str,
    target: Target,
    *,
    threads: int = 1,
    until: str = pipeline.BINARY,
    plain: bool = False,
    allocator: tuple[str, str] = driver.RUNTIME_ALLOCATOR,
    symbol: str = "",
    started: Callable[[str], object] = lambda stage: None,
) -> Built:
    """Compiles the functions of a module for `target`, which this machine need not be able to run.

    Each matrix product, with what is elementwise before it is written, is compiled as `emit.stages` compiles a spec; what is
    left is fused and vectorized, and calls the products.

    Args:
        text: The module.
        filename: Its name, for errors.
        target: For which target.
        threads: Most threads that a product uses.
        until: The last stage wanted, of `pipeline.FAMILIES`.
        plain: Whether each op becomes loops over elements, by itself: to be compared with.
        allocator: Where entries get their workspace: `driver.RUNTIME_ALLOCATOR` or `driver.LIBC_ALLOCATOR`.
        symbol: The name of the C entry of a module's only function; empty for the function's own.
        started: Told the name of each stage as it starts.

    Raises:
        SpecError: The text is no valid MLIR, or holds what is not supported; the error names the place.
        ScheduleError: A schedule does not fit.
        LoweringError: A later stage failed, or `until` is unknown.
    """
    source = partial(_read, text, filename, target, plain)
    name = partial(op_at, text=text)
    return Builder(source, target, threads, allocator, started, name, title=filename, plain=plain, symbol=symbol).run(
        until
    )


def build_chain(
    stages: Sequence[MatmulSpec],
    name: str,
    target: Target,
    *,
    threads: int = 1,
    until: str = pipeline.BINARY,
    allocator: tuple[str, str] = driver.RUNTIME_ALLOCATOR,
    symbol: str = "",
) -> Built:
    """As `build`, for a function `name` that computes a chain of products; see `payload.modules.chains`.

    Raises:
        SpecError: The stages make no chain.
        ScheduleError: A schedule does not fit.
        LoweringError: A later stage failed.
    """
    chain_check.check(stages)
    source = partial(_chain, stages, name)
    return Builder(source, target, threads, allocator, lambda _: None, lambda _: name, title=name, symbol=symbol).run(
        until
    )


def _read(
    text: str, filename: str, target: Target, plain: bool, context: ir.Context, specs: list[MatmulSpec]
) -> list[FunctionPart]:
    """The functions of a module's text, split into products, which are added to `specs`, and the rest."""
    module = parse(text, filename, context)
    supported.check(module, filename)
    run.run_passes(module, modules.TIDY, "payload")
    supported.check_indices(module, filename)
    functions = _functions(module)
    given = [boundary.given(function, text) for function in functions]
    written = [tensors.raise_to_tensors(function) for function in functions]
    modules.decompose(module)
    run.run_passes(module, modules.GENERIC, "payload")
    sizes = [extents.of(function.operation, filename) for function in _functions(module)]
    found: list[list[contractions.Contraction]] = [[] for _ in given]
    if not plain:
        _fuse(module, found)
    made: list[FunctionPart] = []
    for function, products, names, outputs, of in zip(_functions(module), found, given, written, sizes, strict=True):
        groups.split(function.operation, products, specs, partial(model.packs, target=target))
        signature = boundary.close(function, names, outputs, specs, of)
        alone = ir.Module.create()
        function.operation.clone(ip=ir.InsertionPoint(alone.body))
        made.append(FunctionPart(alone, signature))
    return made


def _fuse(module: ir.Module, found: Sequence[list[contractions.Contraction]]) -> None:
    """Sets the products of each function apart, and fuses what is elementwise between them."""

    def set_apart() -> bool:
        pairs = zip(_functions(module), found, strict=True)
        return sum(contractions.set_apart(function.operation, products) for function, products in pairs) > 0

    set_apart()
    while True:
        for function in _functions(module):
            contractions.guard(function.operation)
        run.run_passes(module, modules.FUSE, "payload")
        for function in _functions(module):
            contractions.unguard(function.operation)
        if not set_apart():  # What reshapes were moved through is a product of more dimensions now.
            return


def _chain(stages: Sequence[MatmulSpec], name: str, context: ir.Context, specs: list[MatmulSpec]) -> list[FunctionPart]:
    """The function of a chain."""
    _, signature, module = chains.build(stages, name, context)
    specs += stages
    return [FunctionPart(module, signature)]


def _functions(module: ir.Module) -> list[func.FuncOp]:
    return [op for op in module.body if isinstance(op, func.FuncOp)]


class Builder(MachineCode):
    """Functions and their products on their way, with a method for each stage."""

    def __init__(  # noqa: D107 - as `build`
        self,
        source: Callable[[ir.Context, list[MatmulSpec]], list[FunctionPart]],
        target: Target,
        threads: int,
        allocator: tuple[str, str],
        started: Callable[[str], object],
        name: Callable[[ir.Location], str],
        *,
        title: str,
        plain: bool = False,
        symbol: str = "",
    ) -> None:
        super().__init__(target, built := Built())
        self._source = source
        self._name = name
        self._target = target
        self._threads = threads
        self._allocator = allocator
        self._started = started
        self._plain = plain
        self._symbol = symbol
        self._built = built
        self._functions: list[FunctionPart] = []
        self._products: list[ProductPart] = []
        self._context = ir.Context()
        self._title = f"{title} {target.name}"

    def run(self, until: str) -> Built:
        """All stages up to the one that is wanted."""
        with self._context, ir.Location.unknown():
            pipeline.run(self, "cpu", until=until, record=self._built, title=self._title, started=self._started)
        return self._built

    @property
    def _signatures(self) -> tuple[Signature, ...]:
        return tuple(each.signature for each in self._functions)

    def _text(self) -> str:
        return texts(each.module for each in (*self._functions, *self._kernels))

    @property
    def _kernels(self) -> list[ProductPart]:
        return [kernel for each in self._products for kernel in each.kernels]

    def plan(self, spec: MatmulSpec) -> make.Plan:
        """How a product is scheduled."""
        return make.make(spec, self._target, threads=self._threads)

    def payload(self) -> str:
        """Splits each function into products and the rest, and joins chains of products where that pays."""
        specs: list[MatmulSpec] = []
        self._functions = self._source(self._context, specs)
        rows, packs = partial(model.rows, target=self._target), partial(model.packs, target=self._target)
        for each in self._functions:
            chains.fuse(_functions(each.module)[0], specs, rows, packs)
            run.run_passes(each.module, modules.RESOLVE if each.signature.is_open else modules.TIDY, "payload")
        for spec in chains.renumber([_functions(each.module)[0] for each in self._functions], specs):
            self._products.append(self._product(spec, self.plan(spec)))
        for each in self._functions:
            each.signature = chains.name_packed(_functions(each.module)[0], each.signature)
        return self._text()

    def _product(self, spec: MatmulSpec, plan: make.Plan) -> ProductPart:
        module = matmul.build(spec, self._context)
        return ProductPart(spec, module, plan, cases=[self._product(*each) for each in plan.kernels])

    def schedule(self) -> str:
        """The schedules of what is between products, and of the products."""
        for each in [] if self._plain else self._functions:
            each.nests, others = nests.nests(each.module.body.operations[0].operation, self._target)
            each.schedule = nests.schedule(each.nests, range(len(each.nests)))
            self._say_slow(each, others)
        for each in self._kernels:
            each.schedule = each.plan.module(each.spec, self._target, self._context)
        return texts(each.schedule for each in (*self._functions, *self._kernels))

    def scheduled(self) -> str:
        """Each function and product once its schedule ran."""
        for each in self._functions:
            if each.schedule is not None:
                ops = nests.numbers(each.module.body.operations[0].operation)
                made, failed = modules.scheduled(each.module, partial(nests.schedule, each.nests), len(each.nests))
                self._say_slow(each, [ops[number] for number in failed])
                each.module = made
        for each in self._kernels:
            if each.schedule is not None:
                run.apply_schedule(each.module, each.schedule, each.spec, name=each.plan.name)
                each.origin = driver.origin_of(each.schedule, each.module, each.spec, self._target)
        return self._text()

    def _say_slow(self, function: FunctionPart, ops: Sequence[ir.Operation]) -> None:
        """Notes the ops that are not vectorized."""
        function.signature = function.signature.with_slow(self._name(op.location) for op in ops)

    def bufferized(self) -> str:
        """Memrefs for tensors."""
        for each in self._kernels:
            each.workspace, each.packed = driver.bufferize(
                each.module, each.spec, self._target, registry, each.plan.threads, each.origin
            )
            each.images = images.read(each.module, each.spec, self._target)
        products = [each.lowered for each in self._products]
        formats = {number: each.packed.header for number, each in enumerate(products) if each.packed is not None}
        for each in self._functions:
            size = modules.bufferize(each.module, products)
            each.signature = each.signature.with_formats(formats).with_workspace(size)
        self._built.functions = self._signatures
        return self._text()

    def llvm(self) -> str:
        """One module of all functions and products, with their C entries."""
        for each in self._kernels:
            to_llvm.body(each.module, each.spec, self._target, registry, each.packed)
        bodies = {}
        for each, signature in zip(self._functions, renamed(self._signatures, self._symbol), strict=True):
            each.signature = signature
        for each in self._functions:
            name = f"{each.signature.name}_body"
            modules.to_llvm(each.module, name, self._target)
            bodies[name] = each.signature, each.module
        products = [each.lowered for each in self._products]
        self.module = module_entries.join(bodies, products, self._target, self._allocator)
        return texts([self.module])
