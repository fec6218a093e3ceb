# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``bench --card``: the plan, a bundle, what is left of a run, and the page. Every rate in here is made up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tilewright.bench.card import bundle, measure, page, peers, plan, timing
from tilewright.bench.card.__main__ import main
from tilewright.bench.card.plan import Step
from tilewright.bench.suites import parse_shape
from tilewright.cli import main as tilewright
from tilewright.emit.gpu import tool
from tilewright.errors import TilewrightError

FACTS = {"date": "1970-01-01T00:00:00+00:00", "card": "a made-up card", "driver_version": "0.0", "clocks.sm": "1 MHz"}


def test_the_plan_has_every_strategy_with_every_type_and_all_that_is_timed() -> None:
    checked = {(step.kernels[0].strategy, step.kernels[0].types) for step in plan.checks()}
    compared = {(step.kernels[0].strategy, step.kernels[0].types) for step in plan.layouts()}
    assert checked == compared
    assert {name for strategy, name in checked if strategy == "warpgroup"} >= set(plan.TIMED)
    timed = list(plan.timings())
    assert [str(shape) for name, _, shape, _ in timed if name == "bf16"][:2] == ["8192x8192x8192", "4096x4096x4096"]
    assert {shape.m for _, layout, shape, _ in timed if layout == "nt"} >= {1, 8, 512, 8192}
    for name, layout, shape, epilogue in timed[:10]:
        assert plan.spec_of(name, layout, epilogue, shape).layout == layout


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle of two kernels."""
    if tool("ptxas") is None:
        pytest.skip("there is no ptxas")
    layout = next(step for step in plan.layouts() if step.kernels[0].strategy == "warpgroup")
    model = bundle._chosen("bf16", "nn", "", parse_shape("8192x8192x8192"), {})
    assert model is not None
    steps = [
        layout,
        Step("check", parse_shape("5x8x7"), layout.kernels),
        Step("time", parse_shape("64x64x64"), (model,)),
    ]
    monkeypatch.setattr(bundle, "_steps", lambda: iter(steps))
    assert bundle.make(tmp_path / "bundle") == []
    return tmp_path / "bundle"


class Made:
    """In place of a card: made-up outcomes, and a clock that each of them moves on."""

    facts = FACTS

    def __init__(self, seconds: float = 1) -> None:
        self.now = 0.0
        self.seconds = seconds

    def clock(self) -> float:
        return self.now

    def run(self, step: Step) -> dict[str, Any]:
        self.now += self.seconds
        if step.kind != "time":
            return {"kernel": step.kernels[0].key, "wrong": 0, "elements": 9, "right": True, "rel_error": 1e-3}
        rates = {
            name: {"tflops": rate, "p20": rate, "p80": rate} for name, rate in (("tilewright", 3.0), ("Triton", 2.0))
        }
        first = step.kernels[0]
        about = {"types": first.types, "layout": first.layout, "epilogue": first.epilogue, "kernel": first.key}
        return {**about, "rates": rates, "sizes": dict(first.sizes), "modelled": 2.5, "versions": {}, "failures": {}}


def test_a_bundle_holds_what_launches_take_and_a_run_goes_on_where_it_ended(small: Path) -> None:
    steps = bundle.read_steps(small)
    assert [step.kind for step in steps] == ["layout", "check", "time"]
    form = bundle.read_form(small, steps[2].kernels[0])
    assert form.cubin.startswith(b"\x7fELF")
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
    assert [each["kind"] for each in measure.run(small, None, clock=second.clock, bench=second)][2:] == ["time"]
    assert second.now == 1

    text = page.markdown(measure.read(small), "a command")
    assert "with `a command`" in text
    assert "| 64x64x64 | 3.0 | 3.0–3.0 | 1.50 | 2.5 |" in text
    assert "- Triton: geometric mean 1.50, worst 1.50, 1 shapes" in text
    assert "Driver: 0.0." in text
    assert page.failures(measure.read(small)) == []


def test_what_is_wrong_is_said() -> None:
    wrong = {
        "step": "check x",
        "kind": "check",
        "shape": "1x1x1",
        "right": False,
        "wrong": 2,
        "elements": 9,
        "kernel": "x",
    }
    broken = {"step": "time y", "kind": "time", "shape": "1x1x1", "error": "no"}
    assert page.failures([wrong, broken]) == ["check x: 2 of 9 elements are wrong", "time y: no"]
    assert "| x | 1x1x1 | 2 |" in page.markdown([wrong, broken], "c")


def test_without_a_bundle_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TilewrightError, match="no bundle"):
        bundle.read_steps(tmp_path)
    assert main([str(tmp_path)]) == 2
    assert "bench --card" in capsys.readouterr().err
    (tmp_path / bundle.PLAN).write_text('{"version": "another", "steps": []}')
    with pytest.raises(TilewrightError, match="another"):
        bundle.read_steps(tmp_path)


def test_the_command(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a card")
    (small / measure.RECORDS).write_text(json.dumps({"step": "s", "kind": "check", "shape": "1x1x1", **FACTS}) + "\n")
    status = tilewright(["bench", "--card", str(small), "--report", str(small / "card.md")])
    said = capsys.readouterr()
    assert status == 0, said.err
    assert "python -m tilewright.bench.card" in " ".join(said.out.split())
    assert "a made-up card" in (small / "card.md").read_text()
    assert tilewright(["bench", "--card", str(small), "--threads", "2"]) == 2
    assert tilewright(["bench", "--budget", "3"]) == 2
    assert "--card" in capsys.readouterr().err


def test_samples_and_sets() -> None:
    assert timing.sets(1 << 30, 60 << 20) == 2
    assert timing.sets(1 << 20, 60 << 20) == 64
    assert timing.launches(1e-3, 2) == 4
    assert timing.launches(1.0, 3) == 3
    seconds = timing.in_turn({"a": lambda: 1.0, "b": lambda: 2.0}, 7)
    assert timing.summary(seconds["b"], 4 * 10**12) == {"tflops": 2.0, "p20": 2.0, "p80": 2.0}


def test_what_peers_are_called_with() -> None:
    """Their library is a fake that notes its calls."""
    calls: list[tuple[str, dict[str, Any]]] = []

    class Library:
        __version__ = "0"
        version = type("version", (), {"cuda": "0"})

        def __getattr__(self, name: str) -> Any:
            def note(*operands: object, **given: Any) -> str:
                calls.append((name, given))
                return name

            return note

    library: Any = Library()
    library.nn = type("nn", (), {"functional": library})
    matrix: Any = type("Matrix", (), {"dtype": "bf16", "device": "cuda", "t": lambda self: self})()
    plain, fused = peers.Operands(matrix, matrix, matrix), peers.Operands(matrix, matrix, matrix, matrix)
    for types, given, called in (
        ("bf16", plain, ["mm"]),
        ("i8", plain, ["_int_mm"]),
        ("f8E4M3FN", plain, ["ones", "_scaled_mm"]),
        ("bf16", fused, ["linear", "gelu"]),
    ):
        calls.clear()
        peers.cublaslt(library, types, given)()
        assert [name for name, _ in calls] == called
    assert peers.versions(library)["cuBLASLt"] == "of torch 0, CUDA 0"


def test_the_half_on_the_cards_machine_takes_nothing_that_was_built() -> None:
    code = (
        "import sys, tilewright.bench.card.__main__, tilewright.runtime.cards;"
        "built = ('tilewright.mlir', 'tilewright._runtime', 'tilewright._codegen', 'tilewright.lowering');"
        "sys.exit(' '.join(name for name in sys.modules if name.startswith(built)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
