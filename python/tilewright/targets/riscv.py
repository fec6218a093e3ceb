# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The RISC-V targets with the vector extension: the application profile's baseline, then cores that are sold.

Features: The RISC-V Instruction Set Manual, volume I (V 1.0, Zvfh, Zvfbfwma), in LLVM's spelling (`llc -march=riscv64 -mattr=help`).
Kernels on fixed vectors use registers of 128 bits, the least that V allows; those on scalable ones use groups of two registers,
each as long as the machine has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tilewright.targets.base import Cache, Family, Target
from tilewright.targets.linux import Emulation, Length, Linux, SystemCalls

_KIB = 1024

_GCV = frozenset({"m", "a", "f", "d", "c", "v"})
_X60 = _GCV | {"zba", "zbb", "zbs", "zfh", "zvfh", "zvl256b"}


def _core(name: str, features: frozenset[str], **fields: Any) -> Target:  # noqa: ANN401 - of Target
    """A row of an in-order core that issues two instructions a cycle, one of them to its vector unit."""
    return Target(
        name=name,
        family="riscv",
        triple="riscv64-unknown-linux-gnu",
        features=features,
        cpu="generic-rv64",
        tune_cpu="spacemit-x60",
        vector_bits=128,
        vector_registers=32,
        fma_per_cycle=1,
        fma_latency=5,
        loads_per_cycle=1,
        issue_per_cycle=2,
        l3=None,
        prefer_vector_width=128,
        masked=True,
        scalable_unit=64,
        rates="SpacemiT X60: one vector multiply-add and one load a cycle (LLVM's scheduling model of it)",
        model_cpu="spacemit-x60",
        **fields,
    )


_ROWS = (
    # No core is meant: caches of the smallest that run Linux, vectors of the least length.
    _core(
        "rv64gcv",
        _GCV,
        scalable_bits=128,
        l1=Cache(32 * _KIB, ways=4),
        l2=Cache(256 * _KIB, ways=8),
        source="The RISC-V Instruction Set Manual, volume I: RV64GC with V 1.0; issue as spacemit-x60",
        is_level=True,
    ),
    _core(
        "spacemit-x60",
        _X60,
        scalable_bits=256,
        l1=Cache(32 * _KIB, ways=4),
        l2=Cache(512 * _KIB, ways=16, cpus=4),
        source="SpacemiT K1 data sheet: X60 cores, vectors of 256 bits, 512 KiB of L2 for each four; issue and latency: LLVM's "
        "scheduling model SpacemitX60Model",
    ),
)

# Linux's names: the "isa" line of /proc/cpuinfo, one extension each; LLVM's: `llc -march=riscv64 -mattr=help`.
_EXTENSIONS = ("m", "a", "f", "d", "c", "v", "zba", "zbb", "zbs", "zfh", "zvfh", "zvfbfwma", "zvl128b", "zvl256b")
_FLAGS: Mapping[str, tuple[str, ...]] = MappingProxyType({each: (each,) for each in _EXTENSIONS})

_LINUX = Linux(
    elf=243,
    calls=SystemCalls("ecall", "={x10},{x17},0,{x11},{x12},{x13},{x14},{x15},~{memory}"),
    emulation=Emulation(
        ("qemu-riscv64", "qemu-riscv64-static"),
        processor="rv64,v=true,vext_spec=v1.0,elen=64,zba=true,zbb=true,zbs=true,Zfh=true",
        scalable=Length("vlen", 1),
    ),
)

FAMILY = Family("riscv", architectures=("riscv64",), rows=_ROWS, flags=_FLAGS, linux=_LINUX)
"""The family, for the registry."""
