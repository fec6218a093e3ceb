# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every stage of the compilation of a user's module, from its text to one object for all of its functions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tilewright.emit import STAGES, code
from tilewright.errors import LoweringError, ScheduleError
from tilewright.lowering import driver, entry, modules
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright
from tilewright.mlir.dialects import func
from tilewright.payload import matmul
from tilewright.payload.modules import boundary, contractions, groups, supported, tensors
from tilewright.payload.signature import Signature
from tilewright.payload.text import parse
from tilewright.schedules import make
from tilewright.schedules.nests import nests
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_SEPARATOR = "// -----\n"
"""Between modules, as ``tilewright-opt --split-input-file`` takes them."""


@dataclass(slots=True)
class Built:
    """The results of `build`.

    Attributes:
        functions: What each of the module's functions takes and gives.
        texts: The text of each stage reached, in order.
        seconds: The time each stage took, in order.
        object: The ELF object; empty when `build` stopped before.
    """

    functions: tuple[Signature, ...] = ()
    texts: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    object: bytes = b""


@dataclass(slots=True)
class _Function:
    """A function on its way.

    Attributes:
        module: The module that holds it alone.
        signature: What it takes and gives.
        schedule: The schedule of what is left between its products.
    """

    module: ir.Module
    signature: Signature
    schedule: ir.Module | None = None


@dataclass(slots=True)
class _Product:
    """A product on its way, which any of the functions may call."""

    spec: MatmulSpec
    module: ir.Module
    plan: make.Plan
    schedule: ir.Module | None = None
    workspace: int = 0


def build(
    text: str,
    filename: str,
    target: Target,
    *,
    threads: int = 1,
    until: str = "obj",
    allocator: tuple[str, str] = driver.RUNTIME_ALLOCATOR,
    started: Callable[[str], object] = lambda stage: None,
) -> Built:
    """Compiles the functions of a module for `target`, which this machine need not be able to run.

    Each matrix product, with what is elementwise before it is written, is compiled as `emit.stages` compiles a spec; what is
    left is fused and vectorised, and calls the products.

    Args:
        text: The module.
        filename: Its name, for errors.
        target: For which target.
        threads: Most threads that a product uses.
        until: The last stage wanted: one of `STAGES`, or "obj".
        allocator: Where entries get their workspace: `driver.RUNTIME_ALLOCATOR` or `driver.LIBC_ALLOCATOR`.
        started: Told the name of each stage as it starts.

    Raises:
        SpecError: The text is no valid MLIR, or holds what is not supported; the error names the place.
        ScheduleError: A schedule does not fit.
        LoweringError: A later stage failed, or `until` is unknown.
    """
    if until not in (*STAGES, "obj"):
        raise LoweringError(f"unknown stage {until!r}", expected=f"one of {', '.join((*STAGES, 'obj'))}")
    return _Builder(text, filename, target, threads, allocator, started).run(until)


