# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes from this process, by a seccomp filter, the right to start processes, open sockets, and signal or trace others.

The kernel refuses the system calls (`PermissionError`), whatever the code is that makes them. Files stay readable: `sandbox` is for those.
Sources: seccomp(2) and Linux's tables of system calls (``asm/unistd_64.h``, ``asm-generic/unistd.h``).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Where ``struct seccomp_data`` has them."""
_THREAD = 0x00010000
"""CLONE_THREAD: a thread, and no process."""
_OTHER_ABI = 0x40000000
"""From here on system calls of x86-64 are those of its ABI with short pointers."""


@dataclass(frozen=True, slots=True)
class _Architecture:
    """Linux's numbers for an architecture.

    Attributes:
        audit: Its name in filters.
        refused: System calls that are refused.
        clone: ``clone``, which is only for threads.
        signals: ``kill`` and ``tgkill``, which are only for this process.
    """

    audit: int
    refused: tuple[int, ...]
    clone: int
    signals: tuple[int, ...]


_CLONE3 = 435
"""Its flags are in memory, which a filter cannot read; the C library takes ``clone`` where it is not there."""
# fork, vfork, execve, execveat, socket, socketpair, ptrace, process_vm_readv, process_vm_writev, io_uring_setup, pidfd_send_signal,
# pidfd_getfd; arm64 has neither fork nor vfork.
_ARCHITECTURES: Mapping[str, _Architecture] = MappingProxyType(
    {
        "x86_64": _Architecture(0xC000003E, (57, 58, 59, 322, 41, 53, 101, 310, 311, 425, 424, 438), 56, (62, 234)),
        "aarch64": _Architecture(0xC00000B7, (221, 281, 198, 199, 117, 270, 271, 425, 424, 438), 220, (129, 131)),
    }
)


def is_known() -> bool:
    """Whether there is a filter for this machine."""
    return platform.system() == "Linux" and platform.machine() in _ARCHITECTURES


def apply() -> bool:
    """Applies it to this process and all of its threads to come, for good; whether there is one for this machine.

    Raises:
        OSError: The kernel refuses it.
    """
    if not is_known():
        return False
    code = b"".join(_program(_ARCHITECTURES[platform.machine()]))
    length = len(code) // 8
    held = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", length, ctypes.addressof(held)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    for arguments in ((_SET_NO_NEW_PRIVILEGES, 1, 0), (_SET_SECCOMP, _FILTER, ctypes.addressof(program))):
        if prctl(*arguments, 0, 0):
            raise OSError(ctypes.get_errno(), f"prctl: {os.strerror(ctypes.get_errno())}")
    return True


def _program(of: _Architecture) -> list[bytes]:
    """The filter, one instruction each: a code, how many to skip if it holds and if not, and a number."""

    def step(code: int, number: int, then: int = 0, otherwise: int = 0) -> bytes:
        return struct.pack("HBBI", code, then, otherwise, number)

    refuse = step(_RETURN, _ERROR | errno.EPERM)
    made = [
        step(_LOAD, _ARCHITECTURE),
        step(_EQUAL, of.audit, 1),
        step(_RETURN, _KILL),
        step(_LOAD, _NUMBER),
        step(_AT_LEAST, _OTHER_ABI, 0, 1),
        refuse,
        step(_EQUAL, _CLONE3, 0, 1),
        step(_RETURN, _ERROR | errno.ENOSYS),
    ]
    for number in of.refused:
        made += [step(_EQUAL, number, 0, 1), refuse]
    made += [step(_EQUAL, of.clone, 0, 4), step(_LOAD, _FIRST_ARGUMENT), step(_ANY_BIT, _THREAD, 1), refuse]
    made += [step(_RETURN, _ALLOW)]
    for number in of.signals:
        made += [step(_EQUAL, number, 0, 4), step(_LOAD, _FIRST_ARGUMENT), step(_EQUAL, os.getpid(), 1), refuse]
        made += [step(_RETURN, _ALLOW)]
    return [*made, step(_RETURN, _ALLOW)]
