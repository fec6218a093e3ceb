# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Targets: the rows are consistent with each other and with LLVM, and check themselves."""

import dataclasses
import functools
import shutil
import subprocess

import pytest
from tilewright import targets
from tilewright.dtypes import DTYPES
from tilewright.errors import TargetError
from tilewright.targets import Cache, Family, Target, registry, x86

ROWS = targets.all()
X86_ROWS = x86.FAMILY.rows
LLC = shutil.which("llc-22") or shutil.which("llc")
needs_llc = pytest.mark.skipif(LLC is None, reason="llc is not on PATH")


def llc(*options: str, ir: str = "") -> str:
    """What llc prints, assembly first, then messages."""
    done = subprocess.run([str(LLC), *options, "-o", "-"], input=ir, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@functools.cache
def llvm_names(architecture: str) -> tuple[set[str], set[str]]:
    """LLVM's processors and features of an architecture."""
    text = llc(f"-mtriple={architecture}", "-mcpu=help")
    cpus, _, rest = text.partition("Available features")
    return (
        {line.split()[0] for line in cpus.splitlines() if " - " in line},
        {line.split()[0] for line in rest.splitlines() if " - " in line},
    )


def test_rows_of_the_issue_are_there_and_found_by_name():
    levels = ["x86-64", "x86-64-v2", "x86-64-v3", "znver3", "x86-64-v4"]
    cores = ["cascadelake", "icelake-server", "znver4", "znver5", "sapphirerapids", "graniterapids"]
    arm = [
        "armv8-a",
        "cortex-a76",
        "neoverse-n1",
        "apple-m1",
        "apple-m4",
        "armv9-a",
        "neoverse-v1",
        "neoverse-n2",
        "neoverse-v2",
    ]
    arm += ["armv9-a+sme"]
    riscv = ["rv64gcv", "spacemit-x60"]
    assert [row.name for row in ROWS] == levels + cores + arm + riscv
    for row in ROWS:
        assert targets.get(row.name) is row
        assert targets.resolve(row.name) is row
        assert targets.resolve(row) is row


@pytest.mark.parametrize("family", registry.FAMILIES, ids=lambda family: family.name)
def test_no_two_flags_of_linux_stand_for_one_feature(family):
    """A machine that lacks what a flag does not say, such as BMI2 where `abm` is listed, ends in an illegal instruction."""
    granted = [feature for features in family.flags.values() for feature in features]
    assert len(set(granted)) == len(granted)


def test_registers_of_the_levels():
    for row in X86_ROWS:
        shape = (row.vector_registers, row.vector_bits, row.masked)
        if "avx512f" in row.features:
            assert shape == (32, 512, True)
        else:
            assert shape == (16, 256 if "avx2" in row.features else 128, False)


def test_levels_nest_and_only_v3_and_later_fuse():
    v1, v2, v3, v4 = (targets.get(name) for name in ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"))
    assert v1.features < v2.features < v3.features < v4.features
    assert "ssse3" in v2.features - v1.features
    assert "fma" not in v2.features
    assert {"avx2", "fma"} <= v3.features
    assert not any(feature.startswith("avx512") for feature in v3.features)
    assert v4.features - v3.features == {"avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd"}


@pytest.mark.parametrize(
    ("name", "older", "new"),
    [
        ("cascadelake", "x86-64-v4", {"avx512vnni"}),
        ("icelake-server", "cascadelake", {"avx512vbmi"}),
        ("znver4", "icelake-server", {"avx512bf16"}),
        ("znver5", "znver4", {"avxvnni"}),
        ("sapphirerapids", "icelake-server", {"avx512bf16", "avx512fp16", "amx-tile", "amx-int8", "amx-bf16"}),
        ("graniterapids", "sapphirerapids", {"amx-fp16"}),
    ],
)
def test_cores_have_what_the_one_before_has_and_dot_products_of_small_types(name, older, new):
    row, before = targets.get(name), targets.get(older)
    assert row.features > before.features
    assert new <= row.features - before.features
    units = 1 if name == "znver4" else 2
    assert (row.fma_per_cycle, row.fma_latency, row.loads_per_cycle) == (units, 4, units)


def test_the_makers_rows_do_not_claim_each_others_machines():
    for amd in ("znver4", "znver5"):
        for intel in ("sapphirerapids", "graniterapids"):
            assert targets.get(intel).missing_from(targets.get(amd).features)
            assert targets.get(amd).missing_from(targets.get(intel).features)


@pytest.mark.parametrize("name", ["x86-64-v9", "", "host "])
def test_unknown_name_lists_the_known_ones(name):
    with pytest.raises(TargetError, match="one of host, x86-64, x86-64-v2, x86-64-v3, znver3, x86-64-v4, cascadelake"):
        targets.resolve(name)


@pytest.mark.parametrize("thing", [None, 3, b"x86-64"])
def test_what_is_neither_name_nor_target_is_refused(thing):
    with pytest.raises(TargetError, match=type(thing).__name__):
        targets.resolve(thing)


def test_unknown_architecture_has_no_row():
    with pytest.raises(TargetError, match="no row for sparc64 machines"):
        registry.family_of("sparc64")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_is_hashable_and_replaceable(row):
    twin = dataclasses.replace(row)
    assert twin == row
    assert hash(twin) == hash(row)
    mine = dataclasses.replace(row, name="mine", l2=Cache(4 << 20, ways=16))
    assert mine.l2.sets == 4096
    assert mine != row
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.name = "other"


def test_feature_string_is_sorted_and_signed():
    row = dataclasses.replace(ROWS[0], features=frozenset({"sse2", "avx", "fma"}))
    assert row.feature_string == "+avx,+fma,+sse2"
    assert row.missing_from({"avx"}) == ("fma", "sse2")
    assert row.missing_from(["avx", "fma", "sse2", "more"]) == ()


@pytest.mark.parametrize(("name", "f32", "f64"), [("x86-64", 4, 2), ("x86-64-v3", 8, 4), ("x86-64-v4", 16, 8)])
def test_lanes(name, f32, f64):
    row = targets.get(name)
    assert (row.lanes(DTYPES["f32"]), row.lanes(DTYPES["f64"])) == (f32, f64)


def test_lanes_of_what_does_not_fit():
    with pytest.raises(TargetError, match="does not divide"):
        ROWS[0].lanes(dataclasses.replace(DTYPES["f32"], bits=24))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"name": ""}, "name is ''"),
        ({"triple": None}, "triple is None"),
        ({"vector_bits": 0}, "vector_bits is 0; expected an int above zero"),
        ({"vector_bits": 384}, "power of two"),
        ({"vector_registers": -16}, "vector_registers is -16"),
        ({"vector_registers": 3}, "vector_registers is 3; expected at least 4"),
        ({"fma_latency": 4.0}, "fma_latency is 4.0"),
        ({"loads_per_cycle": True}, "loads_per_cycle is True"),
        ({"features": {"avx"}}, r"frozenset\(\{"),
        ({"features": frozenset({"+avx"})}, "without sign"),
        ({"features": frozenset({"avx,fma"})}, "LLVM feature name"),
        ({"features": frozenset({""})}, "LLVM feature name"),
        ({"l1": Cache(1 << 24, ways=8)}, "no larger than the L2"),
    ],
)
def test_rows_check_themselves(change, match):
    with pytest.raises(TargetError, match=match) as caught:
        dataclasses.replace(targets.get("x86-64-v3"), **change)
    assert str(caught.value).startswith("target ")


