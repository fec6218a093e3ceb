# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Targets of AArch64: what the rows have, which one a machine gets, and that LLVM takes them as they are meant."""

import dataclasses
import os
import shutil
import subprocess
from types import SimpleNamespace

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
_SME = "sme smei16i64 smef64f64 smei8i32 smef16f32 smeb16f32 smef32f32"
SME = f"{V2} {_SME}"
M4 = f"{M1} i8mm bf16 {_SME} sme2"


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
    [
        (V8, "armv8-a"),
        (A76, "neoverse-n1"),
        (M1, "apple-m1"),
        (V1, "neoverse-v1"),
        (V2, "neoverse-v2"),
        (SME, "armv9-a+sme"),
        (M4, "apple-m4"),
    ],
)
def test_the_row_of_a_machine(flags, base):
    caches = {1: Cache(64 * KIB, 4), 2: Cache(2048 * KIB, 8)}
    target = host.describe("aarch64", flags.split(), caches)
    assert (target.name, target.base, target.l2) == ("host", base, caches[2])
    assert targets.runnable(targets.get(base), target.features) == ()


def test_the_length_of_a_machines_vectors(tmp_path):
    for name, text in (("sve", "64\n"), ("sme", "32\n")):
        (tmp_path / f"{name}_default_vector_length").write_text(text)
    lengths = host.read_lengths(tmp_path)
    assert lengths == {"sve": 512, "sme": 256}

    def bits(flags: str, lengths: dict[str, int] | None = None) -> tuple[int, int]:
        target = host.describe("aarch64", flags.split(), {}, lengths)
        return target.scalable_bits, target.streaming_bits

    assert bits(SME, lengths) == (512, 256)
    assert bits(V1, lengths) == (512, 0)
    assert bits(A76, lengths) == (0, 0)
    # Without a file, or with one that says nothing, they are the row's.
    (tmp_path / "sve_default_vector_length").write_text("48\n")
    (tmp_path / "sme_default_vector_length").unlink()
    assert host.read_lengths(tmp_path) == {}
    assert bits(V1) == (256, 0)
    assert bits(M4) == (0, 512)


def test_the_host_is_read_from_linuxs_files(tmp_path, monkeypatch):
    cpuinfo = tmp_path / "cpuinfo"
    cpu = f"BogoMIPS\t: 2000.00\nFeatures\t: {SME}\nCPU implementer\t: 0x41\nCPU part\t: 0xd8c\n\n"
    cpuinfo.write_text(f"processor\t: 0\n{cpu}processor\t: 1\n{cpu}")
    (tmp_path / "sme_default_vector_length").write_text("128\n")
    caches = tmp_path / "cache"
    for index, (level, size) in enumerate(((1, "64K"), (2, "2048K"))):
        folder = caches / f"index{index}"
        folder.mkdir(parents=True)
        facts = {"type": "Unified", "level": level, "size": size, "coherency_line_size": 64, "ways_of_associativity": 8}
        for name, value in facts.items():
            (folder / name).write_text(f"{value}\n")
    monkeypatch.setattr(host, "_CPUINFO", cpuinfo)
    monkeypatch.setattr(host, "_CACHES", caches)
    monkeypatch.setattr(host, "_LENGTHS", tmp_path)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="aarch64"))
    monkeypatch.setattr(host, "machine", host.machine.__wrapped__)
    target = host.host.__wrapped__()
    assert (target.base, target.streaming_bits, target.scalable_bits) == ("armv9-a+sme", 1024, 128)
    assert (target.l1.bytes, target.l2.bytes, target.triple) == (64 * KIB, 2048 * KIB, "aarch64-unknown-linux-gnu")
    assert host.runnable(targets.get("neoverse-v2")) == ()
    assert host.runnable(targets.get("x86-64")) == ("x86_64",)
    plan = make.make(tw.MatmulSpec(256, 256, 256), target)
    assert (plan.name, plan.sizes["mr"]) == ("outer_product", 64)


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
