# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `shared_softmax`: attention on a GPU, a block of threads for each tile of queries, and the model of its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.schedules import steps
from tilewright.schedules.decisions import SharedSoftmax
from tilewright.schedules.gpu import axes
from tilewright.schedules.models import shared_softmax as model
from tilewright.schedules.steps import knobs
from tilewright.targets.gpu import GpuTarget

_THREADS = 128
"""Threads of a block."""
_WIDE = 64
"""Elements of a query or a value, up to which a warp has 32 queries, so that each fragment of K and V is multiplied twice; sums of more
elements leave too few registers."""


def shared_softmax(spec: AttentionSpec, target: GpuTarget, sizes: SharedSoftmax) -> ir.Module:
    """Builds the schedule. The sizes are all that it decides; `codegen.gpu_attention` carries it out.

    Before: ``S = Q * K^T``, ``P = softmax(scale * S + mask)``, ``O = P * V`` (decided). After, in each block, which has `bm` queries::

        O = 0; m = lowest; l = 0
        for j in 0..keys step kc:
            S = scale * Q * K[j:j+kc]^T + mask[:, j:j+kc]       # K, and below V, in shared memory
            a = exp(m - max(m, S)); m = max(m, S); P = exp(S - m)
            l = l * a + sum of P; O = O * a + P * V[j:j+kc]
        O = O / l
    """
    with steps.script() as script:
        options = axes.near(sizes, {"bm": 1, "kc": 1}, lambda made: model.check(made, spec, target))
        knobs.decide(steps.match(script.functions, "linalg.softmax"), sizes, options)
    return script.module


def sizes(spec: AttentionSpec, target: GpuTarget, parameters: Mapping[str, Any]) -> SharedSoftmax:
    """The sizes for `spec` on a target, of which `parameters` override some.

    Raises:
        ScheduleError: A parameter is unknown, or they do not fit together, or into shared memory.
    """
    known = {each.name: type(each.default) for each in fields(SharedSoftmax)}
    for name, size in parameters.items():
        if name not in known or not isinstance(size, known[name]):
            raise ScheduleError(f"{name}={size!r}", where="schedule parameters", expected=", ".join(known))
    made = replace(_usual(spec, target), **parameters)
    model.check(made, spec, target)
    return made


def _usual(spec: AttentionSpec, target: GpuTarget) -> SharedSoftmax:
    """The usual sizes: the largest that fit into shared memory."""
    kind = model.multiplied(spec)
    instructions = model.instructions(kind, target)
    if instructions == "threads":
        across = 16
        while across * 4 < spec.value_head and across < _THREADS:
            across *= 2
        rows = 4
        made = SharedSoftmax(_THREADS // across * rows, max(32, across), rows, _THREADS, multiplied="f32")
    else:
        is_wide = max(spec.head, spec.value_head) > _WIDE or instructions not in model.HOLD_WEIGHTS
        rows, kc = (16, 64) if is_wide else (32, 32)
        warps = _THREADS // target.warp
        made = SharedSoftmax(warps * rows, kc, rows, _THREADS, instructions, kind)
    while model.bytes_of(made, spec, target) > target.shared_bytes and _smaller(made) != made:
        made = _smaller(made)
    return made


def _smaller(made: SharedSoftmax) -> SharedSoftmax:
    """With fewer keys, or, by single threads, fewer queries."""
    across = made.threads * made.rows // made.bm
    if made.instructions != "threads":
        return replace(made, kc=max(16, made.kc // 2))
    if made.kc > max(across, 16):
        return replace(made, kc=made.kc // 2)
    return replace(made, bm=made.bm // 2, rows=made.rows // 2) if made.rows > 1 else made
