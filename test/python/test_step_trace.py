# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A trace has every transform op and every pass of a compilation, with the IR before and after, and changes nothing by looking."""

import json
from itertools import pairwise
from unittest.mock import Mock

import pytest
import tilewright as tw
from click.testing import CliRunner
from tilewright import knobs
from tilewright.cli.app import command
from tilewright.errors import SpecError, TilewrightError
from tilewright.lowering import pass_list
from tilewright.runtime.foreign import ForeignKernel
from tilewright.runtime.kernel import About

SPEC = tw.MatmulSpec(m=13, n=17, k=9)
OWN = """
from tilewright.schedules import steps


def schedule(spec, target, sizes):
    with steps.script() as script:
        matmul = steps.match(script.root, "linalg.matmul")
        tile, _ = steps.tile(matmul, [4, 16, 0])
        {last}
    return script.module
"""


@pytest.fixture(scope="module")
def kernel():
    return tw.compile(SPEC, target="x86-64-v3", cache=False)


@pytest.fixture(scope="module")
def trace(kernel):
    return kernel.trace()


def test_the_steps_of_a_stage_lead_from_one_stage_to_the_next(kernel, trace):
    scheduled = [step for step in trace.steps if step.stage == "scheduled"]
    assert scheduled[0].before.strip() == kernel.asm["payload"].strip()
    assert scheduled[-1].after.strip() == kernel.asm["scheduled"].strip()
    assert all(step.after == following.before for step, following in pairwise(scheduled))
    last = [step for step in trace.steps if step.stage == "llvmir"][-1]
    assert last.after.split("\n", 1)[1] == kernel.asm["llvmir"].split("\n", 1)[1]
    assert [step.number for step in trace.steps] == list(range(1, len(trace.steps) + 1))
    assert {step.kind for step in trace.steps} == {"transform ops", "MLIR's passes", "LLVM's passes"}
    assert {"loop-unroll", "loop-load-elim"} & {step.name for step in trace.steps} == {"loop-unroll"}


def test_a_transform_op_says_where_it_stands_and_what_its_handles_hold(trace):
    tiling = next(step for step in trace.steps if step.name == "structured.tile_using_for")
    assert tiling.source.startswith("tilewright/schedules/cpu/")
    assert tiling.changed
    (tiled,), (loop,) = tiling.handles
    assert "linalg.matmul" in tiled
    assert "scf.for" in loop
    assert tiling.before.count("scf.for") + 1 == tiling.after.count("scf.for")


@pytest.mark.parametrize(
    "spec",
    [
        SPEC,
        tw.MatmulSpec(m=None, n=32, k=24, epilogue=(tw.bias("n"), tw.relu())),
        tw.AttentionSpec(queries=16, keys=32, head=16, heads=2),
    ],
    ids=str,
)
def test_looking_changes_nothing(spec, tmp_path):
    plain = tw.compile(spec, target="x86-64-v3", cache=False)
    with knobs.overridden(TILEWRIGHT_DUMP=str(tmp_path / "dump")):
        watched = tw.compile(spec, target="x86-64-v3", cache=False)
    assert watched.asm["asm"] == plain.asm["asm"]


def test_a_kernel_is_traced_under_its_own_schedule(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN.format(last="steps.tile(tile, [0, 0, 1])"))
    own = tw.compile(tw.MatmulSpec(m=16, n=32, k=8), target="x86-64-v3", schedule=str(file), cache=False)
    ops = [step for step in tw.trace(own).steps if step.stage == "scheduled"]
    assert [step.name for step in ops] == [*["structured.match"] * 2, *["structured.tile_using_for"] * 2]
    assert [step.source for step in ops] == [f"{file}:{line}" for line in (6, 7, 8, 9)]


def test_a_schedule_that_fails_is_traced_up_to_the_failure(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN.format(last="steps.tile(matmul, [4, 16, 0])"))
    found = tw.trace(tw.MatmulSpec(m=16, n=32, k=8), target="x86-64-v3", schedule=str(file))
    assert [step.name for step in found.steps] == [*["structured.match"] * 2, "structured.tile_using_for"]
    assert f"{file}:9" in found.error
    assert "tile_using_for" in found.error


