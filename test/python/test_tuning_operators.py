# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions and attention are tuned, recorded and looked up as products are."""

import json
import re
import warnings
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import tilewright as tw
from click.testing import CliRunner
from record_samples import trial
from tilewright import targets
from tilewright.bench.attention import cases
from tilewright.bench.convolution import layers
from tilewright.cli import main
from tilewright.cli.app import command
from tilewright.errors import WrongResultError
from tilewright.libraries.objects import compile_one
from tilewright.payload import spec_tables
from tilewright.records import lookup, machine
from tilewright.records.database import Database
from tilewright.records.trial import parse, schedule_digest
from tilewright.runtime import tuned, verification
from tilewright.schedules import choices
from tilewright.tuning import operator_candidates, product, race
from tilewright.tuning.race import Race, Times, WrongNumbersError
from tilewright.tuning.search import Search

HOST = targets.resolve("host")
CONV = tw.Conv2dSpec(1, 7, 9, 16, 24, 3, 3, padding=1)
ATTENTION = tw.AttentionSpec(40, 40, 16, heads=2)
SPECS = (
    CONV,
    replace(CONV, layout="nchw", filter=None),
    replace(CONV, kh=1, kw=1, padding=0, a="u8", b="i8", c="i32"),
    replace(CONV, groups=2, stride=2, a="bf16", b=None, c=None),
    tw.Conv2dSpec(1, 7, 9, 48, 48, 3, 3, groups=48),
    ATTENTION,
    tw.AttentionSpec(1, 100, 32, heads=8, kv_heads=2, q="bf16"),
    tw.AttentionSpec(33, 70, 24, mask="u8", causal=True),
)


def sizes_in(text):
    """The sizes in a schedule's text by name: its knobs', and those of its attributes."""
    fixed = {name: int(size) for name, size in re.findall(r"\b(\w+) = (\d+)", text)}
    return fixed | {each.name: each.selected for each in choices.read(text)}


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_candidates_are_other_sizes_that_compute_the_same(spec):
    space = operator_candidates.of(spec, HOST, 1)
    assert space.start not in space.ordered
    assert len(set(space.ordered)) == len(space.ordered) >= 2
    found = Race(space.compile(space.start), 1e-5)
    near = list(space.near(space.start))
    for each in {space.ordered[0], space.ordered[-1], near[0], near[-1]} - {space.start}:
        kernel = space.compile(each)
        assert 0 <= found.time(kernel).error < 1
        assert dict(each.sizes).items() <= sizes_in(kernel.asm["schedule"]).items()


def test_a_race_of_operators_finds_wrong_numbers():
    for spec, other in ((CONV, replace(CONV, epilogue=(tw.scale(2),))), (ATTENTION, replace(ATTENTION, scale=2.0))):
        with pytest.raises(WrongNumbersError, match="is off by"):
            Race(tw.compile(spec), 1e-5).time(tw.compile(other))


@pytest.fixture
def records(tmp_path, monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_NO_RECORDS")
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(tmp_path / "records.sqlite"))
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(race, "_PAIRS", 1)
    monkeypatch.setattr(race, "_FINAL_PLACES", 5)
    monkeypatch.setattr(product, "Search", partial(Search, patience=3))
    return tmp_path / "records.sqlite"


class Quick(Race):
    """A race that kernels win whose schedule has a text, twice as fast as the first; others are as fast."""

    winner: ClassVar[dict[str, int]] = {}

    def __init__(self, first):
        super().__init__(first, 1e-5)

    def time(self, kernel, best=1.0, *, final=False):
        super().time(kernel, best, final=final)
        won = self.winner.items() <= sizes_in(kernel.asm["schedule"]).items()
        return Times((1.0,) * 5, (2.0 if won else 1.0,) * 5, 0.5)


@pytest.mark.parametrize("spec", [CONV, ATTENTION], ids=["conv2d", "attention"])
def test_a_winner_is_kept_and_compiled_from_then_on(spec, records, monkeypatch):
    space = operator_candidates.of(spec, HOST, 1)
    start = space.start.sizes
    monkeypatch.setattr(Quick, "winner", dict(set(space.ordered[0].sizes) - set(start)))
    monkeypatch.setattr(product, "Race", Quick)
    assert tw.compile(spec).metadata.chosen_by == "the model"
    last = tw.tune(spec, 600)
    assert (last.verdict, last.final, last.gain, last.computed) == ("won", True, 2.0, spec)
    kernel = tw.compile(spec)
    assert Quick.winner.items() <= sizes_in(kernel.asm["schedule"]).items()
    assert kernel.metadata.chosen_by.startswith("this machine's database: 2.00 times the model's choice")
    # What a caller says goes before; an emulator's choice is the model's.
    assert tw.compile(spec, parameters=dict(start)).metadata.chosen_by == "the caller"
    assert tw.compile(spec, "neoverse-n2").metadata.chosen_by == "the model"
    with Database(records) as database:
        lines = list(database.lines())
        assert database.verify() == len(lines)
    assert all(parse(line, "test").line == line for line in lines)


def won(spec, **fields):
    """A record of the first candidate of a spec, which won."""
    space = operator_candidates.of(spec, HOST, 1)
    candidate, start = space.ordered[0], space.start
    text = tw.compile(spec, parameters=dict(candidate.sizes), cache=False).asm["schedule"]
    model = {"strategy": start.strategy, "sizes": dict(start.sizes), "samples": [2e-4, 2.5e-4]}
    usual = {
        "machine": machine.facts(HOST),
        "strategy": candidate.strategy,
        "sizes": dict(candidate.sizes),
        "model": model,
    }
    return trial(spec=spec, **{**usual, "schedule": schedule_digest(text), **fields})


