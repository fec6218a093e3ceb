# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The x86-64 targets: the levels of the psABI, then cores from the oldest to the most specific.

Features: System V ABI, AMD64 architecture processor supplement (x86-64 psABI), table "Micro-Architecture Levels", in
LLVM's spelling. Its OSFXSR, SCE and OSXSAVE say what the operating system does, and have no LLVM feature but ``xsave``;
LLVM's ``crc32`` is part of SSE4.2.

Cores: Intel 64 and IA-32 Architectures Optimization Reference Manual (order number 248966), cache and port tables of
Nehalem, Haswell, Skylake Server, Sunny Cove and Golden Cove; AMD's Software Optimization Guides of Zen 3 (56665), Zen 4 (57647) and
Zen 5 (58455); Agner Fog, "Instruction tables". A level says nothing about the core, so its row has the smallest usual caches and the
issue of a wide core of its time, which `rates` names: blocks then fit, and sums are enough in number, everywhere. What these mean for
a matmul: Low, Igual, Smith, Quintana-Ortí, "Analytical Modeling Is Enough for High-Performance BLIS", ACM TOMS 43(2), 2016.
`tilewright targets --check` measures the issue of the machine that it runs on.

The tuning processors were chosen by compiling the f32 microkernels that the registers allow with LLVM 22 (a k loop with
MR x NR vectors of sums): their scheduling models keep all of them in registers, where others spill. At 14 x 2 vectors
of 512 bits, "x86-64-v4" and "skylake-avx512" spill 10, "znver4" and "znver5" 6, "sapphirerapids" none; at 9 x 3,
"x86-64" spills 5, "sapphirerapids" none. At 4 x 3 vectors of 256 bits, "x86-64" spills 3, "x86-64-v3" none. So every row
with AVX-512 is tuned as "sapphirerapids", AMD's too.

A core's row lists the features that kernels can use, not its ciphers or its system instructions: a virtual machine that
hides those is still told from its features. AMD's rows have `sse4a`, which only AMD's cores have, so the two makers' rows
never claim each other's machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tilewright.targets.base import Cache, Family, Target
from tilewright.targets.linux import Linux, SystemCalls

_KIB = 1024
_MIB = 1024 * _KIB

