# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The child process of `isolated`: makes a user's schedule, and compiles under it, or under a plan of ours.

It imports only the compiler that is asked for: the imports take longer than a kernel to compile.
"""

from __future__ import annotations

import base64
import pickle
import sys
from typing import Any

from tilewright.build import contexts
from tilewright.emit import child
from tilewright.errors import LoweringError, ScheduleError, SpecError
from tilewright.lowering import run
from tilewright.operator_specs import OperatorSpec
from tilewright.schedules.plan import Plan
from tilewright.targets.gpu import GpuTarget


def answer(request: dict[str, Any], tell: child.Tell) -> dict[str, Any]:
    """Compiles what `request` asks for. Errors of the schedule and of lowering are answers too."""
    # From the parent process, and nobody else.
    wanted = pickle.loads(base64.b64decode(request["wanted"]))
    name = None
    try:
        tell("schedule")
        plan = _plan(request)
        name = plan.name
        if not plan.trusted:
            text = plan.text if plan.text is not None else _made(plan, wanted)
            if text is not None:
                tell("payload", schedule=text)
            plan = Plan(plan.name, None, text=text, trusted=False, threads=plan.threads)
        if isinstance(wanted["target"], GpuTarget):
            return _gpu(plan, wanted, tell)
        return _cpu(plan, wanted, tell)
    except (SpecError, ScheduleError, LoweringError) as e:
        # MLIR calls text without a file "-".
        named = {"file": name} if str(getattr(e, "file", "")) == "-" else {}
        return child.error_as_json(e, **named)


def _plan(request: dict[str, Any]) -> Plan:
    """The plan; what its code imports is looked for where the parent would, after all that is found already."""
    sys.path += [path for path in request.get("paths", ()) if path not in sys.path]
    try:
        return pickle.loads(base64.b64decode(request["plan"]))
    except MemoryError:
        raise
    except Exception as e:  # Of a module of the user's that is imported.
        raise ScheduleError(f"the function cannot be read in the process that runs it: {type(e).__name__}: {e}") from e


def _made(plan: Plan, wanted: dict[str, Any]) -> str | None:
    """The text of the module that a user's function makes; None where there is nothing to schedule."""
    module = plan.module(wanted["scheduled"], wanted["target"], contexts.new())
    if module is None:
        return None
    run.verify(module, plan.name)
    return str(module.operation.get_asm(enable_debug_info=True))


def _cpu(plan: Plan, wanted: dict[str, Any], tell: child.Tell) -> dict[str, Any]:
    made = {"target": wanted["target"], **wanted["wanted"], "started": tell}
    if isinstance(wanted["spec"], tuple):
        from tilewright.emit import chain

        return chain.compiled(wanted["spec"], **made).as_json()
    if isinstance(wanted["spec"], OperatorSpec):
        from tilewright.emit import operators

        build: Any = operators.compiled
    else:
        from tilewright.emit import stages

        build = stages.build
    return build(wanted["spec"], plan=plan, **made).as_json()


def _gpu(plan: Plan, wanted: dict[str, Any], tell: child.Tell) -> dict[str, Any]:
    from tilewright.emit import gpu
    from tilewright.emit.gpu_stages import as_json

    built = gpu.compiled(wanted["spec"], wanted["target"], plan, **wanted["wanted"], started=tell)
    return as_json(built, built.texts) | {"code": base64.b64encode(built.object).decode()}


def main() -> None:
    """The child."""
    child.answer_with(answer)
