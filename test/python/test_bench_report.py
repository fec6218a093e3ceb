# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows, and what is made of them: JSON, table, summary, page, pictures."""

import dataclasses
import json
import re
import sys
from io import StringIO

import pytest
from rich.console import Console
from tilewright.bench import PeerResult, Rates, Row, Shape, page, pictures, plot, report, session
from tilewright.bench.bars import bars
from tilewright.bench.heat_map import TINTS, ratios
from tilewright.bench.roofline import roofline
from tilewright.bench.squares import squares
from tilewright.errors import TilewrightError

FIELDS = [
    "operator",
    *("m", "n", "k", "dtype", "layout", "threads", "target", "packed"),
    *("gflops", "gflops_p20", "gflops_p80", "peak_gflops", "percent_of_peak", "above_peak"),
    *("rel_error", "compile_seconds", "object_bytes", "schedule", "peers"),
    *("cold", "percent_of_roofline", "ratios", "gbytes_per_second", "bandwidth", "bytes_moved", "cached_seconds"),
    *("absent", "date", "machine", "version", "rounds", "epilogue", "batch"),
]
SHAPE = Shape(64, 128, 32)


def row(shape=SHAPE, ours=(90.0, 100.0, 110.0), peers=None, **fields):
    defaults = {"numpy": (45.0, 50.0, 55.0), "mkl": (100.0, 120.0, 110.0)} if peers is None else peers
    kept = {"dtype": "f32", "threads": 1, "target": "host", "cache": "hot", "absent": {}}
    return Row(
        shape=shape,
        ours=Rates(ours),
        peak=Rates((180.0, 200.0, 220.0)[: len(ours)]),
        stream=Rates((10.0, 10.0, 10.0)[: len(ours)]),
        bandwidth={"L1": 200.0, "memory": 10.0},
        bytes_moved=4 * (64 * 32 + 32 * 128 + 64 * 128),
        peers={name: PeerResult(Rates(rates), f"{name} 1.2", 1e-7) for name, rates in defaults.items()},
        rel_error=2e-7,
        compile_seconds=0.5,
        cached_seconds=0.01,
        object_bytes=4096,
        schedule="packed(mr=6, nr=64)",
        **{**kept, **fields},
    )


def test_json_has_the_fields_and_survives_a_round_trip():
    made = json.loads(json.dumps(row().as_json()))
    assert list(made) == FIELDS
    assert made["gflops"] == 100
    assert made["gflops_p20"] == pytest.approx(94)
    assert made["gflops_p80"] == pytest.approx(106)
    assert made["peak_gflops"] == 200
    assert made["percent_of_peak"] == pytest.approx(50)
    assert {name: (peer["gflops"], peer["version"]) for name, peer in made["peers"].items()} == {
        "numpy": (50, "numpy 1.2"),
        "mkl": (110, "mkl 1.2"),
    }
    assert made["rounds"]["mkl"] == [100, 120, 110]
    assert (made["cold"], made["packed"], made["threads"]) == (False, False, 1)
    assert Row.from_json(made) == row()
    for field in ("rounds", "m", "peers"):
        with pytest.raises(TilewrightError, match=f"an object is no row .*{field}"):
            Row.from_json({name: value for name, value in made.items() if name != field})


def test_a_rate_above_the_peak_is_marked_everywhere():
    beyond, usual = row(ours=(190.0, 210.0, 230.0)), row()
    assert (beyond.as_json()["above_peak"], usual.as_json()["above_peak"]) == (True, False)
    written = StringIO()
    Console(file=written, width=report.WIDTH).print(report.table([beyond, usual]))
    printed = written.getvalue()
    assert re.search(r"\b105\.0\*", printed)
    assert not re.search(r"\b50\.0\*", printed)
    assert "* above the measured peak, also when measured again: 1 of 2" in report.summary([beyond, usual]).text()
    assert "above" not in report.summary([usual]).text()
    text = page.markdown([beyond, usual], command="it")
    assert "| 105.0* |" in text
    assert "\\* Above the measured peak" in text
    assert "Above" not in page.markdown([usual], command="it")


@pytest.mark.parametrize(
    ("rates", "calls"), [([50.0], 1), ([177.0, 90.0], 2), ([177.0, 103.0], 2)], ids=["usual", "disturbed", "stays"]
)
def test_a_rate_above_the_peak_is_measured_again(rates, calls):
    given = iter(rates)
    taken = []

    def measure():
        taken.append(next(given))
        return {"tilewright": Rates((taken[-1],)), "peak": Rates((100.0,))}

    found = session.measured_again_if_impossible(measure)
    assert len(taken) == calls
    assert found["tilewright"].median == rates[-1]


