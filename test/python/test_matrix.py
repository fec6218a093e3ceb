# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Three hundred specs of every kind, and a few of each on every processor that an emulator stands for: see `matrix`.

`make check-long` runs two thousand. Each failure names its seed.
"""

import subprocess
import sys
from pathlib import Path

import emulated_amx as amx
import matrix
import matrix_targets
import pytest
import tilewright as tw
from tilewright.runtime import vulkan

PROGRAM = Path(__file__).with_name("matrix.py")
SPECS, CHUNK = {"short": 300, "long": 2000}, 50
EMULATED = {"short": 12, "long": 100}
"""The first of these on each emulated processor."""
GPU_SHARE = 4
"""A part of that on GPUs, whose emulator takes seconds for one."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    length = str(metafunc.config.getoption("--matrix"))
    if "first" in metafunc.fixturenames:
        metafunc.parametrize("first", range(0, SPECS[length], CHUNK))
    if "count" in metafunc.fixturenames:
        metafunc.parametrize("count", [EMULATED[length]])


def run(first: int, count: int, on: str) -> None:
    command = [sys.executable, str(PROGRAM), "--first", str(first), "--count", str(count), "--on", on]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines() or ["nothing"]
    assert done.returncode == 0, f"status {done.returncode} at {lines[-1]}\n{done.stderr[-3000:]}"
    assert lines[-1].startswith(f"{count} cases from seed {first} on {on}: compile ")
    print(lines[-1])  # noqa: T201 - what it cost, where output is not captured


def test_on_this_machine(first):
    run(first, CHUNK, "host")


@pytest.mark.skipif(matrix_targets.QEMU_ARM is None, reason="qemu-aarch64 is not installed")
@pytest.mark.parametrize("target", matrix_targets.ARM)
def test_on_arm(target, count):
    run(0, count, target)


@pytest.mark.skipif(matrix_targets.QEMU_X86 is None, reason="qemu-x86_64 is not installed")
@pytest.mark.parametrize("level", matrix_targets.X86)
def test_on_plain_processors(level, count):
    run(0, count, f"qemu:{level}")


@pytest.mark.skipif(amx.CLANG is None, reason="clang, which compiles the emulator, is absent")
@pytest.mark.skipif(
    bool(tw.targets.runnable(tw.targets.get("x86-64-v4"))), reason="the code around AMX is AVX-512, which is absent"
)
def test_on_amx(count):
    run(0, 2 * count, "amx")


@pytest.mark.parametrize("target", matrix_targets.GPUS)
def test_on_emulated_gpus(target, count):
    run(0, count // GPU_SHARE, f"gpu:{target}")


def test_on_vulkan(count):
    try:
        vulkan.device_name()
    except tw.TilewrightError as error:
        pytest.skip(str(error))
    run(0, count // GPU_SHARE, "vulkan")


def test_cases_are_distinct_and_have_every_kind():
    cases = [matrix.draw(seed) for seed in range(SPECS["short"])]
    assert len({str(case.spec) for case in cases}) == len(cases)
    assert {case.spec.layout for case in cases} == set(matrix.LAYOUTS)
    assert {case.options["schedule"] for case in cases} == {None, *matrix.STRATEGIES}
    types = {
        (spec.a, spec.b, spec.acc, spec.c)
        for case in cases
        if not ((spec := case.spec).epilogue or spec.prologue_a or spec.prologue_b)
    }
    assert types == {(each.a, each.b, each.acc, each.c) for each in matrix.COMBINATIONS}
    stored = {operand.type.name for case in cases for operand in case.spec.operands}
    assert stored >= set(matrix.STORED) - {"f8E8M0FNU"}
    names = {entry.name.split("(")[0] for case in cases for entry in case.spec.epilogue}
    assert names >= {"bias", "residual", "multiply", "gelu", "silu", "quantize", "dequantize", "cast", "lambda"}
    assert any(case.options["threads"] > 1 for case in cases)
    assert str(matrix.draw(17)) == str(matrix.draw(17))