def test_a_record_is_proved_once_before_its_use(records, monkeypatch):
    proved = []
    verify = verification.verify
    monkeypatch.setattr(verification, "verify", lambda *given: proved.append(given) or verify(*given))
    x, w = np.ones((1, 5, 6, 8), np.float32), np.ones((3, 3, 8, 16), np.float32)
    called = tw.Conv2dSpec(1, 5, 6, 8, 16, 3, 3)
    models = compile_one(ATTENTION, HOST, 1).object
    with Database(records) as found:
        found.add(won(spec) for spec in (called, ATTENTION))
    assert (tw.conv2d(x, w) == 72).all()
    for spec in (called, ATTENTION, ATTENTION):
        assert tw.compile(spec).metadata.chosen_by.startswith("this machine's database")
    measured = compile_one(ATTENTION, HOST, 1).object
    assert len(proved) == 2
    monkeypatch.setenv("TILEWRIGHT_NO_RECORDS", "1")
    # A library has what was measured, and the model's choice without.
    assert compile_one(ATTENTION, HOST, 1).object == models != measured


def test_what_is_wrong_stale_or_of_another_machine_is_left_alone(records, monkeypatch):
    def wrong(*_):
        raise WrongResultError("out[0, 0] = 1 is off by 1")

    for number, (fields, said) in enumerate(
        [
            ({"schedule": "0" * 64}, ""),
            ({"sizes": {"forgotten": 3}}, "unknown parameter 'forgotten'"),
            ({"machine": machine.facts(replace(HOST, fma_latency=HOST.fma_latency + 1))}, ""),
            ({}, "is off by 1"),
        ]
    ):
        spec = replace(CONV, h=8 + number)
        with Database(records) as found:
            found.add([won(spec, **fields)])
        with warnings.catch_warnings(record=True) as caught, monkeypatch.context() as patched:
            warnings.simplefilter("always")
            patched.setattr(verification, "verify", wrong)
            assert tw.compile(spec).metadata.chosen_by == "the model"
        assert [said in str(each.message) for each in caught if each.category is tuned.RecordWarning] == [True] * bool(
            said
        )


def test_a_spec_of_open_extents_has_no_record(records):
    assert lookup.text(tw.AttentionSpec(None, 40, 16)) is None
    with pytest.raises(tw.SpecError, match="cannot be tuned"):
        tw.tune(tw.AttentionSpec(None, 40, 16))
    assert lookup.text(CONV) != lookup.text(replace(CONV, padding=((1, 1), (1, 0))))


def test_knobs_of_a_convolutions_printed_schedule_are_searched(records, monkeypatch, tmp_path):
    own = tmp_path / "own.mlir"
    own.write_text(tw.compile(CONV).asm["schedule"])
    (name, options) = next((each.name, each.options) for each in choices.read(own.read_text()) if len(each.options) > 1)
    monkeypatch.setattr(Quick, "winner", {name: options[0]})
    monkeypatch.setattr(product, "Race", Quick)
    last = tw.tune(CONV, 600, schedule=own)
    assert last.verdict == "won"
    assert last.sizes[name] == options[0]
    assert not last.final


def test_the_command_line_takes_networks_and_traces_of_operators(records, monkeypatch, tmp_path):
    seen = []

    def tune(spec, *_, **__):
        seen.append(spec)
        return trial(spec=spec)

    monkeypatch.setattr(product, "tune", tune)
    trace = tmp_path / "trace"
    lines = [
        {"spec": spec_tables.table(each), "computes": "", "threads": 1, "shapes": [], "calls": 1} for each in SPECS
    ]
    trace.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    run = CliRunner().invoke
    for options in (["--conv", "resnet50", "--dtype", "bf16"], ["--attention", "decode"], ["--trace", str(trace)]):
        assert run(command, ["tune", *options]).exit_code == 0
    convolutions = [replace(each.spec("bf16"), w_packed=False) for each in layers.LAYERS["resnet50"]]
    attention = [each.spec("f32") for each in cases.SUITES["decode"]]
    assert seen == [*convolutions, *attention, *SPECS]
    seen.clear()  # Depthwise convolutions have no packed filters.
    assert run(command, ["tune", "--conv", "mobilenetv3", "--b-packed"]).exit_code == 0
    assert {each.w_packed for each in seen} == {True, False}
    for options, said in (
        (["--conv", "resnet5"], "expected one of resnet50"),
        (["--conv", "resnet50", "--dtype", "f64"], "expected one of f32, bf16, i8"),
        (["--attention", "decode", "--layout", "nt"], "--layout with --attention"),
        (["--attention", "decode", "--conv", "resnet50"], "both --conv and --attention given"),
    ):
        done = run(command, ["tune", *options])
        assert done.exit_code == 2
        assert said in str(done.exception or done.output) + done.output


def test_what_cannot_be_tuned_is_said_and_the_others_are_tuned(records, monkeypatch, tmp_path, capsys):
    seen = []

    def tune(spec, *_, **__):
        if spec == CONV:
            raise tw.SpecError(f"{spec} cannot be tuned")
        seen.append(spec)
        return trial(spec=spec)

    monkeypatch.setattr(product, "tune", tune)
    trace = tmp_path / "trace"
    lines = [
        {"spec": spec_tables.table(each), "computes": "", "threads": 1, "shapes": [], "calls": 1} for each in SPECS
    ]
    trace.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    assert main(["tune", "--trace", str(trace)]) == 1
    assert f"{CONV} cannot be tuned" in capsys.readouterr().out
    assert seen == list(SPECS[1:])
