# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`bench`: what it asks to be measured, and what it makes of the results. Nothing is measured here."""

import dataclasses
import importlib.util
import json
import os

import pytest
from tilewright import bench
from tilewright.bench.checks import CheckError
from tilewright.bench.measure import Event
from tilewright.bench.operators.results import Result
from tilewright.bench.rows import PeerResult, Rates, Row
from tilewright.cli import bench_progress, main

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
        date="2026-01-02T03:04:05+00:00",
    )


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """What `run_cases` was asked for; it answers with made-up rows."""
    monkeypatch.chdir(tmp_path)
    calls = {}

    def run_cases(every, settings, *, finished, progress, failed, jobs=None):
        calls.update(cases=[str(case) for case in every], shapes=list(dict.fromkeys(str(case.shape) for case in every)))
        calls.update(settings=settings, finished=len(finished), goes_on=failed is not None)
        rows = dict(finished)
        for index, case in enumerate(every):
            key = case.key(settings.target)
            if key not in rows:
                progress(Event(case, "round", 2 * index, 2 * len(every)))
                rows[key] = row_of(case)
                progress(Event(case, "done", 2 * index + 2, 2 * len(every), rows[key]))
        return [rows[case.key(settings.target)] for case in every]

    monkeypatch.setattr(bench, "run_cases", run_cases)
    return calls


def row_of(case):
    made = row(case.shape)
    return dataclasses.replace(made, dtype=case.dtype, threads=case.threads, cache=case.cache, packed=case.packed)


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
    more = ["--peers", "numpy, mkl", "--cache", "cold", "--threads", "1", "--packing", "ahead", "--sample-ms", "5"]
    assert main(["bench", "--shape", "8x8x8", *arguments, *more]) == 0
    assert asked["cases"] == ["8x8x8 f64, 1 thread, cold, packed ahead"]
    assert asked["settings"] == bench.Settings(
        target="x86-64-v3",
        peers=("numpy", "mkl"),
        rounds=9,
        schedule="packed",
        parameters={"kc": 64},
        min_seconds=0.005,
    )


def test_types_threads_caches_and_packings_are_combined(asked):
    arguments = ["--dtype", "f32", "--dtype", "u8,i8,i32", "--threads", "1", "--threads", "2", "--cache", "both"]
    assert main(["bench", "--shape", "8x8x8", *arguments, "--packing", "both"]) == 0
    assert len(asked["cases"]) == len(set(asked["cases"])) == 16
    assert "8x8x8 u8,i8,i32, 2 threads, cold, packed ahead" in asked["cases"]
    assert asked["goes_on"]


def test_all_threads_are_one_for_each_core(asked, monkeypatch):
    monkeypatch.setattr("tilewright.bench.timing.same_core", lambda core: {core})
    assert main(["bench", "--shape", "8x8x8", "--threads", "all"]) == 0
    count = len(os.sched_getaffinity(0))
    assert asked["cases"] == [f"8x8x8 f32, {count} thread{'s' if count > 1 else ''}, hot"]
    assert main(["bench", "--shape", "8x8x8", "--threads", "0"]) == 2


@pytest.mark.parametrize(("peers", "expected"), [([], None), (["--peers", "none"], ()), (["--peers", ""], ())])
def test_peers(asked, peers, expected):
    assert main(["bench", "--shape", "8x8x8", *peers]) == 0
    assert asked["settings"].peers == expected


def test_suites_are_joined_and_no_shape_is_measured_twice(asked):
    suites = ["--suite", "square", "--suite", "bert", "--suite", "square"]
    assert main(["bench", "--shape", "64x64x64", *suites]) == 0
    assert len(asked["shapes"]) == len(set(asked["shapes"]))
    assert asked["shapes"][0] == "64x64x64"
    assert {str(shape) for name in ("square", "bert") for shape in bench.suite(name).shapes} == set(asked["shapes"])
    assert main(["bench", "--suite", "all", "--suite", "bert"]) == 0
    assert {str(shape) for each in bench.SUITES.values() for shape in each.shapes} == set(asked["shapes"])


def test_layouts_and_batches(asked):
    assert main(["bench", "--shape", "8x9x10", "--batch", "2x3", "--layout", "tn"]) == 0
    assert asked["cases"] == ["2x3x[8x9x10] f32 tn, 1 thread, hot"]
    assert asked["shapes"] == ["2x3x[8x9x10]"]


def test_json_has_the_fields_that_are_promised(asked, tmp_path):
    assert main(["bench", "--shape", "8x9x10", "--json", "b.json"]) == 0
    (found,) = json.loads((tmp_path / "b.json").read_text())
    assert {"m", "n", "k", "dtype", "layout", "threads", "target", "packed", "gflops", "gflops_p20"} <= found.keys()
    assert {"gflops_p80", "peak_gflops", "percent_of_peak", "rel_error", "compile_seconds"} <= found.keys()
    assert {"object_bytes", "schedule", "peers"} <= found.keys()
    assert {"gflops": 40.0, "version": "1.0"}.items() <= found["peers"]["numpy"].items()
    assert (found["m"], found["n"], found["k"]) == (8, 9, 10)


