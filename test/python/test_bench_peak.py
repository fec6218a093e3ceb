# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The peak and stream loops: what LLVM makes of them for each target, and that they run."""

import os
from contextlib import closing

import pytest
from tilewright import targets
from tilewright.bench.peak import FmaPeak, StreamPeak, accumulators, fma_ir, stream_ir
from tilewright.emit import code
from tilewright.errors import SpecError

HERE = (max(os.sched_getaffinity(0)),)
ROWS = {target.name: target for target in targets.all()}


def loop_of(asm):
    """The lines from the last loop's label to its jump back."""
    lines = asm.splitlines()
    jump = max(i for i, line in enumerate(lines) if line.split()[:1] == ["jne"])
    label = f"{lines[jump].split()[1]}:"
    return lines[lines.index(label) + 1 : jump]


@pytest.mark.parametrize(
    ("name", "register", "per_sum"),
    [("x86-64", "xmm", ("mulp", "addp")), ("x86-64-v3", "ymm", ("vfmadd",)), ("x86-64-v4", "zmm", ("vfmadd",))],
)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_peak_loop_is_multiply_adds_on_registers_and_nothing_else(name, register, per_sum, dtype):
    target = ROWS[name]
    body = loop_of(code.assembly(fma_ir(target, dtype), target))
    for mnemonic in per_sum:
        found = [line for line in body if line.split()[0].startswith(mnemonic)]
        assert len(found) == accumulators(target)
        assert all(f"%{register}" in line and "(" not in line for line in found)
        assert all(line.split()[0].endswith({"f32": "ps", "f64": "pd"}[dtype]) for line in found)
        assert len({line.split(",")[-1] for line in found}) == accumulators(target)
    assert len(body) == len(per_sum) * accumulators(target) + 1


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_the_stream_loop_loads_whole_registers(name):
    asm = code.assembly(stream_ir(ROWS[name]), ROWS[name])
    register = {"x86-64": "xmm", "x86-64-v3": "ymm", "x86-64-v4": "zmm"}[name]
    assert sum("xor" in line and "(" in line and register in line for line in asm.splitlines()) == 8


def test_a_type_without_a_loop_is_refused():
    with pytest.raises(SpecError, match="element type"):
        fma_ir(ROWS["x86-64"], "i8")


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_peak_runs_and_its_sums_stay_finite(dtype):
    with closing(FmaPeak(targets.resolve("host"), dtype, HERE)) as peak:
        count = peak.calibrate(1e-4)
        assert peak.sample(count) > 0
        assert peak.sample(count) > 0
        for data in peak._data:
            assert data[-1] == pytest.approx(accumulators(targets.resolve("host")))


def test_the_stream_runs_on_a_set_smaller_than_a_step():
    with closing(StreamPeak(targets.resolve("host"), 1, HERE)) as stream:
        assert stream.sample(stream.calibrate(1e-4)) > 0


def test_two_threads_take_part_together():
    two = sorted(os.sched_getaffinity(0))[:2]
    if len(two) < 2:
        pytest.skip("one processor only")
    with closing(FmaPeak(targets.resolve("host"), "f32", two)) as peak:
        assert peak.sample(1000) > 0
        assert len(peak._data) == 2
        for data in peak._data:
            assert data[-1, 0] > 0
