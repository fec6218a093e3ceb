# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instructions of emulated calls: counted exactly, in an emulator that can; OpenBLAS's too."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.bench import emulated_openblas
from tilewright.emit import code
from tilewright.errors import TargetError
from tilewright.runtime import emulators
from tilewright.runtime.emulated_call import Program

sys.path.insert(0, str(Path(__file__).parents[1] / "Inputs"))
import instructions as recorded

EMULATOR = shutil.which("qemu-aarch64")
HAS_PLUGINS = (
    EMULATOR is not None and "-plugin" in subprocess.run([EMULATOR, "-h"], capture_output=True, text=True).stdout
)
needs_plugins = pytest.mark.skipif(not HAS_PLUGINS, reason="no qemu-aarch64 that takes plugins is installed")

ROW = targets.get("armv8-a")


def count_of(instructions: int) -> int:
    """What is counted of a function of so many instructions, and a return."""
    text = "\n".join(['  call void asm sideeffect "nop", ""()'] * (instructions - 1))
    object_ = code.object_file(f"define i32 @f() {{\n{text}\n  ret i32 0\n}}\n", ROW)
    counts: list[int] = []
    assert Program(object_, ["f"], ROW, emulators.find(ROW)).call("f", (), counts) == 0
    return counts[0]


def emulated(spec: tw.MatmulSpec) -> tw.Kernel:
    """A kernel that is surely emulated."""
    kernel = tw.compile(spec, "neoverse-n1")
    assert kernel.metadata.emulator
    return kernel


@needs_plugins
def test_every_instruction_counts():
    least = count_of(1)
    assert least < 32
    assert [count_of(1 + more) - least for more in (1, 7, 100)] == [1, 7, 100]


@needs_plugins
def test_a_call_is_counted_and_computes():
    kernel = emulated(tw.MatmulSpec(8, 8, 64))
    a, b = np.ones((8, 64), np.float32), np.ones((64, 8), np.float32)
    out = np.zeros((8, 8), np.float32)
    counts = {kernel.count_instructions(a, b, out=out) for _ in range(2)}
    assert len(counts) == 1
    # 1024 multiply-adds, and less than half as much besides.
    assert 1024 < counts.pop() < 1536
    assert (out == 64).all()
    assert (kernel(a, b) == 64).all()


@needs_plugins
def test_openblas_executes_what_the_bars_say():
    try:
        found = emulated_openblas.version()
    except TargetError as error:
        pytest.skip(str(error))
    if found != recorded.OPENBLAS_VERSION:
        pytest.skip(f"OpenBLAS {found}, and not {recorded.OPENBLAS_VERSION}, is here")
    for shape in ("96x128x64", "123x121x61", "256x256x256"):
        m, n, k = map(int, shape.split("x"))
        spec = tw.MatmulSpec(m, n, k)
        assert emulated_openblas.computes(spec)
        assert emulated_openblas.count(spec) == recorded.OPENBLAS[shape]


def test_openblas_computes_plain_products_of_floats():
    assert emulated_openblas.computes(tw.MatmulSpec(2, 3, 4, a="f64", b="f64"))
    for spec in (
        tw.MatmulSpec(2, 3, 4, a="bf16", b="bf16"),
        tw.MatmulSpec(2, 3, 4, beta=1),
        tw.MatmulSpec(2, 3, 4, layout="nt"),
        tw.MatmulSpec(2, 0, 4),
    ):
        assert not emulated_openblas.computes(spec)


def test_without_openblas_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_PEERS_DIR", str(tmp_path))
    with pytest.raises(TargetError, match=r"OpenBLAS for AArch64 is not there.*make setup-arm"):
        emulated_openblas.version()


def test_an_emulator_that_takes_no_plugins_is_refused(tmp_path, monkeypatch):
    static = tmp_path / "qemu-aarch64"
    static.write_text("#!/bin/sh\necho usage\n")
    static.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    kernel = emulated(tw.MatmulSpec(2, 2, 2))
    a = np.ones((2, 2), np.float32)
    with pytest.raises(TargetError, match=r"takes no plugins.*Install the package qemu-user"):
        kernel.count_instructions(a, a)
