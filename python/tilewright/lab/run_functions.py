# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs operators and the functions of modules on this machine or in an emulator, and checks their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.bench import functions
from tilewright.dtypes import to_numpy
from tilewright.emit import child
from tilewright.lab.functions import Module, Operator
from tilewright.lab.verdict import SEED, about, timed, told, worst
from tilewright.payload.operators import error_bound, reference
from tilewright.payload.samples import of_operator
from tilewright.runtime import load, runners
from tilewright.runtime.module import Function
from tilewright.runtime.operator_kernel import OperatorKernel
from tilewright.runtime.trial import Difference
from tilewright.schedules.plan import Plan
from tilewright.targets.base import Target


def operator(kind: Operator, plan: Plan, tell: child.Tell) -> dict[str, Any]:
    """A convolution or attention, beside its reference."""
    built, spec, target = kind.build(plan, tell, runs=True), kind.spec, kind.target
    (kernel,) = _functions(built, spec, target, plan, tell, OperatorKernel)
    random = np.random.default_rng(SEED)
    operands = of_operator(random, spec)
    packed = {each.name for each in kernel.signature.arguments if each.packed}
    given = [
        kernel.pack(each.name, array) if each.name in packed else array
        for each, array in zip(spec.operands, operands, strict=True)
    ]
    difference = Difference.of(kernel(*given), reference(spec, *operands), error_bound(spec, *operands))
    found = worst([told(difference, str(spec))], kernel.metadata.emulator or "this machine")
    if not kernel.metadata.emulator:
        out = np.empty(spec.result.shape, to_numpy(spec.result.type))
        first, second, *_ = spec.operands
        found |= timed(lambda: kernel(*given, out=out), target, (first.type.name, second.type.name), plan.threads)
    return found


def module(kind: Module, plan: Plan, tell: child.Tell) -> dict[str, Any]:
    """The functions of a module, beside the same as loops over elements; the time is that of all, one after the other."""
    made = _functions(kind.build(plan, tell, runs=True), None, kind.target, plan, tell, Function)
    plain = _functions(kind.build(plan, tell, runs=True, plain=True), None, kind.target, plan, tell, Function)
    checked, seconds = [], 0.0
    for function, other in zip(made, plain, strict=True):
        random = np.random.default_rng(SEED)
        error, most = max(functions.errors(function, other, random)), functions.allowed(function.signature)
        text = "" if error <= most else f"off by {error:.2g} from loops over elements"
        name = function.signature.name
        checked.append(
            {"wrong": int(error > most), "worst": error / (most or 1), "elements": 0, "text": text, "call": name}
        )
        if not function.metadata.emulator:
            seconds += functions.seconds_of(function, random)
    found = worst(checked, made[0].metadata.emulator or "this machine")
    return found | ({"seconds": seconds, "repeats": functions.SAMPLES, "peak": None} if seconds else {})


def _functions(
    built: Any,  # noqa: ANN401 - the stages of functions
    spec: Any,  # noqa: ANN401 - what they compute
    target: Target,
    plan: Plan,
    tell: child.Tell,
    of: type[Function],
) -> list[Any]:
    """Functions that can be called."""
    tell("call")
    who = runners.of(target).sharing(target, plan.threads)
    if who.refusal is not None:
        raise who.refusal
    return load.functions(built.object, built.functions, about(spec, target, plan, who.name), who, of)