def test_json_on_standard_output_is_alone_there(capsys, asked):
    assert main(["bench", "--shape", "8x9x10", "--json", "-"]) == 0
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)) == 1
    assert "8x9x10" in printed.err


def test_a_run_that_was_broken_off_is_resumed(asked, monkeypatch, tmp_path):
    arguments = ["bench", "--shape", "8x9x10", "--shape", "3x5x7", "--json", "b.json"]
    going_on = bench.run_cases

    def break_off(every, *rest, **more):
        going_on(every[:1], *rest, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "run_cases", break_off)
    assert main(arguments) == 130
    assert [made["m"] for made in json.loads((tmp_path / "b.json").read_text())] == [8]
    monkeypatch.setattr(bench, "run_cases", going_on)
    assert main([*arguments, "--resume"]) == 0
    assert asked["finished"] == 1
    assert [made["m"] for made in json.loads((tmp_path / "b.json").read_text())] == [8, 3]
    assert main([*arguments, "--resume"]) == 0
    assert asked["finished"] == 2
    assert [made["m"] for made in json.loads((tmp_path / "b.json").read_text())] == [8, 3]
    assert main(arguments) == 0
    assert asked["finished"] == 0


def test_json_into_a_folder_has_the_name_of_this_machine(asked, monkeypatch, tmp_path):
    monkeypatch.setattr("tilewright.bench.machine.describe", lambda: "Some(R) CPU 9, 2 CPUs, target znver5")
    (tmp_path / "all").mkdir()
    assert main(["bench", "--shape", "8x9x10", "--resume", "--json", "all"]) == 0
    assert [path.name for path in (tmp_path / "all").iterdir()] == ["some-9-znver5.json"]


def test_results_of_another_machine_are_not_gone_on_with(asked, capsys, tmp_path):
    other = dataclasses.replace(row(bench.Shape(8, 9, 10)), machine="another CPU").as_json()
    (tmp_path / "b.json").write_text(json.dumps([other]))
    assert main(["bench", "--shape", "8x9x10", "--resume", "--json", "b.json"]) == 2
    assert "b.json was measured on another CPU, and this is" in capsys.readouterr().err
    assert json.loads((tmp_path / "b.json").read_text()) == [other]
    assert not asked


def test_what_was_measured_of_operators_stays_in_the_file_and_is_shown(asked, capsys, tmp_path):
    result = Result(
        operator="attention",
        case="2 heads",
        asked="f32",
        threads=1,
        target="host",
        streams=False,
        rates={"tilewright": Rates((9.0, 9.0)), "limit": Rates((10.0, 10.0)), "torch": Rates((3.0, 3.0))},
        versions={"tilewright": "0.1.0", "torch": "2"},
        absent={},
        error=1e-7,
        compile_seconds=0.1,
        scratch=1024,
        date="2026-01-02T03:04:05+00:00",
        machine="",
    )
    (tmp_path / "b.json").write_text(json.dumps([result.as_json()]))
    assert main(["bench", "--shape", "8x9x10", "--resume", "--json", "b.json"]) == 0
    assert [made["operator"] for made in json.loads((tmp_path / "b.json").read_text())] == ["attention", "matmul"]
    assert asked["finished"] == 0
    capsys.readouterr()
    assert main(["bench", "show", "b.json"]) == 0
    out = capsys.readouterr().out
    assert "| 2 heads | 9.0 | 9.0–9.0 | 90.0 | 3.0 | 3.00 |" in out
    assert "8x9x10" in out
    assert main(["bench", "compare", "b.json", "b.json"]) == 0
    assert "attention 2 heads, f32 host: 90.0 %" in capsys.readouterr().out


def test_a_page_needs_products(asked, capsys, tmp_path):
    (tmp_path / "b.json").write_text("[]")
    assert main(["bench", "show", "b.json", "--report", "page.md"]) == 2
    assert "b.json has no products" in capsys.readouterr().err


def test_resuming_needs_a_file(capsys, asked):
    assert main(["bench", "--shape", "8x8x8", "--resume"]) == 2
    assert "--resume without a file" in capsys.readouterr().err


