# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tilewright.trace`: compiles a spec, or a kernel again, step by step."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.operator_specs import OperatorSpec
from tilewright.runtime import step_trace
from tilewright.runtime.compile import compile as compiled
from tilewright.runtime.kernel import Kernel
from tilewright.runtime.step_trace import Trace
from tilewright.schedules.plan import Schedule
from tilewright.spec import MatmulSpec
from tilewright.targets import GpuTarget, Target


def trace(
    what: MatmulSpec | OperatorSpec | Kernel,
    target: str | Target | GpuTarget = "host",
    threads: int = 1,
    schedule: Schedule = None,
    *,
    parameters: Mapping[str, int] | None = None,
) -> Trace:
    """Compiles a spec step by step, past the disk cache, and keeps what each transform op and each pass did.

    Args:
        what: The spec; or a kernel, as `Kernel.trace`, which takes no other argument.
        target: As for `tilewright.compile`, as the others.
        threads: Likewise.
        schedule: Likewise.
        parameters: Likewise.

    Returns:
        The trace; of a schedule that fails, everything up to the failure, with `Trace.error`.

    Raises:
        SpecError: The kernel was not compiled by `tilewright.compile` or `compile_module`.
        TilewrightError: What `tilewright.compile` raises before a schedule runs.
    """
    if isinstance(what, Kernel):
        return what.trace()
    return step_trace.required(lambda: compiled(what, target, threads, schedule, parameters=parameters, cache=False))
