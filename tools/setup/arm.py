# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What running Arm kernels takes on a machine that is none: QEMU's emulation of one process. `make setup-arm` calls it.

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

EMULATOR = packages.Need(
    "qemu-aarch64",
    lambda: packages.has_program("qemu-aarch64") or packages.has_program("qemu-aarch64-static"),
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
        say("going on without qemu-aarch64: the tests that run Arm kernels are skipped")
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
