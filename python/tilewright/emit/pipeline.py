# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The named stages of a compilation: one ordered list for each family of targets, and the one function that runs them.

Importing it needs no MLIR: the command line prints these lists, and a kernel from the disk cache has no other use for them.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tilewright import knobs
from tilewright.emit import dump
from tilewright.errors import LoweringError

WHAT: Mapping[str, str] = MappingProxyType(
    {
        "payload": "the computation, as linalg ops on tensors",
        "schedule": "the transform module that decides the kernel",
        "scheduled": "the payload once the schedule ran: tiled, packed, vectorized, with decisions as attributes",
        "bufferized": "memrefs for tensors; decisions are carried out, threads share loops, scratch memory is one block",
        "threads": "the code of one GPU thread: tiles are shared among the threads of a block, copies are pipelined",
        "llvm": "the LLVM dialect, with the C entries around the kernel",
        "nvvm": "the LLVM dialect with NVIDIA's intrinsics",
        "rocdl": "the LLVM dialect with AMD's intrinsics",
        "spirv": "the SPIR-V dialect, and the shader as a binary",
        "llvmir": "LLVM IR, optimized",
        "asm": "assembly",
        "ptx": "PTX, which NVIDIA's driver compiles",
        "obj": "an object file",
    }
)
"""What each stage makes."""
_FRONT = ("payload", "schedule", "scheduled", "bufferized")
FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cpu": (*_FRONT, "llvm", "llvmir", "asm", "obj"),
        "nvidia": (*_FRONT, "threads", "nvvm", "llvmir", "ptx"),
        "amd": (*_FRONT, "threads", "rocdl", "llvmir", "asm", "obj"),
        "vulkan": (*_FRONT, "threads", "spirv"),
    }
)
"""The stages of each family of targets, in order."""
CPU_TEXTS = FAMILIES["cpu"][:-1]
"""The stages that are text of kernels for CPUs."""
_ASIDE = ("cpu", "asm")
"""The stage that is left out on the way to a later one."""
_DIGESTED = "schedule"
"""The stage whose text is always made: records of schedules keep its digest."""
BINARY = "obj"
"""The stage that is bytes; the others are text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is wanted of a compilation for a CPU.

    Attributes:
        until: The last stage, of `FAMILIES`.
        for_linking: Whether the object gets its scratch memory from the C library, and not from the runtime that loads it.
        symbol: The name of the C entry; empty for the kernel's own.
        started: Told the name of each stage as it starts.
        texts: Whether the texts of the stages before the last one are wanted too: to print them takes a twentieth of a compilation.
    """

    until: str = BINARY
    for_linking: bool = False
    symbol: str = ""
    started: Callable[[str], object] = lambda stage: None
    texts: bool = True


@dataclass(slots=True)
class Record:
    """What the stages made that were run.

    Attributes:
        texts: The text of each stage, in order; a stage with nothing to say has none.
        seconds: The time that each stage took, in order.
        object: The object file; empty when an earlier stage was the last.
        libraries: The libraries that made it, as `versions.libraries` tells them; None: those that this process has loaded.
    """

    texts: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    object: bytes = b""
    libraries: dict[str, str] | None = None

    def as_json(self) -> dict[str, Any]:
        """What a child process answers, which `from_answer` reads: texts, seconds and the object."""
        object_ = base64.b64encode(self.object).decode()
        return {"texts": self.texts, "seconds": self.seconds, "object": object_, "libraries": self.libraries}


def from_answer(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the `Record` of which `Record.as_json` made an answer."""
    same = {name: answer[name] for name in ("texts", "seconds", "libraries")}
    return {**same, "object": base64.b64decode(answer["object"])}


def code(family: str) -> str:
    """The last stage of a family that is text, which people read."""
    return next(each for each in reversed(FAMILIES[family]) if each != BINARY)


def check(stage: str, family: str = "cpu") -> None:
    """Raises `LoweringError` where `stage` is none of a family's."""
    if stage not in FAMILIES[family]:
        raise LoweringError(f"unknown stage {stage!r}", expected=f"one of {', '.join(FAMILIES[family])}")


def run(
    compilation: object,
    family: str,
    *,
    until: str,
    record: Record,
    title: str,
    started: Callable[[str], object] = lambda stage: None,
    texts: bool = True,
) -> None:
    """Runs the stages of a family up to `until`, and records what they make.

    A CPU's assembly is a text of its own, which no object needs: it is made only where it is the last stage wanted.

    Args:
        compilation: Has a method for each stage, by its name, that returns the stage's text or bytes, or what prints the text, or None
            where it has none.
        family: A name in `FAMILIES`.
        until: The last stage wanted.
        record: Where to put what is made, as soon as it is.
        title: What is compiled: the folder's name where ``TILEWRIGHT_DUMP`` has stages and passes written to files.
        started: Told the name of each stage as it starts.
        texts: Whether texts that have to be printed are wanted of stages before the last one.

    Raises:
        LoweringError: `until` is unknown, or a stage failed.
        ScheduleError: The schedule does not fit.
    """
    from tilewright.lowering.chosen_passes import chosen
    from tilewright.lowering.instrument import Watch, watched

    check(until, family)
    known = knobs.load()
    into = None if known.dump_dir is None else dump.folder(known.dump_dir, title)
    folder = into and into / "passes"
    watch = Watch(folder, known.time_passes, located=bool(known.debug_info)) if into or known.time_passes else None
    with watched(watch), chosen(known.pass_list(), into and into / dump.PASSES) as choice:
        for number, stage in enumerate(FAMILIES[family]):
            if (family, stage) == _ASIDE and until == BINARY:
                continue
            started(stage)
            start = time.perf_counter()
            made = getattr(compilation, stage)()
            if callable(made):
                made = str(made()) if texts or stage in (until, _DIGESTED) or into is not None else None
            record.seconds[stage] = time.perf_counter() - start
            if isinstance(made, bytes):
                record.object = made
            elif made:
                record.texts[stage] = made
            if made and into is not None:
                dump.write(into, number, stage, made)
            if stage == until:
                break
        if choice is not None and until == BINARY:
            choice.check_all_taken()