_V1 = frozenset({"cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "x87"})
_V2 = _V1 | {"crc32", "cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"}
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_ZEN_3 = _V3 | {"sse4a"}
_V4 = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}
_CASCADE_LAKE = _V4 | {"avx512vnni"}
_ICE_LAKE = _CASCADE_LAKE | {
    *("avx512bitalg", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vpopcntdq", "gfni"),
}
_ZEN_4 = _ICE_LAKE | _ZEN_3 | {"avx512bf16"}
_ZEN_5 = _ZEN_4 | {"avx512vp2intersect", "avxvnni"}
_SAPPHIRE_RAPIDS = _ICE_LAKE | {"amx-bf16", "amx-int8", "amx-tile", "avx512bf16", "avx512fp16", "avxvnni"}
_GRANITE_RAPIDS = _SAPPHIRE_RAPIDS | {"amx-fp16"}


_ZEN_3_CORE = {
    "fma_per_cycle": 2,
    "fma_latency": 4,
    "loads_per_cycle": 2,
    "rates": "Zen 3: two multiply-adds of 4 cycles, and two 256-bit loads, a cycle (AMD 56665)",
    "model_cpu": "znver3",
    "adds_apart": True,
}
_BASELINE = _ZEN_3_CORE | {
    "rates": "Zen 3: two multiplies and two adds a cycle (AMD 56665); adds of 4 cycles, as the slowest of other cores",
}
_HASWELL = {
    "fma_per_cycle": 2,
    "fma_latency": 5,
    "loads_per_cycle": 2,
    "rates": "Haswell: multiply-adds on ports 0 and 1, of 5 cycles (Intel 248966)",
    "model_cpu": "haswell",
}
_SKYLAKE_SERVER = {
    "fma_per_cycle": 2,
    "fma_latency": 4,
    "loads_per_cycle": 2,
    "rates": "Skylake Server: 512-bit multiply-adds on ports 0 and 5, of 4 cycles (Intel 248966)",
    "model_cpu": "skylake-avx512",
}
_ONE_UNIT = (
    "LLVM 22's own model of {} starts one 512-bit multiply-add a cycle, the core two: ports are Skylake Server's"
)
# Their servers issue as Skylake's do; clients with one 512-bit unit have the same features, and `targets --check` tells them.
_ICE_LAKE_SERVER = _SKYLAKE_SERVER | {
    "rates": "Ice Lake Server: 512-bit multiply-adds on ports 0 and 5, of 4 cycles (Intel 248966, Sunny Cove)",
    "model_note": _ONE_UNIT.format("icelake-server"),
}
_GOLDEN_COVE = _SKYLAKE_SERVER | {
    "rates": "Golden Cove servers: 512-bit multiply-adds on ports 0 and 5, of 4 cycles; two 512-bit loads a cycle (Intel 248966)",
    "model_note": _ONE_UNIT.format("sapphirerapids"),
    "rows_ahead": 4,
}
# 512 bits in two passes through units of 256. Peaks measured on Zen 4 in f32, bf16 and bytes are 1, 2 and 4 times 117 GFLOP/s.
# stream_ahead: from memory, 128, 256, 512, 2048 and 4096 bytes ahead, in GB/s: four columns of i4 by one row of bf16, 4096 x 4096 in groups
# of 32, 25, 27, 28, 20 and 20; by one row of f32 that is rounded, 2048 x 5632, 25, 26, 26, 16 and 17. 16 heads of 4096 x 64 in f32, one
# query, 31 with 256 and 18 with 2048 and 4096.
_ZEN_4_CORE = {
    "fma_per_cycle": 1,
    "fma_latency": 4,
    "loads_per_cycle": 1,
    "rates": "Zen 4: one 512-bit multiply-add of 4 cycles, and one 512-bit load, a cycle (AMD 57647)",
    "model_cpu": "znver4",
    "adds_apart": True,
    "passes": 2,
    "stream_ahead": 256,
}
_ZEN_5_CORE = {
    "fma_per_cycle": 2,
    "fma_latency": 4,
    "loads_per_cycle": 2,
    "rates": "Zen 5 with units of 512 bits: two multiply-adds of 4 cycles, and two loads, a cycle (AMD 58455)",
    "model_cpu": "skylake-avx512",
    "model_note": "LLVM 22 has Zen 4's model for znver5, which starts one 512-bit multiply-add a cycle, and Zen 5 two: ports are Skylake "
    "Server's",
    "adds_apart": True,
}


def _row(
    name: str,
    features: frozenset[str],
    core: Mapping[str, Any],
    *,
    bits: int = 512,
    tune_cpu: str = "sapphirerapids",
    **fields: Any,  # noqa: ANN401 - of Target
) -> Target:
    """A row, of AVX-512 unless `bits` says otherwise: they differ in features, caches, and how the `core` issues."""
    return Target(
        name=name,
        family="x86",
        triple="x86_64-unknown-linux-gnu",
        features=features,
        cpu="x86-64",
        tune_cpu=tune_cpu,
        vector_bits=bits,
        vector_registers=32 if bits == 512 else 16,
        prefer_vector_width=bits,
        masked=bits == 512,
        shuffle_bits=128,
        **core,
        **fields,
    )


_SMALL: Mapping[str, Any] = MappingProxyType(
    {
        "l1": Cache(32 * _KIB, ways=8),
        "l2": Cache(256 * _KIB, ways=8),
        "l3": Cache(8 * _MIB, ways=16, cpus=8),
        "is_level": True,
    }
)
"""A level of before AVX-512, with the caches of its time."""
_SKYLAKE: Mapping[str, Any] = MappingProxyType(
    {
        "l1": Cache(32 * _KIB, ways=8),
        "l2": Cache(1 * _MIB, ways=16),
        "l3": Cache(11 * _MIB, ways=11, cpus=16),
    }
)

_ROWS = (
    # No FMA: a multiply and an add. Two of each in a cycle on Zen, one of each on Nehalem to Haswell.
    _row(
        "x86-64",
        _V1,
        _BASELINE,
        bits=128,
        tune_cpu="x86-64",
        **_SMALL,
        source="x86-64 psABI baseline; caches of Nehalem",
    ),
    # Still no FMA; what it adds to the baseline is SSE4.1's conversions, which small integers are widened with.
    _row(
        "x86-64-v2",
        _V2,
        _BASELINE,
        bits=128,
        tune_cpu="x86-64",
        **_SMALL,
        source="x86-64 psABI level v2; caches of Nehalem",
    ),
    # Haswell's FMA takes 5 cycles, Skylake's and Zen's 4; the registers leave room for either.
    _row(
        "x86-64-v3",
        _V3,
        _HASWELL,
        bits=256,
        tune_cpu="x86-64-v3",
        **_SMALL,
        source="x86-64 psABI level v3; caches of Haswell (Intel 248966)",
    ),
    _row(
        "znver3",
        _ZEN_3,
        _ZEN_3_CORE,
        bits=256,
        tune_cpu="x86-64-v3",
        l1=Cache(32 * _KIB, ways=8),
        l2=Cache(512 * _KIB, ways=8),
        l3=Cache(32 * _MIB, ways=16, cpus=16),
        source="AMD 56665, Software Optimization Guide for AMD EPYC 7003 Processors; L3 of one complex of 8 cores",
    ),
    _row(
        "x86-64-v4",
        _V4,
        _SKYLAKE_SERVER | {"is_level": True, "aligns_branches": True},
        **_SKYLAKE,
        source="x86-64 psABI level v4; caches of Skylake Server (Intel 248966), L3 of 8 cores",
    ),
    # vpdpbusd and vpdpwssd: dot products of 8-bit and 16-bit integers.
    _row(
        "cascadelake",
        _CASCADE_LAKE,
        _SKYLAKE_SERVER | {"model_cpu": "cascadelake", "rows_ahead": 4, "aligns_branches": True},
        **_SKYLAKE,
        source="caches of Skylake Server (Intel 248966), which it shares; L3 of 8 cores",
    ),
    _row(
        "icelake-server",
        _ICE_LAKE,
        _ICE_LAKE_SERVER,
        l1=Cache(48 * _KIB, ways=12),
        l2=Cache(1280 * _KIB, ways=20),
        l3=Cache(12 * _MIB, ways=12, cpus=16),
        source="Intel 248966: Sunny Cove and Ice Lake Server, 1.5 MiB of L3 a core, of 8 cores",
    ),
    # vdpbf16ps: dot products of bf16.
    _row(
        "znver4",
        _ZEN_4,
        _ZEN_4_CORE,
        l1=Cache(32 * _KIB, ways=8),
        l2=Cache(1 * _MIB, ways=8),
        l3=Cache(32 * _MIB, ways=16, cpus=16),
        source="AMD 57647, Software Optimization Guide for the AMD Zen4 Microarchitecture; L3 of one complex of 8 cores",
    ),
    _row(
        "znver5",
        _ZEN_5,
        _ZEN_5_CORE,
        l1=Cache(48 * _KIB, ways=12),
        l2=Cache(1 * _MIB, ways=16),
        l3=Cache(32 * _MIB, ways=16, cpus=16),
        source="AMD 58455, Software Optimization Guide for the AMD Zen5 Microarchitecture; L3 of one complex of 8 cores",
    ),
    # AMX: eight tile registers of 16 rows of 64 bytes; a dot product of two takes 16 cycles.
    _row(
        "sapphirerapids",
        _SAPPHIRE_RAPIDS,
        _GOLDEN_COVE,
        l1=Cache(48 * _KIB, ways=12),
        l2=Cache(2 * _MIB, ways=16),
        l3=Cache(15 * _MIB, ways=15, cpus=16),
        source="Intel 248966: Golden Cove, Intel AMX; 1.875 MiB of L3 a core, of 8 cores",
    ),
    _row(
        "graniterapids",
        _GRANITE_RAPIDS,
        _GOLDEN_COVE,
        l1=Cache(48 * _KIB, ways=12),
        l2=Cache(2 * _MIB, ways=16),
        l3=Cache(32 * _MIB, ways=16, cpus=16),
        source="Intel 248966: Redwood Cove as Golden Cove, and AMX-FP16; 4 MiB of L3 a core, of 8 cores",
    ),
)

# Linux's names: arch/x86/include/asm/cpufeatures.h; LLVM's: `llc -march=x86-64 -mattr=help`. Linux clears a flag when
# it does not save the registers that the instructions need, so a flag that is listed may be used.
_SAME = (
    # Baseline and x86-64-v2.
    *("cx8", "cmov", "mmx", "fxsr", "sse", "sse2", "cx16", "popcnt", "ssse3", "sse4a"),
    # x86-64-v3.
    *("avx", "avx2", "bmi2", "f16c", "fma", "movbe", "xsave"),
    # AVX-512.
    *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512ifma", "avx512vbmi"),
    # Ciphers and Galois fields (gfni shifts bytes; vaes and vpclmulqdq come with it).
    *("aes", "gfni", "vaes", "vpclmulqdq"),
    # Scalar arithmetic, prefetch and cache control.
    *("adx", "clflushopt", "clwb", "cldemote", "movdiri", "movdir64b", "waitpkg"),
)
"""Names that both have."""
_JOINED = (
    *(
        "avx512_vbmi2",
        "avx512_vnni",
        "avx512_bitalg",
        "avx512_vpopcntdq",
        "avx512_vp2intersect",
        "avx512_bf16",
        "avx512_fp16",
    ),
    # The same in 256 bits.
    *("avx_vnni", "avx_vnni_int8", "avx_ifma"),
)
"""Linux's names with underscores, of which LLVM's has none."""
_FLAGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **{each: (each,) for each in _SAME},
        **{each: (each.replace("_", ""),) for each in _JOINED},
        **{each: (each.replace("_", "-"),) for each in ("amx_tile", "amx_int8", "amx_bf16", "amx_fp16")},
        "fpu": ("x87",),
        "lahf_lm": ("sahf",),
        "pni": ("sse3",),
        "sse4_1": ("sse4.1",),
        "sse4_2": ("sse4.2", "crc32"),
        "bmi1": ("bmi",),
        "abm": ("lzcnt",),
        "pclmulqdq": ("pclmul",),
        "sha_ni": ("sha",),
        "3dnowprefetch": ("prfchw",),
    }
)

