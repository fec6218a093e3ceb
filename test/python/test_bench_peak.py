# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The peak and stream loops: what LLVM makes of them for each target, and that they run."""

import os
import resource
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from tilewright import targets
from tilewright.bench.bandwidth import by_level, working_sets
from tilewright.bench.loops import accumulators, peak_loop, stream_loop
from tilewright.bench.peak import Peak, Rate, StreamPeak
from tilewright.emit import code
from tilewright.targets.base import Cache

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
    body = loop_of(code.assembly(peak_loop(target, (dtype, dtype)).ir, target))
    for mnemonic in per_sum:
        found = [line for line in body if line.split()[0].startswith(mnemonic)]
        assert len(found) == accumulators(target)
        assert all(f"%{register}" in line and "(" not in line for line in found)
        assert all(line.split()[0].endswith({"f32": "ps", "f64": "pd"}[dtype]) for line in found)
        assert len({line.split(",")[-1] for line in found}) == accumulators(target)
    assert len(body) == len(per_sum) * accumulators(target) + 1


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_the_stream_loop_loads_whole_registers(name):
    asm = code.assembly(stream_loop(ROWS[name]), ROWS[name])
    register = {"x86-64": "xmm", "x86-64-v3": "ymm", "x86-64-v4": "zmm"}[name]
    assert sum("xor" in line and "(" in line and register in line for line in asm.splitlines()) == 8


@pytest.mark.parametrize(
    ("name", "operands", "mnemonics", "flops"),
    [
        ("x86-64", ("u8", "i8"), ("pmaddwd", "paddd"), 16),
        ("x86-64-v3", ("i8", "i8"), ("vpmaddwd", "vpaddd"), 32),
        ("x86-64-v4", ("u8", "u8"), ("vpmaddwd", "vpaddd"), 64),
        ("x86-64-v4", ("bf16", "bf16"), ("vfmadd213ps",), 32),
        ("cascadelake", ("i8", "u8"), ("vpdpbusd",), 128),
        ("znver4", ("bf16", "bf16"), ("vdpbf16ps",), 64),
        ("znver4", ("f16", "f16"), ("vfmadd213ps",), 32),
    ],
)
def test_the_loop_of_small_types_is_the_best_instruction_of_the_target(name, operands, mnemonics, flops):
    target = ROWS[name]
    loop = peak_loop(target, operands)
    body = loop_of(code.assembly(loop.ir, target))
    for mnemonic in mnemonics:
        assert sum(line.split()[0] == mnemonic for line in body) == accumulators(target)
    assert not any("(" in line for line in body)
    assert loop.flops == flops * accumulators(target)


@pytest.mark.parametrize(
    ("name", "operands", "mnemonic", "flops"),
    [
        ("sapphirerapids", ("bf16", "bf16"), "tdpbf16ps", 16384),
        ("sapphirerapids", ("u8", "i8"), "tdpbusd", 32768),
        ("graniterapids", ("f16", "f16"), "tdpfp16ps", 16384),
    ],
)
def test_the_loop_of_tiles_configures_once_and_sums_into_six(name, operands, mnemonic, flops):
    target = ROWS[name]
    loop = peak_loop(target, operands)
    asm = code.assembly(loop.ir, target)
    body = loop_of(asm)
    assert [line.split()[0] for line in body[:6]] == [mnemonic] * 6
    assert len({line.split(",")[-1] for line in body[:6]}) == 6
    assert asm.count("ldtilecfg") == 1
    assert loop.flops == 6 * flops
    assert len(loop.start) == 2 * 1024 + 64


@pytest.mark.parametrize(
    ("dtype", "element"), [("f32", np.float32), ("f64", np.float64), ("bf16", np.float32), ("u8", np.int32)]
)
def test_the_peak_runs_and_its_sums_stay_finite(dtype, element):
    with closing(Peak(targets.resolve("host"), (dtype, dtype), HERE)) as peak:
        count = peak.calibrate(1e-4)
        assert peak.sample(count) > 0
        assert peak.sample(count) > 0
        register = targets.resolve("host").vector_bits // 8
        for data in peak._data:
            sink = data[: len(data) // register * register].view(element)[-register // np.dtype(element).itemsize :]
            assert np.isfinite(sink).all()
            if dtype in ("f32", "f64"):
                assert sink == pytest.approx(accumulators(targets.resolve("host")))


def test_bandwidth_is_measured_for_each_level_with_sets_that_fit_it():
    machine = targets.resolve("host")
    sets = working_sets(machine, 2)
    assert sets["L1"] == machine.l1.bytes
    assert sets["memory"] >= 2**28
    assert list(sets)[-1] == "memory"
    assert all(size <= later for size, later in zip(sets.values(), list(sets.values())[1:], strict=False))


def test_sets_fit_what_the_process_may_allocate(monkeypatch):
    machine = replace(targets.resolve("host"), l3=Cache(480 << 20, ways=16))
    monkeypatch.setattr("resource.getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert working_sets(machine, 1)["memory"] == 960 << 20
    monkeypatch.setattr("resource.getrlimit", lambda _: (1 << 30, 1 << 30))
    assert working_sets(machine, 1)["memory"] == 256 << 20
    assert working_sets(machine, 1)["L3"] == 240 << 20


def test_bandwidth_is_a_rate_for_each_level(monkeypatch):
    monkeypatch.setattr("tilewright.bench.bandwidth.working_sets", lambda machine, threads: {"L1": 4096, "L2": 8192})
    found = by_level(targets.resolve("host"), HERE, seconds=1e-4)
    assert list(found) == ["L1", "L2"]
    assert min(found.values()) > 0


def test_the_stream_runs_on_a_set_smaller_than_a_step():
    with closing(StreamPeak(targets.resolve("host"), 1, HERE)) as stream:
        assert stream.sample(stream.calibrate(1e-4)) > 0


def test_a_rate_takes_more_steps_when_the_calibrated_ones_are_over_at_once():
    now = iter([0, 10**9, 10**9, 2 * 10**9, 2 * 10**9, 2 * 10**9 + 1000, 3 * 10**9, 4 * 10**9])
    steps = []
    with closing(Rate([steps.append], 2.0, HERE, lambda: next(now))) as rate:
        assert rate.calibrate(0.5) == 1
        assert rate.sample(1) == pytest.approx(2.0 * steps[-1])
    assert steps[-1] == 4


def test_two_threads_take_part_together():
    two = sorted(os.sched_getaffinity(0))[:2]
    if len(two) < 2:
        pytest.skip("one processor only")
    with closing(Peak(targets.resolve("host"), ("f32", "f32"), two)) as peak:
        assert peak.sample(1000) > 0
        assert len(peak._data) == 2
        for data in peak._data:
            assert data.view(np.float32)[-1] == pytest.approx(accumulators(targets.resolve("host")))
