# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``bench card``: the plan, a bundle, what is left of a run, and the page. Every rate in here is made up."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import card_process
import fake_driver
import ml_dtypes
import numpy as np
import pytest
from tilewright.bench.card import aims, bundle, estimate, measure, page, peers, plan, timing, tools, triton_peer
from tilewright.bench.card.__main__ import main
from tilewright.bench.card.cublaslt import CublasLt, Matrix
from tilewright.bench.card.guarded import guarded
from tilewright.bench.card.plan import Step
from tilewright.bench.card.plan_operators import Operator
from tilewright.bench.card.worker import Broken, Worker
from tilewright.bench.suites import parse_shape
from tilewright.cli import main as tilewright
from tilewright.emit import versions
from tilewright.emit.gpu import able, tool
from tilewright.errors import TargetError, TilewrightError
from tilewright.runtime.emulated_time import CLOCK_GHZ
from tilewright.schedules.gpu_strategies import ATTENTION_STRATEGIES
from tilewright.targets import nvidia

FACTS = {
    "date": "1970-01-01T00:00:00+00:00",
    "card": "a made-up card",
    "driver_version": "0.0",
    "clocks.sm": "100 MHz",
    "processors": 10,
    "copy_bytes_a_second": 1e12,
}

_WIDE = {"bm": 128, "bn": 256, "cluster": 2, "band": 8, "streamed": 0}


def test_the_plan_has_every_strategy_with_every_type_and_all_that_is_timed() -> None:
    checked = {(step.kernels[0].strategy, step.kernels[0].types) for step in plan.checks()}
    compared = {(step.kernels[0].strategy, step.kernels[0].types) for step in plan.layouts()}
    assert checked == compared
    assert {name for strategy, name in checked if strategy == "warpgroup"} >= set(plan.TIMED)
    timed = list(plan.timings())
    assert [str(shape) for name, _, shape, _ in timed if name == "bf16"][:2] == ["8192x8192x8192", "4096x4096x4096"]
    assert {shape.m for name, layout, shape, _ in timed if (name, layout) == ("bf16", "nt")} >= {1, 8, 512, 8192}
    assert len({(name, layout, str(shape), epilogue) for name, layout, shape, epilogue in timed}) == len(timed)
    for aim in aims.AIMS:
        assert any(aim.takes(name, layout, epilogue, str(shape)) for name, layout, shape, epilogue in timed)
    for name, layout, shape, epilogue in timed[:10]:
        assert plan.spec_of(name, layout, epilogue, shape).layout == layout


def test_odd_sizes_are_checked_by_the_form_that_takes_them() -> None:
    for step in plan.checks():
        (kernel,) = step.kernels
        boxed = kernel.strategy == "warpgroup"
        assert kernel.aligned == (boxed or str(step.shape) == plan.WHOLE)
    swapped = [step.kernels[0] for step in plan.layouts() if dict(step.kernels[0].sizes).get("swapped")]
    assert [each.layout for each in swapped] == ["nn", "tn", "tt"]


def test_operators_are_of_the_strategies_that_compute_them() -> None:
    found = [step.kernels[0] for step in plan.operators()]
    attention = (each for each in found if isinstance(each, Operator) and each.operator == "attention")
    assert {each.strategy for each in attention} == {*ATTENTION_STRATEGIES}
    for each in found:
        assert isinstance(each, Operator)
        assert each.strategy in able(each.spec, nvidia.ROWS[1])
    assert len({step.key for step in plan.operators()}) == len(found)
    assert bundle._read(json.loads(json.dumps(dataclasses.asdict(found[0])))) == found[0]
    assert {step.key for step in plan.operators(quick=True)} < {step.key for step in plan.operators()}


