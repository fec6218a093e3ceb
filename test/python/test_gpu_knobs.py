# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Knobs of schedules for GPUs: a printed one can be turned, and is then that of the other size; users' own are ranked over theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.cli import main
from tilewright.codegen.gpu import open_sizes
from tilewright.codegen.gpu.strategies import CARRIERS, SIZES
from tilewright.emit import gpu
from tilewright.errors import ScheduleError, WrongResultError
from tilewright.mlir import ir
from tilewright.runtime import card_calls, verification
from tilewright.schedules import choices, steps
from tilewright.schedules.gpu import tensor_memory_sizes, warpgroup_sizes
from tilewright.schedules.plan import Plan
from tilewright.schedules.steps import block_tile, knobs, sharing
from tilewright.tuning import gpu_cost, on_card, own_on_paper

F32, BF16 = tw.MatmulSpec(300, 200, 500), tw.MatmulSpec(300, 200, 500, a="bf16")
CASES = {
    "simt": ("sm_80", F32),
    "mma_sync": ("sm_80", BF16),
    "matrix_cores": ("gfx942", BF16),
    "warpgroup": ("sm_90a", replace(BF16, beta=1, c="bf16")),
    "tensor_memory": ("sm_100a", BF16),
}
"""By strategy, a target and a product."""


def target_of(name: str) -> tw.GpuTarget:
    """A target."""
    found = targets.gpu(name)
    assert found is not None
    return found


def built(strategy: str, given: dict[str, int] | None = None, *, text: str | None = None) -> dict[str, str]:
    """The texts of a strategy's stages, with some sizes, or of the text of its schedule, until the loops carry what is decided."""
    target, spec = CASES[strategy]
    plan = Plan(strategy, given or {}) if text is None else Plan("edited.mlir", None, text=text, trusted=False)
    return gpu.compiled(spec, target_of(target), plan, aligned=True, boxed=True, until="scheduled").texts


def usual(strategy: str) -> Any:
    """Its usual sizes."""
    target, spec = CASES[strategy]
    return CARRIERS[strategy].sizes(spec, target_of(target), {})


def numbers(kernel: tw.Kernel, spec: tw.MatmulSpec) -> None:
    """Checks a call."""
    rng = np.random.default_rng(0)
    kinds = [tw.dtypes.to_numpy(each) for each in (spec.a_type, spec.b_type)]
    shapes = (spec.a_shape, spec.b_shape)
    operands = [rng.uniform(-1, 1, shape).astype(kind) for shape, kind in zip(shapes, kinds, strict=True)]
    difference = np.abs(kernel(*operands) - tw.reference(spec, *operands))
    assert (difference <= tw.error_bound(spec, *operands)).all()


@pytest.mark.parametrize("strategy", CASES)
def test_a_knob_that_is_turned_makes_what_the_strategy_makes_of_that_size(strategy: str) -> None:
    now, text = usual(strategy), built(strategy)["schedule"]
    found = {each.name: each for each in choices.read(text)}
    assert {"bn", "stages"} <= set(found)
    fewest = {"stages": min(found["stages"].options)}  # Larger tiles leave memory for fewer.
    sizes = {name: int(size) for name, size in asdict(now).items()}
    for each in found.values():
        assert each.selected == sizes[each.name]
        other = max(set(each.options) - {each.selected})
        turned = {**fewest, each.name: other}
        made = built(strategy, text=choices.made(text, turned))["scheduled"]
        assert made == built(strategy, {**sizes, **turned})["scheduled"], each


def test_flags_and_what_goes_on_are_knobs_of_hopper() -> None:
    strategy, target, row = "warpgroup", target_of("sm_90a"), CARRIERS["warpgroup"]
    large = tw.MatmulSpec(4096, 4096, 4096, a="bf16", c="bf16", beta=1)
    sizes = row.sizes(large, target, {"bm": 128, "bn": 128})
    found = open_sizes.options(strategy, large, target, sizes)
    assert found["streamed"] == found["fetched"] == found["pingpong"] == [0, 1]
    assert found["cluster"] == found["beside"] == found["consumers"] == [1, 2]
    assert (found["band"], found["split"]) == ([4, 8, 16], [1, 2, 4, 8])
    assert not {"products", "promote", "swapped"} & set(found), "sums would be others, and rows are many"
    batch = replace(large, batch=(2,), beta=0)
    assert not {"streamed", "fetched"} & set(open_sizes.options(strategy, batch, target, sizes))
    with ir.Context():
        text = str(row.schedule(large, sizes, found))
    assert {each.name: list(each.options) for each in choices.read(text)} == found


