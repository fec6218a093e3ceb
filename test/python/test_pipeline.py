# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One list of named stages a family: it is what runs, what is printed, and what is dumped."""

import json
import re
from pathlib import Path

import pytest
import tilewright as tw
from click.testing import CliRunner
from tilewright.cli.app import command
from tilewright.emit import pipeline
from tilewright.emit.pipeline import Record
from tilewright.errors import LoweringError, TilewrightError

SPEC = tw.MatmulSpec(m=13, n=17, k=9)


class Counted:
    """Stages that count their calls."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, stage):
        return lambda: self.calls.append(stage) or (b"code" if stage == "obj" else stage)


@pytest.mark.parametrize("until", pipeline.FAMILIES["cpu"])
def test_stages_run_in_order_up_to_the_one_wanted(until):
    counted, record, started = Counted(), Record(), []
    pipeline.run(counted, "cpu", until=until, record=record, title="x", started=started.append)
    expected = [*pipeline.FAMILIES["cpu"][: pipeline.FAMILIES["cpu"].index(until) + 1]]
    if until == "obj":
        expected.remove("asm")
    assert counted.calls == started == list(record.seconds) == expected
    assert list(record.texts) == [each for each in expected if each != "obj"]
    assert record.object == (b"code" if until == "obj" else b"")


def test_an_unknown_stage():
    with pytest.raises(LoweringError, match=r"unknown stage 'ptx'; expected one of payload, .*obj"):
        pipeline.run(Counted(), "cpu", until="ptx", record=Record(), title="x")


@pytest.mark.parametrize(
    ("target", "family"), [("x86-64-v3", "cpu"), ("sm_90a", "nvidia"), ("gfx942", "amd"), ("vulkan", "vulkan")]
)
def test_the_verb_prints_what_a_kernel_has(target, family):
    done = CliRunner().invoke(command, ["stages", "--target", target, "--json"])
    rows = json.loads(done.output)
    assert [row["name"] for row in rows[family]] == list(pipeline.FAMILIES[family])
    printed = CliRunner().invoke(command, ["stages", "--target", target]).output
    assert re.findall(r"^  (\w+) ", printed, re.MULTILINE) == list(pipeline.FAMILIES[family])
    machine = tw.targets.gpu(target).emulated() if family == "nvidia" else target
    kernel = tw.compile(SPEC, target=machine, cache=False)
    texts = [stage for stage in pipeline.FAMILIES[family] if stage != "obj"]
    assert list(kernel.asm) == texts


def test_every_stage_has_words_and_a_family():
    named = {stage for stages in pipeline.FAMILIES.values() for stage in stages}
    assert named == set(pipeline.WHAT)


def test_the_verb_with_an_unknown_target():
    done = CliRunner().invoke(command, ["stages", "--target", "pdp-11"])
    assert isinstance(done.exception, TilewrightError)
    assert "pdp-11" in str(done.exception)


def test_a_dump_has_every_stage_and_the_passes(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_DUMP", str(tmp_path / "dump"))
    kernels = [tw.compile(SPEC, target="x86-64-v3", cache=False) for _ in range(2)]
    first, second = sorted((tmp_path / "dump").iterdir())
    assert second.name == f"{first.name}-1"
    passes = (first / "passes.txt").read_text()
    assert passes.startswith("bufferized: builtin.module(")
    assert "loop-vectorize" in passes
    assert "loop-load-elim" not in passes
    stages = sorted(path.name for path in first.iterdir() if path.is_file() and path.name != "passes.txt")
    assert [re.sub(r"^\d+-|\..*", "", name) for name in stages] == list(kernels[0].metadata.seconds)
    bufferized = next(first.glob("*-bufferized.mlir")).read_text()
    assert bufferized == kernels[0].asm["bufferized"]
    steps = [path.relative_to(first / "passes") for path in (first / "passes").rglob("*.mlir")]
    for stage, step in [("scheduled", "structured.tile_using_for"), ("llvm", "canonicalize")]:
        assert any(re.fullmatch(rf"\d+-{stage}", path.parts[0]) and step in path.name for path in steps)
    (llvm,) = (first / "passes").glob("*-llvmir")
    numbered = sorted(path.name for path in llvm.glob("*.ll"))
    assert {"sroa", "instcombine", "slp-vectorizer"} & {re.sub(r"^\d+_|\.ll$", "", name) for name in numbered}
    assert all("define" in (llvm / name).read_text() for name in numbered)


def test_a_dump_to_a_file_is_refused(tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("mine")
    monkeypatch.setenv("TILEWRIGHT_DUMP", str(tmp_path / "taken"))
    with pytest.raises(TilewrightError, match="TILEWRIGHT_DUMP"):
        tw.compile(SPEC, target="x86-64-v3", cache=False)
    assert Path(tmp_path / "taken").read_text() == "mine"


def test_times_of_passes(monkeypatch, capfd):
    monkeypatch.setenv("TILEWRIGHT_TIME_PASSES", "1")
    tw.compile(SPEC, target="x86-64-v3", cache=False)
    printed = capfd.readouterr().err
    for title in ("transform ops, stage scheduled", "MLIR's passes, stage llvm", "LLVM's passes, stage llvmir"):
        assert re.search(rf"{title}: \d+\.\d+ s\n +\d+\.\d+ \( *\d+\.\d%\)  [\w.-]+\n", printed)


def test_the_options_hold_for_one_call(tmp_path, monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_DUMP", raising=False)
    monkeypatch.delenv("TILEWRIGHT_TIME_PASSES", raising=False)
    arguments = ["compile", "--shape", "13x17x9", "--target", "x86-64-v3", "-o", str(tmp_path / "k.o")]
    done = CliRunner().invoke(command, [*arguments, "--dump-dir", str(tmp_path / "dump"), "--time-passes"])
    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "dump").iterdir())) == 1
    assert "MLIR's passes, stage llvm" in done.stderr
    again = CliRunner().invoke(command, arguments)
    assert again.exit_code == 0
    assert len(list((tmp_path / "dump").iterdir())) == 1
    assert again.stderr == ""