def test_rows_differ_by_what_was_measured_not_by_how_it_went():
    others = (row(packed=True), row(epilogue="relu"), row(cache="cold"), row(threads=2), row(dtype="f64"))
    others += (row(Shape(SHAPE.m, SHAPE.n, SHAPE.k, (2,))), row(layout="nt"))
    keys = {each.key for each in (row(), *others)}
    assert len(keys) == 1 + len(others)
    assert dataclasses.replace(row(), rel_error=1.0).key == row().key


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
    assert "jax is absent: on 1 shapes, the first 1x1x1: install it" in text
    with pytest.raises(TilewrightError, match="nothing was measured"):
        report.summary([])


def test_peers_that_are_absent_for_the_same_reason_share_a_line():
    text = report.summary([row(absent={"xla": "not set up", "iree": "not set up", "mkl": "gone"})]).text()
    assert "xla, iree are absent: not set up" in text
    assert "mkl is absent: gone" in text


def test_each_type_number_of_threads_cache_and_packing_has_its_table():
    rows = [row(), row(packed=True), row(Shape(1, 1, 1)), row(cache="cold", threads=2, dtype="u8,i8,i32")]
    groups = report.groups(rows)
    assert [group.slug for group in groups] == ["f32-1t-hot", "f32-1t-hot-packed", "u8_i8_i32-2t-cold"]
    assert [len(members) for members in groups.values()] == [2, 1, 1]


def test_the_page_has_every_shape_the_machine_and_the_sums():
    rows = [
        row(machine="Some CPU, 2 CPUs", date="2026-01-02T03:04:05+00:00"),
        row(Shape(3, 5, 7), packed=True, peers={}),
    ]
    text = page.markdown(rows, command="bench it")
    for part in (
        "# Benchmark results",
        "`bench it`",
        "Machine: Some CPU, 2 CPUs.",
        "2026-01-02T03:04:05",
        "| 64x128x32 |",
    ):
        assert part in text
    assert "| f32, 1 thread, hot | 1 | 50.0 | 0.90 | 0.90 | 64x128x32 |" in text
    assert "## f32, 1 thread, hot, B packed ahead" in text
    for line in text.splitlines():
        if line.startswith("| 3x5x7"):
            assert line.count("|") == 9


def test_the_page_shows_the_pictures_that_are_there():
    links = {"ratios-1t-hot": "pictures/ratios-1t-hot.png", "roofline-f32-1t-hot": "pictures/roof.png"}
    lines = page.markdown([row()], pictures=links).splitlines()
    shown = [line for line in lines if line.startswith("![")]
    assert shown == ["![ratios-1t-hot](pictures/ratios-1t-hot.png)", "![roofline-f32-1t-hot](pictures/roof.png)"]
    assert lines.index(shown[0]) < lines.index("## f32, 1 thread, hot") < lines.index(shown[1])


def test_all_pictures_of_a_run(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [row(), row(Shape(8, 8, 8)), row(Shape(3, 5, 7), peers={}), row(packed=True), row(cache="cold")]
    made = pictures.draw(rows, tmp_path / "made" / "here")
    assert sorted(path.name for path in made) == [
        *(f"{kind}-1t-{how}.png" for kind in ("bars", "ratios") for how in ("cold", "hot-packed", "hot")),
        "roofline-f32-1t-hot.png",
        "squares-1t-hot.png",
    ]
    assert pictures.names(rows) == [path.name for path in made]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in made)
    assert "ratios-1t-hot.png" not in [path.name for path in pictures.draw([row(peers={})], tmp_path)]
    (tmp_path / "file").touch()
    with pytest.raises(TilewrightError, match="cannot make"):
        pictures.draw(rows, tmp_path / "file")


@pytest.fixture
def drawn(monkeypatch):
    """The text of every picture, in place of files."""
    pytest.importorskip("matplotlib")
    from matplotlib.text import Text

    texts: list[str] = []

    def save(figure, path, source=""):
        figure.canvas.draw()
        texts.append("\n".join(each.get_text() for each in figure.findobj(Text) if each.get_visible()))

    monkeypatch.setattr(plot, "save", save)
    return texts


def test_the_roofline_names_every_level(drawn, tmp_path):
    roofline([row(), row(Shape(512, 512, 512))], tmp_path / "r.png")
    for label in ("L1: 200 GB/s", "memory: 10 GB/s", "measured peak: 200 GFLOP/s", "tilewright", "best other library"):
        assert label in drawn[0]


