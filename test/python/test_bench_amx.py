# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench amx``: the bars, what a machine without AMX is told, and a dress rehearsal on emulated AMX."""

import json
import subprocess
import sys

import emulated_amx
import pytest
import tilewright as tw
from tilewright.bench import PeerResult, Rates, Row, Shape, amx
from tilewright.cli import main
from tilewright.targets import host

_CHILD = f"""{emulated_amx.AS_HOST}
import os
from tilewright.cli import main

status = main(sys.argv[2:])
print("products", products(), flush=True)
os._exit(status)
"""


def row(shape: Shape, percent: float, ratio: float) -> Row:
    """A row of bf16 of which only the rates matter."""
    return Row(
        shape=shape,
        dtype="bf16",
        threads=1,
        target="host",
        cache="hot",
        ours=Rates((percent,)),
        peak=Rates((100.0,)),
        stream=Rates((10.0,)),
        bandwidth={},
        bytes_moved=1000,
        peers={"mkl": PeerResult(Rates((percent / ratio,)), "1.0", 1e-7)},
        absent={},
        rel_error=1e-7,
        compile_seconds=0.25,
        cached_seconds=None,
        object_bytes=4096,
        schedule="packed",
    )


def test_without_amx_one_line_says_so(capsys, monkeypatch):
    monkeypatch.setattr(host, "machine", lambda: ("x86_64", frozenset({"avx2"})))
    assert main(["bench", "amx"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert "amx_tile is not among the flags" in line


@pytest.mark.parametrize(("percent", "holds"), [(49.0, False), (51.0, True)])
def test_a_cube_has_to_reach_its_share_of_the_peak(percent, holds):
    measured = row(Shape(1024, 1024, 1024), percent, 1.3)
    of_peak, of_best = amx.verdicts([measured])
    assert (of_peak.bar, of_peak.holds) == (50, holds)
    assert of_best.holds
    assert ("MISSED" in str(of_peak)) != holds


def test_the_geometric_mean_has_to_reach_its_bar():
    rows = [row(Shape(64, 96, 128), 50, ratio) for ratio in (1.0, 1.3)]
    (verdict,) = amx.verdicts(rows)
    assert not verdict.holds
    assert verdict.reached == pytest.approx((1.0 * 1.3) ** 0.5)


@pytest.mark.skipif(emulated_amx.CLANG is None, reason="clang, which compiles the emulator, is absent")
@pytest.mark.skipif(emulated_amx.HARDWARE, reason="the machine has AMX, so nothing is emulated")
@pytest.mark.skipif(bool(tw.targets.runnable(tw.targets.get("x86-64-v4"))), reason="the code around AMX is AVX-512")
def test_a_dress_rehearsal(tmp_path):
    emulator = emulated_amx.build_emulator(tmp_path)
    results = tmp_path / "amx.json"
    arguments = ["--shape", "32x32x64", "--peers", "none", "--rounds", "1", "--sample-ms", "0.01"]
    arguments += ["--budget", "1000", "--tune", "0.1"]
    places = ["--json", str(results), "--database", str(tmp_path / "records.db")]
    command = [sys.executable, "-I", "-c", _CHILD, str(emulator), "bench", "amx", *arguments, *places]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said, _, counts = done.stdout.rpartition("products ")
    assert "27 of 27 kernels compute right numbers" in said
    rows = json.loads(results.read_text())
    assert {(each["dtype"], each["packed"]) for each in rows} == {(t, p) for t in amx.DTYPES for p in (False, True)}
    assert sum("32x32x64" in line and "times the model's" in line for line in said.splitlines()) == len(amx.DTYPES)
    assert int(counts) > 0
