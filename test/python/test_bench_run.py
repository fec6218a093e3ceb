# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole runs on tiny shapes: real kernels, a real peer, no claim about their speed."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tilewright.bench import Case, CheckError, Row, Settings, Shape, cases, report, run_cases, run_suite
from tilewright.bench.libraries import Numpy
from tilewright.bench.session import Session
from tilewright.errors import TilewrightError
from tilewright.processes.pool import Processes

TUTORIAL = Path(__file__).parents[2] / "docs" / "how-to" / "benchmark.md"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEWRIGHT_PEERS_DIR", str(tmp_path / "peers"))
    monkeypatch.setattr("tilewright.bench.session.by_level", lambda target, cores: {"L1": 100.0, "memory": 10.0})


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
        again = Row.from_json(json.loads(json.dumps(row.as_json())))
        assert again.key == row.key
        assert again.percent_of_peak == pytest.approx(row.percent_of_peak, rel=1e-4)
        assert row.machine
        assert row.date.endswith("+00:00")
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


def test_a_batch_of_transposed_matrices():
    shape = Shape(9, 10, 11, batch=(2, 3))
    (row,) = run_suite([shape], peers=["numpy"], rounds=2, min_seconds=1e-4, layout="tt")
    assert (row.shape, row.layout, row.peers["numpy"].rel_error < 1e-5) == (shape, "tt", True)
    made = row.as_json()
    assert (made["batch"], made["layout"]) == ([2, 3], "tt")
    assert Row.from_json(json.loads(json.dumps(made))).key == row.key


def test_a_lesser_target_and_cold_operands(monkeypatch):
    monkeypatch.setattr("tilewright.bench.session._last_level_cache", lambda: 50_000)
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

    monkeypatch.setattr("tilewright.bench.session._bind", bind)
    told = []
    with pytest.raises(CheckError, match=r"tilewright: 1 of 25 elements are wrong, the worst C\[1, 2\]"):
        run_suite([Shape(5, 5, 5)], peers=[], rounds=1, min_seconds=1e-4, progress=told.append)
    assert [event.stage for event in told] == ["compile", "check"]


def test_an_element_that_nobody_wrote_is_found(monkeypatch):
    monkeypatch.setattr("tilewright.bench.session._bind", lambda kernel, each: lambda: None)
    with pytest.raises(CheckError, match=r"25 of 25 elements are wrong.* = nan"):
        run_suite([Shape(5, 5, 5)], peers=[], rounds=1, min_seconds=1e-4)


@pytest.mark.parametrize("dtype", ["bf16", "u8,i8,i32", "i8"])
def test_small_types_are_checked_and_timed(dtype):
    (row,) = run_suite([Shape(17, 33, 40)], dtype, peers=[], rounds=1, min_seconds=1e-4)
    assert row.dtype == dtype
    assert row.rel_error <= 1e-5
    assert row.gflops > 0


def test_b_packed_ahead_is_another_row():
    row, packed = run_cases(
        cases([Shape(20, 30, 40)], packed=(False, True)), Settings(peers=(), rounds=1, min_seconds=1e-4)
    )
    assert (row.packed, packed.packed) == (False, True)
    assert row.key != packed.key
    assert packed.gflops > 0


def test_finished_cases_are_not_measured_again(monkeypatch):
    settings = Settings(peers=(), rounds=1, min_seconds=1e-4)
    every = cases([Shape(3, 5, 7), Shape(7, 5, 3)])
    first = run_cases(every[:1], settings)
    told = []
    rows = run_cases(every, settings, finished={row.key: row for row in first}, progress=told.append)
    assert rows[0] is first[0]
    assert {str(event.case.shape) for event in told} == {"7x5x3"}
    assert told[-1].done == told[-1].total == 4

    def start(*_args):
        raise AssertionError("a session was started for nothing")

    monkeypatch.setattr(Session, "__init__", start)
    assert run_cases(every, settings, finished={row.key: row for row in rows}) == rows


def test_cases_are_measured_by_the_workers_of_an_executor():
    settings, failed, told = Settings(peers=(), rounds=1, min_seconds=1e-4), [], []
    every = cases([Shape(3, 5, 7), Shape(7, 5, 3)])
    every.append(replace(every[0], threads=1000))
    with Processes(2) as workers:
        rows = run_cases(
            every, settings, jobs=workers, progress=told.append, failed=lambda case, error: failed.append(str(error))
        )
    assert [str(row.shape) for row in rows] == ["3x5x7", "7x5x3"]
    assert sorted(str(event.row.shape) for event in told if event.row) == ["3x5x7", "7x5x3"]
    assert told[-1].done == told[-1].total
    assert len(failed) == 1
    assert "cores" in failed[0]


