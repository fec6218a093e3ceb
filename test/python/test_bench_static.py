# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`bench static`: the table of targets by types."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest
from tilewright import targets
from tilewright.bench import static
from tilewright.bench.suites import Shape
from tilewright.cli import main
from tilewright.runtime import trial
from tilewright.targets import Cache, Family, registry

SMALL = Shape(48, 48, 64)
PRODUCTS = frozenset(
    {
        *("fmla", "mla", "sdot", "udot", "usdot", "sudot", "bfdot", "bfmmla", "smmla", "ummla", "usmmla"),
        *("fmopa", "bfmopa", "smopa", "umopa", "usmopa", "sumopa"),
    }
)
"""What multiplies vectors on AArch64."""
HAS_MCA = shutil.which("llvm-mca-22") is not None or shutil.which("llvm-mca") is not None
needs_mca = pytest.mark.skipif(not HAS_MCA, reason="llvm-mca is not installed")
needs_emulator = pytest.mark.skipif(
    os.uname().machine == "x86_64" and not shutil.which("qemu-aarch64"), reason="qemu-aarch64 is not installed"
)


def test_the_types_are_those_that_are_computed():
    assert len(static.types()) == 8
    assert {"f32,f32,f32", "bf16,bf16,f32", "u8,i8,i32"} <= set(static.types())


@needs_emulator
@needs_mca
@pytest.mark.parametrize(
    ("types", "instruction"),
    [
        ("f32,f32,f32", "fmla"),
        ("f64,f64,f64", "fmla"),
        ("i8,i8,i32", "sdot"),
        ("i8,u8,i32", "udot"),
        ("bf16,bf16,f32", "fmla"),
    ],
)
def test_a_cell_of_an_emulated_target_has_everything(types, instruction):
    cell = static.examine(targets.get("neoverse-n1"), types, SMALL)
    assert (cell.target, cell.types, cell.shape) == ("neoverse-n1", types, "48x48x64")
    assert (cell.schedule, cell.instruction, cell.model) == ("packed", instruction, "neoverse-n1")
    assert cell.runs.startswith("qemu-aarch64")
    assert cell.right is True
    assert cell.object_bytes > 1000
    assert cell.spills == 0
    assert cell.mix["multiply-add"] >= 100
    assert cell.cycles
    assert cell.percent is not None
    assert cell.percent > 80


def test_a_cell_of_this_machine_runs_here():
    cell = static.examine(targets.resolve("host"), "f32,f32,f32", SMALL)
    assert (cell.runs, cell.right, cell.instructions) == ("here", True, None)


def test_a_cell_that_nothing_runs_says_why_and_has_the_rest():
    row = dataclasses.replace(targets.get("x86-64-v4"), features=targets.get("x86-64-v4").features | {"avx10.2"})
    cell = static.examine(row, "f32,f32,f32", SMALL)
    assert (cell.runs, cell.right, cell.instruction) == ("", None, "vfmadd231ps")
    assert cell.object_bytes > 0
    assert "lacks avx10.2" in cell.notes[0]


def test_wrong_numbers_are_told(monkeypatch):
    right = trial.known

    def wrong(*given, **named):
        expected, bound = right(*given, **named)
        return expected + 1, bound

    monkeypatch.setattr(trial, "known", wrong)
    cell = static.examine(targets.resolve("host"), "f64,f64,f64", SMALL)
    assert cell.right is False
    assert any("elements are wrong" in note for note in cell.notes)


@needs_emulator
@needs_mca
def test_no_cell_of_arm_is_empty(request):
    """Types on targets of AArch64 are generated, assembled, emulated, right, and have a hot loop that LLVM has a model of.

    Each target has every type in a long run, a third of them in a short one.
    """
    step = 1 if request.config.getoption("--length") == "long" else 3
    rows = next(family for family in registry.FAMILIES if family.name == "arm").rows
    cells = []
    for number, row in enumerate(rows):
        some = static.types()[number % step :: step]
        found = static.survey([row], some, Shape(48, 48, 192), jobs=1)
        assert [(cell.target, cell.types) for cell in found] == [(row.name, each) for each in some]
        cells += found
    assert len({cell.types for cell in cells}) == len(static.types())
    for cell in cells:
        assert cell.object_bytes > 0, cell
        assert cell.instruction in PRODUCTS, cell
        assert (cell.percent or 0) > 25, cell
        if (
            "sme" not in targets.get(cell.target).features or cell.runs
        ):  # an old QEMU computes SME's products of bytes wrongly
            assert cell.right is True, cell


@needs_emulator
def test_a_made_up_core_is_one_row_and_nothing_else(monkeypatch, capsys, tmp_path):
    """Other caches and another latency: found by name, compiled, emulated, checked, and in the table, without another change."""
    core = dataclasses.replace(
        targets.get("neoverse-n1"),
        name="made-up",
        l1=Cache(32 << 10, 4),
        l2=Cache(256 << 10, 8),
        l3=None,
        fma_latency=9,
        loads_per_cycle=1,
    )
    arm = next(family for family in registry.FAMILIES if family.name == "arm")
    rows = [each for row in arm.rows for each in ((row, core) if row.name == "neoverse-n1" else (row,))]
    family = Family("arm", arm.architectures, tuple(rows), arm.flags, arm.linux)
    others = tuple(each for each in registry.FAMILIES if each.name != "arm")
    monkeypatch.setattr(registry, "FAMILIES", (*others, family))
    assert main(["targets"]) == 0
    assert "made-up" in capsys.readouterr().out
    assert main(["bench", "static", "--target", "made-up", "--dtype", "i8", "--shape", "24x24x32", "--json", "-"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)
    assert (cell["target"], cell["types"], cell["right"], cell["object_bytes"] > 0) == (
        "made-up",
        "i8,i8,i32",
        True,
        True,
    )
    assert main(["compile", "--target", "made-up", "--shape", "8x8x8", "-o", str(tmp_path / "mm.o")]) == 0
    assert main(["run", "--target", "made-up", "--shape", "1000x1000x9"]) == 0


@needs_emulator
def test_the_table_is_printed(capsys):
    assert main(["bench", "static", "--target", "cortex-a76,x86-64", "--dtype", "f32", "--shape", "24x24x32"]) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines() if line.strip()]
    assert "% of bound" in out
    assert [line[:3] for line in lines if line[0] in ("cortex-a76", "x86-64")] == [
        ["cortex-a76", "f32", "unpacked"],
        ["x86-64", "f32", "unpacked"],
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--peers", "mkl"], "No such option"),
        (["--rounds", "9"], "No such option"),
        (["--shape", "2x2x2", "--shape", "3x3x3"], "2 shapes given; expected one"),
        (["--shape", "?x4x4"], "bad shape '?x4x4'"),
        (["--target", "nothing"], "unknown target 'nothing'"),
        (["--dtype", "f33"], "unknown element type 'f33'"),
        (["--json", "/nowhere/x.json"], "cannot write"),
    ],
)
def test_what_means_nothing_is_refused(capsys, arguments, message):
    assert main(["bench", "static", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_result_is_data(tmp_path):
    cell = static.examine(targets.resolve("host"), "f32,f32,f32", Shape(4, 4, 4))
    assert json.loads(json.dumps(cell.as_json()))["types"] == "f32,f32,f32"
    assert np.isscalar(cell.as_json()["object_bytes"])