def test_a_quick_run_is_short() -> None:
    steps = [step for step in bundle._steps(quick=True) if step.quick]
    assert len({kernel for step in steps for kernel in step.kernels}) <= 20
    kinds = [step.kind for step in steps]
    assert (kinds.count("memcheck"), kinds.count("racecheck"), kinds.count("profile")) == (3, 3, 1)
    timed = [str(step.shape) for step in steps if step.kind == "time"]
    assert timed[:2] == ["4096x4096x4096", "8192x8192x8192"]
    assert sum(shape.startswith(("1x", "16x", "64x")) for shape in timed) == 3
    # The whole plan has the same layouts, and its own measurements.
    every = {step.key for step in plan.layouts()}
    assert {step.key for step in steps if step.kind == "layout"} <= every
    assert all(step.key.startswith("quick") for step in steps if step.kind == "time")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of two kernels."""
    if tool("ptxas") is None:
        pytest.skip("there is no ptxas")
    layout = next(step for step in plan.layouts() if step.kernels[0].strategy == "warpgroup")
    timed = bundle._timed("bf16", "nn", parse_shape("8192x8192x8192"), "")
    assert len(timed.kernels) == len(timed.predicted) > plan.RANKED
    assert (timed.predicted[0] or 0) <= 1.1 * min(filter(None, timed.predicted))
    wide = next(kernel for kernel in timed.kernels if dict(kernel.sizes) | _WIDE == dict(kernel.sizes))
    steps = [
        layout,
        Step("check", parse_shape("5x8x7"), layout.kernels),
        Step("time", parse_shape("64x64x64"), (wide,), (7.0,)),
    ]
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle, "_steps", lambda quick: iter(steps))
        assert bundle.make(folder) == []
    return folder


@pytest.fixture
def small(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which is made again of the same steps."""
    steps = bundle.read_steps(made)
    monkeypatch.setattr(bundle, "_steps", lambda quick: iter(steps))
    return shutil.copytree(made, tmp_path / "bundle")


class Made:
    """In place of a card: made-up outcomes, and a clock that each of them moves on."""

    facts = FACTS

    def __init__(self, seconds: float = 1, broken: Mapping[str, str] | None = None) -> None:
        self.now = 0.0
        self.seconds = seconds
        self.broken = broken or {}
        self.without: tuple[str, ...] = ()

    def clock(self) -> float:
        return self.now

    def run(self, step: Step, without: Iterable[str] = ()) -> dict[str, Any] | Broken:
        self.now += self.seconds
        self.without = tuple(without)
        if step.key in self.broken and self.broken[step.key] not in self.without:
            return Broken(self.broken[step.key], "gone")
        if step.kind != "time":
            about = {"kernel": step.kernels[0].key, "wrong": 0, "elements": 9, "right": True, "rel_error": 1e-3}
            return {**about, **self.facts}
        given = (("tilewright", 3.0), ("Triton", 2.0), ("cuBLASLt", 2.5))
        rates = {name: {"tflops": rate, "p20": rate, "p80": rate} for name, rate in given}
        first = step.kernels[0]
        about = {"types": first.types, "layout": first.layout, "epilogue": first.epilogue, "kernel": first.key}
        sizes = dict(first.sizes)
        model = {"sizes": sizes, "tflops": 2.5, "predicted_cycles": step.predicted[0]}
        tried = [model, {"sizes": {**sizes, "bm": 64, "cluster": 1}, "tflops": 3.0}]
        about |= {"sizes": tried[1]["sizes"], "tried": tried, "modeled": 2.5}
        return {**about, "rates": rates, "versions": {}, "failures": {}, **self.facts}


def test_a_bundle_holds_what_launches_take_and_a_run_goes_on_where_it_ended(small: Path) -> None:
    steps = bundle.read_steps(small)
    assert [step.kind for step in steps] == ["layout", "check", "time"]
    form = bundle.read_form(small, steps[2].kernels[0])
    assert bundle.read_code(small, steps[2].kernels[0]).startswith(b"\x7fELF")
    assert form.object.startswith(b"//\n// Generated by LLVM")
    assert len(form.boxes) == 3
    assert form.sizes.threads == 384
    times = {file: file.stat().st_mtime_ns for file in small.glob("*.cubin")}
    assert bundle.make(small) == []
    assert {file: file.stat().st_mtime_ns for file in small.glob("*.cubin")} == times

    told: list[str] = []
    first: Any = Made()
    records = measure.run(small, 2.5, lambda done, total, what: told.append(what), first.clock, first)
    assert [each["kind"] for each in records] == ["layout", "check"]
    assert len(told) == 2
    with (small / measure.RECORDS).open("a") as file:
        file.write('{"step": "cut o')
    assert len(measure.pending(steps, measure.read(small))) == 1
    second: Any = Made()
    (small / measure.RECORDS).write_text("\n".join(map(json.dumps, records)) + "\n")
    found = measure.run(small, None, clock=second.clock, bench=second, without=["Triton"])
    assert [each["kind"] for each in found][2:] == ["time"]
    assert (second.now, second.without) == (1, ("Triton",))

    text = page.markdown(measure.read(small), "a command")
    assert "with `a command`" in text
    peak = 10 * 100e6 * 4096 / 1e12
    sizes = "bm=64 bn=256 bk=64 stages=4 consumers=2 cluster=1 beside=1 split=1 band=8"
    assert f"| 64x64x64 | 3.0 | 3.0–3.0 | 1.50 | 1.20 | {3 / peak:.0%} | {sizes} |" in text
    assert "- Triton: geometric mean 1.50, worst 1.50, 1 shapes" in text
    assert "Driver: 0.0." in text
    assert f"| 64x64x64 | 2.5 | 3.0 | 0.83 | {2 * 64**3 / 2.5e12 * 100e6:.0f} | 7 |" in text
    assert page.failures(measure.read(small)) == []


