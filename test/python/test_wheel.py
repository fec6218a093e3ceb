# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What wheels are made of."""

import sys
from pathlib import Path

import pytest
from tilewright.targets.registry import FAMILIES

sys.path.append(str(Path(__file__).parents[2] / "tools" / "setup"))
import runtime_wheel
import wheel_llvm

BACK_ENDS = {"x86": "X86", "arm": "AArch64", "riscv": "RISCV"}
GPUS = {"NVPTX", "AMDGPU", "SPIRV"}


def test_the_compiler_has_the_back_end_of_every_family():
    assert {BACK_ENDS[family.name] for family in FAMILIES} | GPUS == set(wheel_llvm.BACK_ENDS)


def test_other_back_ends_are_left_out():
    names = [
        "libLLVMX86CodeGen.a",
        "libLLVMX86Info.a",
        "libLLVMSparcCodeGen.a",
        "libLLVMSparcInfo.a",
        "libLLVMCodeGen.a",
    ]
    assert wheel_llvm._other_back_ends([Path(name) for name in names]) == ["Sparc"]


def test_files_of_code_are_found(tmp_path):
    for name, data in {
        "a.so": b"\x7fELF",
        "b.so": b"text",
        "bin/tool": b"\x7fELF...",
        "bin/data": b"",
        "c": b"\x7fELF",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    assert sorted(path.name for path in wheel_llvm.files_of_code(tmp_path)) == ["a.so", "tool"]


def test_the_package_of_calls_says_when_it_is_not_built(tmp_path, monkeypatch):
    (tmp_path / "standalone").mkdir()
    monkeypatch.setattr(runtime_wheel, "PACKAGE", tmp_path)
    with pytest.raises(runtime_wheel.SetupError, match="has 0 extensions, expected 1: run make setup"):
        runtime_wheel.package(tmp_path / "out")
    (tmp_path / "standalone" / "_native.so").write_bytes(b"another one")
    with pytest.raises(runtime_wheel.SetupError, match="does not name its domain"):
        runtime_wheel.package(tmp_path / "again")
