# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GPUs on the command line: files of every format, explanations, and the table of strategies by types."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from lab_pages import shown_in
from tilewright.bench import static_gpu
from tilewright.bench.suites import Shape
from tilewright.cli import main
from tilewright.emit.gpu import tool
from tilewright.targets.registry import gpu as card

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line; gives its exit status, and what was printed."""

    def call(*arguments: object) -> tuple[int, str]:
        status = main([str(each) for each in arguments])
        return status, "".join(capsys.readouterr())

    return call


@pytest.mark.parametrize(
    ("target", "suffix", "start"),
    [
        ("sm_90a", "ptx", b"//"),
        ("vulkan", "spv", b"\x03\x02#\x07"),
        ("gfx942", "s", b"\t.amdgcn"),
        ("sm_80", "mlir", b""),
    ],
)
def test_the_suffix_says_the_format(run: Run, tmp_path: Path, target: str, suffix: str, start: bytes) -> None:
    file = tmp_path / f"kernel.{suffix}"
    status, said = run("compile", "--shape", "64x64x64", "--target", target, "-o", file)
    assert status == 0, said
    assert f"for {target}" in said
    assert file.read_bytes().lstrip(b"\n").startswith(start)


def test_machine_code(run: Run, tmp_path: Path) -> None:
    if tool("ptxas") is None or tool("nvdisasm") is None:
        pytest.skip("there is no ptxas or no nvdisasm")
    file, folder = tmp_path / "kernel.cubin", tmp_path / "folder"
    assert run("compile", "--shape", "64x64x64", "--tf32", "--target", "sm_80", "-o", file)[0] == 0
    assert file.read_bytes().startswith(b"\x7fELF")
    status, said = run("explain", "--shape", "64x64x64", "--tf32", "--target", "sm_80", "-o", folder)
    assert status == 0, said
    assert "0 bytes spilled" in said
    assert "HMMA" in (folder / "9-sass.sass").read_text()
    assert json.loads((folder / "explain.json").read_text())["registers"] > 0
    assert shown_in(folder)["code"] == "sass"


def test_what_a_target_has_not_is_refused(run: Run, tmp_path: Path) -> None:
    for target, suffix, expected in (
        ("sm_90a", "so", "cubin"),
        ("x86-64-v3", "ptx", "asm"),
        ("vulkan", "cubin", "spv"),
    ):
        status, said = run("compile", "--shape", "8x8x8", "--target", target, "-o", tmp_path / f"kernel.{suffix}")
        assert status == 2
        assert expected in said
    assert not list(tmp_path.iterdir())


def test_every_strategy_does_the_types_that_it_is_for() -> None:
    row = card("sm_90a")
    assert row is not None
    done = {
        name: {cell.strategy for cell in static_gpu.cells(row, name, static_gpu.SHAPE)} for name in static_gpu.types()
    }
    assert all("simt" in each for each in done.values())
    tensor = {"bf16", "f16", "tf32", "i8", "f8E4M3FN", "f8E5M2"}
    assert {name.split(",")[0] for name, each in done.items() if "warpgroup" in each} >= tensor
    assert {name.split(",")[0] for name, each in done.items() if "mma_sync" in each} >= {*tensor, "f64", "u8"}


def test_tensor_memory_is_for_all_types_that_tensor_cores_multiply() -> None:
    row = card("sm_100a")
    assert row is not None
    done = {
        name.split(",")[0]
        for name in static_gpu.types()
        if "tensor_memory" in {cell.strategy for cell in static_gpu.cells(row, name, static_gpu.SHAPE)}
    }
    assert done == {"bf16", "f16", "tf32", "i8", "u8", "f8E4M3FN", "f8E5M2"}


def test_a_table(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "cells.json"
    options = ("--dtype", "bf16", "--shape", "65x48x40", "--json", file)
    status, said = run("bench", "static", "--target", "sm_80,gfx942", *options)
    assert status == 0, said
    found = json.loads(file.read_text())
    assert [(each["target"], each["strategy"]) for each in found][:2] == [("sm_80", "simt"), ("sm_80", "mma_sync")]
    assert found[1]["right"] is True
    assert found[-1]["right"] is True
    assert found[-1]["strategy"] == "matrix_cores"
    assert found[-1]["spills"] == 0
    if tool("ptxas") and tool("nvdisasm"):
        assert found[1]["spills"] == 0
        assert found[1]["mix"]["HMMA"] == 32


def test_a_wrong_kernel_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    row = card("sm_80")
    assert row is not None
    monkeypatch.setattr(static_gpu, "reference", lambda spec, a, b: a.astype(float) @ b.astype(float) + 1)
    shape = Shape(8, 16, 16)
    simt = static_gpu.examine(row, static_gpu.cells(row, "bf16,bf16,f32", shape)[0], shape)
    assert simt.right is False
    assert not simt.fine


@pytest.mark.parametrize("schedule", ["nosuch", "absent.mlir", "three.py"])
def test_a_schedule_under_which_nothing_can_be_made_is_bad_input(run: Run, tmp_path: Path, schedule: str) -> None:
    (tmp_path / "three.py").write_text("def schedule(spec, target, sizes):\n    return 3\n")
    given = schedule if schedule == "nosuch" else str(tmp_path / schedule)
    status, said = run("bench", "static", "--target", "sm_80", "--dtype", "f16", "--schedule", given)
    assert status == 2
    assert said.splitlines()[-1].startswith("tilewright: ")
    assert schedule in said.splitlines()[-1]
