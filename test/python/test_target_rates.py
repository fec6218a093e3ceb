# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many instructions a row says its core starts, beside LLVM's scheduling models: they agree, or the difference is known here."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
import tilewright as tw
from tilewright.targets import Target, host

MCA = shutil.which("llvm-mca-22") or shutil.which("llvm-mca")
pytestmark = pytest.mark.skipif(MCA is None, reason="llvm-mca is not installed")
COUNT = 12
ROWS = {row.name: row for row in tw.targets.all()}
LEVELS = ("x86-64", "armv", "rv64")


def asked(cpu: str, row: Target, *lines: str) -> tuple[float, int, int]:
    """How many of `lines`, each of them in `COUNT` registers, start in a cycle; the latency of the first; and the dispatch width."""
    settings = "# LLVM-MCA-RISCV-LMUL M1\n# LLVM-MCA-RISCV-SEW E32\n" if row.family == "riscv" else ""
    text = settings + "".join(f"{line.format(number)}\n" for line in lines for number in range(COUNT))
    command = [str(MCA), f"-mtriple={row.triple}", f"-mcpu={cpu}", f"-mattr={row.feature_string}", "-json"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    region = json.loads(done.stdout)["CodeRegions"][0]
    summary, first = region["SummaryView"], region["InstructionInfoView"]["InstructionList"][0]
    return COUNT / summary["BlockRThroughput"], first["Latency"], summary["DispatchWidth"]


PROBES = {
    "arm": {"multiply-adds": ("fmla v{}.4s, v30.4s, v31.s[0]",), "loads": ("ldr q{}, [x0]",)},
    "riscv": {"multiply-adds": ("vfmacc.vf v{}, fa0, v31",), "loads": ("vle32.v v{}, (a0)",)},
}
"""By family, those whose vectors have one name."""


def lines(row: Target) -> dict[str, tuple[str, ...]]:
    """What a row says the rate of, in its own vectors."""
    if row.family != "x86":
        return PROBES[row.family]
    register = {128: "%xmm", 256: "%ymm", 512: "%zmm"}[row.vector_bits]
    if "fma" not in row.features:
        fma = (f"addps {register}15, {register}{{}}", f"mulps {register}15, {register}{{}}")
        return {"multiply-adds": fma, "loads": (f"movups (%rdi), {register}{{}}",)}
    found = {
        "multiply-adds": (f"vfmadd231ps {register}14, {register}15, {register}{{}}",),
        "loads": (f"vmovups (%rdi), {register}{{}}",),
    }
    for dot in (row.dots("bf16", "bf16")[-1], row.dots("u8", "i8")[-1]):
        if dot.name in ("vpdpbusd", "vdpbf16ps"):
            found[dot.name] = (f"{dot.name} {register}14, {register}15, {register}{{}}",)
    return found


def claims(row: Target) -> dict[str, float]:
    """What a row says of the same."""
    found: dict[str, float] = {
        "multiply-adds": row.fma_per_cycle,
        "loads": row.loads_per_cycle,
        "latency": row.fma_latency,
    }
    if row.issue_per_cycle:
        found["issue"] = row.issue_per_cycle
    return found | {name: row.fma_per_cycle for name in lines(row) if name.startswith("v")}


def modeled(cpu: str, row: Target) -> dict[str, float]:
    """What LLVM's model of a processor says of the same."""
    found: dict[str, float] = {}
    for name, each in lines(row).items():
        rate, latency, width = asked(cpu, row, *each)
        found[name] = rate
        if name == "multiply-adds":
            found |= {"latency": latency, "issue": width}
    return found


ONE_UNIT = {"multiply-adds": 1, "vpdpbusd": 1}
KNOWN: dict[str, dict[str, float]] = {
    # Intel 248966: servers of Sunny Cove and Golden Cove have a second 512-bit unit on port 5, which these models leave out.
    "icelake-server": {"multiply-adds": 1, "vpdpbusd": 2},
    # ... and vdpbf16ps takes both ports, where the model has two cycles; three loads a cycle are of 256 bits, of 512 there are two.
    "sapphirerapids": {**ONE_UNIT, "vdpbf16ps": 0.5, "loads": 3},
    "graniterapids": {**ONE_UNIT, "vdpbf16ps": 0.5, "loads": 3},
    # The peaks measured on Zen 4; AMD 57647: 512-bit loads take both data paths of 256 bits.
    "znver4": {"vpdpbusd": 0.5, "vdpbf16ps": 1 / 3, "loads": 2},
    # LLVM 22 has Zen 4's model for znver5 (its pull requests 131780 and 172370 are open); AMD 58455: units of 512 bits.
    "znver5": {"multiply-adds": 1, "vpdpbusd": 0.5, "vdpbf16ps": 1 / 3},
    # One load of a whole register is three micro-operations of two instructions there. Neoverse N1's guide: two of them a cycle.
    "neoverse-n1": {"loads": 1.5},
    # Cortex-A57's model, and Cyclone's: the guides of Cortex-A76 and of Apple's cores.
    "cortex-a76": {"multiply-adds": 1, "loads": 1, "latency": 10},
    "apple-m1": {"multiply-adds": 3, "loads": 2, "latency": 2},
    "apple-m4": {"multiply-adds": 3, "loads": 2, "latency": 2},
    # A load of a whole register, of 256 bits; the row counts those of 128. No manual of the core says either: nothing else is known of it.
    "spacemit-x60": {"loads": 1 / 3},
}
"""Of LLVM's model of the core that a row is called like, what it has otherwise; beside it, who says that the row is right."""


@pytest.mark.parametrize("name", [name for name in ROWS if not name.startswith(LEVELS)])
def test_a_core_issues_as_llvm_models_it_or_the_difference_is_known(name):
    row = ROWS[name]
    said, found = claims(row), modeled(name, row)
    different = {what: found[what] for what in said if found[what] != pytest.approx(said[what], rel=0.02)}
    known = {what: each for what, each in KNOWN.get(name, {}).items() if each != said.get(what)}
    assert different == pytest.approx(known, rel=0.02)


@pytest.mark.parametrize("name", ROWS)
def test_the_model_that_explains_a_row_starts_as_many_multiply_adds(name):
    row = ROWS[name]
    found = modeled(row.model_cpu, row)
    assert found["multiply-adds"] == pytest.approx(row.fma_per_cycle)
    assert row.rates
    # Another core's model, for a core that is named, is explained.
    assert row.model_note or row.name == row.model_cpu or row.name.startswith(LEVELS)


def test_one_512_bit_multiply_add_a_cycle_on_zen_4():
    assert (ROWS["znver4"].fma_per_cycle, ROWS["znver4"].loads_per_cycle) == (1, 1)
    assert (ROWS["znver5"].fma_per_cycle, ROWS["znver5"].loads_per_cycle) == (2, 2)


@pytest.mark.parametrize(
    ("base", "core", "rates"),
    [
        ("znver4", "AuthenticAMD 26 2", "znver5"),  # A hypervisor hides what tells it from Zen 4.
        ("znver5", "AuthenticAMD 26 2", "znver5"),
        ("znver5", "AuthenticAMD 26 36", "znver5"),  # With units of 256 bits: nothing is known of it.
        ("znver4", "AuthenticAMD 25 17", "znver4"),
        ("znver3", "AuthenticAMD 25 1", "znver3"),
        ("znver3", "AuthenticAMD 23 49", "x86-64-v3"),  # Zen 2
        ("x86-64-v3", "AuthenticAMD 25 17", "x86-64-v3"),  # Without AVX-512 its vectors are others.
        ("neoverse-v2", "0x41 0xd49", "neoverse-n2"),
        ("neoverse-n1", "0x41 0xd0b", "cortex-a76"),
        ("neoverse-n1", "", "neoverse-n1"),
    ],
)
def test_the_core_decides_the_rates_and_features_the_instructions(base, core, rates):
    row = ROWS[base]
    family = tw.targets.registry.family_of(row.architecture)
    flags = [flag for flag, features in family.flags.items() if row.features.issuperset(features)]
    found = host.describe(row.architecture, flags, {}, core=core)
    assert (found.base, found.features, found.tune_cpu) == (base, row.features, row.tune_cpu)
    assert (found.rates, found.fma_per_cycle) == (ROWS[rates].rates, ROWS[rates].fma_per_cycle)


def test_a_cpu_says_what_it_is():
    amd = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nflags\t: sse\n\nprocessor\t: 1\n"
    assert host.identity(host.first_cpu(amd.splitlines())) == "AuthenticAMD 26 2"
    arm = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"
    assert host.identity(host.first_cpu(arm.splitlines())) == "0x41 0xd0c"
    assert host.identity(host.first_cpu([])) == ""
