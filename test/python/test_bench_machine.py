# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The line that says what machine a result is from."""

import os
from pathlib import Path

from tilewright.bench import machine
from tilewright.targets.host import host


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
