# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The regression check: what became slower than its noise, and what only drifted."""

import json

import pytest
from tilewright.bench import PeerResult, Rates, Row, Shape
from tilewright.bench.compare import compare, read
from tilewright.bench.rows import Key
from tilewright.errors import TilewrightError


def made(edge, ours, peak=(200.0, 200.0, 200.0), **fields):
    """A row of a cube as JSON."""
    kept = {"dtype": "f32", "threads": 1, "target": "host", "cache": "hot"}
    return Row(
        shape=Shape(edge, edge, edge),
        ours=Rates(ours),
        peak=Rates(peak),
        stream=Rates((10.0,) * len(ours)),
        bytes_moved=12 * edge * edge,
        peers={"mkl": PeerResult(Rates(ours), "1", 0.0)},
        absent={},
        rel_error=1e-7,
        compile_seconds=0.1,
        cached_seconds=None,
        object_bytes=1000,
        schedule="packed",
        **{**kept, **fields},
    ).as_json()


STEADY = (100.0, 100.0, 100.0)


def test_a_slower_shape_is_a_regression_and_comes_first():
    old = [made(8, STEADY), made(9, STEADY), made(7, STEADY)]
    changes = compare(old, [made(9, (99.0,) * 3), made(8, (90.0,) * 3)])
    assert [(change.what[0], change.regression) for change in changes] == [(8, True), (9, False)]
    assert changes[0].ratio == pytest.approx(0.9)
    assert str(changes[0]) == "8x8x8 f32 host: 50.0 % (50.0–50.0) → 45.0 % (45.0–45.0) of peak (0.90×)"
    assert not compare(old, [made(8, (90.0,) * 3)], tolerance=0.2)[0].regression


def test_drift_of_the_whole_machine_is_none():
    drifted = made(8, (33.0, 50.0, 25.0), peak=(66.0, 100.0, 50.0))
    (change,) = compare([made(8, STEADY)], [drifted])
    assert change.ratio == pytest.approx(1.0)
    assert not change.regression


@pytest.mark.parametrize(
    ("before", "after", "regression"),
    [
        (STEADY, (90.0, 70.0, 99.0), False),  # the new rounds reach up to the old ones
        ((100.0, 80.0, 120.0), (85.0, 84.0, 86.0), False),  # the old rounds reach down to the new ones
        ((100.0, 95.0, 105.0), (75.0, 80.0, 70.0), True),
    ],
)
def test_noise_of_either_run_is_none(before, after, regression):
    (change,) = compare([made(8, before)], [made(8, after)])
    assert change.regression is regression


def test_ways_to_measure_are_told_apart():
    old = [made(8, STEADY), made(8, STEADY, packed=True), made(8, STEADY, cache="cold"), made(8, STEADY, threads=2)]
    new = [made(8, (50.0,) * 3, packed=True)]
    (change,) = compare(old, new)
    assert isinstance(change.what, Key)
    assert change.what.packed
    assert "8x8x8 f32 host packed: 50.0 %" in str(change)
    assert len(compare(old, old)) == 4


def test_results_without_rounds_are_compared_by_their_percentiles():
    old, new = made(8, (100.0, 90.0, 110.0)), made(8, (70.0, 72.0, 68.0))
    for each in (old, new):
        for field in ("rounds", "cold"):
            del each[field]
    (change,) = compare([old], [new])
    assert change.regression
    assert (change.before.low, change.before.high) == pytest.approx((47.0, 53.0))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ([{"m": 1}], [], "the old run is no list of rows"),
        ([made(8, STEADY)], [3], "the new run is no list of rows"),
        ([made(8, STEADY)], [made(9, STEADY)], "no shape in common"),
    ],
)
def test_what_cannot_be_compared_is_said(old, new, message):
    with pytest.raises(TilewrightError, match=message):
        compare(old, new)


def test_a_file_is_read_or_refused(tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps([made(8, STEADY)]))
    assert read(good, "--compare")[0]["m"] == 8
    bad.write_text("{}")
    with pytest.raises(TilewrightError, match="holds no list; expected what bench --json wrote"):
        read(bad, "--compare")
    with pytest.raises(TilewrightError, match=r"cannot read .*: No such file"):
        read(tmp_path / "absent.json", "--compare")
