# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Installs what running kernels for Arm and RISC-V on another machine needs: QEMU's user-mode emulation. `make setup-arm` calls it.

Nothing is built: a kernel's program is linked by LLVM's own linker and needs no C library. OpenBLAS for AArch64 comes along, whose
instructions are counted beside the kernels'.
"""

from __future__ import annotations

import platform
import sys

import newer_qemu
import openblas_arm
import packages
from common import SetupError, say

EMULATED = ("qemu-aarch64", "qemu-riscv64")
EMULATOR = packages.Need(
    " and ".join(EMULATED),
    lambda: all(packages.has_program(name) or packages.has_program(f"{name}-static") for name in EMULATED),
    ("qemu-user",),
    required=False,
)


def main() -> int:
    """Installs the emulator where it is missing; 0 also where it cannot be had, after a line that says why."""
    if platform.machine() in ("aarch64", "arm64"):
        return 0
    try:
        packages.provide([EMULATOR])
    except SetupError as error:
        say(str(error))
    if not EMULATOR.met():
        say(f"going on without {EMULATOR.what}: the tests that run kernels for Arm and RISC-V are skipped")
        return 0
    try:
        openblas_arm.ensure()
    except (SetupError, OSError) as error:
        say(f"going on without OpenBLAS for AArch64, which kernels are compared with: {error}")
    if newer_qemu.is_needed():
        try:
            newer_qemu.provide()
        except SetupError as error:
            say(f"{error}; the tests that run SME's outer products of bytes are skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
