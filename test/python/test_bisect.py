# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bisecting names the transform op that was planted, in few runs."""

import math
import re

import pytest
import tilewright as tw
from click.testing import CliRunner
from tilewright.cli.app import command
from tilewright.emit import hotloop
from tilewright.errors import ScheduleError, SpecError
from tilewright.schedules import hybrid

SPEC = tw.MatmulSpec(m=8, n=32, k=10)
TARGET = "x86-64-v3"
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
        ["bisect", "--shape", "1x16x2", "--target", TARGET, "--schedule", wrong, "-o", str(tmp_path / "found")],
    )
    assert done.exit_code == 0, done.output
    assert "structured.pad" in done.output
    assert "off by" in done.output
    runs = int(done.output.split(" runs")[0].split()[-1])
    assert runs <= math.ceil(math.log2(7)) + 2
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
    assert blame.runs <= math.ceil(math.log2(blame.count)) + 2


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


def test_what_cannot_be_bisected(good, wrong, tmp_path):
    with pytest.raises(SpecError, match="is a GPU"):
        tw.bisect(SPEC, wrong, "sm_90a")
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
