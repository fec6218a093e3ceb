# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The comparison of convolutions: its layers, what it measures, how it is asked for."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from tilewright.bench import convolution
from tilewright.bench.convolution import Layer
from tilewright.bench.convolution.page import PAGE
from tilewright.cli.bench import bench
from tilewright.errors import TilewrightError


def test_layers_of_resnet50():
    layers = convolution.LAYERS["resnet50"]
    assert len(layers) == len(set(layers)) == 23
    assert [layers[0].result, layers[-1].result] == [112, 7]
    assert str(layers[0]) == "224x224x3, 7x7x64, stride 2"
    assert layers[0].flops == 2 * 112 * 112 * 64 * 147
    assert {layer.reach for layer in layers} == {1, 3, 7}


@pytest.mark.parametrize(("name", "distinct", "depthwise"), [("mobilenetv3", 34, 12), ("convnext", 16, 4)])
def test_layers_of_networks_with_depthwise_convolutions(name, distinct, depthwise):
    layers = convolution.LAYERS[name]
    assert len(layers) == len(set(layers)) == distinct
    assert sum(each.groups == each.channels > 1 for each in layers) == depthwise
    assert layers[-1].result == 7
    assert str(Layer(56, 96, 96, 7, 1, 3, 96, 8)) == "8 x 56x56x96, 7x7x96, stride 1, 96 groups"
    assert Layer(56, 96, 96, 7, 1, 3, 96, 8).flops == 2 * 8 * 56 * 56 * 96 * 49


@pytest.mark.parametrize("layer", [Layer(6, 8, 16, 3, 1, 1), Layer(6, 16, 16, 3, 2, 1, 16, 2)])
@pytest.mark.parametrize("asked", ["f32", "i8"])
def test_a_layer_is_checked_and_measured(asked, layer):
    (result,) = convolution.COMPARISON.run([layer], asked, libraries=(), rounds=2, min_seconds=1e-4)
    assert set(result.rates) == {"tilewright", "limit"}
    assert 0 <= result.error < 1e-2
    text = PAGE.markdown([result], "a command")
    assert f"| {layer} |" in text
    assert json.loads(json.dumps(result.as_json()))["case"] == str(layer)


def test_what_is_refused():
    with pytest.raises(TilewrightError, match="no convolutions of 'f64'"):
        convolution.COMPARISON.run([], "f64")
    with pytest.raises(TilewrightError, match="no convolutions of 'mkl'"):
        convolution.COMPARISON.run([], "f32", libraries=("mkl",))
    with pytest.raises(TilewrightError, match="no network 'vgg'"):
        CliRunner().invoke(bench, ["conv", "vgg"], catch_exceptions=False)
    done = CliRunner().invoke(bench, ["conv", "resnet50", "--shape", "1x2x3"])
    assert "No such option" in done.output
