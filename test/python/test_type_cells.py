# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every cell of the table of types × targets is compiled and run, as far as anything here runs it; none is refused."""

import json
import subprocess
import sys
from pathlib import Path

import emulated_amx as amx
import matrix_targets
import pytest
import tilewright as tw
from tilewright.bench.type_cells import TYPES, cells
from tilewright.runtime import vulkan
from tilewright.targets.registry import GPUS

PROGRAM = Path(__file__).with_name("run_type_cells.py")


def _runs(family: str) -> str:
    """Why nothing here runs, or compiles, a family's cells; empty when something does."""
    if family == "arm" and matrix_targets.QEMU_ARM is None:
        return "qemu-aarch64 is not installed"
    if family == "amx" and amx.CLANG is None:
        return "clang, which compiles the emulator, is absent"
    if family == "amx" and tw.targets.runnable(tw.targets.get("x86-64-v4")):
        return "the code around AMX is AVX-512, which is absent"
    if family == "vulkan":
        try:
            vulkan.device_name()
        except tw.TilewrightError as error:
            return str(error)
    return ""


@pytest.mark.parametrize("family", ["x86", "amx", "arm", "nvidia", "vulkan", "amd"])
def test_every_cell_is_right(family):
    if why := _runs(family):
        pytest.skip(why)
    done = subprocess.run([sys.executable, str(PROGRAM), family], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines() or ["nothing"]
    assert done.returncode == 0, f"status {done.returncode} at {lines[-1]}\n{done.stderr[-3000:]}"
    # AMX has what is summed of bf16, f16 and bytes; f16 not on every processor that has AMX.
    absent = 3 if amx.HARDWARE and "amx-fp16" not in tw.targets.resolve("host").features else 2
    assert len(lines) >= len(TYPES) - (absent if family == "amx" else 0)


def test_the_table_is_printed_whole():
    command = [sys.executable, "-I", "-m", "tilewright", "targets", "--types"]
    found = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    every = (*tw.targets.all(), *GPUS)
    assert len(found) == len(every) * len(TYPES)
    znver4 = {tuple(each["types"]): each for each in found if each["target"] == "znver4"}
    assert znver4["bf16", "bf16"]["native"]
    assert znver4["f8E4M3FN", "f8E5M2"] == {
        "target": "znver4",
        "types": ["f8E4M3FN", "f8E5M2"],
        "multiplied": ["bf16", "bf16"],
        "instruction": "vdpbf16ps",
        "strategy": "packed",
        "native": False,
    }
    text = subprocess.run(command, capture_output=True, text=True, check=True, env={"COLUMNS": "200"}).stdout
    assert all(target.name in text for target in every)
    assert "widened to i8×u8: vpdpbusd" in text


def test_instructions_are_those_of_the_code():
    for a, b in (("f8E4M3FN", "f8E4M3FN"), ("i8", "u4"), ("bf16", "f4E2M1FN")):
        for name in ("x86-64-v4", "znver4"):
            target = tw.targets.get(name)
            (cell,) = [each for each in cells(target) if each.types == (a, b)]
            kernel = tw.compile(tw.MatmulSpec(32, 64, 64, a=a, b=b), target=target, schedule=cell.strategy)
            wanted = "vfmadd" if cell.instruction == "multiply-add" else cell.instruction
            assert wanted in kernel.asm["asm"], f"{name} {cell}"
