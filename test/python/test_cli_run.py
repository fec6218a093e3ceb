# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`run` and `targets`: what they print, and that a wrong result ends with status 1."""

import dataclasses
import json
import re

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.cli import main
from tilewright.cli import run as run_module
from tilewright.cli.output import duration
from tilewright.cli.run import Outcome
from tilewright.runtime.trial import Difference


@pytest.fixture(autouse=True)
def quick(tmp_path, monkeypatch):
    """Short samples and a cache of one's own."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(run_module, "_SAMPLE_SECONDS", 1e-4)
    monkeypatch.chdir(tmp_path)


def test_report(capsys):
    assert main(["run", "--shape", "20x33x17", "--seed", "7", "--target", "x86-64"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "20x33x17 f32 nn on x86-64"
    assert [line.split()[0] for line in lines[1:]] == ["schedule", "compile", "time", "error"]
    assert re.search(r"mr=\d+ nr=\d+ mc=\d+ nc=\d+ kc=\d+$", lines[1])
    assert re.search(r"\d+\.\d{3} s \(compiled\), \d+ bytes of object code$", lines[2])
    assert re.search(r"[\d.]+ (ns|µs|ms|s) a call, median of \d+ samples of \d+, [\d.]+ GFLOP/s$", lines[3])
    assert re.search(r"[\d.e-]+ of the bound at most, [\d.e-]+ relative \(seed 7\): ok$", lines[4])


def test_second_run_comes_from_the_cache(capsys):
    for how in ("(compiled)", "(from the cache)"):
        assert main(["run", "--shape", "5x6x7"]) == 0
        assert how in capsys.readouterr().out


def test_every_shape_is_run_and_the_seed_is_printed(capsys):
    assert main(["run", "--shape", "3x4x5", "--shape", "0x4x5", "--shape", "3x4x0", "--dtype", "f64"]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [
        f"{shape} f64 nn on host ({targets.resolve('host').base})" for shape in ("3x4x5", "0x4x5", "3x4x0")
    ]
    assert len(set(re.findall(r"seed (\d+)", out))) == 1


@pytest.mark.parametrize(
    "dtype", ["f32", "f64", "f32,f32,f32", "f16", "bf16", "bf16,bf16,bf16", "i8", "u8", "u8,i8,i32", "i8,u8,i32"]
)
@pytest.mark.parametrize("beta", ["0", "1"])
def test_types_and_beta(capsys, dtype, beta):
    assert main(["run", "--shape", "9x10x11", "--dtype", dtype, "--beta", beta]) == 0
    assert ("beta=1" in capsys.readouterr().out) == (beta == "1")


def test_schedule_and_sizes(capsys):
    arguments = ["--schedule", "packed", "--set", "kc=8", "--set", "mr=2"]
    assert main(["run", "--shape", "32x64x32", *arguments]) == 0
    out = capsys.readouterr().out
    assert "packed: mr=2 " in out
    assert "kc=8" in out


def test_schedule_of_a_users_own(capsys, tmp_path):
    (tmp_path / "mine.py").write_text("from tilewright.schedules.cpu.unpacked import unpacked as schedule\n")
    assert main(["run", "--shape", "8x8x8", "--schedule", "mine.py"]) == 0
    assert "  schedule  mine.py: given mr=" in capsys.readouterr().out


def test_a_schedule_in_mlir_has_no_sizes_but_its_own(capsys, tmp_path):
    """The model's sizes are none of a text's, so they are not printed beside it."""
    assert main(["compile", "--shape", "24x32x16", "--emit", "schedule", "-o", "own.mlir"]) == 0
    capsys.readouterr()
    assert main(["run", "--shape", "24x32x16", "--schedule", "own.mlir"]) == 0
    assert re.search(r"^  schedule  own\.mlir$", capsys.readouterr().out, re.MULTILINE)
    assert main(["compile", "--shape", "24x32x16", "--schedule", "own.mlir", "-o", "k.o"]) == 0
    assert capsys.readouterr().out.endswith("own.mlir\n")
    assert tw.compile(tw.MatmulSpec(24, 32, 16), schedule="own.mlir").metadata.parameters == {}


def spoiled(monkeypatch, spoil):
    """Has every compiled kernel go through `spoil`, which gets its result."""
    compile_ = tw.compile

    class Kernel:
        def __init__(self, kernel):
            self._kernel = kernel

        def __getattr__(self, name):
            return getattr(self._kernel, name)

        def __call__(self, a, b, out):
            self._kernel(a, b, out=out)
            spoil(out)

    monkeypatch.setattr(tw, "compile", lambda *args, **kwargs: Kernel(compile_(*args, **kwargs)), raising=False)


@pytest.mark.parametrize("value", [np.nan, 1e9])
def test_a_wrong_element_is_status_1(capsys, monkeypatch, value):
    def spoil(out):
        out[3, 4] = value

    spoiled(monkeypatch, spoil)
    assert main(["run", "--shape", "8x8x8"]) == 1
    out = capsys.readouterr().out
    assert "WRONG: 1 of 64 elements beyond their bound" in out


def test_one_wrong_shape_of_two_is_status_1(capsys, monkeypatch):
    def spoil(out):
        if out.shape == (4, 4):
            out += 1

    spoiled(monkeypatch, spoil)
    assert main(["run", "--shape", "4x4x4", "--shape", "5x5x5"]) == 1
    assert capsys.readouterr().out.count(": ok") == 1


def test_worst_part_of_the_bound():
    expected = np.array([[1.0, 2.0], [0.0, 4.0]])
    bound = np.array([[0.5, 0.5], [0.0, 1.0]])

    def worst(c):
        return Difference.of(c, expected, bound).worst

    assert worst(expected) == 0
    assert worst(np.add(expected, [[0.25, 0], [0, 0]])) == 0.5
    assert worst(np.add(expected, [[0, 0], [1e-9, 0]])) == np.inf
    assert worst(np.full((2, 2), np.nan)) == np.inf
    empty = np.empty((0, 2))
    assert Difference.of(empty, empty, empty).worst == 0
    there = Difference.of(np.add(expected, [[0, 0], [0, 3]]), expected, bound)
    assert str(there) == "C[1, 1] = 7 is off by 3, 3 times its bound; 1 of 4 elements are wrong"


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2 s"), (0.0123, "12.3 ms"), (4.56e-5, "45.6 µs"), (2.5e-7, "250 ns"), (1e-3, "1 ms")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_outcome():
    zero = np.zeros((1, 1))
    for got, right in ((0.4, True), (0.6, False), (np.nan, False)):
        assert Outcome(1.0, 1, Difference.of(np.full((1, 1), got), zero, zero + 0.5)).right == right
    assert Outcome(1.0, 1, None).right


def test_targets_as_json(capsys):
    assert main(["targets", "--json"]) == 0
    found = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert {"host", "x86-64", "x86-64-v3", "x86-64-v4"} <= found.keys()
    assert found["host"]["runs_here"]
    assert found["x86-64-v3"]["features"] == sorted(targets.get("x86-64-v3").features)
    for row in found.values():
        assert row["runs_here"] == (not row["missing"])


def test_targets_as_a_table(capsys, monkeypatch):
    able = targets.Availability(targets.get("x86-64"), ())
    unable = targets.Availability(targets.get("x86-64-v4"), ("avx512bw", "avx512f"))
    base = targets.get("x86-64-v3")
    host = targets.Availability(dataclasses.replace(base, name="host", base=base.name, l3=None), ())
    other = targets.Availability(targets.get("neoverse-v1"), ("aarch64",))
    monkeypatch.setattr("tilewright.targets._survey", lambda: (host, able, unable, other))
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["targets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (first,) = [line for line in lines if line.split()[:1] == ["x86-64"]]
    (second,) = [line for line in lines if line.split()[:1] == ["x86-64-v4"]]
    assert "runs it" in first
    assert "16 × 128 bit" in first
    assert "cannot: lacks avx512bw" in second
    assert "32 × 128 bit, scalable 256 " in next(line for line in lines if line.split()[:1] == ["neoverse-v1"])
    assert lines[-1].startswith("host is x86-64-v3 with L1 32 KiB, L2 256 KiB, and all features: avx,")


def test_an_epilogue_is_run_and_checked(capsys):
    assert main(["run", "--shape", "9x20x5", "--epilogue", "bias:n,gelu,residual:mn:bf16"]) == 0
    printed = capsys.readouterr().out
    assert "9x20x5 f32 nn [bias('n'), gelu('erf'), residual('mn', 'bf16')]" in printed
    assert ": ok" in printed
    assert main(["run", "--shape", "9x20x5", "--epilogue", "gelu:fast"]) == 2