class _Builder:
    """Runs the stages, one method each."""

    def __init__(
        self,
        text: str,
        filename: str,
        target: Target,
        threads: int,
        allocator: tuple[str, str],
        started: Callable[[str], object],
    ) -> None:
        self._text = text
        self._filename = filename
        self._target = target
        self._threads = threads
        self._allocator = allocator
        self._started = started
        self._built = Built()
        self._functions: list[_Function] = []
        self._products: list[_Product] = []
        self._joined = ir.Module.create(ir.Location.unknown(context := ir.Context()))
        self._context = context

    def run(self, until: str) -> Built:
        """All stages up to the one that is wanted."""
        stages = {name: getattr(self, f"_{name}") for name in (*STAGES, "obj") if (name, until) != ("asm", "obj")}
        with self._context, ir.Location.unknown():
            for name, stage in stages.items():
                with self._timed(name):
                    stage()
                if name == until:
                    break
        return self._built

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        self._started(name)
        start = time.perf_counter()
        yield
        self._built.seconds[name] = time.perf_counter() - start

    def _write(self, stage: str, *parts: ir.Module | None) -> None:
        self._built.texts[stage] = _SEPARATOR.join(f"{part}\n" for part in parts if part is not None)

    def _write_all(self, stage: str) -> None:
        self._write(stage, *(each.module for each in (*self._functions, *self._products)))

    def _payload(self) -> None:
        """Splits each function into products and the rest."""
        module = parse(self._text, self._filename, self._context)
        supported.check(module, self._filename)
        driver.run_passes(module, modules.TIDY, "payload")
        supported.check_indices(module, self._filename)
        functions = [op for op in module.body if isinstance(op, func.FuncOp)]
        given = [boundary.given(function, self._text) for function in functions]
        written = [tensors.raise_to_tensors(function) for function in functions]
        modules.decompose(module)
        driver.run_passes(module, modules.GENERIC, "payload")
        functions = [op for op in module.body if isinstance(op, func.FuncOp)]
        found = [contractions.set_apart(function.operation) for function in functions]
        driver.run_passes(module, modules.FUSE, "payload")
        specs: list[MatmulSpec] = []
        for function, products, names, outputs in zip(
            [op for op in module.body if isinstance(op, func.FuncOp)], found, given, written, strict=True
        ):
            groups.split(function.operation, products, specs)
            signature = boundary.close(function, names, outputs, specs)
            alone = ir.Module.create()
            function.operation.clone(ip=ir.InsertionPoint(alone.body))
            driver.run_passes(alone, modules.TIDY, "payload")
            self._functions.append(_Function(alone, signature))
        for spec in specs:
            plan = make.make(spec, self._target, threads=self._threads)
            self._products.append(_Product(spec, matmul.build(spec, self._context), plan))
        self._write_all("payload")

    def _schedule(self) -> None:
        for each in self._functions:
            each.schedule = nests(each.module.body.operations[0].operation, self._target)
        for each in self._products:
            each.schedule = each.plan.module(each.spec, self._target, self._context)
        self._write("schedule", *(each.schedule for each in (*self._functions, *self._products)))

    def _scheduled(self) -> None:
        for each in self._functions:
            if each.schedule is not None:
                modules.apply_schedule(each.module, each.schedule)
        for each in self._products:
            if each.schedule is not None:
                driver.apply_schedule(each.module, each.schedule, each.spec, name=each.plan.name)
        self._write_all("scheduled")

    def _bufferized(self) -> None:
        for each in self._products:
            each.workspace, _ = driver.bufferize(each.module, each.spec, self._target, each.plan, each.plan.threads)
        specs, sizes = [each.spec for each in self._products], [each.workspace for each in self._products]
        for each in self._functions:
            size = modules.bufferize(each.module, specs, sizes)
            each.signature = each.signature.with_workspace(size)
        self._built.functions = tuple(each.signature for each in self._functions)
        self._write_all("bufferized")

    def _llvm(self) -> None:
        for each in self._products:
            driver.lower_body(each.module, each.spec, self._target)
        bodies = {}
        for each in self._functions:
            name = f"{each.signature.name}_body"
            modules.to_llvm(each.module, name, self._target)
            bodies[name] = each.signature, each.module
        products = [modules.Product(each.spec, each.module, each.workspace) for each in self._products]
        self._joined = modules.join(bodies, products, self._target, self._allocator)
        self._write("llvm", self._joined)

    def _llvmir(self) -> None:
        try:
            raw = _tilewright.translate_to_llvmir(self._joined.operation)
        except (RuntimeError, ValueError) as e:
            raise LoweringError(str(e), stage="llvmir") from None
        self._built.texts["llvmir"] = code.optimize(raw, self._target)

    def _asm(self) -> None:
        self._built.texts["asm"] = code.assembly(self._built.texts["llvmir"], self._target)

    def _obj(self) -> None:
        self._built.object = code.object_file(self._built.texts["llvmir"], self._target)
