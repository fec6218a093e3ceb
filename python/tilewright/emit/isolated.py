# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles under a user's schedule in a child process, so that a crash inside MLIR is an error and not the end.

MLIR's packages are built without assertions: a schedule that is wrong in the right way ends the process that runs it.
"""

from __future__ import annotations

import base64
import pickle

from tilewright.emit import child
from tilewright.emit.stages import Stages
from tilewright.lowering import driver
from tilewright.mlir import ir
from tilewright.payload.packing import PackedFormat
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def build(
    spec: MatmulSpec, target: Target, plan: Plan, *, until: str, allocator: tuple[str, str], symbol: str, timeout: float
) -> Stages:
    """As `stages.build`, in a child process.

    The user's Python function still runs in this process, which is the user's own; what it made is handed over as text. A
    .mlir schedule is handed over as it is, and parsed in the child only.

    Args:
        spec: What to compute.
        target: For which target.
        plan: The user's schedule.
        until: The last stage wanted.
        allocator: Where the kernel gets its workspace.
        symbol: The name of the C entry.
        timeout: Seconds after which the child is ended.

    Raises:
        ScheduleError: The schedule does not fit.
        LoweringError: A later stage failed; MLIR crashed or took too long, and the error names a reproducer.
    """
    schedule = plan.text
    if schedule is None:
        module = plan.module(spec, target, ir.Context())
        if module is not None:
            driver.verify(module, plan.name)
        schedule = None if module is None else str(module.operation.get_asm(enable_debug_info=True))
    request = {
        "spec": base64.b64encode(pickle.dumps(spec)).decode(),
        "target": child.target_as_json(target),
        "name": plan.name,
        "schedule": schedule,
        "until": until,
        "allocator": allocator,
        "symbol": symbol,
        "threads": plan.threads,
    }
    try:
        answer = child.ask("tilewright.emit.worker", request, timeout)
    except child.EndedError as ended:
        raise ended.as_error(_reproducer(spec, schedule), "The schedule and how to run it are") from None
    return Stages(
        spec=spec,
        target=target,
        plan=plan,
        texts=answer["texts"],
        seconds=answer["seconds"],
        object=base64.b64decode(answer["object"]),
        workspace=answer["workspace"],
        packed=PackedFormat.from_header(bytes.fromhex(answer["packed"])) if answer["packed"] else None,
    )


def _reproducer(spec: MatmulSpec, schedule: str | None) -> dict[str, str]:
    """The files that make it happen again."""
    command = (
        f"tilewright compile --shape {spec.m}x{spec.n}x{spec.k} --dtype {spec.a} --layout {spec.layout} "
        "--schedule schedule.mlir --emit asm -o -\n"
    )
    return {"schedule.mlir": schedule or "", "README.txt": command}
