# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes of GPU kernels are ranked without a card: by the model, and by what the assembler and the emulator say; nothing is recorded."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
import tilewright as tw
from tilewright import targets
from tilewright.cli import main, tune_on_paper
from tilewright.emit import ptxas
from tilewright.errors import SlowScheduleWarning, UnverifiedWarning, WrongResultError
from tilewright.runtime import card_calls, gpu, verification
from tilewright.schedules.gpu import warpgroup_sizes
from tilewright.tuning import gpu_cost, on_card, on_paper

SM_90A, SM_80 = (targets.gpu(name) for name in ("sm_90a", "sm_80"))
PRODUCT = tw.MatmulSpec(256, 512, 256, a="bf16")


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_NO_RECORDS")
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(tmp_path / "records.sqlite"))
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "kernels"))


def test_the_models_order_is_kept_but_for_what_spills_or_is_wrong(monkeypatch):
    assembled = {}

    def made(spec, target, name, given, sizes):
        spills = 8 if len(assembled) == 2 else 0
        ranked = on_paper.Ranked(name, dict(given), gpu_cost.cycles(spec, target, sizes), 100, spills, 0)
        assembled[len(assembled)] = ranked
        return ranked

    monkeypatch.setattr(on_paper, "_compiled", made)
    monkeypatch.setattr(on_paper, "_checked", lambda spec, target, each: replace(each, right=each is not assembled[1]))
    found = on_paper.rank(PRODUCT, SM_90A, 600).found
    assert len(found) == len(assembled) == len({str(each.sizes) for each in found}) >= 4
    assert found[0].cycles == min(each.cycles for each in found[:-2])
    assert [each.cycles for each in found[:-2]] == sorted(each.cycles for each in found[:-2])
    assert (found[-2].spills, found[-1].right) == (8, False)
    best = warpgroup_sizes.ranked(PRODUCT, SM_90A)[0]
    assert found[0].cycles <= 1.03 * (warpgroup_sizes.predicted(PRODUCT, best) or 0)


def test_kernels_are_compiled_assembled_and_tried(tmp_path):
    usual, *_ = found = on_paper.rank(PRODUCT, SM_80, 0.01).found
    assert usual.strategy == "mma_sync"
    assert usual.right is True
    has_assembler = ptxas.tool("ptxas") is not None
    assert all((each.registers is not None) == has_assembler for each in found)
    assert not (tmp_path / "records.sqlite").exists()


def ranked(cycles: float, right: bool | None = True, spills: int = 0, **sizes: int) -> on_paper.Ranked:
    return on_paper.Ranked("mma_sync", sizes, cycles, 100, spills, 0, right)


RANKING = on_paper.Ranking(
    [
        ranked(1.0, stages=2),
        ranked(2.0),
        ranked(3.0, stages=4),
        ranked(4.0, spills=8, bk=64),
        ranked(5.0, right=False, bk=16),
    ],
    [],
)


def timed(seconds, seen):
    """A card on which kernels take as long as `seconds` says of their stages."""

    @contextmanager
    def samples(kernel, operands, out=None):
        seen.append(operands)
        yield lambda count: seconds[getattr(kernel.sizes, "stages", None)]

    return samples


def test_the_likeliest_sizes_are_timed_beside_the_usual_ones_where_there_is_a_card(monkeypatch, capsys):
    seen = []
    usual = gpu.compile(PRODUCT, SM_80).sizes.stages
    monkeypatch.setattr(card_calls, "samples", timed({2: 2e-5, usual: 3e-5, 4: 1.5e-5}, seen))
    found = on_card.measure(PRODUCT, SM_80, RANKING)
    assert usual not in (2, 4)
    assert [dict(each.ranked.sizes) for each in found] == [{"stages": 4}, {"stages": 2}, {}]
    assert [each.times.verdict for each in found] == ["won", "won", "tied"]
    assert [round(each.times.gain, 6) for each in found] == [2.0, 1.5, 1.0]
    assert all(each is seen[0] for each in seen)
    monkeypatch.setattr(on_card, "has_card", lambda target: True)
    monkeypatch.setattr(on_paper, "rank", lambda *_: RANKING)
    tune_on_paper.tune([PRODUCT], SM_80, 1)
    said = capsys.readouterr().out
    assert "15.0 us: mma_sync stages=4: 2.00 times the usual choice, won" in said
    assert "30.0 us: mma_sync the usual sizes: the usual choice\n" in said


def test_what_was_not_tried_is_tried_before_it_is_timed(monkeypatch):
    checked = []

    def check(spec, each, compiled):
        checked.append(dict(each.sizes))
        return replace(each, right=each.sizes["stages"] == 2)

    monkeypatch.setattr(card_calls, "samples", timed({2: 1e-5, 3: 2e-5}, []))
    monkeypatch.setattr(on_paper, "checked", check)
    ranking = on_paper.Ranking([ranked(1.0), ranked(2.0, right=None, stages=4), ranked(3.0, right=None, stages=2)], [])
    found = on_card.measure(PRODUCT, SM_80, ranking)
    assert checked == [{"stages": 4}, {"stages": 2}]
    assert [dict(each.ranked.sizes) for each in found] == [{"stages": 2}, {}]


@pytest.mark.parametrize(("off", "timed_sizes"), [(0.0, [{"kc": 16}, {}]), (1.0, [{}])])
def test_attention_is_compared_with_the_reference_before_it_is_timed(monkeypatch, off, timed_sizes):
    spec = tw.AttentionSpec(16, 16, 16, q="bf16")

    def called(kernel, *operands):
        return tw.reference(spec, *operands) + off

    monkeypatch.setattr(gpu.GpuKernel, "__call__", called)
    monkeypatch.setattr(card_calls, "samples", timed({None: 1e-5}, []))
    usual = on_paper.Ranked("shared_softmax", {}, 1.0, 100, 0, 0)
    ranking = on_paper.Ranking([usual, replace(usual, sizes={"kc": 16})], [])
    found = on_card.measure(spec, SM_80, ranking)
    assert sorted((dict(each.ranked.sizes) for each in found), key=len, reverse=True) == timed_sizes


