# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks a kernel once on random operands, in a child process: a wrong schedule's kernel may also crash, or never end.

The child is this module too.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from tilewright import errors, knobs
from tilewright.emit import child
from tilewright.errors import OperandError, SpecError, TargetError, TilewrightError, UnverifiedWarning, WrongResultError
from tilewright.payload.signature import Signature
from tilewright.payload.spec_tables import Spec
from tilewright.runtime import load
from tilewright.runtime.emulated_gpu import EmulationError
from tilewright.runtime.kernel import About, Metadata
from tilewright.runtime.operator_kernel import OperatorKernel
from tilewright.runtime.runners import Runner
from tilewright.runtime.trial import Difference, Trial, calls
from tilewright.spec import MatmulSpec
from tilewright.standalone.packing import PackedFormat
from tilewright.targets.base import Target

if TYPE_CHECKING:
    from tilewright.runtime.gpu import GpuKernel

_SEED = 0
_CALL = "call"
"""What the child announces before it calls the kernel."""
_SMALL = {"m": 136, "n": 72, "k": 72}
"""Extents on GPUs, about: more than a block of rows, of columns and of K in most schedules, and done with by an emulator in seconds."""
_ALIGNED = 16
"""What is left when it divides an extent, tells how rows are aligned."""
_REMEDY = "kernel.asm['scheduled'] shows what the schedule made; leave its last steps out to find the one that is wrong"


def verify(
    object_: bytes,
    spec: Spec,
    target: Target,
    metadata: Metadata,
    form: PackedFormat | Signature | None,
    who: Runner,
) -> bool:
    """Calls a kernel in a child process on random operands, and compares the result with the reference.

    Dynamic extents of a product are small ones in turn; an operator's are static. Where the comparison takes more memory or time
    than there is, an `UnverifiedWarning` says so.

    Args:
        object_: The kernel's object.
        spec: What it computes.
        target: What it was compiled for.
        metadata: How it came about.
        form: Of a product the format of B, where it comes packed; of an operator what its function takes and gives.
        who: Who runs it.

    Returns:
        Whether it was compared.

    Raises:
        WrongResultError: An element is further from the reference than its bound, or the kernel crashed, or did not end.
    """
    request = {
        "kernel": base64.b64encode(pickle.dumps((object_, spec, target, form, who))).decode(),
        "schedule": metadata.schedule,
        "threads": metadata.threads,
    }
    try:
        answer = child.ask(__name__, request, child.Limits(knobs.load().compile_timeout_s))
    except child.EndedError as ended:
        if ended.stage != _CALL:  # It is not the kernel that took so long.
            warn(spec, f"the comparison {ended.reason}")
            return False
        raise _failed(metadata.schedule, f"the kernel {ended.reason}") from None
    if "unverified" in answer:
        warn(spec, answer["unverified"])
        return False
    if "failed" in answer:
        raise _failed(metadata.schedule, answer["failed"])
    if "difference" in answer:
        raise _wrong(metadata.schedule, answer["call"], Difference(**answer["difference"]))
    return True


def verify_gpu(kernel: GpuKernel, emulated: Callable[[], GpuKernel]) -> None:
    """Calls a GPU's kernel on small random operands: on what it is for, or where there is none, in the emulator.

    Its code is the same for all extents. Where nothing here runs it, an `UnverifiedWarning` says so.

    Args:
        kernel: The kernel.
        emulated: Compiles it for the emulator.

    Raises:
        WrongResultError: An element is further from the reference than its bound, or the emulator found something wrong.
    """
    spec = kernel.spec
    try:
        try:
            _check_gpu(kernel)
        except TargetError:
            if kernel.target.emulation:
                raise
            _check_gpu(emulated())
    except (TargetError, OperandError, MemoryError) as e:
        warn(spec, str(e))


def _check_gpu(kernel: GpuKernel) -> None:
    for small in dict.fromkeys(_small(call) for call in calls(kernel.spec)):
        try:
            trial = Trial.random(kernel.called_as(small), small, _SEED)
            trial()
        except EmulationError as e:
            raise _failed(kernel.metadata.schedule, str(e)) from e
        found = trial.difference()
        if not found.right:
            raise _wrong(kernel.metadata.schedule, str(small), found)


def _small(call: MatmulSpec) -> MatmulSpec:
    """A call with small extents, of which rows are aligned as those of `call` are."""
    sizes = {name: min(getattr(call, name), most + getattr(call, name) % _ALIGNED) for name, most in _SMALL.items()}
    try:
        return replace(call, **sizes)
    except SpecError:  # Such as groups that do not divide that K.
        return replace(call, m=sizes["m"], n=sizes["n"])


def _failed(schedule: str, what: str) -> WrongResultError:
    return WrongResultError(what, where=schedule, remedy=_REMEDY)


def _wrong(schedule: str, call: str, found: Difference) -> WrongResultError:
    """The error of a kernel whose result is wrong: which element, and by how much."""
    return WrongResultError(
        f"{call}: {found}", where=schedule, expected=f"{found.expected:.9g} ± {found.bound:.3g}", remedy=_REMEDY
    )


def warn(spec: Spec, why: str) -> None:
    """Says that a kernel was not verified."""
    errors.warn(f"the kernel of {spec} was not verified: {why}", UnverifiedWarning)


def _answer(request: dict[str, Any], started: child.Tell) -> dict[str, Any]:
    """Calls the kernel that `request` holds. A wrong result is an answer too."""
    # From the parent process, and nobody else.
    object_, spec, target, form, who = pickle.loads(base64.b64decode(request["kernel"]))
    about = About(spec, target, _facts(target, request["schedule"], request["threads"]), {})
    try:
        if isinstance(form, Signature):
            (kernel,) = load.functions(object_, [form], about, who, OperatorKernel)
        else:
            kernel = load.product(object_, about, form, who)
        for call in calls(spec) if isinstance(spec, MatmulSpec) else [spec]:
            trial = Trial.random(kernel, call, _SEED)
            started(_CALL)
            trial()
            started("comparison")
            found = trial.difference()
            if not found.right:
                return {"call": str(call), "difference": asdict(found)}
    except MemoryError as e:
        return {"unverified": f"out of memory: {e}"}
    except TilewrightError as e:
        return {"failed": str(e)}
    return {}


def _facts(target: Target, schedule: str, threads: int) -> Metadata:
    """Metadata that says no more than what a kernel is called by."""
    return Metadata(target.name, target.triple, target.feature_string, schedule, {}, threads, {}, 0.0, 0, False, "")


def main() -> None:
    """The child."""
    child.answer_with(_answer)
