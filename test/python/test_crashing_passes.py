# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A list of passes that crashes MLIR or LLVM is an error, whatever is compiled by it: the process lives on."""

import re
from pathlib import Path

import pytest
import tilewright as tw
from click.testing import CliRunner
from tilewright import knobs
from tilewright.cli.app import command
from tilewright.errors import LoweringError

TARGET = "x86-64-v3"
PRODUCT = tw.MatmulSpec(32, 32, 32)
COMPILED = {
    "product": lambda: tw.compile(PRODUCT, TARGET, schedule="unpacked"),
    "dynamic product": lambda: tw.compile(tw.MatmulSpec(None, 32, 32), TARGET),
    "convolution": lambda: tw.compile(tw.Conv2dSpec(1, 6, 6, 16, 16, 3, 3), TARGET),
    "chain": lambda: tw.compile_chain([PRODUCT, PRODUCT], TARGET),
    "GPU": lambda: tw.compile(tw.MatmulSpec(64, 64, 64, a="f16", b="f16"), "sm_90a"),
    "rows on a GPU": lambda: tw.compile(tw.MatmulSpec(64, 64, 64, epilogue=(tw.softmax(),)), "sm_90a"),
}


@pytest.mark.parametrize("what", COMPILED)
def test_the_error_names_a_reproducer(what, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_NO_CACHE", "1")
    with knobs.overridden(TILEWRIGHT_DUMP=str(tmp_path)):
        COMPILED[what]()
    lists = [each for each in tmp_path.glob("*/passes.txt") if "llvmir: " in each.read_text()]
    own, bad = sorted(lists)[0], tmp_path / "bad.txt"
    if len(lists) == 1:  # The list as it is gives a kernel.
        with knobs.overridden(TILEWRIGHT_PASSES=str(own)):
            COMPILED[what]()
    bad.write_text(own.read_text().replace("llvmir: ", "llvmir: trigger-crash-module,", 1))
    with knobs.overridden(TILEWRIGHT_PASSES=str(bad)), pytest.raises(LoweringError, match="crashed with SIG") as error:
        COMPILED[what]()
    assert error.value.stage == "llvmir"
    assert (Path(str(error.value.reproducer)) / "passes.txt").read_text() == bad.read_text()


def test_the_command_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_NO_CACHE", "1")
    shape, bad = ["--shape", "32x32x32", "--target", TARGET], tmp_path / "bad.txt"
    made = ["compile", *shape, "--emit", "asm", "-o", str(tmp_path / "k.s")]
    assert CliRunner().invoke(command, [*made, "--dump-dir", str(tmp_path)]).exit_code == 0
    (own,) = tmp_path.glob("*/passes.txt")
    bad.write_text(own.read_text().replace("llvmir: ", "llvmir: trigger-crash-module,"))
    done = CliRunner().invoke(command, [*made, "--passes", str(bad)])
    assert re.search("stage llvmir: MLIR crashed with SIG", f"{done.exception}{done.output}")
