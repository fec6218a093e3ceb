# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the emulator that runs code of another architecture, and its options."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tilewright import targets
from tilewright.errors import NotRunnableError
from tilewright.runtime.emulator import Emulator
from tilewright.schedules import select
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.linux import Emulation
from tilewright.targets.registry import family_of

_SME_PROGRAM = "qemu-aarch64-sme"
"""A newer one, that `make setup-arm` puts beside Python where the system's computes SME's products of bytes wrongly."""
_RIGHT_BYTES = 9
"""The major version of QEMU from which on SMOPA and its like are right: 7.2 leaves every second row of a tile as it was."""


def find(target: Target) -> Emulator:
    """The emulator for code of `target`, with vectors as long as its `emulation` says, or as its machines have.

    Raises:
        NotRunnableError: None is installed, or none is known, or this machine is of that architecture and lacks features.
        TargetError: No row has its architecture.
    """
    emulation = family_of(target.architecture).linux.emulation
    if emulation is None or targets.runnable(target) != (target.architecture,):
        targets.require_runnable(target)
    assert emulation is not None, "this machine would run it otherwise"
    options, names = _options(emulation, target), emulation.programs
    for path in (_newer() if "sme" in target.features else None, *map(shutil.which, names)):
        if path:
            return Emulator(path, options)
    raise NotRunnableError(
        f"this machine cannot run code for {target.name}: it lacks {target.architecture}, and there is no emulator",
        expected=f"{' or '.join(names)} on the path",
        remedy="Install the package qemu-user (`make setup-arm` does); to compile only, do not call the kernel",
    )


def check(emulator: Emulator, spec: MatmulSpec, schedule: str) -> None:
    """Checks that an emulator computes a kernel right.

    Raises:
        NotRunnableError: It is too old for outer products of bytes.
    """
    if select.is_streaming(schedule) and spec.acc_type.kind in ("int", "uint") and not multiplies_bytes(emulator):
        raise NotRunnableError(
            f"{emulator.path} computes outer products of bytes wrongly",
            where="emulator",
            expected=f"QEMU {_RIGHT_BYTES} or newer",
            remedy="Run `make setup-arm`, or put a newer qemu-aarch64 on the path",
        )


def multiplies_bytes(emulator: Emulator) -> bool:
    """Whether an emulator's outer products of bytes are right."""
    return _version(emulator.path) >= _RIGHT_BYTES


def _newer() -> str | None:
    """The path of `_SME_PROGRAM`, beside Python or on the path."""
    folder = str(Path(sys.prefix, "bin"))
    return shutil.which(_SME_PROGRAM, path=os.pathsep.join((folder, os.environ.get("PATH", ""))))


@functools.cache
def _version(path: str) -> int:
    """The major version of a QEMU; a large number when it does not tell."""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"version (\d+)", done.stdout)
    return int(found.group(1)) if found else sys.maxsize


def _options(emulation: Emulation, target: Target) -> tuple[str, ...]:
    """QEMU's options: a processor that has everything, and its vector lengths."""
    lengths = target.emulation or target
    options = [emulation.processor]
    for length, bits in ((emulation.scalable, lengths.scalable_bits), (emulation.streaming, lengths.streaming_bits)):
        if bits and length is not None:
            options.append(f"{length.name}={bits // length.unit}")
    return ("-cpu", ",".join(options))
