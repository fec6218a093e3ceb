# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The child process of `isolated`: answers one request."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable

from tilewright.emit import child, stages
from tilewright.errors import LoweringError, ScheduleError
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec


def answer(request: dict, started: Callable[[str], None]) -> dict:
    """Compiles what `request` asks for. Errors of the schedule and of lowering are answers too."""
    # From the parent process, and nobody else.
    spec: MatmulSpec = pickle.loads(base64.b64decode(request["spec"]))
    plan = Plan(request["name"], None, text=request["schedule"], threads=request["threads"])
    allocator = tuple(request["allocator"])
    try:
        built = stages.build(
            spec,
            child.target_from_json(request["target"]),
            plan,
            until=request["until"],
            allocator=allocator,
            symbol=request["symbol"],
            started=started,
        )
    except (ScheduleError, LoweringError) as e:
        # MLIR calls text without a file "-".
        named = {"file": plan.name} if str(getattr(e, "file", "")) == "-" else {}
        return child.error_as_json(e, **named)
    return {
        "texts": built.texts,
        "seconds": built.seconds,
        "object": base64.b64encode(built.object).decode(),
        "workspace": built.workspace,
        "packed": None if built.packed is None else built.packed.header.hex(),
    }


if __name__ == "__main__":
    child.answer_with(answer)
