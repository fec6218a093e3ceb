# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention is measured: small cases, ours alone, and what is written about them."""

import json

import pytest
from tilewright.bench.attention import COMPARISON, SUITES, Case
from tilewright.bench.attention.page import PAGE
from tilewright.bench.operators.results import Result
from tilewright.errors import TilewrightError
from tilewright.processes.pool import Processes

CASES = [Case(2, 2, 20, 30, 16), Case(2, 1, 20, 20, 16, causal=True), Case(4, 2, 1, 64, 16)]


@pytest.fixture(scope="module")
def results():
    return COMPARISON.run(CASES, "f32", libraries=(), rounds=2, min_seconds=1e-4, memory=1 << 16)


def test_every_case_is_measured_and_right(results):
    assert [each.case for each in results] == list(map(str, CASES))
    for each in results:
        assert set(each.rates) == {"tilewright", "limit"}
        assert min(rate.median for rate in each.rates.values()) > 0
        assert each.error < 1e-6
        assert 0 < each.scratch < 2**20
        assert each.absent == {"torch": "not asked for"}


def test_work_is_what_is_seen_or_bytes_from_memory():
    assert CASES[0].work("f32") == 2 * 2 * 20 * 30 * (16 + 16)
    assert CASES[1].work("f32") == 2 * 2 * (20 * 21 // 2) * (16 + 16)
    assert CASES[2].work("f32") == 2 * CASES[2].work("bf16") == 2 * 2 * 64 * 16 * 4
    assert {each.keys for each in SUITES["decode"]} == {4096}


def test_a_page_and_json_have_every_case(results):
    text = PAGE.markdown(results, "tilewright bench attention all")
    assert [f"| {case} |" in text for case in CASES] == [True] * len(CASES)
    assert "GB/s" in text
    assert "- without torch: not asked for" in text
    rows = json.loads(json.dumps([each.as_json() for each in results]))
    assert [row["unit"] for row in rows] == ["GFLOP/s", "GFLOP/s", "GB/s"]
    again = [Result.from_json(row) for row in rows]
    assert [each.key for each in again] == [each.key for each in results]
    assert [Result.from_json(each.as_json()) for each in again] == again
    with pytest.raises(TilewrightError, match=r"an object is no result of an operator .*rounds"):
        Result.from_json({name: value for name, value in rows[0].items() if name != "rounds"})


def test_what_is_there_is_not_measured_again(results):
    told = []
    finished = {each.key: each for each in results[:2]}
    again = COMPARISON.run(
        CASES, "f32", libraries=(), rounds=1, min_seconds=1e-4, memory=1 << 16, finished=finished, done=told.append
    )
    assert again[:2] == results[:2]
    assert [each.case for each in told] == [str(CASES[2])]


def test_cases_are_measured_by_the_workers_of_an_executor():
    told, how = [], {"libraries": (), "rounds": 1, "min_seconds": 1e-4, "memory": 1 << 16}
    with Processes(2) as workers:
        found = COMPARISON.run(CASES, "f32", **how, done=told.append, jobs=workers)
        with pytest.raises(TilewrightError, match="cores"):
            COMPARISON.run(CASES[:1], "f32", **how, threads=1000, jobs=workers)
    assert [each.case for each in found] == list(map(str, CASES))
    assert sorted(each.case for each in told) == sorted(map(str, CASES))
    assert all(each.error < 1e-6 for each in found)


def test_what_is_unknown_is_refused():
    with pytest.raises(TilewrightError, match="no attention of 'i8'"):
        COMPARISON.run(CASES, "i8")
    with pytest.raises(TilewrightError, match="no attention of 'mkl'"):
        COMPARISON.run(CASES, "f32", libraries=("mkl",))
