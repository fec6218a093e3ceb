# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`bench --weights`: what is measured, and what is refused."""

import json

import numpy as np
import pytest
import tilewright as tw
from tilewright.bench import Shape, weights, weights_peers
from tilewright.bench.libraries import ggml
from tilewright.bench.rows import Rates
from tilewright.cli import main

SHAPE = Shape(1, 32, 256)


def test_what_weights_mean():
    spec = weights.problem(SHAPE, "bf16", "u4:128:u8")
    assert (spec.a, spec.b, spec.layout) == ("bf16", "u4", "nt")
    assert [(each.shape, each.type.name) for each in spec.further] == [((32, 2), "f16"), ((32, 2), "u8")]
    assert [each.shape for each in weights.problem(SHAPE, "f32", "i8", "nn").further] == [(32,)]


def test_a_small_product_is_measured(capsys, tmp_path):
    file = tmp_path / "out.json"
    options = ["--dtype", "bf16", "--layout", "nt", "--rounds", "1", "--sample-ms", "0.1", "--peers", "none"]
    assert main(["bench", "weights", "i4:128", *options, "--shape", "1x32x256", "--json", str(file)]) == 0
    assert "1x32x256 bf16 by i4:128 nt" in capsys.readouterr().out
    (row,) = json.loads(file.read_text())
    assert (row["weights"], row["layout"], row["n"]) == ("i4:128", "nt", 32)
    assert row["percent_of_bandwidth"] > 0
    assert row["ratio_to_plain"] > 0


def test_products_are_measured_by_the_workers_of_an_executor(tmp_path):
    file = tmp_path / "out.json"
    options = ["--layout", "nt", "--rounds", "1", "--sample-ms", "0.1", "--peers", "none", "--executor", "2"]
    shapes = ["--shape", "1x32x256", "--shape", "2x48x256", "--cache", "hot"]
    assert main(["bench", "weights", "i4:128", *options, *shapes, "--json", str(file)]) == 0
    rows = json.loads(file.read_text())
    assert [(row["m"], row["n"]) for row in rows] == [(1, 32), (2, 48)]
    assert all(row["percent_of_bandwidth"] > 0 for row in rows)


def test_percent_of_bandwidth_is_by_bytes():
    spec = weights.problem(SHAPE, "bf16", "i4:128")
    rates = (Rates((2.0,)), Rates((1.0,)), Rates((4.0,)))
    result = weights.Result(spec, "i4:128", "host", "inner_product", *rates, 2 * spec.flops, 0.0, "", "", "")
    assert result.percent_of_bandwidth == pytest.approx(100)  # 2 / flops calls of 2 * flops bytes, of 4 bytes


@pytest.mark.parametrize("text", ["i4:x", "i4:128:u8:1", "i9:128", "i4:24"])
def test_other_weights_are_refused(text):
    with pytest.raises(tw.SpecError):
        weights.problem(SHAPE, "bf16", text)


@pytest.mark.parametrize("options", [["--epilogue", "relu"], ["--batch", "2"], ["--cache", "both"]])
def test_options_that_do_not_apply_are_refused(capsys, options):
    assert main(["bench", "weights", "i4:128", "--shape", "1x32x256", *options]) == 2
    assert capsys.readouterr().err


def test_all_libraries_get_the_same_weights():
    """ggml's blocks are those of GGUF files, which `tw.read_gguf` dequantizes; each library says which products it has not."""
    given = weights_peers.operands(2, 16, 64, "i4", 32)
    assert np.array_equal(
        given.codes * np.repeat(given.weights.scales.astype(np.float32), 32, 1), given.weights.floats()
    )
    for codes, name, kind in ((given.codes, "Q4_0", ggml.Q4_0), (given.codes * 9, "Q8_0", ggml.Q8_0)):
        stored = ggml.blocks(codes, given.weights.scales, kind)
        read = tw.GgufTensor("w", name, (16, 64), stored.reshape(-1)).quantized()
        assert np.array_equal(read.scales, given.weights.scales)
        assert np.array_equal(read.floats(), codes * np.repeat(given.weights.scales.astype(np.float32), 32, 1))

    def able(weights_: str, dtype: str = "f32") -> set[str]:
        spec = weights.problem(SHAPE, dtype, weights_)
        return {name for name, row in weights_peers.ROWS.items() if not row.cannot(spec)}

    assert able("i4:32") == {"ggml", "onnxruntime", "onnxruntime-int8", "torch"}
    assert able("i4:128", "bf16") == {"ggml", "torch"}
    assert able("i8:32", "f16") == {"ggml", "onnxruntime", "onnxruntime-int8"}
    assert able("i8") == {"torch"}
    assert able("u4:32:u8") == set()


def test_unknown_libraries_are_refused(capsys):
    assert main(["bench", "weights", "i4:128", "--shape", "1x32x256", "--peers", "nobody"]) != 0
    assert "some of ggml, onnxruntime" in capsys.readouterr().err
