# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`bench model`: what is refused, and what is made of measurements; models themselves are measured by hand."""

from __future__ import annotations

from concurrent.futures import Executor

import pytest
from tilewright.bench import environments, on_workers
from tilewright.bench.models import measuring, picture
from tilewright.bench.models.measuring import Measured, Result
from tilewright.bench.models.page import PAGE, over_best
from tilewright.bench.operators.results import LIMIT
from tilewright.bench.operators.results import Result as Record
from tilewright.bench.rows import OURS as RECORDED
from tilewright.bench.rows import Rates
from tilewright.cli import main
from tilewright.errors import TilewrightError

PARTS = tuple((f"kernel {number}", 10.0 - number, 1) for number in range(9))


def of(name: str, milliseconds: float) -> Measured:
    return Measured(name, "1", milliseconds, 50.0, 1e-7, 2.0, PARTS)


def result(*contenders: Measured) -> Result:
    rates = {each.name: Rates((900.0 / each.milliseconds,) * 3) for each in contenders}
    absent = {"onnxruntime": "not there"}
    return Result(
        "bert", 128, "f32", 1, contenders, absent, {**rates, LIMIT: Rates((150.0,) * 3)}, "2026-11-22T17:50:26+00:00"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bertha",), "no model 'bertha'; expected one of bert, llama, vit, resnet50"),
        (("resnet50", "--tokens", "3"), "--tokens of resnet50; expected none: it takes images"),
        (("bert", "--dtype", "i8"), "no type 'i8'; expected one of f32, bf16, f16, i4"),
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
    assert every.title == "bert, 128 tokens, f32, 1 thread"
    assert result(of("tilewright", 12)).ratio is None


@pytest.mark.parametrize(("plain", "frozen"), [(12, 8), (8, 12)])
def test_the_better_of_ours_is_kept(plain, frozen):
    kept = result(of("tilewright", plain), of("tilewright-frozen", frozen), of("eager", 30), of("inductor", 10)).record
    assert kept.case == "bert, 128 tokens"
    assert kept.rates[RECORDED].median == pytest.approx(900 / 8)
    assert over_best(kept) == pytest.approx(10 / 8)
    assert kept.percent_of_limit == pytest.approx(75)
    assert Record.from_json(kept.as_json()) == kept
    text = "\n".join(PAGE.table([kept]))
    assert "| bert, 128 tokens | 1 | 112.5 | 112.5–112.5 | 75.0 | 3.75 | 1.25 | 1.25 |" in text
    assert "without onnxruntime: not there" in text


def test_nothing_of_ours_is_not_kept():
    with pytest.raises(
        TilewrightError, match="was measured without tilewright, tilewright-frozen or onnxruntime-tilewright"
    ):
        _ = result(of("eager", 30)).record


def test_what_is_there_is_not_measured_again(monkeypatch, tmp_path, capsys):
    asked = []
    kept = result(of("tilewright", 12), of("eager", 30))

    def run(model, size, dtype, **_):
        asked.append((model, size, dtype))
        return kept

    monkeypatch.setattr(measuring, "run", run)
    words = ["bench", "model", "bert", "--tokens", "128", "--dtype", "f32", "--json", str(tmp_path / "kept.json")]
    assert main(words) == 0
    assert main([*words, "--resume"]) == 0
    assert asked == [("bert", 128, "f32")]
    assert "2.50 times the best of the others" in capsys.readouterr().out


def test_the_workers_of_an_executor_measure(monkeypatch, tmp_path, capsys):
    """And say what they lack: what a model needs is not here."""
    monkeypatch.setenv("TILEWRIGHT_PEERS_DIR", str(tmp_path))
    given = []
    results = on_workers.results
    monkeypatch.setattr(on_workers, "results", lambda *all_: given.append(all_) or results(*all_))
    assert main(["bench", "model", "bert", "--tokens", "128", "--dtype", "f32", "--executor", "1"]) == 2
    assert "torch and its models are not installed" in capsys.readouterr().err
    ((_, wanted, jobs),) = given
    assert wanted == [(1, ("bert", 128, "f32"))]
    assert isinstance(jobs, Executor)


def test_the_parts_of_a_bar_add_up():
    shares = picture.shares(of("tilewright", 27.0))
    assert [name for name, _ in shares] == [*(f"kernel {number}" for number in range(6)), "rest"]
    assert sum(spent for _, spent in shares) == pytest.approx(27.0)
    assert shares[0][1] == pytest.approx(27.0 * 10 / 54)


def test_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    picture.draw([result(of("tilewright", 8), of("inductor", 10))], tmp_path / "bert.png")
    assert (tmp_path / "bert.png").read_bytes().startswith(b"\x89PNG")