def test_wrong_numbers_come_last(monkeypatch):
    def wrong(kernel, emulated):
        raise WrongResultError("C[0, 0] = 1 is off by 1")

    monkeypatch.setattr(verification, "verify_gpu", wrong)
    assert on_paper.rank(PRODUCT, SM_80, 0.01).found[-1].right is False


def test_the_command_line_says_that_nothing_was_measured(monkeypatch, tmp_path, capsys):
    ranked = on_paper.Ranked("warpgroup", {"bm": 64}, 5352.0, 128, 0, 4096, True)
    monkeypatch.setattr(on_paper, "rank", lambda *_: on_paper.Ranking([ranked], []))
    assert main(["tune", "--target", "sm_90a", "--shape", "64x64x64", "--dtype", "bf16"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "not measured: nothing is recorded" in first
    assert second.split(": ", 1)[1] == (
        "5352 cycles predicted, 4096 bytes of shared memory, 128 registers, 0 bytes spilled, right when tried"
    )
    found = [ranked, *(replace(ranked, right=right) for right in (None, None, None, None, None, False))]
    monkeypatch.setattr(on_paper, "rank", lambda *_: on_paper.Ranking(found, ["too large", "odd"]))
    assert main(["tune", "--target", "sm_90a", "--shape", "64x64x64"]) == 1
    _, *lines, wrong, refused = capsys.readouterr().out.splitlines()
    assert [each.rsplit(", ", 1)[1] for each in lines] == ["right when tried", *["not tried"] * 4]
    assert (wrong.split(".")[0].strip(), wrong.rsplit(", ", 1)[1]) == ("7", "WRONG when tried")
    assert refused.strip() == "2 others do not compile; the likeliest: too large"
    for options in (
        ["x86-64-v3"],
        ["sm_90a", "--threads", "2"],
        ["sm_90a", "--schedule", "a.mlir"],
        ["sm_90a", "-o", "b.mlir"],
    ):
        assert main(["tune", "--shape", "8x8x8", "--target", *options]) == 2
    assert not (tmp_path / "records.sqlite").exists()
    assert main(["tune", "--shape", "8x8x8", "--target", "nonsense"]) == 2
    said = capsys.readouterr().err
    assert "nonsense" in said
    assert "unknown" in said


def test_workers_of_an_executor_rank_too(monkeypatch, capsys):
    ranked = on_paper.Ranked("warpgroup", {"bm": 64}, 5352.0, 128, 0, 4096, True)
    monkeypatch.setattr(on_paper, "rank", lambda spec, *_: on_paper.Ranking([replace(ranked, right=spec.m == 64)], []))
    wanted = [tw.MatmulSpec(m, 64, 64, a="bf16", b="bf16", c="f32") for m in (64, 128)]
    with ThreadPoolExecutor(2) as workers:
        assert tune_on_paper.tune(wanted[:1], SM_90A, 1.0, workers) == 0
        assert tune_on_paper.tune(wanted, SM_90A, 1.0, workers) == 1
    said = capsys.readouterr().out
    assert said.count("not measured") == 3
    assert said.count("WRONG when tried") == 1


def test_sizes_are_tried_until_three_are_right_and_those_refused_are_counted(monkeypatch):
    asked: list[on_paper.Ranked] = []

    def made(spec, target, name, given, sizes):
        if len(given) == 1:
            raise tw.ScheduleError("too large")
        return on_paper.Ranked(name, dict(given), gpu_cost.cycles(spec, target, sizes), None, None, 0)

    def checked(spec, target, each):
        asked.append(each)
        return replace(each, right=len(asked) not in (1, 3))

    monkeypatch.setattr(on_paper, "_compiled", made)
    monkeypatch.setattr(on_paper, "_checked", checked)
    ranking = on_paper.rank(PRODUCT, SM_80, 600)
    rights = [each.right for each in ranking.found]
    assert len(asked) == 5
    assert (rights.count(True), rights.count(False)) == (3, 2)
    assert rights[-2:] == [False] * 2
    assert set(ranking.refused) == {str(tw.ScheduleError("too large"))}


def test_other_warnings_of_a_try_are_passed_on(monkeypatch):
    def verified(kernel, emulated):
        warnings.warn("slow", SlowScheduleWarning, stacklevel=2)
        warnings.warn("not checked", UnverifiedWarning, stacklevel=2)

    monkeypatch.setattr(verification, "verify_gpu", verified)
    usual = on_paper.Ranked("mma_sync", {}, 1.0, None, None, 0)
    with pytest.warns(SlowScheduleWarning, match="slow") as caught:
        assert on_paper._checked(PRODUCT, SM_80, usual).right is None
    assert [each.category for each in caught] == [SlowScheduleWarning]


def test_convolutions_and_attention_are_ranked_too():
    for spec in (
        tw.Conv2dSpec(1, 14, 14, 64, 64, 3, 3, padding=1, a="bf16"),
        tw.AttentionSpec(64, 128, 64, heads=2, q="bf16"),
    ):
        assert on_paper.rank(spec, SM_80, 0.01).found[0].cycles > 0
    with pytest.raises(tw.SpecError, match="expected static extents"):
        on_paper.rank(tw.MatmulSpec(None, 8, 8), SM_80, 1)
