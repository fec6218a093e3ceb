# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`bench dynamic`: a dynamic kernel and static ones of the same shapes are measured in turn, and checked first."""

import json

import pytest
import tilewright as tw
from tilewright.bench import Shape, dynamic
from tilewright.bench.rows import Rates
from tilewright.cli import main

HOW = ["--rounds", "2", "--sample-ms", "0.1"]


def test_small_products_are_measured(capsys, tmp_path):
    file = tmp_path / "out.json"
    shapes = ["--shape", "5x16x16", "--shape", "9x16x16"]
    assert main(["bench", "dynamic", *HOW, *shapes, "--layout", "nt", "--extents", "m", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "9x16x16 f32 nt, dynamic m" in out
    assert "geometric mean of 2" in out
    rows = json.loads(file.read_text())
    assert [(row["m"], row["dynamic"]) for row in rows] == [(5, "m"), (9, "m")]
    assert all(row["gflops"] > 0 and row["ratio_to_static"] > 0 for row in rows)


def test_a_missed_bar_is_status_1():
    assert main(["bench", "dynamic", *HOW, "--shape", "5x16x16", "--extents", "m", "--bar", "1000"]) == 1


def test_the_ratio_is_that_of_the_rounds():
    spec = tw.MatmulSpec(4, 4, 4)
    results = [
        dynamic.Result(spec, "m", "host", Rates((2.0, 8.0, 4.0)), Rates(rates), "unpacked", "", "", "")
        for rates in ((1.0, 4.0, 2.0), (4.0, 16.0, 8.0))
    ]
    assert [each.ratio for each in results] == [0.5, 2]
    assert dynamic.summary(results) == "geometric mean of 2: 1.00 times static; worst 0.50 (4x4x4 f32)"


@pytest.mark.parametrize("extents", ["", "mx"])
def test_other_extents_are_refused(extents):
    with pytest.raises(tw.SpecError, match="some of m, n and k"):
        dynamic.run([Shape(4, 4, 4)], extents=extents)


def test_a_batch_is_refused():
    with pytest.raises(tw.SpecError, match="without a batch"):
        dynamic.run([Shape(4, 4, 4, (2,))])
