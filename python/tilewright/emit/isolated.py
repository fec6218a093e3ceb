# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles under a user's schedule or list of passes in a child process: a crash, an endless loop or a lack of memory is an error.

A schedule in Python runs there too; `child.is_needed` says when it is done here.
MLIR's packages are built without assertions: a wrong schedule can end the process that runs it.
"""

from __future__ import annotations

import base64
import os
import pickle
import shlex
import sys
from typing import Any

from tilewright import knobs
from tilewright.emit import child, pipeline, product_options
from tilewright.emit.built import Built
from tilewright.emit.gpu_stages import Computed, GpuStages, from_json
from tilewright.emit.stages import Stages
from tilewright.errors import ScheduleError
from tilewright.operator_specs import OperatorSpec
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.standalone.packing import PackedFormat
from tilewright.targets.base import Target
from tilewright.targets.gpu import GpuTarget

_WORKER = "tilewright.emit.worker"


def build(spec: MatmulSpec, target: Target, plan: Plan, **wanted: Any) -> Stages:  # noqa: ANN401 - fields of Wanted
    """As `stages.build`, in a child process.

    Raises:
        ScheduleError: The schedule does not fit, or, in Python, crashed or took too long.
        LoweringError: A later stage failed; MLIR crashed or took too long, and the error names a reproducer.
    """
    command = _compile(spec, target, plan, "asm")
    answer = _answer(plan, {"spec": spec, "scheduled": spec, "target": target, "wanted": wanted}, command)
    packed = PackedFormat.from_header(bytes.fromhex(answer["packed"])) if answer["packed"] else None
    fields = pipeline.from_answer(answer)
    return Stages(spec=spec, target=target, plan=plan, **fields, workspace=answer["workspace"], packed=packed)


def build_gpu(
    spec: Computed,
    target: GpuTarget,
    plan: Plan,
    scheduled: MatmulSpec | OperatorSpec,
    *,
    aligned: bool,
    boxed: bool,
) -> GpuStages:
    """As `gpu.build`, in a child process.

    Args:
        spec: What to compute.
        target: For which GPU.
        plan: The user's schedule, and the sizes that it is given; or a strategy, and those that override its own by name.
        scheduled: What it is made for.
        aligned: As for `gpu.build`.
        boxed: Likewise.

    Raises:
        ScheduleError: The schedule does not fit, or says nothing of the order in which it sums where that has to be known.
        LoweringError: A later stage failed; MLIR crashed or took too long, and the error names a reproducer.
    """
    if isinstance(spec, MatmulSpec) and spec.deterministic and not plan.trusted:
        raise ScheduleError(
            "the summation order of a user's schedule is unspecified",
            where="deterministic=True",
            expected="None, or a strategy's name",
        )
    form = {"aligned": aligned, "boxed": boxed}
    wanted = {"spec": spec, "scheduled": scheduled, "target": target, "wanted": form}
    command = _call(spec, target, plan)
    if isinstance(spec, MatmulSpec):
        command = _compile(spec, target, plan, "threads")
    answer = _answer(plan, wanted, command)
    return from_json(answer, spec, target, base64.b64decode(answer["code"]), cached=False)


def build_operator(
    spec: OperatorSpec,
    target: Target,
    plan: Plan,
    scheduled: OperatorSpec | MatmulSpec,
    **wanted: Any,  # noqa: ANN401 - fields of Wanted
) -> Built:
    """As `operators.compiled`, in a child process; a user's schedule is made for `scheduled`.

    Raises:
        ScheduleError: The schedule does not fit, or, in Python, crashed or took too long.
        LoweringError: A later stage failed; MLIR crashed or took too long, and the error names a reproducer.
    """
    command = _call(spec, target, plan)
    return Built.from_json(
        _answer(plan, {"spec": spec, "scheduled": scheduled, "target": target, "wanted": wanted}, command)
    )


def build_chain(stages: tuple[MatmulSpec, ...], name: str, target: Target, threads: int, **wanted: Any) -> Built:  # noqa: ANN401
    """As `chain.compiled`, in a child process.

    Raises:
        ScheduleError: A schedule does not fit.
        LoweringError: A later stage failed; MLIR crashed or took too long, and the error names a reproducer.
    """
    plan, wanted = Plan(name, None, threads=threads), {"name": name, "threads": threads, **wanted}
    command = f'tilewright.compile_chain({stages!r}, "{target.name}", threads={threads})\n'
    return Built.from_json(
        _answer(plan, {"spec": stages, "scheduled": stages, "target": target, "wanted": wanted}, command)
    )


def _answer(plan: Plan, wanted: dict[str, Any], command: str) -> dict[str, Any]:
    """What the child answers; `command` makes what went wrong happen again."""
    request: dict[str, Any] = {"plan": _pickled(plan), "wanted": base64.b64encode(pickle.dumps(wanted)).decode()}
    if plan.text is None and not plan.trusted:
        # What a user's code may import: what it could in this process.
        request["paths"] = [os.path.abspath(path) for path in sys.path]
    try:
        return child.ask(_WORKER, request, child.Limits.of_compilation(), needs=[_compiler(wanted)])
    except child.EndedError as ended:
        if plan.text is None and not plan.trusted and ended.stage == "schedule":
            raise ended.as_schedule_error(plan.name) from None
        files, passes = {}, knobs.load().pass_list()
        if not plan.trusted:
            files["schedule.mlir"] = ended.told.get("schedule", plan.text or "")
        if passes not in ("", knobs.REQUIRED):
            files["passes.txt"] = passes
        if passes:
            named = "passes.txt" if "passes.txt" in files else knobs.REQUIRED
            command = f"export TILEWRIGHT_PASSES={named}\n{command}"
        files["README.txt"] = command
        what = "list of passes" if plan.trusted else "schedule"
        raise ended.as_error(files, f"The {what} and how to run it are") from None


def _compiler(wanted: dict[str, Any]) -> str:
    """The module with which the child compiles."""
    if isinstance(wanted["target"], GpuTarget):
        return "tilewright.emit.gpu"
    if isinstance(wanted["spec"], tuple):
        return "tilewright.emit.chain"
    return "tilewright.emit.operators" if isinstance(wanted["spec"], OperatorSpec) else "tilewright.emit.stages"


def _schedule(plan: Plan) -> str:
    """The options of a command that give it a plan; none where it chooses the same."""
    if not plan.trusted:
        return " --schedule schedule.mlir"
    if plan.parameters is None or plan.cases:
        return ""
    return f" --schedule {plan.name}{''.join(f' --set {name}={size}' for name, size in _sizes(plan).items())}"


def _sizes(plan: Plan) -> dict[str, int]:
    """The sizes of a plan of ours by name."""
    return plan.parameters if isinstance(plan.parameters, dict) else plan.sizes


def _call(spec: MatmulSpec | OperatorSpec, target: Target | GpuTarget, plan: Plan) -> str:
    """The call that compiles what has no options of a command."""
    given = {"threads": plan.threads} if plan.threads > 1 else {}
    given |= {"parameters": sizes} if plan.trusted and (sizes := _sizes(plan)) else {}
    given |= {} if plan.trusted else {"schedule": "schedule.mlir"}
    return f'tilewright.compile({spec!r}, "{target.name}"{"".join(f", {name}={value!r}" for name, value in given.items())})\n'


def _pickled(plan: Plan) -> str:
    """A plan as a child gets it; a function of the main program, of a notebook or of a function goes along as code."""
    if plan.strategy is None:
        return base64.b64encode(pickle.dumps(plan)).decode()
    import cloudpickle

    try:
        return base64.b64encode(cloudpickle.dumps(plan)).decode()
    except Exception as e:  # Whatever an object raises that is asked to be pickled.
        raise ScheduleError(
            f"the function cannot be sent to the process that runs it: {e}",
            where=plan.name,
            expected="one that refers to nothing but what can be pickled",
            remedy="Put it into a .py file of its own, and give that",
        ) from None


def _compile(spec: MatmulSpec, target: Target | GpuTarget, plan: Plan, stage: str) -> str:
    """The command that compiles a product up to a stage."""
    product = shlex.join(product_options.of(spec, target.name, plan.threads))
    return f"tilewright compile {product}{_schedule(plan)} --emit {stage} -o -\n"
