# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linux's facts about an architecture: its ELF machine number, its system calls, and the emulator of its processes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SystemCalls:
    """How Linux is called.

    Numbers: Linux's include/uapi/asm-generic/unistd.h and arch/x86/entry/syscalls/syscall_64.tbl.

    Attributes:
        instruction: What calls it.
        registers: LLVM's constraints on it: the result, the call's number, and six arguments.
        mmap: The number of that call.
        mprotect: The number of that call.
        exit_group: The number of that call.
        openat: The number of that call.
        write: The number of that call.
        close: The number of that call.
        getpid: The number of that call.
        start: Attributes of the function that a program starts at.
    """

    instruction: str
    registers: str
    mmap: int = 222
    mprotect: int = 226
    exit_group: int = 94
    openat: int = 56
    write: int = 64
    close: int = 57
    getpid: int = 172
    start: str = ""


@dataclass(frozen=True, slots=True)
class Length:
    """QEMU's option for a vector length.

    Attributes:
        name: The option.
        unit: Bits of what it counts.
    """

    name: str
    unit: int


@dataclass(frozen=True, slots=True)
class Emulation:
    """The emulator of an architecture's processes, on machines of another one.

    Attributes:
        programs: Names of it, the first one that is there is taken.
        processor: QEMU's processor that has everything, with options.
        scalable: How long its scalable vectors are; None where it has none.
        streaming: The same for the vectors of a streaming mode.
    """

    programs: tuple[str, ...]
    processor: str = "max"
    scalable: Length | None = None
    streaming: Length | None = None


@dataclass(frozen=True, slots=True)
class Linux:
    """Linux's facts about an architecture.

    Attributes:
        elf: The number of the architecture in ELF files, of the System V ABI.
        calls: How Linux is called.
        emulation: The emulator of its processes; None where nothing here runs them but machines of the architecture.
    """

    elf: int
    calls: SystemCalls
    emulation: Emulation | None = None