@pytest.mark.parametrize(
    ("cache", "match"),
    [
        ({"bytes": 0, "ways": 8}, "bytes is 0"),
        ({"bytes": 32768, "ways": 0}, "ways is 0"),
        ({"bytes": 32768, "ways": 8, "line": 48}, "power of two"),
        ({"bytes": 256, "ways": 8}, "exceeds"),
        ({"bytes": 32768, "ways": 8, "cpus": 0}, "cpus is 0"),
    ],
)
def test_caches_check_themselves(cache, match):
    with pytest.raises(TargetError, match=match):
        Cache(**cache)


def test_family_refuses_rows_out_of_order_twice_or_of_another_family():
    def family(*rows: Target) -> Family:
        return Family("x86", architectures=("x86_64",), rows=rows, flags={}, linux=x86.FAMILY.linux)

    with pytest.raises(TargetError, match="most specific row last"):
        family(*reversed(X86_ROWS))
    with pytest.raises(TargetError, match="names repeat"):
        family(ROWS[0], ROWS[0])
    with pytest.raises(TargetError, match="says family 'arm'"):
        family(dataclasses.replace(ROWS[0], family="arm"))
    with pytest.raises(TargetError, match=r"has triple aarch64.*expected one for x86_64"):
        family(dataclasses.replace(ROWS[0], triple="aarch64-unknown-linux-gnu"))