def test_a_dress_rehearsal_with_a_fake_driver_and_no_torch(
    small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """From a folder carried elsewhere: layouts and checks are done, and what is to be timed says what is missing."""
    carried, folder = small.rename(small.with_name("carried")), fake_driver.made(tmp_path_factory)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}")
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    with pytest.raises(TargetError, match="no torch"):
        measure.run(carried, bench=Worker(carried, "fake_card_worker"))
    records = measure.read(carried)
    assert [(each["kind"], each["right"], each["card"]) for each in records] == [
        ("layout", True, "card of the tests 0"),
        ("check", True, "card of the tests 0"),
    ]


def test_a_step_under_a_tool_that_is_not_there_or_finds_something(
    small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    step = replace(bundle.read_steps(small)[0], kind="memcheck")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no compute-sanitizer" in tools.run(small, step)["skipped"]
    program = tmp_path / "compute-sanitizer"
    program.write_text('#!/bin/sh\necho "$@" | /usr/bin/head -c 60\nexit 9\n')
    program.chmod(0o755)
    found = tools.run(small, step)
    assert found["output"].startswith("--tool memcheck --error-exitcode 9")
    assert "ended with 9" in found["error"]
    assert "memcheck" in page.markdown([{"step": step.key, "kind": "memcheck", **found}], "c")


def test_a_kernel_is_made_again_only_by_an_edit_of_what_makes_it(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {file: file.read_bytes() for file in small.glob("*.cubin")}
    for name, needed in (("codegen/gpu/wgmma.py", True), ("torch/__init__.py", False), ("bench/card/plan.py", False)):
        files = versions._imported(bundle._COMPILER)
        assert (Path(versions.__file__).parents[1] / name in files) == needed
    # Another compiler that makes the same PTX leaves the machine code as it is.
    times = {file: file.stat().st_mtime_ns for file in made}
    monkeypatch.setattr(versions, "fingerprint_of", lambda module: "another")
    assert bundle.make(small) == []
    assert {file: file.stat().st_mtime_ns for file in made} == times
    assert all(json.loads(file.with_suffix(".json").read_text())["compiler"] == "another" for file in made)


def test_a_choice_that_ends_the_process_is_left_out_from_then_on(small: Path) -> None:
    steps = bundle.read_steps(small)
    layout, timed = steps[0], steps[2]
    runner: Any = Made(broken={layout.key: "itself", timed.key: "tilewright x"})
    records = measure.run(small, None, clock=runner.clock, bench=runner)
    assert [each["kind"] for each in records] == ["layout", "check", "broken", "time"]
    assert [each["error"] for each in records if "error" in each] == ["gone", "gone"]
    assert runner.without == ("tilewright x",)
    again: Any = Made()
    assert measure.run(small, None, clock=again.clock, bench=again) == records
    assert again.now == 0
    assert [line.partition(":")[0] for line in page.failures(records)] == [layout.key, "broken tilewright x"]
    mended: Any = Made()
    redone = measure.run(small, None, clock=mended.clock, bench=mended, again=True)
    assert [each["kind"] for each in redone if "error" not in each] == ["layout", "check", "time"]
    assert mended.now == 1
    plan_file = small / bundle.PLAN
    plan_file.write_text(plan_file.read_text().replace(layout.code, "another"))
    other: Any = Made()
    found = measure.run(small, None, clock=other.clock, bench=other)
    assert sorted(each["kind"] for each in found) == ["broken", "check", "layout", "time"]
    assert other.now == 2  # The layout's and the check's kernel is another one now.
    assert f"| tilewright x | {timed.key} | gone |" in page.markdown(records, "c")


def test_a_step_whose_every_choice_ends_the_process_does_not_keep_the_others(small: Path, tmp_path: Path) -> None:
    class Hopeless(Made):
        def run(self, step: Step, without: Iterable[str] = ()) -> dict[str, Any] | Broken:
            return Broken(f"choice {len(tuple(without))}", "gone") if step.kind == "time" else super().run(step)

    runner: Any = Hopeless()
    to = tmp_path / "more.jsonl"
    to.write_text('{"step": "cut o')
    with pytest.raises(TargetError, match="one after the other"):
        measure.run(small, None, clock=runner.clock, bench=runner, to=to)
    records = measure.read_file(to)
    assert [each["kind"] for each in records[:2]] == ["layout", "check"]
    assert {each["kind"] for each in records[2:]} == {"broken"}


def test_a_process_that_hangs_or_dies_is_begun_again(tmp_path: Path) -> None:
    step = next(plan.layouts())
    worker = Worker(tmp_path, "card_process", start_seconds=60, silent_seconds=5)
    try:
        for ending, text in (
            ("hang", "took more than 5 s"),
            ("die", "crashed with SIGKILL: its last words"),
            ("lose", "an error of the card"),
        ):
            assert worker.run(step, ["right"]) == {"right": True}
            broken = worker.run(step, [ending])
            assert isinstance(broken, Broken)
            assert broken.what == f"ours {ending}"
            assert text in broken.text
        (tmp_path / "refused").touch()
        with pytest.raises(TargetError, match="no card"):
            worker.run(step, ["right"])
    finally:
        worker.close()


def test_a_kernel_that_ends_the_compiler_does_not_keep_the_others(tmp_path: Path) -> None:
    kernels = {step.kernels[0].types: step.kernels[0] for step in plan.layouts() if step.kernels[0].strategy == "simt"}
    found = list(bundle.in_processes(tmp_path, [(each, False) for each in kernels.values()], card_process.compiled))
    assert len(found) == len(kernels)
    lines = {kernel.types: line for kernel, line in found if line}
    assert lines.pop("bf16") == "refused"
    assert {name: line.partition(": ")[2] for name, line in lines.items()} == dict.fromkeys(
        ("f16", "i8"), "the compiler's process crashed with SIGKILL"
    )


def test_bytes_around_a_matrix_tell_that_they_were_written() -> None:
    """On numpy's arrays, with what torch's tensors have besides."""

    class Tensor(np.ndarray):
        def element_size(self) -> int:
            return self.itemsize

        def fill_(self, value: int) -> None:
            self[...] = value

        def view(self, *given: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            return self.reshape(given) if isinstance(given[0], int) else super().view(*given)

    torch: Any = type("torch", (), {"uint8": np.uint8})
    torch.full = lambda shape, value, dtype, device: np.full(shape, value, dtype).view(Tensor)
    made = guarded(torch, 3, 5, np.dtype(np.float16))
    assert made.matrix.shape == (3, 5)
    assert made.matrix.strides[0] % 16 == 0
    assert np.isnan(made.matrix).all()
    made.matrix[...] = 1
    assert made.is_intact
    start, row = made.matrix.ctypes.data - made.memory.ctypes.data, made.matrix.strides[0]
    for place in (start - 1, start + 10, start + row - 1, start + 3 * row):
        made.memory[place] = 0
        assert not made.is_intact
        made.clear()
        assert made.is_intact


def test_verdicts() -> None:
    def timed(types: str, shape: str, ours: float, **peers: float) -> dict[str, Any]:
        rates = {name: {"tflops": rate} for name, rate in {"tilewright": ours, **peers}.items()}
        return {
            "step": shape,
            "kind": "time",
            "types": types,
            "layout": "nn",
            "epilogue": "",
            "shape": shape,
            "rates": rates,
        }

    records = [
        timed("bf16", "8192x8192x8192", 96, cuBLASLt=100, torch=90, Triton=200),
        timed("f16", "8192x8192x8192", 94, torch=100),
        timed("f16", "4096x4096x4096", 94, Triton=100),
        *({"step": step.key, "kind": "layout", "right": True} for step in plan.layouts()),
        {"step": next(plan.checks()).key, "kind": "check", "right": True},
    ]
    found = {row[0]: row[2:] for row in aims.verdicts(records)}
    assert found["bf16, 8192³"] == ("0.960", "met")
    assert found["f16, 8192³"] == ("0.940", "not met")
    assert found["f16, 4096³"] == ("nothing", "not measured")
    assert found["the emulator's bits, every kernel"][1] == "met"
    assert found["right on random data, every kernel"] == ("1 of 1", "not all measured")
    linear = [timed("bf16", f"1x{n}x4096", 97, cuBLASLt=100) | {"layout": "nt"} for n in (4096, 6144)]
    rows = {row[0]: row[2:] for row in aims.verdicts(linear)}
    assert rows["bf16, linear layers of language models, geometric mean"] == (
        "0.970, worst 0.970, 2 of 60 shapes",
        "met so far",
    )


def test_without_a_card_aims_are_estimated_by_the_model_and_marked_as_such() -> None:
    rows = {what: (wanted, text, verdict) for what, wanted, text, verdict in estimate.bars()}
    assert list(rows) == [aim.what for aim in aims.AIMS]
    timings = list(plan.timings())
    for each in estimate.records(timings):
        # The model predicts nothing that exceeds its own limit; a kernel behind a product lowers the peers' limit.
        ratio = estimate.SOURCE.ratio(each)
        assert ratio is not None
        # An H200 reached 0.34 of it at the least: f8E4M3FN, 1024³.
        assert 0.34 < ratio <= 1 or each["epilogue"]
    # By hand: 2048 products of 16 bits a cycle and multiprocessor, of 132.
    (record,) = estimate.records([("bf16", "nn", parse_shape("8192x8192x8192"), "")])
    assert record["rates"][estimate.LIMIT]["tflops"] == pytest.approx(2 * 2048 * 132 * CLOCK_GHZ * 1e-3)
    # Of one row, the weights' bytes count: 2623 a cycle.
    (record,) = estimate.records([("bf16", "nt", parse_shape("1x4096x4096"), "")])
    cycles = 2 * (4096 * 4096 + 2 * 4096) / 2623
    assert record["rates"][estimate.LIMIT]["tflops"] == pytest.approx(2 * 4096**2 / cycles * CLOCK_GHZ * 1e-3)
    for wanted, text, verdict in rows.values():
        reached = float(text.partition(",")[0])
        assert verdict == "open" or reached >= float(wanted.split()[1])
    text = page.markdown([], "c", estimate.bars())
    assert "Estimates, not measured" in text
    assert "warpgroup_time.py" in text
    # Where there is a measured ratio, there is no estimate.
    rates = {"tilewright": {"tflops": 1.0}, "torch": {"tflops": 1.0}}
    timed: dict[str, Any] = {"step": "s", "kind": "time", "types": "bf16", "rates": rates}
    assert aims.is_measured([timed])
    assert not aims.is_measured([{**timed, "rates": {"tilewright": {"tflops": 1.0}}}])


def test_what_is_wrong_is_said() -> None:
    wrong = {
        "step": "check x",
        "kind": "check",
        "shape": "1x1x1",
        "right": False,
        "wrong": 2,
        "elements": 9,
        "kernel": "x",
        "where": [[3, 4, 5.0, 6.5]],
    }
    broken = {"step": "time y", "kind": "time", "shape": "1x1x1", "error": "no"}
    assert page.failures([wrong, broken]) == ["check x: 2 of 9 elements are wrong: (3, 4) is 5, not 6.5", "time y: no"]
    assert "| x | 1x1x1 | 2 |" in page.markdown([wrong, broken], "c")


def test_without_a_bundle_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TilewrightError, match="no bundle"):
        bundle.read_steps(tmp_path)
    assert main([str(tmp_path)]) == 2
    assert "bench card" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--without", "a peer"])
    assert "invalid choice: 'a peer'" in capsys.readouterr().err
    (tmp_path / bundle.PLAN).write_text('{"version": "another", "steps": []}')
    with pytest.raises(TilewrightError, match="another"):
        bundle.read_steps(tmp_path)


def test_the_command(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a card")
    (small / measure.RECORDS).write_text(json.dumps({"step": "s", "kind": "check", "shape": "1x1x1", **FACTS}) + "\n")
    status = tilewright(["bench", "card", str(small), "--report", str(small / "card.md")])
    said = capsys.readouterr()
    assert status == 0, said.err
    assert "python -m tilewright.bench.card" in " ".join(said.out.split())
    assert "a made-up card" in (small / "card.md").read_text()
    assert "Estimates, not measured" in (small / "card.md").read_text()
    assert said.out.count("by the model: ") == len(aims.AIMS)
    assert tilewright(["bench", "card", str(small), "--threads", "2"]) == 2
    assert "No such option" in capsys.readouterr().err


def test_samples_and_sets() -> None:
    assert timing.sets(1 << 30, 60 << 20) == 2
    assert timing.sets(1 << 20, 60 << 20) == 64
    assert timing.launches(1e-3, 2) == 4
    assert timing.launches(1.0, 3) == 3
    seconds = timing.in_turn({"a": lambda: 1.0, "b": lambda: 2.0}, 7)
    assert timing.summary(seconds["b"], 4 * 10**12) == {"tflops": 2.0, "p20": 2.0, "p80": 2.0}


def test_what_torch_is_called_with() -> None:
    """It is a fake that notes its calls."""
    calls: list[str] = []

    class Library:
        __version__ = "0"
        version = type("version", (), {"cuda": "0"})

        def __getattr__(self, name: str) -> Any:
            def note(*operands: object, **given: Any) -> str:
                calls.append(name)
                return name

            return note

    library: Any = Library()
    library.ops = type("ops", (), {"aten": type("aten", (), {"gelu": type("gelu", (), {"out": library.gelu})})})
    matrix: Any = type("Matrix", (), {"dtype": "bf16", "device": "cuda"})()
    plain, fused = peers.Operands(matrix, matrix, matrix), peers.Operands(matrix, matrix, matrix, matrix, matrix)
    for types, given, called in (
        ("bf16", plain, ["mm"]),
        ("i8", plain, ["_int_mm"]),
        ("f8E4M3FN", plain, ["ones", "_scaled_mm"]),
        ("bf16", fused, ["addmm", "gelu"]),
    ):
        calls.clear()
        ways = peers.Peers(library, 4).choices("torch", types, given)
        ways[""](given)()
        assert calls == called
    assert peers.Peers(library, 4).versions()["torch"] == "0, CUDA 0"


def test_products_by_cublaslt(tmp_path: Path) -> None:
    """On a fake of the library, which takes what it is told literally."""
    compiler = shutil.which("cc") or shutil.which("clang-22")
    if compiler is None:
        pytest.skip("there is no C compiler for the fake library")
    source, made = Path(__file__).parent.parent / "emulators" / "cublaslt.c", tmp_path / "libcublasLt.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", made, source, "-lm"], check=True)
    library, random = CublasLt(str(made), 0), np.random.default_rng(0)

    def seen(array: np.ndarray) -> Matrix:
        (rows, columns), (down, right) = array.shape, (each // array.itemsize for each in array.strides)
        return Matrix(array.ctypes.data, rows, columns, (down, right), array.dtype.name)

    for kind, result in ((np.float32, np.float32), (np.int8, np.int32), (ml_dtypes.bfloat16, ml_dtypes.bfloat16)):
        for m, n, k, along in ((5, 7, 3, False), (5, 7, 3, True), (1, 4, 6, True), (6, 1, 2, False), (6, 1, 2, True)):
            a, b = (random.integers(-5, 6, shape).astype(kind) for shape in ((m, k), (k, n)))
            b = np.ascontiguousarray(b.T).T if along else b
            c, bias = np.empty((m, n + 4), result)[:, :n], random.integers(-3, 4, n).astype(result)
            wanted = a.astype(float) @ b.astype(float)
            products = library.products(seen(a), seen(b), seen(c))
            assert len(products) == 2
            for multiply in products:
                c[...] = 99
                multiply(seen(a), seen(b), seen(c), 0, 0)
                assert (c.astype(float) == wanted).all()
            if result != np.int32:
                first, *_ = library.products(seen(a), seen(b), seen(c), "bias", bias.ctypes.data, bias.dtype.name)
                first(seen(a), seen(b), seen(c), bias.ctypes.data, 0)
                assert (c.astype(float) == wanted + bias.astype(float)).all()
    one = np.ones((2, 2), np.float16)
    with pytest.raises(RuntimeError, match="status 15"):
        library.products(seen(one), seen(one), seen(one))


def test_what_triton_tries() -> None:
    every = list(triton_peer.every())
    assert {name for name, _, _ in every} == set(plan.TIMED)
    assert len({(name, layout, str(sizes)) for name, layout, sizes in every}) == len(every)
    assert all(sizes.bm <= plan.FEW for sizes in triton_peer.tried(plan.FEW))


def test_the_half_on_the_cards_machine_takes_nothing_that_was_built() -> None:
    code = (
        "import sys, tilewright.bench.card.__main__, tilewright.bench.card.on_card, tilewright.bench.card.tools;"
        "built = ('tilewright.mlir', 'tilewright._runtime', 'tilewright._codegen', 'tilewright.standalone._native');"
        "sys.exit(' '.join(name for name in sys.modules if name.startswith(built)) or 0)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
