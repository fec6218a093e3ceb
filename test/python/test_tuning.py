# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The search for faster choices: on made-up and recorded spaces in no time, and once for real with a clock of its own."""

import itertools
import json
import re
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import tilewright as tw
from click.testing import CliRunner
from tilewright import targets
from tilewright.cli.app import command
from tilewright.errors import SlowScheduleWarning
from tilewright.records.database import Database
from tilewright.runtime import products
from tilewright.schedules import choices, make, select
from tilewright.schedules.models.blocking import Blocking
from tilewright.tuning import candidates, product, race, spaces
from tilewright.tuning.candidates import Candidate
from tilewright.tuning.race import Race, Times, WrongNumbersError
from tilewright.tuning.search import Search

SPEC = tw.MatmulSpec(m=24, n=32, k=48)
HOST = targets.resolve("host")


def alike(point):
    """The kind of points that are all of one."""


def searched(gains, start, ordered, near, kind=alike, trials=30):
    """A search on known gains: the best that it found, and how many trials it took."""
    search = Search(start, ordered, near, kind)
    for count in range(trials):
        asked = search.ask()
        if asked is None:
            return search.best, count
        search.tell(asked, gains[asked])
    return search.best, trials


def test_a_search_climbs_to_the_top_of_a_hill_that_the_order_does_not_know():
    gains = {(x, y): 2.0 - (x - 7) ** 2 * 0.02 - (y - 3) ** 2 * 0.02 for x in range(10) for y in range(10)}
    gains[5, 5] = 1.0

    def near(point):
        x, y = point
        return [each for each in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)) if each in gains]

    best, trials = searched(gains, (5, 5), sorted(gains, reverse=True), near)
    assert best == (7, 3)
    assert trials <= 30


def test_a_search_ends_where_nothing_is_gained():
    best, trials = searched(dict.fromkeys(range(100), 1.0), 0, range(1, 100), lambda point: [])
    assert (best, trials) == (0, 30)
    best, trials = searched({0: 1.0, 1: 0.5}, 0, [1], lambda point: [1])
    assert (best, trials) == (0, 1)


def test_nothing_is_tried_twice():
    search = Search(0, [1, 2, 3, 2, 1], lambda point: [0, 1, 2], alike, patience=100)
    asked = []
    while (each := search.ask()) is not None:
        asked.append(each)
        search.tell(each, 1.0 + each)
    assert sorted(asked) == [1, 2, 3]
    assert search.ranked() == [3, 2, 1, 0]


def test_the_likeliest_of_each_kind_comes_first():
    search = Search(0, range(1, 40), lambda point: [], lambda point: point // 10)
    asked = []
    for _ in range(6):
        asked.append(search.ask())
        search.tell(asked[-1], 1.0)
    assert asked == [10, 20, 30, 1, 11, 21]


def times(*ratios):
    return Times((1.0,) * len(ratios), ratios, 0.0)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((1.05,) * 15, "won"),
        ((1.05,) * 12 + (0.9,) * 3, "won"),
        ((1.05,) * 11 + (0.9,) * 4, "tied"),
        ((1.025,) * 15, "tied"),
        ((0.95,) * 12 + (1.3,) * 3, "lost"),
        ((0.95,) * 11 + (1.3,) * 4, "tied"),
        ((1.0,) * 15, "tied"),
    ],
)
def test_only_what_noise_would_hardly_give_wins(ratios, verdict):
    assert times(*ratios).verdict == verdict


def test_every_candidate_is_a_schedule_that_can_be_asked_for():
    for spec in (SPEC, tw.MatmulSpec(m=300, n=400, k=2100, a="bf16"), tw.MatmulSpec(m=8, n=64, k=512, layout="nt")):
        found = candidates.of(spec, HOST, make.make(spec, HOST))
        assert found.start not in found.ordered
        assert len(set(found.ordered)) == len(found.ordered) > 3
        assert set(found.near(found.start)) - {found.start}
        for each in (*found.ordered[:5], *found.ordered[-5:], *found.near(found.start)):
            assert make.make(spec, HOST, each.strategy, dict(each.sizes)).sizes == dict(each.sizes)


def vars_of(sizes):
    return {name: getattr(sizes, name) for name in ("mr", "nr", "mc", "nc", "kc")}


