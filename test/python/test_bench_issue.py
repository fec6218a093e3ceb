# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tilewright targets --check`: what a core starts in a cycle, beside its row. Whether they agree depends on no machine here."""

from __future__ import annotations

import dataclasses
import json

import pytest
from tilewright import targets
from tilewright.bench import issue, loops
from tilewright.bench.issue import Fact
from tilewright.cli import main
from tilewright.emit import code, hotloop

V3 = targets.get("x86-64-v3")


@pytest.mark.parametrize(("measured", "agrees"), [(2.0, True), (1.85, True), (1.0, False), (3.0, False)])
def test_a_fact_agrees_within_what_measuring_costs(measured, agrees):
    fact = Fact("multiply-add a cycle", "row", 2.0, measured)
    assert fact.agrees is agrees
    assert fact.as_json()["agrees"] is agrees


@pytest.mark.parametrize(
    ("given", "better", "expected", "left"),
    [
        ([2.0, 9.0], max, 2.0, 1),  # It agrees at once.
        ([1.2, 1.4, 1.9, 9.0], max, 1.9, 1),
        ([1.2, 1.1, 1.0, 1.3], max, 1.3, 0),
        ([9.0, 7.0, 8.0, 6.0], min, 6.0, 0),
    ],
)
def test_a_disturbed_measurement_is_repeated_and_the_fastest_counts(given, better, expected, left):
    rest = iter(given)
    assert issue._settled(lambda: next(rest), 2.0, better) == expected
    assert len(list(rest)) == left


def test_a_cycle_is_one_operation_of_the_clock():
    """Neither LLVM's code generator nor the loop shortens the chain."""
    loop = hotloop.hot_loops(code.assembly(loops.clock_loop(V3).ir, V3))[0]
    assert loop.counts["xorq"] + loop.counts["addq"] == loops.CLOCK_CYCLES


@pytest.mark.parametrize("row", targets.all(), ids=lambda row: row.name)
def test_each_instruction_that_multiplies_is_measured_once_with_its_rate(row):
    found = issue._multiply_adds(row)
    names = [loop.name for _, loop, _ in found]
    assert names[:2] == ["multiply-add", "multiply-add"]
    assert len({loop.ir for _, loop, _ in found}) == len(found)
    assert [claim for _, _, claim in found][:2] == [row.fma_per_cycle] * 2
    tiles = [claim for _, loop, claim in found if loop.name.startswith("td")]
    assert tiles == [1 / 16] * len(tiles)
    assert (len(tiles) > 0) == ("amx-tile" in row.features)


def test_one_sum_makes_a_chain_of_multiply_adds():
    loop = loops.latency_loop(V3)
    assert loop.products == 1
    (found,) = hotloop.hot_loops(code.assembly(loop.ir, V3))
    assert found.fma == 1
    assert len({each.destination for each in found.instructions if each.fma}) == 1


def test_this_machine_is_measured():
    host = targets.resolve("host")
    facts = issue.check(host)
    assert {fact.row for fact in facts} == {host.base}
    assert len(facts) == len(issue._multiply_adds(host)) + 2
    assert all(0 < fact.measured < 100 for fact in facts)


@pytest.mark.parametrize(
    ("is_level", "measured", "status", "verdict"),
    [
        (False, 2.0, 0, "agrees"),
        (False, 1.0, 1, "CONTRADICTS"),
        (True, 1.0, 0, "differs: another core"),
    ],
)
def test_a_row_that_is_wrong_for_its_core_ends_with_status_1(capsys, monkeypatch, is_level, measured, status, verdict):
    host = dataclasses.replace(targets.resolve("host"), is_level=is_level, rates="some core")
    monkeypatch.setattr(targets, "resolve", lambda name: host)
    monkeypatch.setattr(issue, "check", lambda target: [Fact("multiply-add a cycle", "some row", 2.0, measured)])
    assert main(["targets", "--check"]) == status
    out = capsys.readouterr().out
    assert verdict in out
    assert "some row" in out
    assert "The row's rates are those of some core" in out
    assert main(["targets", "--check", "--json"]) == status
    (fact,) = json.loads(capsys.readouterr().out)
    assert (fact["claim"], fact["measured"], fact["agrees"]) == (2.0, measured, measured == 2.0)


def test_types_are_another_table(capsys):
    assert main(["targets", "--check", "--types"]) == 2
    assert "--types and --check given" in capsys.readouterr().err