@pytest.mark.parametrize(
    ("strategy", "target", "turned"),
    [("mma_sync", "sm_80", {"bm": 64, "stages": 4}), ("warpgroup", "sm_90a", {"bm": 128, "stages": 3, "band": 4})],
)
def test_a_file_with_another_choice_is_another_kernel_with_the_right_numbers(
    strategy: str, target: str, turned: dict[str, int], tmp_path: Path
) -> None:
    spec, emulated = tw.MatmulSpec(70, 72, 48, a="bf16"), target_of(target).emulated()
    first = tw.compile(spec, target=emulated, schedule=strategy, cache=False)
    file = tmp_path / "own.mlir"
    file.write_text(choices.made(first.asm["schedule"], turned))
    kernel = tw.compile(spec, target=emulated, schedule=str(file), cache=False)
    numbers(kernel, spec)
    changed = {
        name: size for name, size in kernel.metadata.parameters.items() if size != first.metadata.parameters[name]
    }
    assert changed == turned
    assert f"stages = {turned['stages']}" in kernel.asm["scheduled"]
    assert kernel.asm["ptx"] != first.asm["ptx"]
    again = tw.compile(spec, target=emulated, schedule=strategy, parameters=kernel.metadata.parameters, cache=False)
    assert kernel.asm["scheduled"] == again.asm["scheduled"]


def test_parts_that_are_larger_than_their_tile_are_refused() -> None:
    text = built("mma_sync")["schedule"]
    assert text.count("transform.match.param.cmpi le") == 2
    found = {each.name: each.options for each in choices.read(text)}
    with pytest.raises(ScheduleError, match="expected parameter to be less than or equal to"):
        built("mma_sync", text=choices.made(text, {"bm": min(found["bm"]), "wm": max(found["wm"])}))


@pytest.mark.parametrize("strategy", CASES)
def test_options_fit_and_are_those_that_are_searched(strategy: str) -> None:
    target, spec = CASES[strategy]
    row, now = CARRIERS[strategy], usual(strategy)
    found = open_sizes.options(strategy, spec, target_of(target), now)
    every = set(open_sizes.every(strategy, spec, target_of(target), now))
    assert now in every
    major = {axis.sizes[0] for axis in open_sizes.OPEN[strategy].axes if not axis.minor}
    for name in major & set(found):
        assert {getattr(each, name) for each in every} >= set(found[name])
    for each in every:
        row.check(spec, target_of(target), each)
        assert open_sizes.OPEN[strategy].fits(spec, target_of(target), each)


def test_what_the_models_compare_is_among_what_is_searched() -> None:
    for spec in (
        BF16,
        tw.MatmulSpec(16, 4096, 4096, a="bf16"),
        tw.MatmulSpec(4096, 4096, 512, a="f8E4M3FN", layout="nt"),
    ):
        strategy, target = "warpgroup", target_of("sm_90a")
        every = set(open_sizes.every(strategy, spec, target, CARRIERS[strategy].sizes(spec, target, {})))
        assert set(warpgroup_sizes.ranked(spec, target)) <= every
        work, strategy = warpgroup_sizes.work_of(spec), "tensor_memory"
        assert work is not None
        start = CARRIERS[strategy].sizes(spec, target_of("sm_100a"), {})
        every = set(open_sizes.every(strategy, spec, target_of("sm_100a"), start))
        assert set(tensor_memory_sizes._candidates(spec, work, {"bk": start.bk})) <= every


def test_no_two_strategies_have_sizes_of_the_same_names() -> None:
    assert len({frozenset(each.__dataclass_fields__) for each in SIZES}) == len(SIZES) == len(CARRIERS)


OWN = """
from tilewright.schedules import steps
from tilewright.schedules.steps import block_tile, knobs, sharing

def schedule(spec, target, sizes):
    with steps.script() as script:
        part, rows = knobs.knob("part", [16, 32], 16), knobs.knob("rows", [16, 64], 16)
        blocks = block_tile.tile(script, spec, rows, 32, 32)
        sharing.pipeline(blocks, 2)
        sharing.share_among_warps(blocks, rows=part, columns=16, instructions="mma_sync")
    return script.module
"""


