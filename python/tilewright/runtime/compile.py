# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilation from a spec to a kernel that can be called: a product or an operator, for a processor or a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tilewright import targets
from tilewright.errors import SpecError
from tilewright.operator_specs import OperatorSpec
from tilewright.runtime import products
from tilewright.runtime.kernel import Kernel
from tilewright.schedules.models import emulated
from tilewright.schedules.models.threads import check
from tilewright.schedules.plan import Schedule
from tilewright.spec import MatmulSpec
from tilewright.targets import GpuTarget, Target


def compile(
    spec: MatmulSpec | OperatorSpec,
    target: str | Target | GpuTarget = "host",
    threads: int = 1,
    schedule: Schedule = None,
    *,
    parameters: Mapping[str, int] | None = None,
    cache: bool = True,
    verify: bool = False,
) -> Kernel:
    """Compiles `spec` for a target, or takes it from the disk cache.

    Where neither this machine nor an emulator runs the target's code, calls of the kernel raise `NotRunnableError`, a TargetError; all
    else, such as `Kernel.write`, is as ever.

    Args:
        spec: What to compute: a product, or an operator built on it (`Conv2dSpec`, `AttentionSpec`).
        target: "host", a row's name, a Target, or a GpuTarget. `target.emulated` has an emulator run the kernel.
        threads: Most threads that a call uses, through LLVM's OpenMP runtime. A small product uses fewer, as
            `Kernel.metadata` says; and a call no more than OpenMP then grants its caller.
        schedule: None to have a strategy chosen; a strategy's name; a function ``(spec, target, sizes)`` that returns
            a transform module; or a .py or .mlir file. What a user gives is compiled in a child process.
        parameters: Sizes of the schedule that override the model's, by name ("mr", "nr", "mc", "nc", "kc"; a GPU's strategies have others).
        cache: Whether the disk cache is read and written.
        verify: Whether the kernel of a product is tried once on random operands before it is returned, in a child process, and
            compared with the reference: for schedules that may be wrong. Dynamic extents are then small; those of a GPU's kernel
            always are. What nothing here can run is not verified, as an `UnverifiedWarning` says.

    Raises:
        SpecError: `spec` is no spec, or an operator that is to be verified, or `threads` is no int from 1 to 1024.
        TilewrightError: Several threads are asked for, and there is no OpenMP runtime.
        TargetError: The target is unknown, cannot be emulated, or lacks the instruction that the spec's `precision` is for.
        ScheduleError: The schedule is unknown or does not fit.
        WrongResultError: The kernel is verified, and computes wrong numbers, crashes, or does not end.
        LoweringError: A later stage failed.
    """
    asked = partial(_compiled, spec, target, threads, schedule, parameters=parameters)
    kernel = asked(cache=cache, verify=verify)
    kernel.can_be_compiled_again(partial(asked, cache=False))
    return kernel


def _compiled(
    spec: MatmulSpec | OperatorSpec,
    target: str | Target | GpuTarget,
    threads: int,
    schedule: Schedule,
    *,
    parameters: Mapping[str, int] | None,
    cache: bool,
    verify: bool = False,
) -> Kernel:
    """The kernel."""
    if isinstance(spec, OperatorSpec):
        if verify:
            raise SpecError(
                f"verify=True for {spec.operator}", where="compile", expected="False: only products are verified"
            )
        from tilewright.runtime import operators

        return operators.compile(spec, target, threads, schedule, parameters=parameters, cache=cache)
    if not isinstance(spec, MatmulSpec):
        raise SpecError(f"spec is a {type(spec).__name__}", where="compile", expected="a tilewright.MatmulSpec")
    card = targets.gpu(target)
    if card is not None:
        return _for_gpu(spec, card, threads, schedule, parameters, cache, verify)
    row = targets.resolve(target)
    emulated.warn(spec, row)
    return products.compile(spec, row, threads, schedule, parameters=parameters, cache=cache, verify=verify)


def _for_gpu(
    spec: MatmulSpec,
    target: GpuTarget,
    threads: int,
    schedule: Schedule,
    parameters: Mapping[str, int] | None,
    cache: bool,
    verify: bool,
) -> Kernel:
    """The kernel of a product for a GPU."""
    from tilewright.runtime import gpu

    if check(threads, "compile") > 1:
        raise SpecError(f"{threads} threads for {target.name}", where="compile", expected="1: a GPU has its own")
    kernel = gpu.compile(spec, target, schedule, parameters, cache=cache)
    if verify:
        from tilewright.runtime import verification

        on_emulator = partial(gpu.compile, spec, target.emulated(), schedule, parameters, cache=cache)
        verification.verify_gpu(kernel, on_emulator)
    return kernel