def test_bars_and_map_have_every_shape_and_ratio_and_say_how_it_was_measured(drawn, tmp_path):
    rows = [row(machine="Some CPU, 2 CPUs, L2 1 MiB", date="2026-01-02T03:04:05+00:00"), row(dtype="bf16")]
    rows += [row(Shape(3, 5, 7), peers={"mkl": (10.0,)}), row(Shape(8, 8, 8), peers={})]
    bars(rows, tmp_path / "b.png")
    ratios(rows, tmp_path / "m.png")
    for text in drawn:
        for part in (
            "64×128×32",
            "3×5×7",
            "f32",
            "bf16",
            "one thread, hot, B packed on the fly",
            "Some CPU, 2 CPUs; 2026-01-02",
        ):
            assert part in text
        assert text.count("0.90") == 2
        assert "8×8×8" not in text
    assert "10.0 →" in drawn[0]
    assert "10.00" in drawn[1]


def test_bars_are_sorted(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    figures = []
    monkeypatch.setattr(plot, "save", lambda figure, path, source="": figures.append(figure))
    bars(
        [row(Shape(1, 1, size), peers={"mkl": (rate,)}) for size, rate in ((1, 50.0), (2, 200.0), (3, 40.0))], tmp_path
    )
    (axes,) = figures[0].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1×1×2", "1×1×1", "1×1×3"]
    assert [bar.get_width() > 0 for bar in axes.patches] == [False, True, True]


def test_squares_are_drawn_and_nothing_else(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    figures = []
    monkeypatch.setattr(plot, "save", lambda figure, path, source="": figures.append(figure))
    sizes = [Shape(512, 512, 512), Shape(64, 64, 64), Shape(64, 64, 64, (2,)), Shape(64, 128, 64)]
    squares([row(shape) for shape in sizes], tmp_path)
    lines = [line.get_xdata() for line in figures[0].axes[0].lines if line.get_marker() == "o"]
    assert [list(line) for line in lines] == [[64, 512]]


def test_every_cell_of_the_map_is_light_enough_for_dark_text():
    pytest.importorskip("matplotlib")
    from matplotlib.colors import to_rgb

    def luminance(color):
        linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in to_rgb(color)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    ink = luminance(plot.INK)
    assert min((luminance(tint) + 0.05) / (ink + 0.05) for tint in TINTS) > 4.5  # WCAG 2.1, 1.4.3


@pytest.mark.parametrize(
    ("draw", "rows", "says"),
    [
        (ratios, [row(peers={})], "no peer was measured"),
        (bars, [row(peers={})], "no peer was measured"),
        (squares, [row()], "no square product was measured"),
        (roofline, [], "nothing was measured"),
    ],
)
def test_what_cannot_be_drawn_is_said(tmp_path, draw, rows, says):
    pytest.importorskip("matplotlib")
    with pytest.raises(TilewrightError, match=says):
        draw(rows, tmp_path / "m.png")


def test_table_shows_every_shape_also_where_a_peer_is_missing():
    console = Console(file=StringIO(), width=report.WIDTH, markup=False)
    console.print(report.table([row(), row(Shape(3, 5, 7), peers={"numpy": (50.0, 50.0, 50.0)})]))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "f32, host, 1 thread, hot; measured peak 200 GFLOP/s" in text
    for word in ("64x128x32", "3x5x7", "numpy", "mkl", "94.0–106.0", "50.0", "2.0e-07", "0.50", "10.0"):
        assert word in text
    assert "[" not in text
    console.print(report.table([]))


def test_a_picture_says_what_it_was_drawn_from_and_needs_matplotlib_and_a_place(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(TilewrightError, match=r"pip install 'tilewright\[bench\]'"):
        roofline([row()], tmp_path / "p.png")
    monkeypatch.undo()
    pytest.importorskip("matplotlib")
    roofline([row()], tmp_path / "p.png", "some results")
    assert b"Source\0some results" in (tmp_path / "p.png").read_bytes()
    with pytest.raises(TilewrightError, match=r"cannot write .*: No such file"):
        roofline([row()], tmp_path / "absent" / "p.png")


def test_losses_are_named_the_worst_first():
    rows = [row(), row(Shape(3, 5, 7), peers={"mkl": (200.0,)}), row(Shape(8, 8, 8), peers={"mkl": (50.0,)})]
    assert [str(each) for each in report.losses(rows)] == ["3x5x7 0.50 (mkl)", "64x128x32 0.90 (mkl)"]
    assert "slower than the best peer on 2: 3x5x7 0.50 (mkl), 64x128x32 0.90 (mkl)" in report.summary(rows).text()
    assert "slower than the best peer on none" in report.summary(rows[2:]).text()
