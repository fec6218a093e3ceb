# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The child process of `gpu_isolated`: answers one request."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable
from typing import Any

from tilewright.emit import child, gpu
from tilewright.emit.gpu_stages import as_json
from tilewright.errors import LoweringError, ScheduleError
from tilewright.mlir import ir
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec


def answer(request: dict[str, Any], started: Callable[[str], None]) -> dict[str, Any]:
    """Compiles what `request` asks for. Errors of the schedule and of lowering are answers too."""
    # From the parent process, and nobody else.
    spec, target = pickle.loads(base64.b64decode(request["product"]))
    plan = Plan(request["name"], None, text=request["schedule"])

    def make(scheduled: MatmulSpec, context: ir.Context) -> ir.Module | None:
        return plan.module(scheduled, target, context)

    try:
        built = gpu.compiled(
            spec,
            target,
            plan.name,
            make,
            aligned=request["aligned"],
            boxed=request["boxed"],
            started=started,
        )
    except (ScheduleError, LoweringError) as e:
        # MLIR calls text without a file "-".
        named = {"file": plan.name} if str(getattr(e, "file", "")) == "-" else {}
        return child.error_as_json(e, **named)
    return as_json(built, built.texts) | {"code": base64.b64encode(built.object).decode()}


if __name__ == "__main__":
    child.answer_with(answer)