def test_panels_that_come_packed_keep_their_format():
    spec = tw.MatmulSpec(m=64, n=256, k=512, b_packed=True)
    found = candidates.of(spec, HOST, make.make(spec, HOST))
    for each in found.ordered:
        assert each.strategy == "packed"
        assert (each.blocking.nr, each.blocking.nc, each.blocking.kc) == tuple(
            getattr(found.start.blocking, name) for name in ("nr", "nc", "kc")
        )


SPACES = json.loads((Path(__file__).parents[1] / "Inputs" / "tuning_spaces.json").read_text())


@pytest.mark.parametrize("number", range(len(SPACES["spaces"])))
def test_recorded_spaces_are_searched_in_thirty_trials(number):
    recorded = SPACES["spaces"][number]
    gains = {}
    for text, gain in recorded["gains"].items():
        strategy, *sizes = text.split()
        gains[Candidate.of(strategy, vars_of(Blocking(*map(int, sizes))))] = gain
    start, *ordered = gains

    def near(point):
        """Points that differ in one size, the nearest first."""
        found = []
        for other in gains:
            mine, others = dict(point.sizes), dict(other.sizes)
            differ = [name for name in mine if mine[name] != others[name]]
            if other.strategy == point.strategy and len(differ) == 1:
                found.append((abs(mine[differ[0]] - others[differ[0]]), str(other), other))
        return [each for _, _, each in sorted(found)]

    best, trials = searched(gains, start, ordered, near, candidates.width)
    assert trials <= 30
    assert gains[best] >= 0.98 * max(gains.values())


@pytest.fixture
def database(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(tmp_path / "records.sqlite"))
    monkeypatch.delenv("TILEWRIGHT_NO_RECORDS")
    # No trial waits for a clock here: what samples say is not looked at.
    monkeypatch.setattr(race, "_PAIRS", 1)
    monkeypatch.setattr(race, "_FINAL_PLACES", 5)
    monkeypatch.setattr(product, "Search", partial(Search, patience=3))
    with Database(tmp_path / "records.sqlite") as found:
        yield found


class Quick(Race):
    """A race in which a named candidate is twice as fast as the first, and others as fast."""

    winner = Candidate("", ())

    def __init__(self, first):
        super().__init__(first, 1e-5)

    def time(self, kernel, best=1.0, *, final=False):
        super().time(kernel, best, final=final)
        own = Candidate.of(kernel.metadata.schedule, kernel.metadata.parameters)
        return Times((1.0,) * 5, (2.0 if own == self.winner else 1.0,) * 5, 0.5)


def test_a_winner_is_kept_and_compiled_from_then_on(database, monkeypatch):
    monkeypatch.setattr(product, "Race", Quick)
    found = candidates.of(SPEC, HOST, make.make(SPEC, HOST))
    monkeypatch.setattr(Quick, "winner", Search(found.start, found.ordered, found.near, found.kind).ask())
    told = []
    last = product.tune(SPEC, HOST, database, seconds=600, tell=told.append)
    assert (last.verdict, last.final, last.gain) == ("won", True, 2.0)
    assert Candidate.of(last.strategy, last.sizes) == Quick.winner
    assert last.peak > 0
    assert [each.trials for each in told] == list(range(1, len(told) + 1))
    assert told[-1].gain == 2.0
    kernel = tw.compile(SPEC)
    assert dict(kernel.metadata.parameters) == dict(last.sizes)
    assert "2.00 times the model's choice" in kernel.metadata.chosen_by
    # The next search knows all of it: it compares once more, and tries nothing again.
    before = database.stats().trials
    again = product.tune(SPEC, HOST, database, seconds=600)
    assert again.verdict == "won"
    assert database.stats().trials <= before + 15


def test_an_interrupted_search_keeps_its_trials_and_goes_on(database, monkeypatch):
    monkeypatch.setattr(product, "Race", Quick)

    def interrupt(at):
        if at.trials == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        product.tune(SPEC, HOST, database, seconds=600, tell=interrupt)
    kept = database.stats().trials
    assert kept >= 1
    last = product.tune(SPEC, HOST, database, seconds=600)
    assert last.verdict == "tied"
    tried = [json.loads(line) for line in database.lines()]
    tried = [(each["strategy"], str(each["sizes"])) for each in tried if not each["final"]]
    again = len(tried) - len(set(tried))  # those that are timed a second time before the last comparison
    assert 0 < again <= product._FINALISTS
    assert len(set(tried)) >= kept
    assert tw.compile(SPEC).metadata.chosen_by.startswith("the model, as a comparison of")


