# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Requests Linux's permission to use AMX's tile registers, once for each process.

Linux: Documentation/arch/x86/xstate.rst; arch/x86/include/uapi/asm/prctl.h. Forked children inherit what was granted; a program that
one starts has to ask again. A seccomp filter may refuse, and so does Linux before 5.16, which knows no such call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

ARCH_PRCTL = 158
"""The number of the system call on x86-64."""
REQUEST = 0x1023
"""ARCH_REQ_XCOMP_PERM: asks for permission to use a part of the processor's state."""
TILE_DATA = 18
"""The number of that part: XFEATURE_XTILEDATA."""

_PREFIX = "amx_"


def _ask() -> bool:
    """Asks the kernel. Returns whether the process may use tiles from now on."""
    import ctypes  # only where there is AMX

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    return syscall(*map(ctypes.c_long, (ARCH_PRCTL, REQUEST, TILE_DATA))) == 0


@functools.cache
def permitted() -> bool:
    """Whether this process may use tiles. Asks for it, the first time."""
    try:
        return _ask()
    except (OSError, AttributeError):  # no C library that can be called
        return False


def allow(features: Iterable[str]) -> None:
    """Asks for it where code for a processor with these LLVM features is to run, as in a child that never reads the machine."""
    if "amx-tile" in features:
        permitted()


def usable(flags: frozenset[str], granted: Callable[[], bool] = permitted) -> frozenset[str]:
    """Linux's CPU `flags`, without those of AMX when the process may not use it.

    `granted` is called only where the processor has AMX.
    """
    if "amx_tile" not in flags or granted():
        return flags
    return frozenset(flag for flag in flags if not flag.startswith(_PREFIX))