_LINUX = Linux(
    elf=62,
    # A function expects the stack as it is after a call; a program starts without one.
    calls=SystemCalls(
        "syscall",
        "={rax},0,{rdi},{rsi},{rdx},{r10},{r8},{r9},~{rcx},~{r11},~{memory}",
        mmap=9,
        mprotect=10,
        exit_group=231,
        openat=257,
        write=1,
        close=3,
        getpid=39,
        start='"stackrealign"',
    ),
)

# LLVM's getHostCPUName (llvm/lib/TargetParser/Host.cpp) has the models of each family. A hypervisor may hide what features tell Zen 5
# from Zen 4. Zen 5's cores with units of 256 bits (models 0x20 to 0x3f and 0x60 to 0x6f) are left to `targets --check`.
_CORES: Mapping[str, str] = MappingProxyType(
    {
        # Zen and Zen 2 have what Zen 3 has; Zen 2's multiply-add takes 5 cycles, as Haswell's.
        **{f"AuthenticAMD 23 {model}": "x86-64-v3" for model in range(0x100)},
        **{
            f"AuthenticAMD 25 {model}": "znver4"
            for model in (*range(0x10, 0x20), *range(0x60, 0x80), *range(0xA0, 0xB0))
        },
        # Skylake and Cascade Lake servers.
        "GenuineIntel 6 85": "cascadelake",
        **{f"AuthenticAMD 26 {model}": "znver5" for model in (*range(0x20), *range(0x40, 0x50), *range(0x70, 0x78))},
    }
)
"""By maker, family and model."""

FAMILY = Family("x86", architectures=("x86_64", "amd64"), rows=_ROWS, flags=_FLAGS, linux=_LINUX, cores=_CORES)
"""The family, for the registry."""
