# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The AArch64 targets: the baseline of the architecture, then cores from the oldest to the most specific.

Features: Arm Architecture Reference Manual for A-profile (DDI 0487), in LLVM's spelling (`llc -march=aarch64 -mattr=help`).
Caches: each core's Technical Reference Manual; what a core may have in several sizes has here the size of the servers that it
is sold in. Issue and latency: each core's Software Optimization Guide, as LLVM's scheduling models have it. A multiply-add's
sum can be forwarded to the next one, which makes a chain of them faster than `fma_latency` says on Arm's own cores.

Kernels use registers of 128 bits, which every target has 32 of, and take elements of A by lane. Cores with SVE list it: LLVM
then has loads and stores under a mask, also of 128 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tilewright.targets.base import Cache, Family, Target
from tilewright.targets.linux import Emulation, Length, Linux, SystemCalls

_KIB = 1024
_MIB = 1024 * _KIB

_V8 = frozenset({"fp-armv8", "neon"})
_A76 = _V8 | {"crc", "dotprod", "fullfp16", "lse", "rcpc", "rdm"}
_M1 = _A76 | {"complxnum", "fp16fml"}
_V1 = _M1 | {"bf16", "i8mm", "sve"}
_V2 = _V1 | {"sve2"}
_SME = frozenset({"sme", "sme-f64f64", "sme-i16i64"})
# Vectors of SVE exist in streaming mode only.
_M4 = _M1 | {"bf16", "i8mm", "sme2"} | _SME

# LLVM 22 schedules for cortex-a76 as for Cortex-A57, which had one load a cycle. Neoverse N1 was made of Cortex-A76.
_TUNE_A76 = "neoverse-n1"

_NEOVERSE: Mapping[str, Any] = MappingProxyType(
    {
        "l1": Cache(64 * _KIB, ways=4),
        "l2": Cache(1 * _MIB, ways=8),
        "l3": Cache(32 * _MIB, ways=16, cpus=64),
    }
)
_APPLE: Mapping[str, Any] = MappingProxyType(
    {
        "fma_per_cycle": 4,
        "loads_per_cycle": 3,
        "issue_per_cycle": 6,
        "l1": Cache(128 * _KIB, ways=8),
        "rates": "four fmla a cycle, of 4 cycles, and three loads (Apple Silicon CPU Optimization Guide)",
        "model_cpu": "neoverse-v2",
        "model_note": "LLVM 22 has Cyclone's model for Apple's cores, with three units for fmla, and they have four: ports are Neoverse "
        "V2's",
    }
)


def _core(name: str, features: frozenset[str], **fields: Any) -> Target:  # noqa: ANN401 - of Target
    """A row. LLVM knows most cores by the same name, and models them by their Software Optimization Guides."""
    usual = {
        "tune_cpu": name,
        "model_cpu": name,
        "rates": "its Software Optimization Guide",
        "fma_latency": 4,
        "l3": None,
    }
    return Target(
        name=name,
        family="arm",
        triple="aarch64-unknown-linux-gnu",
        features=features,
        cpu="generic",
        vector_bits=128,
        vector_registers=32,
        prefer_vector_width=128,
        masked="sve" in features,
        by_lane=True,
        shuffle_bits=128,
        **{**usual, **fields},
    )