def test_a_case_that_fails_is_told_and_the_others_go_on(monkeypatch):
    from tilewright.bench import session

    bind = session._bind
    monkeypatch.setattr(session, "_bind", lambda kernel, each: bind(kernel, each) if kernel.spec.m == 3 else lambda: 0)
    failed = []
    rows = run_cases(
        cases([Shape(5, 5, 5), Shape(3, 5, 7)]),
        Settings(peers=(), rounds=1, min_seconds=1e-4),
        failed=lambda case, error: failed.append((str(case), type(error))),
    )
    assert [str(row.shape) for row in rows] == ["3x5x7"]
    assert failed == [("5x5x5 f32, 1 thread, hot", CheckError)]


def test_a_bug_of_ours_in_one_case_does_not_end_the_others(monkeypatch):
    measure = Session.measure

    def stumble(session, shape, spec, report):
        if shape.m == 5:
            raise AttributeError("no such thing")
        return measure(session, shape, spec, report)

    monkeypatch.setattr(Session, "measure", stumble)
    every, settings, failed = (
        cases([Shape(5, 5, 5), Shape(3, 5, 7)]),
        Settings(peers=(), rounds=1, min_seconds=1e-4),
        [],
    )
    rows = run_cases(every, settings, failed=lambda case, error: failed.append(repr(error)))
    assert [str(row.shape) for row in rows] == ["3x5x7"]
    assert failed == ["AttributeError('no such thing')"]
    with pytest.raises(AttributeError):
        run_cases(every, settings)


def test_a_peer_with_wrong_numbers_is_left_out_unless_it_was_demanded(monkeypatch):
    from tilewright.bench import session

    check = session.check

    def accuse(name, *rest):
        if name == "numpy":
            raise CheckError("made up", where=name)
        check(name, *rest)

    monkeypatch.setattr(session, "check", accuse)
    monkeypatch.setattr(session, "choose", lambda names, *rest, real=session.choose: real(["numpy"], *rest))
    (row,) = run_suite([Shape(4, 4, 4)], rounds=1, min_seconds=1e-4)
    assert row.peers == {}
    assert row.absent["numpy"] == "numpy: made up"
    with pytest.raises(CheckError, match="made up"):
        run_suite([Shape(4, 4, 4)], peers=["numpy"], rounds=1, min_seconds=1e-4)


def test_the_order_of_cases_is_by_what_is_asked_for_most():
    every = cases([Shape(1, 2, 3)], ["f32", "bf16"], [1, 2], ["hot", "cold"], [False, True])
    assert len(every) == 16
    assert [str(case) for case in every[:4]] == [
        "1x2x3 f32, 1 thread, hot",
        "1x2x3 f32, 1 thread, hot, packed ahead",
        "1x2x3 bf16, 1 thread, hot",
        "1x2x3 bf16, 1 thread, hot, packed ahead",
    ]
    assert str(every[4]) == "1x2x3 f32, 2 threads, hot"
    assert str(every[8]) == "1x2x3 f32, 1 thread, cold"


def test_two_spellings_of_a_type_are_one_key():
    assert Case(Shape(1, 2, 3), "bf16").key("host") == Case(Shape(1, 2, 3), "bf16,bf16,f32").key("host")
    with pytest.raises(TilewrightError, match="not supported"):
        Case(Shape(1, 2, 3), "f32,f32,f64").key("host")


def test_numpy_tells_its_blas(monkeypatch):
    monkeypatch.setattr("tilewright.bench.libraries.openblas.openblas_core", lambda: "Zen")
    assert re.fullmatch(rf"{re.escape(np.__version__)}, \S+ \S+ \(Zen kernels\)", Numpy().version)


def test_the_code_of_the_how_to_runs(capsys):
    namespace = {}
    blocks = re.findall(r"```python\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, str(TUTORIAL), "exec"), namespace)
    assert "% of the measured peak" in capsys.readouterr().out


@pytest.mark.parametrize(("dtype", "c"), [("f32", "f32"), ("bf16,bf16,bf16", "bf16")])
def test_an_epilogue_is_measured_beside_the_product_without(dtype, c):
    (row,) = run_suite([Shape(9, 20, 33)], dtype, peers=[], epilogue="bias:n,gelu", rounds=1, min_seconds=1e-4)
    assert list(row.peers) == ["plain"]
    assert row.best_peer is None
    assert row.epilogue == "bias:n,gelu"
    elements = {"f32": 4, "bf16": 2}[c]
    assert row.bytes_moved == elements * (9 * 33 + 33 * 20 + 9 * 20) + 4 * 20
    assert Row.from_json(json.loads(json.dumps(row.as_json()))).key == row.key
    with pytest.raises(TilewrightError, match="it does nothing to the sums"):
        run_suite([Shape(9, 20, 33)], peers=["numpy"], epilogue="relu")
    with pytest.raises(TilewrightError, match=r"torch-compile: .*(it is for products with an epilogue|torch)"):
        run_suite([Shape(9, 20, 33)], peers=["torch-compile"])
