# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles for a GPU under a user's schedule in a child process, so that a crash inside MLIR is an error and not the end."""

from __future__ import annotations

import base64
import pickle

from tilewright import knobs
from tilewright.emit import child
from tilewright.emit.gpu_stages import GpuStages, from_json
from tilewright.errors import ScheduleError
from tilewright.lowering import driver
from tilewright.mlir import ir
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget


def build(
    spec: MatmulSpec, target: GpuTarget, plan: Plan, scheduled: MatmulSpec, *, aligned: bool, boxed: bool
) -> GpuStages:
    """As `gpu.build`, in a child process.

    The user's Python function still runs in this process, which is the user's own; what it made is handed over as text.

    Args:
        spec: What to compute.
        target: For which GPU.
        plan: The user's schedule, and the sizes that it is given.
        scheduled: What it is made for.
        aligned: As for `gpu.build`.
        boxed: Likewise.

    Raises:
        ScheduleError: The schedule does not fit, or says nothing of the order in which it sums where that has to be known.
        LoweringError: A later stage failed; MLIR crashed or took too long, and the error names a reproducer.
    """
    if spec.deterministic:
        raise ScheduleError(
            "of a schedule that is not ours nobody knows in which order it sums",
            where="deterministic=True",
            expected="None, or a strategy's name",
        )
    schedule = plan.text
    if schedule is None:
        module = plan.module(scheduled, target, ir.Context())
        assert module is not None, "it has sizes"
        driver.verify(module, plan.name)
        schedule = str(module.operation.get_asm(enable_debug_info=True))
    request = {
        "product": base64.b64encode(pickle.dumps((spec, target))).decode(),
        "name": plan.name,
        "schedule": schedule,
        "aligned": aligned,
        "boxed": boxed,
    }
    try:
        answer = child.ask("tilewright.emit.gpu_worker", request, knobs.load().compile_timeout_s)
    except child.EndedError as ended:
        raise ended.as_error(_reproducer(spec, target, schedule), "The schedule and how to run it are") from None
    return from_json(answer, spec, target, base64.b64decode(answer["code"]), cached=False)


def _reproducer(spec: MatmulSpec, target: GpuTarget, schedule: str) -> dict[str, str]:
    """The files that make it happen again."""
    command = (
        f"tilewright compile --shape {spec.m}x{spec.n}x{spec.k} --dtype {spec.a} --layout {spec.layout} "
        f"--target {target.name} --schedule schedule.mlir --emit threads -o -\n"
    )
    return {"schedule.mlir": schedule, "README.txt": command}
