# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bisecting names the transform op that was planted, in few runs."""

import csv
import itertools
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest
import tilewright as tw
from click.testing import CliRunner
from tilewright import knobs
from tilewright.cli.app import command
from tilewright.cli.bisect import read_once
from tilewright.emit import hotloop
from tilewright.errors import LoweringError, ScheduleError, SpecError
from tilewright.knobs import REQUIRED
from tilewright.lowering import hybrid_passes, pass_list
from tilewright.lowering.pass_list import Line
from tilewright.runtime import reduction
from tilewright.schedules import hybrid, select
from tilewright.schedules.gpu_strategies import GPU_STRATEGIES

SPEC = tw.MatmulSpec(m=8, n=32, k=10)
TARGET = "x86-64-v3"
TABLE = Path(__file__).parents[2] / "docs/reference/results/bisect.csv"
SIDES = ("good", "bad")
TOOLS = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
SQUARE = tw.MatmulSpec(m=2, n=2, k=2)
# A pass that computes B·A.
SWAP = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.consumed}) {
    %0, %1 = transform.func.replace_func_signature @matmul args_interchange = [1, 0, 2] results_interchange = []
      at %module : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
}
"""
WRONG = """
from tilewright.mlir import ir
from tilewright.mlir.dialects.transform import structured
from tilewright.schedules import steps


def schedule(spec, target, sizes):
    with steps.script() as script:
        matmul = steps.match(script.root, "linalg.matmul")
        tile, _ = steps.tile(matmul, [4, 0, 0])
        tile, _ = steps.tile(tile, [0, 16, 0])
        ones = [ir.FloatAttr.get(ir.F32Type.get(), value) for value in (1, 1, 0)]
        structured.PadOp(tile, pad_to_multiple_of=[7], padding_values=ones, padding_dimensions=[2])
        steps.tile(steps.match(script.root, "linalg.matmul"), [0, 0, 1])
    return script.module
