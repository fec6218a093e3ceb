# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What won on other machines starts a search, the nearest machine's first, and is never used by itself."""

import json
from dataclasses import replace
from functools import partial

import pytest
import tilewright as tw
from record_samples import SIZES, SPEC, trial
from tilewright import targets
from tilewright.records import lookup, machine, nearest
from tilewright.records.database import Database
from tilewright.schedules import make
from tilewright.tuning import candidates, product, race
from tilewright.tuning.race import Race, Times
from tilewright.tuning.search import Search

HOST = targets.resolve("host")


@pytest.fixture
def database(tmp_path, monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_NO_RECORDS")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(tmp_path / "records.sqlite"))
    monkeypatch.setattr(lookup, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr(race, "_PAIRS", 1)
    monkeypatch.setattr(race, "_FINAL_PLACES", 5)
    monkeypatch.setattr(product, "Search", partial(Search, patience=2))
    with Database(tmp_path / "records.sqlite") as found:
        yield found


def elsewhere(number, l2_bytes, **fields):
    """A comparison on a machine that differs from this one by its L2 alone."""
    other = replace(HOST, l2=replace(HOST.l2, bytes=l2_bytes))
    return trial(number, machine=machine.facts(other), **fields)


def text_of(spec):
    text = lookup.text(spec)
    assert text is not None
    return text


def winners(database):
    return [dict(each.sizes) for each in nearest.winners(database, text_of(SPEC), 1, HOST)]


def test_machines_are_as_far_apart_as_their_sizes():
    here = machine.facts(HOST)
    assert nearest.distance(here, here) == 0
    doubled, fourfold = (
        machine.facts(replace(HOST, l2=replace(HOST.l2, bytes=HOST.l2.bytes * times))) for times in (2, 4)
    )
    assert nearest.distance(here, doubled) == pytest.approx(1, abs=1e-3)
    assert nearest.distance(here, fourfold) == pytest.approx(2, abs=1e-3)
    assert 0 < nearest.distance(here, {**here, "features": [*here["features"], "one-more"]}) < 0.5
    assert nearest.distance(here, {**here, "triple": "sparc-unknown-linux-gnu"}) == float("inf")


def test_the_nearest_machines_winner_is_first_and_the_last_comparison_of_each_counts(database):
    sizes = [{**SIZES, "kc": kc} for kc in (16, 32, 64)]
    far, near, tied = HOST.l2.bytes * 8, HOST.l2.bytes * 2, HOST.l2.bytes * 4
    database.add(
        [
            elsewhere(1, far, sizes=sizes[0]),
            elsewhere(2, near, sizes=sizes[1]),
            elsewhere(3, tied, sizes=sizes[2], moment="2026-11-23T06:00:00.000000Z"),
            elsewhere(4, tied, verdict="tied", moment="2026-11-24T06:00:00.000000Z"),
            elsewhere(5, near, sizes=sizes[2], final=False),
            elsewhere(6, near, sizes=sizes[2], threads=2),
        ]
    )
    assert winners(database) == [sizes[1], sizes[0]]


def test_what_ships_for_other_machines_counts_too(database, tmp_path):
    (tmp_path / "shipped").mkdir()
    line = elsewhere(1, HOST.l2.bytes * 2).line
    (tmp_path / "shipped" / "0.jsonl").write_text(f"{line}\n")
    assert winners(database) == [SIZES]


class Alike(Race):
    """A race that nothing wins."""

    def __init__(self, first):
        """Measures nothing, so that it waits for nobody who does."""

    def time(self, kernel, best=1.0, *, final=False):
        return Times((1.0,) * 5, (1.0,) * 5, 0.5)


def test_a_search_starts_there_and_compilation_does_not(database, monkeypatch):
    monkeypatch.setattr(product, "Race", Alike)
    other = candidates.of(SPEC, HOST, make.make(SPEC, HOST)).ordered[-1]
    unknown = elsewhere(2, HOST.l2.bytes * 4, strategy="outer_product")
    database.add([elsewhere(1, HOST.l2.bytes * 2, strategy=other.strategy, sizes=dict(other.sizes)), unknown])
    assert tw.compile(SPEC).metadata.chosen_by == "the model"
    here = machine.key(HOST)
    product.tune(SPEC, HOST, database, seconds=600)
    mine = sorted((each for each in database.of(here, text_of(SPEC), 1)), key=lambda each: each.moment)
    assert (mine[0].strategy, dict(mine[0].sizes)) == (other.strategy, dict(other.sizes))
    assert "outer_product" not in {each.strategy for each in mine}  # This machine has no SME.
    assert {json.loads(each.line)["verdict"] for each in mine} <= {"tied", "failed"}


def test_a_packed_b_keeps_its_format(database):
    spec = replace(SPEC, b_packed=True)
    found = candidates.of(spec, HOST, make.make(spec, HOST))
    assert not found.admits(found.start)


def test_what_is_first_is_tried_before_all_else():
    search = Search(0, [1, 2, 3], lambda point: [], lambda point: point, first=[3, 0])
    asked = []
    while (each := search.ask()) is not None:
        asked.append(each)
        search.tell(each, 1.0)
    assert asked == [3, 1, 2]