def test_an_earlier_result_is_printed_without_measuring(capsys, asked, tmp_path):
    (tmp_path / "old.json").write_text(json.dumps([row(bench.Shape(8, 9, 10)).as_json()]))
    assert main(["bench", "show", "old.json", "--report", "page.md", "--command", "do it"]) == 0
    assert not asked
    assert "8x9x10" in capsys.readouterr().out
    page = (tmp_path / "page.md").read_text()
    assert "| 8x9x10 |" in page
    assert "with `do it`." in page
    assert main(["bench", "show", "old.json", "--shape", "8x8x8"]) == 2
    assert "No such option" in capsys.readouterr().err


@pytest.mark.parametrize(("after", "status"), [(79.0, 0), (70.0, 1)])
def test_two_results_are_compared_without_measuring(capsys, asked, tmp_path, after, status):
    for name, percent in (("old", 80.0), ("new", after)):
        (tmp_path / f"{name}.json").write_text(json.dumps([row(bench.Shape(8, 8, 8), percent).as_json()]))
    assert main(["bench", "compare", "old.json", "new.json"]) == status
    assert not asked
    out = capsys.readouterr().out
    assert ("LOST 8x8x8" in out) == bool(status)
    assert f"1 measurements compared, {status} slower by more than 5 % beyond their noise" in out
    assert "different machines" not in out
    assert main(["bench", "compare", "old.json", "new.json", "--tolerance", "20"]) == 0


def test_results_of_different_machines_are_compared_with_a_remark(capsys, asked, tmp_path):
    for name in ("old", "new"):
        made = dataclasses.replace(row(bench.Shape(8, 8, 8)), machine=f"{name} CPU")
        (tmp_path / f"{name}.json").write_text(json.dumps([made.as_json()]))
    assert main(["bench", "compare", "old.json", "new.json"]) == 0
    assert "measured on different machines: old CPU; new CPU" in capsys.readouterr().out


@needs_matplotlib
def test_pictures_of_everything(asked, tmp_path):
    (tmp_path / "pages").mkdir()
    arguments = ["--packing", "both", "--plots", "made", "--report", "pages/page.md"]
    assert main(["bench", "--shape", "8x8x8", *arguments]) == 0
    assert {path.name for path in (tmp_path / "made").iterdir()} == {
        *(f"{kind}-1t-hot{packed}.png" for kind in ("squares", "bars", "ratios") for packed in ("", "-packed")),
        "roofline-f32-1t-hot.png",
    }
    assert "(../made/roofline-f32-1t-hot.png)" in (tmp_path / "pages" / "page.md").read_text()


def test_absent_matplotlib_is_said_before_measuring(capsys, asked, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["bench", "--shape", "8x8x8", "--plots", "made"]) == 2
    assert "pip install 'tilewright[bench]'" in capsys.readouterr().err
    assert not asked


def test_page_and_json_in_one_file_are_refused(capsys, asked):
    assert main(["bench", "--shape", "8x8x8", "--report", "b.md", "--json", "./b.md"]) == 2
    assert "b.md is also --json" in capsys.readouterr().err


@pytest.mark.parametrize(("bar", "status"), [("80", 0), ("80.5", 1)])
def test_bar(capsys, asked, bar, status):
    assert main(["bench", "--shape", "8x8x8", "--bar", bar]) == status
    assert ("below the bar of 80.5 %: 8x8x8 with 80.0 %" in capsys.readouterr().out) == bool(status)


def test_comparison_with_something_else_is_refused(capsys, asked, tmp_path):
    (tmp_path / "old.json").write_text("{}")
    assert main(["bench", "compare", "old.json", "old.json"]) == 2
    assert "holds no list; expected what bench --json wrote" in capsys.readouterr().err


def test_wrong_numbers_are_status_1(capsys, monkeypatch):
    def run_cases(every, settings, *, failed, **_more):
        error = CheckError("mkl computed wrong numbers on 8x8x8")
        if failed is None:
            raise error
        failed(every[0], error)
        return [row_of(case) for case in every[1:]]

    monkeypatch.setattr(bench, "run_cases", run_cases)
    assert main(["bench", "--shape", "8x8x8"]) == 1
    assert capsys.readouterr().err == "tilewright: mkl computed wrong numbers on 8x8x8\n"
    assert main(["bench", "--shape", "8x8x8", "--shape", "9x9x9"]) == 1
    assert "FAILED 8x8x8 f32, 1 thread, hot: mkl computed wrong numbers on 8x8x8" in capsys.readouterr().out


def test_progress_bar_on_a_terminal(capsys, asked, monkeypatch):
    console = bench_progress.console

    def terminal(*, stderr=False):
        made = console(stderr=stderr)
        made._force_terminal = stderr
        return made

    monkeypatch.setattr(bench_progress, "console", terminal)
    assert main(["bench", "--shape", "8x8x8"]) == 0
    printed = capsys.readouterr()
    assert "8x8x8 f32, 1 thread, hot: 80.0 GFLOP/s, 80.0 % of peak, 2.00 times numpy" in printed.err
    assert "\x1b[" not in printed.out
