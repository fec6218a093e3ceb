# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a step of a bundle under NVIDIA's compute-sanitizer or ncu, in a process of its own.

As a program, ``tools FOLDER STEP``, it is what runs under the tool: one launch, whose numbers are checked, without torch.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from shutil import which
from types import MappingProxyType
from typing import Any

from tilewright.bench.card import bundle, plan
from tilewright.bench.card.plan import Step
from tilewright.processes.command import command

_SECONDS = 120.0
"""A launch of small matrices under a checker takes some seconds; opening the card as many."""
_FOUND = 9
"""The exit status that compute-sanitizer is asked for where it finds something."""
_SHOWN = 20_000
"""Characters of a tool's output that are kept, the last ones."""
_OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "memcheck": ("--tool", "memcheck", "--error-exitcode", str(_FOUND)),
        "racecheck": ("--tool", "racecheck", "--error-exitcode", str(_FOUND)),
        # The card's clocks are nobody's to change.
        "profile": ("--set", "full", "--clock-control", "none", "--page", "details"),
    }
)


def run(folder: Path, step: Step) -> dict[str, Any]:
    """What a tool found: whether the kernel is right under it, and the end of its output; or that there is no such tool."""
    name = plan.TOOLS[step.kind]
    program = which(name)
    if program is None:
        return {"kernel": step.kernels[0].key, "skipped": f"there is no {name} on the PATH"}
    options = [*_OPTIONS[step.kind]]
    words = [program, *options, *command("tilewright.bench.card.tools", str(folder), step.key)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"kernel": step.kernels[0].key, "error": f"{name} took more than {_SECONDS:.0f} s"}
    said = (done.stdout + done.stderr)[-_SHOWN:]
    found: dict[str, Any] = {"kernel": step.kernels[0].key, "output": said}
    if done.returncode:
        found["error"] = f"{name} --{step.kind} ended with {done.returncode}: {' '.join(said.split())[-400:]}"
    return found


def main(folder: str, key: str) -> int:
    """Runs one step; 1 where its numbers are wrong."""
    from tilewright.bench.card.proofs import Prover

    step = next(each for each in bundle.read_steps(Path(folder)) if each.key == key)
    return 0 if Prover(Path(folder)).run(step)["right"] else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
