# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles under a user's schedule in a child process, so that a crash inside MLIR is an error and not the end.

MLIR's packages are built without assertions: a schedule that is wrong in the right way ends the process that runs it.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tilewright.emit.stages import Stages
from tilewright.errors import LoweringError, ScheduleError
from tilewright.mlir import ir
from tilewright.payload.packing import PackedFormat
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

STARTED = "tilewright-stage: "
"""What the child writes to its standard error before the name of each stage."""


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
        schedule = None if module is None else str(module.operation.get_asm(enable_debug_info=True))
    request = {
        "spec": base64.b64encode(pickle.dumps(spec)).decode(),
        "target": _target_as_json(target),
        "name": plan.name,
        "schedule": schedule,
        "until": until,
        "allocator": allocator,
        "symbol": symbol,
        "threads": plan.threads,
    }
    try:
        child = subprocess.run(
            [sys.executable, "-m", "tilewright.emit.worker"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            check=False,
        )
    except subprocess.TimeoutExpired as e:
        raise _crash(f"took more than {timeout:g} s", _decoded(e.stderr), spec, schedule) from None
    if child.returncode != 0:
        raise _crash(_reason(child.returncode), child.stderr, spec, schedule)
    # What the schedule printed.
    sys.stderr.writelines(line for line in child.stderr.splitlines(keepends=True) if not line.startswith(STARTED))
    try:
        answer = json.loads(child.stdout)
    except ValueError:
        raise _crash("gave no answer that can be read", child.stderr, spec, schedule) from None
    error = answer.get("error")
    if error:
        raise _error(error)
    return Stages(
        spec,
        target,
        plan,
        texts=answer["texts"],
        seconds=answer["seconds"],
        object=base64.b64decode(answer["object"]),
        workspace=answer["workspace"],
        packed=PackedFormat.from_header(bytes.fromhex(answer["packed"])) if answer["packed"] else None,
    )


def _target_as_json(target: Target) -> dict[str, object]:
    fields = asdict(target)
    fields["features"] = sorted(target.features)
    return fields


def _decoded(text: bytes | str | None) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text or ""


def _reason(returncode: int) -> str:
    if returncode < 0:
        return f"crashed with {signal.Signals(-returncode).name}"
    return f"ended with status {returncode}"


def _crash(reason: str, stderr: str, spec: MatmulSpec, schedule: str | None) -> LoweringError:
    """The error for a child that did not answer, with the files that make it happen again."""
    stages = [line.removeprefix(STARTED) for line in stderr.splitlines() if line.startswith(STARTED)]
    folder = Path(tempfile.mkdtemp(prefix="tilewright-reproducer-"))
    (folder / "schedule.mlir").write_text(schedule or "")
    (folder / "stderr.txt").write_text(stderr)
    (folder / "README.txt").write_text(
        f"tilewright compile --shape {spec.m}x{spec.n}x{spec.k} --dtype {spec.a} --layout {spec.layout} "
        "--schedule schedule.mlir --emit asm -o -\n"
    )
    return LoweringError(
        f"MLIR {reason}",
        stage=stages[-1] if stages else "payload",
        reproducer=folder,
        remedy=f"The schedule and how to run it are in {folder}",
    )


def _error(fields: dict[str, str | int | None]) -> ScheduleError | LoweringError:
    kind = {"ScheduleError": ScheduleError, "LoweringError": LoweringError}[str(fields.pop("class"))]
    return kind(**fields)  # type: ignore[arg-type]
