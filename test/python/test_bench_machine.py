# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The line that says what machine a result is from."""

import os
from pathlib import Path

from tilewright.bench import machine
from tilewright.targets.host import host
from tilewright.version import VERSION


def test_it_names_the_processor_its_cores_and_caches_and_not_the_machine(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU 9000\nflags\t: fpu\n")
    text = machine.describe(cpuinfo)
    assert text.startswith(
        f"Some CPU 9000, {len(os.sched_getaffinity(0))} CPUs, L1d {host().l1.bytes // 1024} KiB, L2 "
    )
    assert f"target {host().base}" in text
    assert os.uname().nodename not in text


def test_without_a_name_the_architecture_has_to_do():
    assert machine.describe(Path("absent")).startswith(os.uname().machine)


def test_the_name_of_a_file_has_the_processor_and_its_target():
    assert machine.slug("AMD EPYC, 2 CPUs, L2 1 MiB, target znver5, virtual machine") == "amd-epyc-znver5"
    assert machine.slug("Intel(R) Xeon(R) CPU @ 2.20GHz, 8 CPUs, target x86-64-v4") == "intel-xeon-x86-64-v4"
    assert machine.slug("aarch64, 4 CPUs") == "aarch64"


def test_the_version_names_the_commit_in_a_checkout(monkeypatch):
    said = {"rev-parse": "abc1234", "status": " M a.py"}
    monkeypatch.setattr(machine, "_git", lambda verb, *words: said[verb])
    assert machine.version.__wrapped__() == f"{VERSION}, commit abc1234 and changes"
    said["status"] = ""
    assert machine.version.__wrapped__() == f"{VERSION}, commit abc1234"
    said["rev-parse"] = ""
    assert machine.version.__wrapped__() == VERSION
