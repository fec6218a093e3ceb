# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels access nothing but their operands: not a byte before, after or between the rows, and only read A and B."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from products import LEVELS
from strategies import STRATEGIES

PROGRAM = Path(__file__).with_name("guard_pages.py")
ODD = [
    "1x1x1",
    "3x5x7",
    "9x9x9",
    "15x7x37",
    "81x41x19",
    "17x100x31",
    "1x37x1",
    "31x1x33",
    "7x129x2",
    "33x15x65",
    "64x64x64",
    "5x2x127",
]


def shapes_for(schedule: str, seed: str) -> list[str]:
    """The odd shapes, and a few random ones."""
    chance = random.Random(seed)
    extra = ["x".join(str(chance.randint(1, 140)) for _ in range(3)) for _ in range(2)]
    if schedule == "inner_product":
        return [f"{m}x1x{k}" for m, _, k in (shape.split("x") for shape in ODD[1::2] + extra)]
    return ODD + extra


def child(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("schedule", ["-", *STRATEGIES])
@pytest.mark.parametrize("target", ["host", *LEVELS])
def test_only_operands_are_touched(target, schedule):
    run = child(target, schedule, *shapes_for(schedule, target + schedule))
    announced = run.stdout.splitlines() or ["nothing"]
    assert run.returncode == 0, f"status {run.returncode} at {announced[-1]}\n{run.stderr[-2000:]}"
    assert announced[-1] == "done"


@pytest.mark.parametrize(
    ("placing", "act"),
    [
        ("at_end=True, fenced=False, gap=2", "ctypes.string_at(end, 1)"),
        ("at_end=False, fenced=False, gap=2", "ctypes.string_at(start - 1, 1)"),
        ("at_end=True, fenced=True, gap=0", "ctypes.string_at(start + 5 * 4, 1)"),
        ("at_end=True, fenced=False, gap=0", "guarded.make_read_only(); guarded.matrix[0, 0] = 1"),
    ],
    ids=["after the last row", "before the first", "after any row", "writing what is read-only"],
)
def test_straying_would_be_seen(placing, act):
    # What these tests rest on: the pages do fault.
    program = f"""
import ctypes, sys
sys.path.insert(0, {str(PROGRAM.parent)!r})
import numpy as np
import guard_pages as g
guarded = g.Guarded(np.ones((3, 5), np.float32), g.Placing({placing}))
assert guarded.matrix.sum() == 15
start = guarded.matrix.ctypes.data
end = start + 2 * guarded.matrix.strides[0] + 5 * 4
ctypes.string_at(start, 5 * 4), ctypes.string_at(end - 1, 1)
print("sound", flush=True)
{act}
"""
    run = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert run.stdout == "sound\n", run.stderr
    assert run.returncode == -signal.SIGSEGV