def test_a_schedule_of_ones_own_is_ranked_over_its_knobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, tuned = tmp_path / "own.py", tmp_path / "tuned.mlir"
    file.write_text(OWN)
    arguments = ["--target", "sm_80", "--shape", "256x256x64", "--dtype", "bf16,bf16,f32", "--schedule", str(file)]
    assert main(["tune", *arguments, "--budget", "600", "-o", str(tuned)]) == 0
    said = capsys.readouterr().out
    assert ": 3 sizes ranked by the static model, not measured: nothing is recorded" in said
    assert "1 others do not compile" in said, "a part of 32 rows in a tile of 16"
    assert "rows=64" in said.splitlines()[1]
    assert "right when tried" in said.splitlines()[1]
    chosen = {each.name: each.selected for each in choices.read(tuned.read_text())}
    assert chosen["rows"] == 64, "fewer bytes come from the L2 cache"
    kernel = tw.compile(BF16, target="sm_80", schedule=str(tuned), cache=False)
    assert kernel.metadata.parameters["bm"] == 64


def test_what_is_wrong_when_tried_leaves_the_schedules_own_choices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(kernel: object, emulated: object) -> None:
        raise WrongResultError("C[0, 0] = 1 is off by 1")

    monkeypatch.setattr(verification, "verify_gpu", wrong)
    file = tmp_path / "own.py"
    file.write_text(OWN)
    ranking, timed, text = own_on_paper.rank(BF16, target_of("sm_80"), str(file), 600)
    assert [each.right for each in ranking.found] == [False] * 3
    assert ranking.found[0].sizes["rows"] == 64
    assert not timed
    assert {each.name: each.selected for each in choices.read(text)} == {"part": 16, "rows": 16}


@pytest.mark.parametrize(("seconds", "rows"), [({16: 2e-5, 64: 1e-5}, 64), ({16: 2e-5, 64: 2e-5}, 16)])
def test_on_a_card_what_wins_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float], rows: int
) -> None:
    """The card is a fake, on which a kernel takes as long as its tile says."""

    @contextmanager
    def samples(kernel: Any, operands: object, out: object = None) -> Iterator[Callable[[int], float]]:
        yield lambda count: seconds[kernel.metadata.parameters["bm"]]

    monkeypatch.setattr(card_calls, "samples", samples)
    monkeypatch.setattr(on_card, "has_card", lambda target: True)
    monkeypatch.setattr(verification, "verify_gpu", lambda *_: None)
    file = tmp_path / "own.py"
    file.write_text(OWN)
    _, timed, text = own_on_paper.rank(BF16, target_of("sm_80"), str(file), 600)
    assert len(timed) == 3
    assert {each.name: each.selected for each in choices.read(text)}["rows"] == rows


def test_a_schedule_that_leaves_nothing_open_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN.replace("[16, 32]", "[16]").replace("[16, 64]", "[16]"))
    with pytest.raises(ScheduleError, match="leaves nothing open"):
        own_on_paper.rank(BF16, target_of("sm_80"), str(file), 1)
    for options in (["--shape", "8x8x8", "--shape", "9x9x9"], ["--shape", "8x8x8", "--database", "a.sqlite"]):
        assert main(["tune", "--target", "sm_80", "--schedule", str(file), *options]) == 2


def test_parameters_that_are_no_sizes_are_errors_at_their_line() -> None:
    def own(spec: tw.MatmulSpec, target: tw.GpuTarget, sizes: object) -> ir.Module:
        with steps.script() as script:
            blocks = block_tile.tile(script, spec, 32, 32, 32)
            sharing.share_among_warps(blocks, rows=knobs.knob("rows", [0, 16], 0), columns=16, instructions="mma_sync")
        return script.module

    with pytest.raises(ScheduleError, match="rows: expected a number of at least 1, got 0") as caught:
        tw.compile(BF16, target="sm_80", schedule=own, cache=False)
    assert caught.value.file == __file__


def test_knobs_may_stand_between_decisions() -> None:
    def own(spec: tw.MatmulSpec, target: tw.GpuTarget, sizes: object) -> ir.Module:
        with steps.script() as script:
            blocks = block_tile.tile(script, spec, 64, 64, 64)
            sharing.specialize_warp_groups(blocks, consumers=1, swapped=knobs.knob("swapped", [0, 1], 1))
            sharing.pipeline(blocks, knobs.knob("stages", [2, 3], 3))
        return script.module

    kernel = tw.compile(BF16, target="sm_90a", schedule=own, cache=False)
    assert {"swapped": True, "stages": 3}.items() <= dict(kernel.metadata.parameters).items()


def test_tensor_memory_is_ranked_by_its_own_model() -> None:
    sizes, spec = usual("tensor_memory"), tw.MatmulSpec(4096, 4096, 4096, a="bf16")
    predicted = tensor_memory_sizes.predicted(spec, sizes)
    assert predicted is not None
    assert gpu_cost.cycles(spec, target_of("sm_100a"), sizes) == predicted
    assert tensor_memory_sizes.predicted(replace(spec, m=None), sizes) is None
