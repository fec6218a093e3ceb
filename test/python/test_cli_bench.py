# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`bench`: what it asks to be measured, and what it makes of the results. Nothing is measured here."""

import importlib.util
import json

import pytest
from tilewright import bench
from tilewright.bench.checks import CheckError
from tilewright.bench.measure import Event
from tilewright.bench.rows import PeerResult, Rates, Row
from tilewright.cli import bench as bench_module
from tilewright.cli import main

needs_matplotlib = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="no matplotlib")


def row(shape, percent=80.0):
    return Row(
        shape=shape,
        dtype="f32",
        threads=1,
        target="host",
        cache="hot",
        ours=Rates((percent, percent)),
        peak=Rates((100.0, 100.0)),
        stream=Rates((10.0, 10.0)),
        bytes_moved=1000,
        peers={"numpy": PeerResult(Rates((40.0, 40.0)), "1.0", 1e-7)},
        absent={"mkl": "not installed"},
        rel_error=1e-7,
        compile_seconds=0.25,
        cached_seconds=0.001,
        object_bytes=4096,
        schedule="packed",
    )


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """What `run_suite` was asked for; it answers with made-up rows."""
    monkeypatch.chdir(tmp_path)
    calls = {}

    def run_suite(shapes, dtype, *, progress=None, **settings):
        calls.update(shapes=[str(shape) for shape in shapes], dtype=dtype, **settings)
        rows = [row(shape) for shape in shapes]
        if progress:
            progress(Event(shapes[0], "round", 0, 2 * len(rows)))
            for index, each in enumerate(rows, 1):
                progress(Event(each.shape, "done", 2 * index, 2 * len(rows), each))
        return rows

    monkeypatch.setattr(bench, "run_suite", run_suite)
    return calls


def test_table_and_summary(capsys, asked):
    assert main(["bench", "--shape", "8x9x10", "--shape", "64x64x64"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    for text in ("8x9x10", "64x64x64", "2 shapes", "times numpy: geometric mean 2.00", "mkl is absent: not installed"):
        assert text in printed.out


def test_a_narrow_terminal_cuts_nothing(capsys, asked, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["bench", "--shape", "1000x2000x3000"]) == 0
    out = capsys.readouterr().out
    assert "…" not in out
    assert "1000x2000x3000" in out
    assert "1.0e-07" in out


def test_settings_are_passed_on(asked):
    arguments = ["--dtype", "f64", "--target", "x86-64-v3", "--schedule", "packed", "--set", "kc=64", "--rounds", "9"]
    assert main(["bench", "--shape", "8x8x8", *arguments, "--peers", "numpy, mkl", "--cold"]) == 0
    assert asked == {
        "shapes": ["8x8x8"],
        "dtype": "f64",
        "threads": 1,
        "target": "x86-64-v3",
        "peers": ("numpy", "mkl"),
        "rounds": 9,
        "schedule": "packed",
        "parameters": {"kc": 64},
        "cache": "cold",
    }


@pytest.mark.parametrize(("peers", "expected"), [([], None), (["--peers", "none"], ()), (["--peers", ""], ())])
def test_peers(asked, peers, expected):
    assert main(["bench", "--shape", "8x8x8", *peers]) == 0
    assert asked["peers"] == expected


def test_suites_are_joined_and_no_shape_is_measured_twice(capsys, asked):
    suites = ["--suite", "square", "--suite", "bert", "--suite", "square"]
    assert main(["bench", "--shape", "64x64x64", *suites]) == 0
    assert len(asked["shapes"]) == len(set(asked["shapes"]))
    assert asked["shapes"][0] == "64x64x64"
    assert {str(shape) for name in ("square", "bert") for shape in bench.suite(name).shapes} == set(asked["shapes"])
    assert "left out until batches are done" in capsys.readouterr().out


def test_json_has_the_fields_that_are_promised(asked, tmp_path):
    assert main(["bench", "--shape", "8x9x10", "--json", "b.json"]) == 0
    (found,) = json.loads((tmp_path / "b.json").read_text())
    assert {"m", "n", "k", "dtype", "layout", "threads", "target", "packed", "gflops", "gflops_p20"} <= found.keys()
    assert {"gflops_p80", "peak_gflops", "percent_of_peak", "rel_error", "compile_seconds"} <= found.keys()
    assert {"object_bytes", "schedule", "peers"} <= found.keys()
    assert found["peers"]["numpy"] == {"gflops": 40.0, "version": "1.0"}
    assert (found["m"], found["n"], found["k"]) == (8, 9, 10)


def test_json_on_standard_output_is_alone_there(capsys, asked):
    assert main(["bench", "--shape", "8x9x10", "--json", "-"]) == 0
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)) == 1
    assert "8x9x10" in printed.err