def test_wrong_numbers_never_win(database, monkeypatch):
    def wrong(self, kernel, best=1.0, *, final=False):
        if Candidate.of(kernel.metadata.schedule, kernel.metadata.parameters) == self.winner:
            raise WrongNumbersError("C[0, 0] is off by 1")
        return Times((1.0,) * 5, (1.0,) * 5, 0.5)

    monkeypatch.setattr(Quick, "time", wrong)
    found = candidates.of(SPEC, HOST, make.make(SPEC, HOST))
    monkeypatch.setattr(Quick, "winner", Search(found.start, found.ordered, found.near, found.kind).ask())
    monkeypatch.setattr(product, "Race", Quick)
    assert product.tune(SPEC, HOST, database, seconds=600).verdict == "tied"
    assert "wrong" in {json.loads(line)["verdict"] for line in database.lines()}


def test_a_slow_choice_of_the_model_is_where_a_search_starts(database, monkeypatch):
    start, compile_one = candidates.of(SPEC, HOST, make.make(SPEC, HOST)).start, products.compile

    def compile_(*args, schedule=None, parameters=None, **how):
        if parameters == dict(start.sizes):
            warnings.warn("the hot loop accesses the stack", SlowScheduleWarning, stacklevel=1)
        return compile_one(*args, schedule=schedule, parameters=parameters, **how)

    monkeypatch.setattr(products, "compile", compile_)
    monkeypatch.setattr(product, "Race", Quick)
    assert product.tune(SPEC, HOST, database, seconds=600).verdict == "tied"


def test_a_race_finds_wrong_numbers():
    kernel = tw.compile(SPEC, cache=False)
    found = Race(kernel, 1e-5)
    assert 0 <= found.time(kernel).error < 1
    other = tw.compile(replace(SPEC, epilogue=(tw.scale(2),)), cache=False)
    with pytest.raises(WrongNumbersError, match=r"C\[.*is off by"):
        found.time(other)


def test_the_last_comparison_has_operands_in_several_places():
    class Watched(Race):
        def _ready(self, trial):
            places.append((trial.kernel, trial.out.ctypes.data))
            return super()._ready(trial)

    places: list[tuple[object, int]] = []
    first, second = (tw.compile(SPEC, cache=False) for _ in range(2))
    race = Watched(first, 1e-5)
    assert len(race.time(second, best=0.0).samples) == 5
    places.clear()
    assert len(race.time(second, final=True).samples) == 15
    of_second = [place for kernel, place in places if kernel is second]
    assert len(of_second) == len(set(of_second)) == 3


@pytest.mark.parametrize(
    "spec",
    [
        tw.MatmulSpec(m=None, n=32, k=48),
        replace(SPEC, deterministic=True),
        replace(SPEC, epilogue=(lambda c: c * 2,)),
    ],
)
def test_what_no_record_can_be_of_is_refused(spec, database):
    with pytest.raises(tw.SpecError, match="cannot be tuned"):
        product.tune(spec, HOST, database)


def test_what_users_call(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(product, "tune", lambda spec, target, into, **given: seen.append((spec, given)))
    with pytest.raises(tw.TilewrightError, match="no database"):
        tw.tune(SPEC)
    monkeypatch.delenv("TILEWRIGHT_NO_RECORDS")
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(tmp_path / "records.sqlite"))
    tw.tune(SPEC, 7, threads=2)
    assert seen == [(SPEC, {"threads": 2, "seconds": 7, "schedule": None})]
    tw.compile(SPEC, tune=3)
    assert seen[1:] == [(SPEC, {"threads": 1, "seconds": 3, "schedule": None})]
    for wrong in ({"target": "x86-64-v3"}, {"schedule": "packed"}, {"parameters": {"mr": 2}}):
        with pytest.raises(tw.SpecError, match="tune with a target, a schedule or parameters"):
            tw.compile(SPEC, tune=3, **wrong)  # pyright: ignore[reportArgumentType]
    for seconds in (0, -1, float("inf"), True, "long"):
        with pytest.raises(tw.SpecError, match="expected a number above zero"):
            tw.tune(SPEC, seconds)  # pyright: ignore[reportArgumentType]
    with pytest.raises(tw.SpecError, match=r"expected a tilewright\.MatmulSpec"):
        tw.tune("24x32x48")  # pyright: ignore[reportArgumentType]