"""


@pytest.fixture(scope="module")
def good():
    return tw.compile(SPEC, target=TARGET, schedule="unpacked").asm["schedule"]


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    file = tmp_path_factory.mktemp("wrong") / "wrong.py"
    file.write_text(WRONG)
    return str(file)


def written(path, text):
    path.write_text(text)
    return str(path)


def test_the_step_with_wrong_numbers_is_named(wrong, tmp_path):
    done = CliRunner().invoke(
        command,
        ["bisect", "--shape", "1x1x2", "--target", TARGET, "--schedule", wrong, "-o", str(tmp_path / "found")],
    )
    assert done.exit_code == 0, done.output
    assert "structured.pad" in done.output
    assert "off by" in done.output
    runs, count = (int(re.findall(pattern, done.output)[0]) for pattern in (r"(\d+) runs", r"of (\d+), found"))
    assert runs <= math.ceil(math.log2(count)) + 2
    bad, good = ((tmp_path / "found" / name).read_text() for name in ("bad.mlir", "good.mlir"))
    assert "structured.pad" in bad
    assert "structured.pad" not in good
    assert "tilewright run --shape 1x1x1" in (tmp_path / "found" / "README.txt").read_text()


def test_a_step_that_fails_is_named(good, tmp_path):
    # The tile took the place of the product long before.
    product = good.split(' = transform.structured.match ops{["linalg.matmul"]}')[0].split()[-1]
    late = f"    %mine, %loop = transform.structured.tile_using_for {product} tile_sizes [1, 0, 0]"
    failing = good.replace(
        "    transform.apply_licm",
        f"{late} : (!transform.any_op) -> (!transform.any_op, !transform.any_op)\n    transform.apply_licm",
        1,
    )
    blame = tw.bisect(SPEC, written(tmp_path / "failing.mlir", failing), TARGET)
    assert f"tile_using_for {product} tile_sizes [1, 0, 0]" in blame.op
    assert "handle invalidated" in blame.reason
    blame.write(tmp_path / "found")
    reduced = (tmp_path / "found" / "reduced.mlir").read_text()
    assert "linalg.matmul" in reduced
    assert len(reduced.splitlines()) <= len((tmp_path / "found" / "case.mlir").read_text().splitlines())
    assert interesting(tmp_path / "found", reduced)
    assert not interesting(tmp_path / "found", "module {}")
    assert blame.runs <= math.ceil(math.log2(blame.count)) + 2


def interesting(folder, text):
    file = folder / "tried.mlir"
    file.write_text(text)
    tools = TOOLS | {"PATH": f"{Path(tw.__file__).parent / 'bin'}:{TOOLS['PATH']}"}
    return subprocess.run([folder / "interesting.sh", file], env=tools).returncode == 1


def test_ir_is_reduced_to_what_fails(tmp_path):
    match = "transform.structured.match ops{['linalg.copy']} in %module : (!transform.any_op) -> !transform.any_op"
    body = f"%0 = {match}\ntransform.structured.vectorize %0 : !transform.any_op\ntransform.yield".replace("'", '"')
    main = "transform.named_sequence @__transform_main(%module: !transform.any_op {transform.readonly})"
    schedule = f"module attributes {{transform.with_named_sequence}} {{ {main} {{ {body} }} }}"
    kind = "tensor<?xf32>"
    functions = "".join(
        f"func.func @{name}(%a: {kind}, %b: {kind}) -> {kind} {{"
        f"%0 = linalg.{op} ins(%a : {kind}) outs(%b : {kind}) -> {kind}\nreturn %0 : {kind} }}"
        for name, op in (("fine", "exp"), ("fails", "copy"), ("fine_too", "abs"))
    )
    options = '"--transform-preload-library=transform-library-paths=$here/bad.mlir" --transform-interpreter'
    files = reduction.reduced(functions, options, {"bad.mlir": schedule})
    assert "@fails" in files["reduced.mlir"]
    assert "@fine" not in files["reduced.mlir"]
    assert reduction.reduced("module {}", options, {"bad.mlir": schedule}) == {}


def test_of_two_schedules_the_difference_is_named(good, tmp_path):
    changed = good.replace('knob<"nr"> = 16', 'knob<"nr"> = 8')
    assert changed != good
    match = '    %mine = transform.structured.match ops{["scf.for"]} in %0 : (!transform.any_op) -> !transform.any_op\n'
    changed = changed.replace("    transform.apply_licm", f"{match}    transform.apply_licm", 1)
    blame = tw.bisect(
        SPEC,
        written(tmp_path / "bad.mlir", changed),
        TARGET,
        good=written(tmp_path / "good.mlir", good),
        is_bad=lambda kernel: "step %c8 " in kernel.asm["scheduled"],
    )
    assert (blame.number, blame.count) == (1, 2)
    assert re.match(r'- .*knob<"nr"> = 16.*\n\+ .*knob<"nr"> = 8', blame.op)
    assert 'knob<"nr"> = 8' in blame.bad
    assert "%mine" not in blame.good


def test_a_claim_about_the_assembly_is_looked_for(good, tmp_path):
    changed = written(tmp_path / "bad.mlir", good.replace('knob<"nr"> = 16', 'knob<"nr"> = 8'))
    shape = ["bisect", "--shape", "8x32x10", "--target", TARGET, "--schedule", changed]
    kernel = tw.compile(SPEC, target=TARGET, schedule="unpacked")
    loop = hotloop.hottest(kernel.asm["asm"])
    assert loop is not None
    claim = ["--good", written(tmp_path / "good.mlir", good), "--asm", f"fma >= {loop.fma}"]
    done = CliRunner().invoke(command, [*shape, *claim])
    assert done.exit_code == 0, done.output
    assert '+ %2 = transform.tune.knob<"nr"> = 8' in done.output


def test_names_of_values_are_no_difference(good):
    text = hybrid.Text.of(good)
    renamed = hybrid.Text.of(good.replace("%0", "%functions"))
    assert hybrid.changes(text, renamed) == []
    assert "".join((text.head, *text.ops, text.tail)) == good
    assert len(text.ops) > 20


@pytest.fixture(scope="module")
def standard(tmp_path_factory):
    """The passes of a compilation of SQUARE."""
    folder = tmp_path_factory.mktemp("standard")
    with knobs.overridden(TILEWRIGHT_DUMP=str(folder)):
        tw.compile(SQUARE, TARGET, schedule="unpacked", cache=False)
    (found,) = folder.glob("*/passes.txt")
    return pass_list.read(found.read_text())


@pytest.fixture
def listed(standard, tmp_path):
    """Gives the file of a list that has more passes before a pass of a line."""

    def made(line, place, more):
        old = standard[line].pipeline
        count = len(pass_list.passes(more))
        longer = pass_list.joined(pass_list.joined(old, place, more, 0), place + count, old, place)
        changed = [*standard[:line], Line(standard[line].stage, longer), *standard[line + 1 :]]
        return written(tmp_path / "passes.txt", pass_list.written(changed))

    return made


def swapping(tmp_path):
    file = written(tmp_path / "swap.mlir", SWAP)
    load = f"transform-preload-library{{transform-library-paths={file}}}"
    return f"builtin.module({load}, transform-interpreter)"


def test_a_pass_with_wrong_numbers_is_named(listed, tmp_path):
    line, place = 2, 2
    bad = listed(line, place, swapping(tmp_path))
    blame = tw.bisect(SQUARE, "unpacked", TARGET, passes=bad)
    assert (blame.kind, blame.number, blame.count, blame.runs) == ("pass", 2, 2, 3)
    assert "+ builtin.module(transform-interpreter)" in blame.op
    assert f"line {line + 1} of the list" in blame.op
    assert "off by" in blame.reason


def test_a_pass_that_crashes_is_named_among_all_that_can_be_left_out(listed, tmp_path):
    bad = listed(5, 40, "trigger-crash-module")
    blame = tw.bisect(SQUARE, "unpacked", TARGET, passes=bad, good_passes=REQUIRED)
    assert "+ trigger-crash-module" in blame.op
    assert blame.count > 100
    assert blame.runs <= math.log2(blame.count) + 2.5
    assert "crashed" in blame.reason
    blame.write(tmp_path / "found")
    fine, crash = ((tmp_path / "found" / f"{name}.passes").read_text() for name in SIDES)
    assert "trigger-crash" in crash
    assert "trigger-crash" not in fine
    shown = [
        subprocess.run(["sh", tmp_path / "found" / f"{name}.sh"], env=TOOLS, capture_output=True) for name in SIDES
    ]
    assert shown[0].returncode == 0
    assert b"crashed" in shown[1].stderr


def test_a_pass_that_makes_slow_code_is_named(listed, tmp_path):
    # All that is in registers goes through memory.
    bad = listed(5, 114, "function(reg2mem)")
    shape = ["bisect", "--shape", "48x48x48", "--target", TARGET, "--schedule", "unpacked", "--passes", bad]
    check = written(tmp_path / "check.sh", 'test $(grep -c rsp "$1"/kernel.s) -lt 40\n')
    for predicate in (["--slower", "1.3"], ["--command", f"sh {check}"]):
        done = CliRunner().invoke(command, [*shape, *predicate])
        assert done.exit_code == 0, done.output
        assert "+ function(reg2mem)" in done.output
        assert "of 1, found in 2 runs" in done.output


def test_a_list_that_comes_through_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    Thread(target=pipe.write_text, args=("llvm: cse\n",)).start()
    with read_once(str(pipe)) as copy:
        assert copy is not None
        assert [Path(copy).read_text() for _ in range(2)] == ["llvm: cse\n"] * 2


def test_a_step_of_a_gpus_schedule_is_named(tmp_path):
    spec = tw.MatmulSpec(16, 16, 16)
    usual = tw.compile(spec, "sm_80", schedule="simt").asm["schedule"]
    own = '    %mine = transform.structured.match ops{["func.func"]} in %arg0 : (!transform.any_op) -> !transform.any_op\n'
    unrolled = f"{own}    transform.loop.unroll %mine {{factor = 2}} : !transform.any_op\n    transform.yield"
    files = [written(tmp_path / name, text) for name, text in (("good.mlir", usual), ("bad.mlir", usual))]
    Path(files[1]).write_text(usual.replace("    transform.yield", unrolled))
    blame = tw.bisect(spec, files[1], "sm_80", good=files[0])
    assert "+ transform.loop.unroll" in blame.op
    assert blame.runs == 2
    with pytest.raises(SpecError, match="sm_80 is a GPU, and among is 'passes'"):
        tw.bisect(spec, files[1], "sm_80", among="passes")


def test_each_planted_fault_was_named_in_few_runs():
    """`tools/bisect_table` plants them: a wrong, a crashing and a slow step in a schedule of each strategy."""
    with TABLE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    kinds = ("wrong", "crashing", "slow")
    assert {(row["strategy"], row["fault"]) for row in rows} == set(
        itertools.product((*select.STRATEGIES, *GPU_STRATEGIES), kinds)
    )
    for row in rows:
        assert row["planted"] in row["named"], row
        assert int(row["runs"]) <= math.ceil(math.log2(int(row["of"]))) + 2 == int(row["runs allowed"]), row


def test_every_strategy_is_right_with_the_passes_alone_that_it_needs():
    made = [
        ("packed", "x86-64-v4", tw.MatmulSpec(m=33, n=40, k=50)),
        ("packed", "x86-64-v4", tw.MatmulSpec(m=33, n=40, k=50, a="u8", b="i8", c="i32", b_packed=True)),
        ("inner_product", "x86-64-v4", tw.MatmulSpec(m=1, n=40, k=30)),
        ("streamed", "x86-64-v4", tw.MatmulSpec(m=8, n=256, k=30)),
        ("packed", "x86-64-v3", tw.MatmulSpec(m=None, n=None, k=None)),
    ]
    with knobs.overridden(TILEWRIGHT_PASSES=REQUIRED):
        for strategy, target, spec in made:
            tw.compile(spec, target, schedule=strategy, cache=False, verify=True)


def test_pipelines_are_cut_and_joined():
    old, new = (Line("llvmir", each) for each in ("function(a,b<x;y>),c", "function(a,d,b<x;y>),e,c"))
    first, second = hybrid_passes.between([old], [new])
    assert [each.text.split(" in ")[0] for each in (first, second)] == [
        "+ function(d)\npass 2 of 5",
        "+ e\npass 4 of 5",
    ]
    assert hybrid_passes.mixed([old], [new], first)[0].pipeline == "function(a,d,b<x;y>),c"
    assert hybrid_passes.mixed([old], [new], second)[0].pipeline == new.pipeline
    gone = hybrid_passes.between([new], [old])
    assert [each.text.split("\n")[0] for each in gone] == ["- function(d)", "- e"]
    assert hybrid_passes.mixed([new], [old], gone[0])[0].pipeline == "function(a,b<x;y>),e,c"
    with pytest.raises(LoweringError, match="other stages"):
        hybrid_passes.between([old], [new, new])


def test_a_list_of_another_compilation(standard, listed, tmp_path):
    longer = written(tmp_path / "long.txt", pass_list.written([*standard, standard[-1]]))
    lists = {
        "has 1 lines, and pipeline 2": written(tmp_path / "short.txt", "bufferized: builtin.module(cse)\n"),
        "line 1 is 'cse'": written(tmp_path / "no.txt", "cse\n"),
        "cannot read": str(tmp_path / "none.txt"),
        "no-such-pass": listed(5, 0, "no-such-pass"),
        "has 7 lines, and there are 6 pipelines": longer,
    }
    for said, file in lists.items():
        with knobs.overridden(TILEWRIGHT_PASSES=file), pytest.raises(LoweringError, match=said):
            tw.compile(SQUARE, TARGET, schedule="unpacked")
    with pytest.raises(ScheduleError, match="a list of passes, and among is 'ops'"):
        tw.bisect(SQUARE, "unpacked", TARGET, passes="x", among="ops")


def test_what_cannot_be_bisected(good, wrong, tmp_path):
    with pytest.raises(ScheduleError, match="not bad"):
        tw.bisect(SPEC, written(tmp_path / "good.mlir", good), TARGET)
    with pytest.raises(SpecError, match="expected static extents"):
        tw.bisect(tw.MatmulSpec(m=None, n=32, k=8), wrong, TARGET)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no --schedule given"),
        (["--schedule", "{wrong}", "--slower", "1.5"], "--slower given without --good"),
        (["--schedule", "{wrong}", "--without", "fma", "--command", "true"], "both --without and --command"),
        (["--schedule", "{wrong}", "--without", "("], "no regular expression"),
        (["--schedule", "{wrong}", "--asm", "fast"], "'fast' is no claim"),
    ],
)
def test_the_verb_used_badly(wrong, arguments, message):
    given = ["bisect", "--shape", "1x16x2", *(each.format(wrong=wrong) for each in arguments)]
    done = CliRunner().invoke(command, given)
    assert done.exit_code == 2
    assert message in done.output