@needs_matplotlib
@pytest.mark.parametrize(("suffix", "starts"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_plot(asked, tmp_path, suffix, starts):
    assert main(["bench", "--suite", "odd", "--plot", f"b{suffix}"]) == 0
    assert (tmp_path / f"b{suffix}").read_bytes().startswith(starts)
    assert [path.name for path in tmp_path.iterdir()] == [f"b{suffix}"]


def test_absent_matplotlib_is_said_before_measuring(capsys, asked, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["bench", "--shape", "8x8x8", "--plot", "b.png"]) == 2
    assert "pip install 'tilewright[bench]'" in capsys.readouterr().err
    assert not asked


def test_plot_and_json_in_one_file_are_refused(capsys, asked):
    assert main(["bench", "--shape", "8x8x8", "--plot", "b.png", "--json", "./b.png"]) == 2
    assert "b.png is also --json" in capsys.readouterr().err


@pytest.mark.parametrize(("bar", "status"), [("80", 0), ("80.5", 1)])
def test_bar(capsys, asked, bar, status):
    assert main(["bench", "--shape", "8x8x8", "--bar", bar]) == status
    assert ("below the bar of 80.5 %: 8x8x8 with 80.0 %" in capsys.readouterr().out) == bool(status)


@pytest.mark.parametrize(("before", "status"), [(81.0, 0), (90.0, 1)])
def test_comparison(capsys, asked, tmp_path, before, status):
    (tmp_path / "old.json").write_text(json.dumps([row(bench.Shape(8, 8, 8), before).as_json()]))
    assert main(["bench", "--shape", "8x8x8", "--compare", "old.json"]) == status
    assert ("LOST 8x8x8" in capsys.readouterr().out) == bool(status)


def test_comparison_with_something_else_is_refused(capsys, asked, tmp_path):
    (tmp_path / "old.json").write_text("{}")
    assert main(["bench", "--shape", "8x8x8", "--compare", "old.json"]) == 2
    assert "holds no list; expected what bench --json wrote" in capsys.readouterr().err


def test_wrong_numbers_are_status_1(capsys, monkeypatch):
    def run_suite(*_args, **_kwargs):
        raise CheckError("mkl computed wrong numbers on 8x8x8")

    monkeypatch.setattr(bench, "run_suite", run_suite)
    assert main(["bench", "--shape", "8x8x8"]) == 1
    assert capsys.readouterr().err == "tilewright: mkl computed wrong numbers on 8x8x8\n"


def test_progress_bar_on_a_terminal(capsys, asked, monkeypatch):
    console = bench_module.console

    def terminal(*, stderr=False):
        made = console(stderr=stderr)
        made._force_terminal = stderr
        return made

    monkeypatch.setattr(bench_module, "console", terminal)
    assert main(["bench", "--shape", "8x8x8"]) == 0
    printed = capsys.readouterr()
    assert "8x8x8: 80.0 GFLOP/s, 80.0 % of peak" in printed.err
    assert "\x1b[" not in printed.out