@pytest.mark.parametrize("module", ["tilewright.emit.{}_text", "tilewright.libraries.detection.{}"])
def test_every_family_has_the_modules_of_a_family(module):
    for family in registry.FAMILIES:
        assert registry.knowledge(module, family.name).__name__ == module.format(family.name)
    with pytest.raises(TargetError, match=rf"'power'.*no module {module.format('power')}"):
        registry.knowledge(module, "power")


@needs_llc
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_llvm_knows_the_names_of_a_row(row):
    processors, features = llvm_names(row.architecture)
    assert {row.cpu, row.tune_cpu} <= processors
    assert row.features <= features


@needs_llc
@pytest.mark.parametrize("family", registry.FAMILIES, ids=lambda family: family.name)
def test_llvm_knows_every_feature_of_the_flags(family):
    named = {feature for features in family.flags.values() for feature in features}
    assert named <= llvm_names(family.rows[0].architecture)[1]


@pytest.mark.parametrize("family", registry.FAMILIES, ids=lambda family: family.name)
def test_every_feature_of_a_row_can_be_read_from_a_flag(family):
    named = {feature for features in family.flags.values() for feature in features}
    for row in family.rows:
        assert row.features <= named


def _function(row: Target, body: str, more: str = "") -> str:
    """A function @f(ptr %p, ptr %q) compiled as this row says."""
    return f"""
define void @f(ptr %p, ptr %q) #0 {{
{body}
  ret void
}}
{more}
attributes #0 = {{ "target-cpu"="{row.cpu}" "tune-cpu"="{row.tune_cpu}" "target-features"="{row.feature_string}"
                   "prefer-vector-width"="{row.prefer_vector_width}" }}
"""


@needs_llc
@pytest.mark.parametrize("row", X86_ROWS, ids=lambda row: row.name)
def test_llvm_uses_the_whole_vector_and_no_more(row):
    ir = _function(
        row,
        "  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %p, ptr align 64 %q, i64 64, i1 false)",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    )
    assembly = llc(f"-mtriple={row.triple}", ir=ir)
    wide = {128: "xmm", 256: "ymm", 512: "zmm"}
    for bits, register in wide.items():
        assert (f"%{register}" in assembly) == (bits == row.vector_bits), assembly


@needs_llc
@pytest.mark.parametrize("row", X86_ROWS, ids=lambda row: row.name)
def test_the_tuning_processor_brings_no_instructions(row):
    vector = f"<{row.vector_bits // 32} x float>"
    ir = _function(
        row,
        f"""  %a = load {vector}, ptr %p
  %b = load {vector}, ptr %q
  %m = fmul contract {vector} %a, %b
  %s = fadd contract {vector} %m, %a
  store {vector} %s, ptr %p""",
    )
    assembly = llc(f"-mtriple={row.triple}", ir=ir)
    assert ("vfmadd" in assembly) == ("fma" in row.features), assembly
    assert ("mulps" in assembly) != ("fma" in row.features), assembly
