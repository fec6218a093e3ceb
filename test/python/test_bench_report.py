# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows, and what is made of them: JSON, table, summary, comparison, picture."""

import dataclasses
import json
import sys
from io import StringIO

import pytest
from rich.console import Console
from tilewright.bench import PeerResult, Rates, Row, Shape, plot, report
from tilewright.errors import TilewrightError

FIELDS = [
    *("m", "n", "k", "dtype", "layout", "threads", "target", "packed"),
    *("gflops", "gflops_p20", "gflops_p80", "peak_gflops", "percent_of_peak"),
    *("rel_error", "compile_seconds", "object_bytes", "schedule", "peers"),
]
SHAPE = Shape(64, 128, 32)


def row(shape=SHAPE, ours=(90.0, 100.0, 110.0), peers=None, **fields):
    defaults = {"numpy": (45.0, 50.0, 55.0), "mkl": (100.0, 120.0, 110.0)} if peers is None else peers
    return Row(
        shape=shape,
        dtype="f32",
        threads=1,
        target="host",
        cache="hot",
        ours=Rates(ours),
        peak=Rates((180.0, 200.0, 220.0)[: len(ours)]),
        stream=Rates((10.0, 10.0, 10.0)[: len(ours)]),
        bytes_moved=4 * (64 * 32 + 32 * 128 + 64 * 128),
        peers={name: PeerResult(Rates(rates), f"{name} 1.2", 1e-7) for name, rates in defaults.items()},
        rel_error=2e-7,
        compile_seconds=0.5,
        cached_seconds=0.01,
        object_bytes=4096,
        schedule="packed(mr=6, nr=64)",
        **{"absent": {}, **fields},
    )


def test_json_has_the_fields_and_survives_a_round_trip():
    made = json.loads(json.dumps(row().as_json()))
    assert list(made) == FIELDS
    assert made["gflops"] == 100
    assert made["gflops_p20"] == pytest.approx(94)
    assert made["gflops_p80"] == pytest.approx(106)
    assert made["peak_gflops"] == 200
    assert made["percent_of_peak"] == pytest.approx(50)
    assert made["peers"] == {
        "numpy": {"gflops": 50, "version": "numpy 1.2"},
        "mkl": {"gflops": 110, "version": "mkl 1.2"},
    }
    detailed = json.loads(json.dumps(row().as_json(details=True)))
    assert list(detailed) == [*FIELDS, "details"]
    assert detailed["details"]["cache"] == "hot"
    assert detailed["details"]["rounds"]["mkl"] == [100, 120, 110]


def test_ratios_are_taken_within_a_round_so_that_drift_cancels():
    drifting = row(ours=(10.0, 100.0, 40.0), peers={"mkl": (20.0, 200.0, 80.0)})
    assert drifting.ratio("mkl") == pytest.approx(0.5)
    assert drifting.ratio_to_best == pytest.approx(0.5)
    with pytest.raises(TilewrightError, match="peer 'numpy' was not measured on 64x128x32; expected one of mkl"):
        drifting.ratio("numpy")


def test_the_roofline_is_the_lower_of_computing_and_reading():
    shape = Shape(64, 128, 32)
    moved = 4 * (64 * 32 + 32 * 128 + 64 * 128)
    limit = 10.0 * shape.flops / moved
    assert limit < 180
    assert row().percent_of_roofline == pytest.approx(100 * 100 / limit)
    fast = dataclasses.replace(row(), stream=Rates((1e6, 1e6, 1e6)))
    assert fast.percent_of_roofline == pytest.approx(fast.percent_of_peak)


def test_percentiles_of_one_round_and_of_many():
    assert Rates((3.0,)).percentile(80) == 3
    assert Rates((4.0, 1.0, 3.0, 2.0, 5.0)).percentile(20) == pytest.approx(1.8)


def test_without_peers_there_is_no_best():
    alone = row(peers={})
    assert alone.best_peer is None
    assert alone.ratio_to_best is None
    assert report.summary([alone]).best is None


