# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Detection of the host: any machine is recognized by its flags and caches, faked here, and quickly on the real one."""

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tilewright import targets
from tilewright.errors import TargetError
from tilewright.targets import Cache, host, x86

KIB, MIB = 1 << 10, 1 << 20
V1 = "fpu cx8 cmov mmx fxsr sse sse2"
V2 = f"{V1} pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm"
V3 = f"{V2} fma movbe xsave avx f16c abm bmi1 avx2 bmi2"
V4 = f"{V3} avx512f avx512dq avx512cd avx512bw avx512vl"
ICE = f"{V4} avx512_vnni avx512ifma avx512vbmi avx512_vbmi2 avx512_bitalg avx512_vpopcntdq gfni vaes vpclmulqdq"
XEON = f"{ICE} avx_vnni avx512_bf16 avx512_fp16 amx_tile amx_int8 amx_bf16 hypervisor"
ZEN4 = f"{ICE} avx512_bf16 sse4a clzero topoext"
ZEN5 = f"{ZEN4} avx_vnni avx512_vp2intersect movdiri movdir64b"
X86_ONLY = pytest.mark.skipif(os.uname().machine != "x86_64", reason="looks at an x86-64 machine")


def sysfs(root: Path, *entries: dict[str, object]) -> Path:
    """A sysfs cache folder with one index per entry; a value of None leaves the file out."""
    for i, entry in enumerate(entries):
        index = root / f"index{i}"
        index.mkdir()
        for file, text in entry.items():
            if text is not None:
                (index / file).write_text(f"{text}\n")
    return root


def level(n: int, size: str, ways: object, kind: str = "Unified", **more: object) -> dict[str, object]:
    """The files of one cache."""
    return {"level": n, "type": kind, "size": size, "ways_of_associativity": ways, "coherency_line_size": 64} | more


def test_flags_of_the_first_cpu_only():
    lines = iter(["processor\t: 0\n", "flags\t\t: fpu sse2\n", "\n", "processor\t: 1\n", "flags\t\t: avx\n"])
    assert host.cpu_flags(host.first_cpu(lines)) == {"fpu", "sse2"}
    assert next(lines) == "processor\t: 1\n"
    assert host.cpu_flags(host.first_cpu(["Features\t: fp asimd\n"])) == {"fp", "asimd"}
    riscv = host.cpu_flags(host.first_cpu(["isa\t\t: rv64imafdcv_zba_zvfh\n"]))
    assert riscv == {"i", "m", "a", "f", "d", "c", "v", "zba", "zvfh"}
    assert host.cpu_flags(host.first_cpu(["isa : rv64gcv\n"])) >= {"m", "a", "f", "d", "c", "v"}
    assert host.cpu_flags(host.first_cpu([])) == frozenset()


def test_flags_become_llvm_names():
    features = host.llvm_features(XEON.split(), x86.FAMILY)
    assert {"avx512vnni", "avx512bf16", "avx512fp16", "amx-tile", "amx-int8", "amx-bf16", "gfni", "vaes"} <= features
    assert {"sse3", "sse4.1", "crc32", "lzcnt", "bmi", "sahf", "x87"} <= features
    assert "hypervisor" not in features
    assert "avxvnni" in host.llvm_features(["avx_vnni"], x86.FAMILY)
    assert host.llvm_features(["amx_fp16"], x86.FAMILY) == {"amx-fp16"}


@pytest.mark.parametrize(
    ("flags", "base"),
    [
        (V1, "x86-64"),
        (V2, "x86-64-v2"),
        (V3, "x86-64-v3"),
        (V3.replace(" fma", ""), "x86-64-v2"),
        (V4, "x86-64-v4"),
        (V4.replace(" avx512dq", ""), "x86-64-v3"),
        (f"{V4} avx512_vnni", "cascadelake"),
        (ICE, "icelake-server"),
        (ZEN4, "znver4"),
        (ZEN5, "znver5"),
        (XEON, "sapphirerapids"),
        (f"{XEON} amx_fp16", "graniterapids"),
        # What a hypervisor hides: ciphers do not matter, AMX and newer vectors do.
        (ZEN5.replace(" vaes vpclmulqdq", ""), "znver5"),
        (ZEN5.replace(" avx_vnni", ""), "znver4"),
        (XEON.replace(" amx_tile amx_int8 amx_bf16", ""), "icelake-server"),
    ],
)
def test_the_most_specific_row_that_runs(flags, base):
    target = host.describe("x86_64", flags.split(), {})
    row = targets.get(base)
    assert (target.name, target.base) == ("host", base)
    assert target.features == row.features | host.llvm_features(flags.split(), x86.FAMILY)
    assert (target.l1, target.l2, target.l3) == (row.l1, row.l2, row.l3)
    assert (target.tune_cpu, target.prefer_vector_width) == (row.tune_cpu, row.vector_bits)
    assert targets.runnable(row, target.features) == ()