def test_a_gpu_kernel_is_traced():
    found = tw.trace(SPEC, target=tw.targets.gpu("sm_90a").emulated())
    assert not found.error
    stages = list(dict.fromkeys(step.stage for step in found.steps))
    assert stages.index("scheduled") < stages.index("nvvm") < stages.index("llvmir")


def test_a_file_keeps_equal_texts_once(trace, tmp_path):
    trace.write(tmp_path / "k.trace")
    assert tw.Trace.read(tmp_path / "k.trace") == trace
    assert (tmp_path / "k.trace").stat().st_size * 20 < sum(len(step.after) for step in trace.steps)


def test_a_file_that_is_no_trace(tmp_path):
    (tmp_path / "k.trace").write_bytes(b"no trace")
    with pytest.raises(TilewrightError, match=r"k\.trace: no trace"):
        tw.Trace.read(tmp_path / "k.trace")
    with pytest.raises(TilewrightError, match="cannot read it"):
        tw.Trace.read(tmp_path / "absent.trace")


def test_times_for_perfetto(trace):
    events = json.loads(trace.perfetto())["traceEvents"]
    assert [event["name"] for event in events] == [step.name for step in trace.steps]
    assert all(event["ph"] == "X" and event["dur"] >= 0 for event in events)
    assert all(event["ts"] + event["dur"] <= following["ts"] + 1e-6 for event, following in pairwise(events))


def test_modules_and_kernels_from_the_cache_are_traced(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    text = """func.func @f(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %c: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %0 = linalg.matmul ins(%a, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>
      return %0 : tensor<4x4xf32>
    }"""
    for compiled in (lambda: tw.compile_module(text, target="x86-64-v3"), lambda: tw.compile(SPEC, target="x86-64-v3")):
        compiled()
        again = compiled()
        assert again.metadata.cached
        assert "scheduled" in {step.stage for step in again.trace().steps}


def test_a_kernel_of_a_file_is_not_traced():
    kernel = ForeignKernel(About(SPEC, None, Mock(threads=1), {}), Mock())
    with pytest.raises(SpecError, match=r"trace: .* was not compiled by"):
        kernel.trace()


def test_the_verb(tmp_path):
    file = str(tmp_path / "k.trace")
    arguments = ["trace", "--shape", "13x17x9", "--target", "x86-64-v3"]
    done = CliRunner().invoke(command, [*arguments, "-o", file, "--perfetto", str(tmp_path / "k.json")])
    assert done.exit_code == 0, done.output
    assert "structured.tile_using_for" in done.output
    assert json.loads((tmp_path / "k.json").read_text())["traceEvents"]
    assert CliRunner().invoke(command, ["trace", file]).output == done.output
    number = next(line.split()[0] for line in done.output.splitlines() if "structured.tile_using_for" in line)
    step = CliRunner().invoke(command, ["trace", file, "--step", number]).output
    assert "result 1 holds 1:" in step
    assert "\n+" in step


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{file}", "--target", "x86-64-v3"], "both {file} and --target given"),
        (["{file}", "--step", "100000"], "expected a number up to"),
        (["--shape", "4x4x4", "-o", "k.txt"], "expected a name that ends with .trace"),
    ],
)
def test_the_verb_used_badly(trace, tmp_path, arguments, message):
    file = str(tmp_path / "k.trace")
    trace.write(file)
    done = CliRunner().invoke(command, ["trace", *(each.format(file=file) for each in arguments)])
    assert done.exit_code == 2
    assert message.format(file=file) in done.output


@pytest.mark.parametrize(
    ("pipeline", "passes"),
    [
        ("cse", [("cse", "cse")]),
        (
            "builtin.module(a, func.func(b{x=1,2 y={z}}, c), d{e=f})",
            [
                ("a", "builtin.module(a)"),
                ("b", "builtin.module(func.func(b{x=1,2 y={z}}))"),
                ("c", "builtin.module(func.func(c))"),
                ("d", "builtin.module(d{e=f})"),
            ],
        ),
    ],
)
def test_a_pipeline_is_taken_apart(pipeline, passes):
    assert list(pass_list.one_by_one(pipeline)) == passes