def test_summary_is_geometric_and_names_the_worst():
    rows = [
        row(Shape(1, 1, 1), (100.0,), {"numpy": (50.0,), "mkl": (200.0,)}),
        row(Shape(2, 2, 2), (80.0,), {"numpy": (10.0,), "mkl": (40.0,)}, absent={}),
    ]
    rows[0] = dataclasses.replace(rows[0], absent={"jax": "install it"})
    made = report.summary(rows)
    numpy, mkl = made.against
    assert (numpy.peer, numpy.geomean, numpy.worst, numpy.worst_shape) == ("numpy", pytest.approx(4), 2, "1x1x1")
    assert (mkl.peer, mkl.geomean, mkl.worst, mkl.worst_shape) == ("mkl", pytest.approx(1), 0.5, "1x1x1")
    assert made.best is not None
    assert made.best.geomean == pytest.approx(1)
    assert made.worst_percent_shape == "2x2x2"
    text = made.text()
    assert "times mkl: geometric mean 1.00, worst 0.50 at 1x1x1 (mkl 1.2)" in text
    assert "times the best peer: geometric mean 1.00" in text
    assert "jax is absent: install it" in text
    with pytest.raises(TilewrightError, match="nothing was measured"):
        report.summary([])


def test_table_shows_every_shape_also_where_a_peer_is_missing():
    console = Console(file=StringIO(), width=report.WIDTH, markup=False)
    console.print(report.table([row(), row(Shape(3, 5, 7), peers={"numpy": (50.0, 50.0, 50.0)})]))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "f32, host, 1 thread, hot; measured peak 200 GFLOP/s" in text
    for word in ("64x128x32", "3x5x7", "numpy", "mkl", "94.0–106.0", "50.0", "2.0e-07", "0.50", "10.0"):
        assert word in text
    assert "[" not in text
    console.print(report.table([]))


def test_comparison_finds_what_fell_behind_the_peak_not_what_drifted():
    old = [row(Shape(8, 8, 8)).as_json(), row(Shape(9, 9, 9)).as_json(), row(Shape(7, 7, 7)).as_json()]
    slower = dataclasses.replace(row(Shape(8, 8, 8)), ours=Rates((90.0, 90.0, 90.0)))
    drifted = row(Shape(9, 9, 9))
    drifted = dataclasses.replace(
        drifted,
        ours=Rates(tuple(x / 3 for x in drifted.ours.rounds)),
        peak=Rates(tuple(x / 3 for x in drifted.peak.rounds)),
    )
    changes = report.compare(old, [drifted.as_json(), slower.as_json()])
    assert [(change.what["m"], change.regression) for change in changes] == [(8, True), (9, False)]
    assert changes[0].ratio == pytest.approx(0.9)
    assert str(changes[0]) == "8x8x8 f32 host: 50.0 % → 45.0 % of peak (0.90×)"
    assert not report.compare(old, [slower.as_json()], tolerance=0.2)[0].regression


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ([{"m": 1}], [], "the old run is no list of rows"),
        ([row().as_json()], [3], "the new run is no list of rows"),
        ([row().as_json()], [row(Shape(1, 2, 3)).as_json()], "no shape in common"),
    ],
)
def test_what_cannot_be_compared_is_said(old, new, message):
    with pytest.raises(TilewrightError, match=message):
        report.compare(old, new)


@pytest.mark.parametrize(("name", "magic"), [("p.png", b"\x89PNG"), ("p.SVG", b"<?xml")])
def test_plot_writes_what_the_suffix_says(tmp_path, name, magic):
    pytest.importorskip("matplotlib")
    path = tmp_path / name
    plot.gflops([row(Shape(64, 64, 64)), row(Shape(8, 8, 8), peers={}), row(Shape(512, 512, 512))], path)
    data = path.read_bytes()
    assert data.startswith(magic)
    if path.suffix == ".SVG":
        for label in (b"measured peak", b"tilewright", b"numpy", b"mkl"):
            assert label in data


def test_plot_refuses_what_it_cannot_do(tmp_path, monkeypatch):
    with pytest.raises(TilewrightError, match=r"cannot draw 'p\.jpg'; expected a name ending in \.png or \.svg"):
        plot.gflops([row()], tmp_path / "p.jpg")
    with pytest.raises(TilewrightError, match="nothing was measured"):
        plot.gflops([], tmp_path / "p.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(TilewrightError, match=r"pip install 'tilewright\[bench\]'"):
        plot.gflops([row()], tmp_path / "p.png")
    monkeypatch.undo()
    pytest.importorskip("matplotlib")
    with pytest.raises(TilewrightError, match=r"cannot write .*: No such file"):
        plot.gflops([row()], tmp_path / "absent" / "p.png")