def test_a_skylake_server_issues_as_cascade_lake_does():
    target = host.describe("x86_64", V4.split(), {}, core="GenuineIntel 6 85")
    assert (target.base, target.rows_ahead) == ("x86-64-v4", targets.get("cascadelake").rows_ahead)
    assert host.describe("x86_64", V4.split(), {}).rows_ahead == 0


def test_measured_caches_replace_the_rows():
    caches = {1: Cache(48 * KIB, 12), 2: Cache(2 * MIB, 16), 3: Cache(32 * MIB, 16, cpus=16)}
    target = host.describe("x86_64", V4.split(), caches)
    assert (target.l1, target.l2, target.l3) == (caches[1], caches[2], caches[3])
    del caches[3]
    assert host.describe("x86_64", V4.split(), caches).l3 is None


def test_caches_at_odds_fall_back_to_the_rows():
    row = targets.get("x86-64-v3")
    target = host.describe("x86_64", V3.split(), {1: Cache(64 * MIB, 8)})
    assert (target.l1, target.l2) == (row.l1, row.l2)


def test_a_machine_without_rows_or_below_them():
    with pytest.raises(TargetError, match="no row for sparc64 machines"):
        host.describe("sparc64", ["asimd"], {})
    with pytest.raises(TargetError, match="no row for unknown machines"):
        host.describe("", [], {})
    with pytest.raises(TargetError, match=r"lacks cmov, cx8, .*sse2.*flags"):
        host.describe("x86_64", [], {})


def test_sysfs_is_read(tmp_path):
    folder = sysfs(
        tmp_path,
        level(1, "48K", 12, "Data", shared_cpu_list="0"),
        level(1, "32K", 8, "Instruction", shared_cpu_list="0"),
        level(2, "1024K", 16, shared_cpu_list="0,4"),
        level(3, "32M", 0, shared_cpu_list="0-3,8-11"),
    )
    assert host.read_caches(folder) == {
        1: Cache(48 * KIB, 12),
        2: Cache(1 * MIB, 16, cpus=2),
        3: Cache(32 * MIB, 32 * MIB // 64, cpus=8),
    }


def test_sysfs_with_holes(tmp_path):
    folder = sysfs(
        tmp_path,
        level(1, "32K", None, "Data", coherency_line_size=None),
        level(2, "unknown", 8),
        level(3, "0K", 16),
        {"type": "Unified"},
        level(4, "128", 2, shared_cpu_list="x-y"),
    )
    assert host.read_caches(folder) == {1: Cache(32 * KIB, 1)}
    assert host.read_caches(tmp_path / "absent") == {}


def test_missing_features_are_named():
    v4 = targets.get("x86-64-v4")
    features = host.llvm_features(V3.split(), x86.FAMILY)
    assert targets.runnable(v4, features) == ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
    with pytest.raises(TargetError, match=r"x86-64-v4: it lacks avx512bw, .*avx512vl\. Use target='host'"):
        targets.require_runnable(v4, features)
    targets.require_runnable(targets.get("x86-64-v3"), features)


@pytest.mark.parametrize("machine", ["aarch64", "riscv64"])
def test_another_architecture_runs_nothing(monkeypatch, machine):
    monkeypatch.setattr(host, "machine", lambda: (machine, frozenset({"asimd"})))
    assert targets.runnable(targets.get("x86-64")) == ("x86_64",)
    with pytest.raises(TargetError, match="lacks x86_64"):
        targets.require_runnable(targets.get("x86-64"))


@X86_ONLY
def test_this_machine():
    target = host.host()
    assert target is targets.resolve("host")
    assert target.base in {row.name for row in targets.all()}
    assert targets.runnable(target) == ()
    assert target.base == [row.name for row in x86.FAMILY.rows if not targets.runnable(row)][-1]


@X86_ONLY
def test_this_machine_is_read_in_under_five_milliseconds():
    def once() -> float:
        host.host.cache_clear()
        host.machine.cache_clear()
        start = time.process_time()
        host.host()
        return time.process_time() - start

    assert min(once() for _ in range(20)) < 5e-3


def test_no_cpuinfo_means_no_flags(monkeypatch):
    monkeypatch.setattr(host, "_CPUINFO", Path("/nonexistent/cpuinfo"))
    assert host.machine.__wrapped__()[1] == frozenset()


def test_targets_import_neither_numpy_nor_mlir():
    code = "import sys, tilewright.targets; sys.exit(any(m in sys.modules for m in ('numpy', 'tilewright.mlir')))"
    assert subprocess.run([sys.executable, "-I", "-c", code], check=False).returncode == 0


def test_rows_differ_in_what_they_need():
    for one, other in itertools.combinations(x86.FAMILY.rows, 2):
        assert one.features != other.features
