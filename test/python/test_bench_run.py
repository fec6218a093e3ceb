# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole runs on tiny shapes: real kernels, a real peer, no opinion about their speed."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from tilewright.bench import CheckError, Shape, libraries, report, run_suite
from tilewright.bench.libraries import Numpy

TUTORIAL = Path(__file__).parents[2] / "docs" / "how-to" / "benchmark.md"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_run_gives_a_row_for_each_shape_and_tells_where_it_is(dtype):
    before = os.sched_getaffinity(0)
    shapes = [Shape(3, 5, 7), Shape(40, 33, 17)]
    told = []
    rows = run_suite(shapes, dtype, peers=["numpy"], rounds=3, min_seconds=1e-4, progress=told.append)
    assert [row.shape for row in rows] == shapes
    assert os.sched_getaffinity(0) == before
    for row in rows:
        assert row.dtype == dtype
        assert row.target == "host"
        assert row.schedule
        assert len(row.ours.rounds) == len(row.peers["numpy"].rates.rounds) == len(row.peak.rounds) == 3
        assert min(*row.ours.rounds, *row.peak.rounds, *row.stream.rounds) > 0
        assert 0 < row.rel_error < {"f32": 1e-5, "f64": 1e-14}[dtype]
        assert row.peers["numpy"].version.startswith(np.__version__)
        assert row.compile_seconds > 0
        assert row.cached_seconds is not None
        assert row.object_bytes > 0
        json.dumps(row.as_json(details=True))
    assert [(event.stage, event.done) for event in told[:6]] == [
        ("compile", 0),
        ("check", 1),
        ("calibrate", 2),
        ("round", 4),
        ("round", 5),
        ("round", 6),
    ]
    assert {event.total for event in told} == {12}
    assert [event.row for event in told if event.stage == "done"] == rows
    assert told[-1].done == 12
    assert "2 shapes" in report.summary(rows).text()


def test_a_lesser_target_and_cold_operands(monkeypatch):
    monkeypatch.setattr("tilewright.bench.measure._last_level_cache", lambda: 50_000)
    (row,) = run_suite([Shape(16, 16, 16)], target="x86-64", peers=[], rounds=1, min_seconds=1e-4, cache="cold")
    assert row.target == "x86-64"
    assert row.cache == "cold"
    assert row.peers == {}
    assert row.percent_of_roofline > 0


def test_our_wrong_numbers_are_found_before_anything_is_timed(monkeypatch):
    def bind(kernel, each):
        def call():
            kernel(each.a, each.b, out=each.c)
            each.c[1, 2] += 1

        return call

    monkeypatch.setattr("tilewright.bench.measure._bind", bind)
    told = []
    with pytest.raises(CheckError, match=r"tilewright: 1 of 25 elements are wrong, the worst C\[1, 2\]"):
        run_suite([Shape(5, 5, 5)], peers=[], rounds=1, min_seconds=1e-4, progress=told.append)
    assert [event.stage for event in told] == ["compile", "check"]


def test_an_element_that_nobody_wrote_is_found(monkeypatch):
    monkeypatch.setattr("tilewright.bench.measure._bind", lambda kernel, each: lambda: None)
    with pytest.raises(CheckError, match=r"25 of 25 elements are wrong.* = nan"):
        run_suite([Shape(5, 5, 5)], peers=[], rounds=1, min_seconds=1e-4)


def test_numpy_tells_its_blas(monkeypatch):
    monkeypatch.setattr(libraries, "openblas_core", lambda: "Zen")
    assert re.fullmatch(rf"{re.escape(np.__version__)}, \S+ \S+ \(Zen kernels\)", Numpy().version)


def test_the_code_of_the_how_to_runs(capsys):
    namespace = {}
    blocks = re.findall(r"```python\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, str(TUTORIAL), "exec"), namespace)
    assert "% of the measured peak" in capsys.readouterr().out
