# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Targets of AArch64: what the rows have, which one a machine gets, and that LLVM takes them as they are meant."""

import dataclasses
import shutil
import subprocess

import pytest
import tilewright as tw
from tilewright import targets
from tilewright.emit import stages
from tilewright.errors import TargetError
from tilewright.schedules import make
from tilewright.targets import Cache, arm, host

KIB = 1024
LLC = shutil.which("llc-22") or shutil.which("llc")
V8 = "fp asimd evtstrm crc32 cpuid"
A76 = f"{V8} aes pmull sha1 sha2 atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp"
M1 = f"{A76} jscvt fcma sha3 sha512 asimdfhm dit uscat ilrcpc flagm sb paca pacg dcpodp flagm2 frint"
V1 = f"{M1} sve svei8mm svebf16 i8mm bf16 dgh rng"
V2 = f"{V1} sve2 sveaes svepmull svebitperm"


def test_registers():
    for row in arm.FAMILY.rows:
        assert (row.vector_registers, row.vector_bits, row.by_lane) == (32, 128, True)
        assert row.triple == "aarch64-unknown-linux-gnu"
        assert row.masked == ("sve" in row.features)


def test_what_cores_have():
    def features(name: str) -> frozenset[str]:
        return targets.get(name).features

    assert {"dotprod", "fullfp16"} <= features("cortex-a76") - features("armv8-a")
    assert features("neoverse-n1") == features("cortex-a76")
    assert {"fp16fml"} <= features("apple-m1") - features("neoverse-n1")
    assert {"bf16", "i8mm", "sve"} <= features("neoverse-v1") - features("apple-m1")
    assert features("neoverse-v2") - features("neoverse-v1") == {"sve2"}


@pytest.mark.parametrize(
    ("flags", "base"),
    [(V8, "armv8-a"), (A76, "neoverse-n1"), (M1, "apple-m1"), (V1, "neoverse-v1"), (V2, "neoverse-v2")],
)
def test_the_row_of_a_machine(flags, base):
    caches = {1: Cache(64 * KIB, 4), 2: Cache(2048 * KIB, 8)}
    target = host.describe("aarch64", host.cpu_flags([f"Features\t: {flags}\n"]), caches)
    assert (target.name, target.base, target.l2) == ("host", base, caches[2])
    assert targets.runnable(targets.get(base), target.features) == ()


def test_a_machine_without_vectors_has_no_row():
    with pytest.raises(TargetError, match="lacks fp-armv8, neon"):
        host.describe("aarch64", ["crc32"], {})


@pytest.mark.skipif(LLC is None, reason="llc is not on PATH")
@pytest.mark.parametrize("row", arm.FAMILY.rows, ids=lambda row: row.name)
def test_the_tuning_processor_brings_no_instructions(row):
    ir = f"""
declare <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32>, <16 x i8>, <16 x i8>)
define <4 x i32> @f(<4 x i32> %c, <16 x i8> %a, <16 x i8> %b) #0 {{
  %r = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %c, <16 x i8> %a, <16 x i8> %b)
  ret <4 x i32> %r
}}
attributes #0 = {{ "target-cpu"="{row.cpu}" "tune-cpu"="{row.tune_cpu}" "target-features"="{row.feature_string}" }}
"""
    done = subprocess.run(
        [str(LLC), f"-mtriple={row.triple}", "-o", "-"], input=ir, capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) == ("dotprod" in row.features)


def test_a_made_up_core_is_one_row():
    core = dataclasses.replace(
        targets.get("neoverse-n1"),
        name="made-up",
        l1=Cache(32 * KIB, 4),
        l2=Cache(256 * KIB, 8),
        l3=None,
        fma_latency=9,
    )
    spec = tw.MatmulSpec(m=1024, n=1024, k=1024)
    plan, other = (make.make(spec, row, "packed") for row in (core, targets.get("neoverse-n1")))
    assert plan.sizes["kc"] * plan.sizes["nr"] * 4 <= 64 * KIB
    assert plan.sizes != other.sizes
    small = tw.MatmulSpec(m=16, n=16, k=16)
    assert "fmla" in stages.build(small, core, make.make(small, core), until="asm").texts["asm"]
