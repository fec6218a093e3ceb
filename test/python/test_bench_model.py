# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`bench model`: what is refused, and what is made of measurements; models themselves are measured by hand."""

from __future__ import annotations

import pytest
from tilewright.bench import environments
from tilewright.bench.models import measuring, picture
from tilewright.bench.models.measuring import Measured, Result
from tilewright.cli import main
from tilewright.errors import TilewrightError

PARTS = tuple((f"kernel {number}", 10.0 - number, 1) for number in range(9))


def of(name: str, milliseconds: float) -> Measured:
    return Measured(name, "1", milliseconds, 50.0, 1e-7, 2.0, PARTS)


def result(*contenders: Measured) -> Result:
    return Result("bert", 128, "f32", 1, contenders, {"onnxruntime": "not there"})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bertha",), "no model 'bertha'; expected one of bert, llama, vit, resnet50"),
        (("resnet50", "--tokens", "3"), "--tokens of resnet50; expected none: it takes images"),
        (("bert", "--dtype", "i8"), "no type 'i8'; expected one of f32, bf16, f16"),
        (("bert", "--contenders", "tvm"), "no contender 'tvm'; expected one of tilewright, "),
    ],
)
def test_what_is_refused(words, said, capsys):
    assert main(["bench", "model", *words]) == 2
    assert said in capsys.readouterr().err


def test_without_the_environment(monkeypatch):
    monkeypatch.setattr(environments, "python", lambda _: None)
    with pytest.raises(TilewrightError, match="Run `tilewright bench setup --peers models`"):
        measuring.run("bert", 128, "f32")


def test_the_better_of_ours_over_the_best_of_the_others():
    every = result(of("tilewright", 12), of("tilewright-frozen", 8), of("eager", 30), of("inductor", 10))
    assert every.ratio == 10 / 8
    assert every.as_json()["ratio_to_best"] == 10 / 8
    assert every.title == "bert, 128 tokens, f32, 1 thread"
    assert result(of("tilewright", 12)).ratio is None


def test_the_parts_of_a_bar_add_up():
    shares = picture.shares(of("tilewright", 27.0))
    assert [name for name, _ in shares] == [*(f"kernel {number}" for number in range(6)), "rest"]
    assert sum(spent for _, spent in shares) == pytest.approx(27.0)
    assert shares[0][1] == pytest.approx(27.0 * 10 / 54)


def test_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    picture.draw([result(of("tilewright", 8), of("inductor", 10))], tmp_path / "bert.png")
    assert (tmp_path / "bert.png").read_bytes().startswith(b"\x89PNG")