def test_the_command_line_takes_shapes_suites_and_traces(database, monkeypatch, tmp_path):
    monkeypatch.setattr(product, "Race", Quick)
    monkeypatch.setattr(select, "STRATEGIES", {"unpacked": select.STRATEGIES["unpacked"]})
    run = CliRunner().invoke
    trace = tmp_path / "trace"
    line = {"spec": {"m": 8, "n": 16, "k": 24}, "computes": "8x16x24", "threads": 1, "shapes": [], "calls": 3}
    trace.write_text(f"{json.dumps(line)}\n")
    for options in (["--shape", "8x16x24"], ["--trace", str(trace)]):
        done = run(command, ["tune", *options, "--budget", "0.5"])
        assert done.exit_code == 0, (done.output, done.exception)
        assert done.output.startswith("8x16x24 f32 nn: the model's choice stays: unpacked")
    line["spec"]["m"] = None
    trace.write_text(f"{json.dumps(line)}\n")
    for file, calls in ((trace, 3), (tmp_path / "empty", 0)):
        file.touch()
        done = run(command, ["tune", "--trace", str(file)])
        assert done.exit_code == 2
        assert f"nothing to tune: {calls} calls have dynamic extents" in " ".join(str(done.output).split())
    for options in itertools.combinations(("--shape=8x8x8", "--suite=odd", "--trace=trace"), 2):
        assert "expected one of them" in str(run(command, ["tune", *options]).output)
    assert run(command, ["tune"]).exit_code == 2
    for seconds in ("nan", "inf", "0", "soon"):
        assert run(command, ["tune", "--shape", "8x16x24", "--budget", seconds]).exit_code == 2


OWN = """
from tilewright.schedules import steps
from tilewright.schedules.steps import knobs

def schedule(spec, target, sizes):
    with steps.script() as script:
        product = steps.match(script.root, "linalg.matmul")
        steps.tile(product, [knobs.knob("rows", [2, 4, 8], 4), knobs.knob("columns", [16, 32], 32), 0])
    return script.module
"""


class OwnQuick(Race):
    """A race that tiles of eight rows win."""

    def __init__(self, first):
        super().__init__(first, 1e-5)

    def time(self, kernel, best=1.0, *, final=False):
        super().time(kernel, best, final=final)
        rows = next(each.selected or 0 for each in choices.read(kernel.asm["schedule"]) if each.name == "rows")
        return Times((1.0,) * 5, (rows / 4,) * 5, 0.5)


def test_knobs_of_a_users_schedule_are_searched_and_the_winner_is_written(database, monkeypatch, tmp_path):
    monkeypatch.setattr(product, "Race", OwnQuick)
    own, tuned = tmp_path / "own.py", tmp_path / "tuned.mlir"
    own.write_text(OWN)
    options = ["tune", "--shape", "24x32x48", "--schedule", str(own), "-o", str(tuned)]
    done = CliRunner().invoke(command, options)
    assert done.exit_code == 0, (done.output, done.exception)
    assert re.match(r"24x32x48 f32 nn: won by columns=\d+ rows=8: 2.000 times the schedule's own, ", done.output)
    assert [each.selected for each in choices.read(tuned.read_text()) if each.name == "rows"] == [8]
    # Its trials are kept, go on where they were, and decide nothing for others.
    kept = database.stats().trials
    assert CliRunner().invoke(command, options).exit_code == 0
    assert database.stats().trials <= kept + 5
    assert not any(json.loads(line)["final"] for line in database.lines())
    assert tw.compile(SPEC).metadata.chosen_by == "the model"


def test_our_own_space_is_not_made_for_a_users_schedule(monkeypatch, tmp_path):
    own = tmp_path / "own.py"
    own.write_text(OWN)
    monkeypatch.setattr(candidates, "of", None)
    assert spaces.of(SPEC, HOST, 1, str(own), tmp_path).multiplied == ("f32", "f32")


def test_a_schedule_that_leaves_nothing_open_is_refused(database, tmp_path):
    own = tmp_path / "own.py"
    own.write_text(OWN.replace("[2, 4, 8]", "[4]").replace("[16, 32]", "[32]"))
    with pytest.raises(tw.ScheduleError, match=r"leaves nothing open.*knobs"):
        product.tune(SPEC, HOST, database, schedule=own)