_ROWS = (
    # Sums enough for the widest cores; caches of the smallest.
    _core(
        "armv8-a",
        _V8,
        tune_cpu=_TUNE_A76,
        fma_per_cycle=4,
        loads_per_cycle=2,
        issue_per_cycle=6,
        l1=Cache(32 * _KIB, ways=2),
        l2=Cache(512 * _KIB, ways=16),
        rates="Neoverse V2, with the two loads a cycle of Neoverse N1 (their Software Optimization Guides)",
        model_cpu="neoverse-v2",
        is_level=True,
        source="Armv8.0-A (Arm DDI 0487); caches of Cortex-A72 (Arm 100095), 512 KiB of L2 a core",
    ),
    _core(
        "cortex-a76",
        _A76,
        tune_cpu=_TUNE_A76,
        fma_per_cycle=2,
        loads_per_cycle=2,
        issue_per_cycle=3,
        l1=Cache(64 * _KIB, ways=4),
        l2=Cache(512 * _KIB, ways=8),
        l3=Cache(2 * _MIB, ways=16, cpus=4),
        model_cpu="neoverse-n1",
        model_note="LLVM 22 has Cortex-A57's model for cortex-a76: ports are those of Neoverse N1, which was made of it",
        source="Arm 100798, Cortex-A76 Core Technical Reference Manual",
    ),
    _core(
        "neoverse-n1",
        _A76,
        fma_per_cycle=2,
        loads_per_cycle=2,
        issue_per_cycle=3,
        **_NEOVERSE,
        source="Arm 100616, Neoverse N1 Core Technical Reference Manual; 32 MiB of system cache",
    ),
    _core(
        "apple-m1",
        _M1,
        **_APPLE,
        l2=Cache(12 * _MIB, ways=12, line=128, cpus=4),
        source="Apple Silicon CPU Optimization Guide: performance cores of M1, with L2 shared by four",
    ),
    _core(
        "apple-m4",
        _M4,
        **_APPLE,
        l2=Cache(16 * _MIB, ways=16, line=128, cpus=4),
        streaming_bits=512,
        source="Apple Silicon CPU Optimization Guide; `sysctl hw.optional.arm` and `hw.perflevel0` of M4: SME2 with vectors of 64 "
        "bytes, its unit and the L2 shared by the performance cores",
    ),
    # No core is meant: sizes are computed for vectors between the shortest and the longest of those that are sold; caches of the
    # smallest server cores. Neither bf16 nor i8mm, which came with Armv9.1-A.
    _core(
        "armv9-a",
        _M1 | {"sve", "sve2"},
        tune_cpu="neoverse-v2",
        fma_per_cycle=4,
        loads_per_cycle=3,
        issue_per_cycle=6,
        l1=Cache(64 * _KIB, ways=4),
        l2=Cache(512 * _KIB, ways=8),
        scalable_bits=256,
        rates="Neoverse V2, and Neoverse V1 with vectors of 256 bits (their Software Optimization Guides)",
        model_cpu="neoverse-v1",
        is_level=True,
        source="Armv9.0-A (Arm DDI 0487) with vectors of 256 bits; caches of a small Neoverse N2 (Arm 102099)",
    ),
    _core(
        "neoverse-v1",
        _V1,
        fma_per_cycle=4,
        loads_per_cycle=3,
        issue_per_cycle=8,
        **_NEOVERSE,
        scalable_bits=256,
        source="Arm 101427, Neoverse V1 Core Technical Reference Manual; 32 MiB of system cache",
    ),
    _core(
        "neoverse-n2",
        _V2,
        fma_per_cycle=2,
        loads_per_cycle=3,
        issue_per_cycle=5,
        **_NEOVERSE,
        scalable_bits=128,
        source="Arm 102099, Neoverse N2 Core Technical Reference Manual; 32 MiB of system cache",
    ),
    _core(
        "neoverse-v2",
        _V2,
        fma_per_cycle=4,
        loads_per_cycle=3,
        issue_per_cycle=6,
        **_NEOVERSE,
        scalable_bits=128,
        source="Arm 102375, Neoverse V2 Core Technical Reference Manual; 32 MiB of system cache",
    ),
    # No core is meant: caches and issue are those of Neoverse V2, and streaming vectors as long as the first machines'.
    _core(
        "armv9-a+sme",
        _V2 | _SME,
        tune_cpu="neoverse-v2",
        fma_per_cycle=4,
        loads_per_cycle=3,
        issue_per_cycle=6,
        **_NEOVERSE,
        scalable_bits=128,
        streaming_bits=512,
        rates="Neoverse V2 (its Software Optimization Guide)",
        model_cpu="neoverse-v2",
        is_level=True,
        source="Armv9-A with SME, FEAT_SME_F64F64 and FEAT_SME_I16I64 (Arm DDI 0487); caches of Neoverse V2 (Arm 102375)",
    ),
)

# Linux's names: Documentation/arch/arm64/elf_hwcaps.rst; LLVM's: `llc -march=aarch64 -mattr=help`.
_FLAGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **{each: (each,) for each in ("bf16", "i8mm", "sve", "sve2", "sme", "sme2")},
        "fp": ("fp-armv8",),
        "asimd": ("neon",),
        "crc32": ("crc",),
        "atomics": ("lse",),
        "lrcpc": ("rcpc",),
        "asimdrdm": ("rdm",),
        "asimdhp": ("fullfp16",),
        "asimddp": ("dotprod",),
        "asimdfhm": ("fp16fml",),
        "fcma": ("complxnum",),
        "smef64f64": ("sme-f64f64",),
        "smei16i64": ("sme-i16i64",),
    }
)

_LINUX = Linux(
    elf=183,
    calls=SystemCalls("svc #0", "={x0},{x8},0,{x1},{x2},{x3},{x4},{x5},~{memory}"),
    emulation=Emulation(
        ("qemu-aarch64", "qemu-aarch64-static"),
        scalable=Length("sve-default-vector-length", 8),
        streaming=Length("sme-default-vector-length", 8),
    ),
)

# Arm's part numbers, in each core's Technical Reference Manual under MIDR_EL1. Features do not tell N1 from A76, nor N2 from V2.
_CORES: Mapping[str, str] = MappingProxyType(
    {
        "0x41 0xd0b": "cortex-a76",
        "0x41 0xd0c": "neoverse-n1",
        "0x41 0xd40": "neoverse-v1",
        "0x41 0xd49": "neoverse-n2",
        "0x41 0xd4f": "neoverse-v2",
    }
)
"""By implementer and part."""

FAMILY = Family("arm", architectures=("aarch64", "arm64"), rows=_ROWS, flags=_FLAGS, linux=_LINUX, cores=_CORES)
"""The family, for the registry."""
