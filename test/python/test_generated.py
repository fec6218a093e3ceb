# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generated cases of every part: specs, forms of rows, operators, schedules, mutants; specs on every emulated processor too.

Here from fixed seeds. `make check-long` runs many more, from a fresh seed each time, which it prints. Each failure names its
seed and says how to run that one again. See `generated`.
"""

import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import emulated_amx as amx
import generated
import generated_mutants
import generated_schedules
import matrix
import matrix_targets
import own_schedules
import pytest
import tilewright as tw
from tilewright.mlir import ir
from tilewright.runtime import vulkan

PROGRAM = Path(__file__).with_name("generated.py")
CHUNK = 20
COUNTS = {
    "specs": {"short": 20, "long": 2000},
    "rows": {"short": 6, "long": 300},
    "operators": {"short": 6, "long": 400},
    "schedules": {"short": 8, "long": 800},
    "mutants": {"short": 10, "long": 1500},
}
"""How many of each part run on this machine."""
EMULATED = {"short": 4, "long": 100}
"""How many specs on each emulated processor."""
GPU_SHARE = 4
"""A part of that on GPUs, whose emulator takes seconds for one."""
TIMEOUT_S = 3000
"""Of the cases of one test: a minute for each."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    length = str(metafunc.config.getoption("--length"))
    if "offset" in metafunc.fixturenames:
        chunks = [
            (part, offset, min(CHUNK, count[length] - offset))
            for part, count in COUNTS.items()
            for offset in range(0, count[length], CHUNK)
        ]
        metafunc.parametrize(("part", "offset", "number"), chunks)
    if "count" in metafunc.fixturenames:
        metafunc.parametrize("count", [EMULATED[length]])


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    return int(str(request.config.getoption("--seed")))


def run(first: int, count: int, on: str, part: str = "specs") -> str:
    """The last line of `generated`, which says what came of the cases. Its first error is what fails a test."""
    command = [sys.executable, str(PROGRAM), part, "--first", str(first), "--count", str(count), "--on", on]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        said = error.stdout or b""
        pytest.fail(f"{' '.join(command)}: more than {TIMEOUT_S} s, the last in\n{said.decode()[-3000:]}")
    failures = re.findall(r"(?s)(seed \d+: (?:(?!\nseed \d+: ).)*?FAILED, again: [^\n]*)", done.stdout)
    said = "\n".join(failures) or done.stdout[-3000:]
    assert done.returncode == 0, f"status {done.returncode} at\n{said[:20000]}\n{done.stderr[-3000:]}"
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"{count} {part} from seed {first} on {on}: ")
    print(last)  # noqa: T201 - what it cost, where output is not captured
    return last


def test_on_this_machine(part, offset, number, seed):
    run(seed + offset, number, "host", part)


@pytest.mark.skipif(matrix_targets.QEMU_ARM is None, reason="qemu-aarch64 is not installed")
@pytest.mark.parametrize("target", matrix_targets.ARM)
def test_on_arm(target, count, seed):
    run(seed, count, target)


@pytest.mark.skipif(matrix_targets.QEMU_X86 is None, reason="qemu-x86_64 is not installed")
@pytest.mark.parametrize("level", matrix_targets.X86)
def test_on_plain_processors(level, count, seed):
    run(seed, count, f"qemu:{level}")


@pytest.mark.skipif(amx.CLANG is None, reason="clang, which compiles the emulator, is absent")
@pytest.mark.skipif(
    bool(tw.targets.runnable(tw.targets.get("x86-64-v4"))), reason="the code around AMX is AVX-512, which is absent"
)
def test_on_amx(count, seed):
    run(seed, 2 * count, "amx")


@pytest.mark.parametrize("target", matrix_targets.GPUS)
def test_on_emulated_gpus(target, count, seed):
    run(seed, count // GPU_SHARE, f"gpu:{target}")


def test_on_vulkan(count, seed):
    try:
        vulkan.device_name()
    except tw.TilewrightError as error:
        pytest.skip(str(error))
    run(seed, count // GPU_SHARE, "vulkan")


def test_cases_are_distinct_and_have_every_kind():
    cases = [matrix.draw(seed) for seed in range(200)]  # Which takes no time: nothing is compiled.
    assert len({str(case.spec) for case in cases}) == len(cases)
    assert {case.spec.layout for case in cases} == {each for each in matrix.LAYOUTS if "c" not in each}
    assert {case.options["schedule"] for case in cases} == {None, *matrix.STRATEGIES}
    types = {
        (spec.a, spec.b, spec.acc, spec.c)
        for case in cases
        if not ((spec := case.spec).epilogue or spec.prologue_a or spec.prologue_b)
    }
    assert types == {(each.a, each.b, each.acc, each.c) for each in matrix.COMBINATIONS}
    stored = {operand.type.name for case in cases for operand in case.spec.operands}
    assert stored >= set(matrix.STORED) - {"f8E8M0FNU"}
    names = {entry.name.split("(")[0] for case in cases for entry in case.spec.epilogue}
    assert names >= {"bias", "residual", "multiply", "gelu", "silu", "quantize", "dequantize", "cast", "lambda"}
    assert any(case.options["threads"] > 1 for case in cases)
    assert str(matrix.draw(17)) == str(matrix.draw(17))


def test_drawn_schedules_are_modules(tmp_path):
    # What MLIR does not read shows nothing of what we do with it.
    with ir.Context():
        for number in range(200):
            case = generated_schedules.draw(number)
            ir.Module.parse(own_schedules.written(tmp_path / "own.mlir", *case.lines).read_text())


@pytest.mark.parametrize("part", [name for name in generated.PARTS if name != "specs"])
def test_a_seed_draws_one_case(part):
    draw = generated.part(part).draw
    cases = [str(draw(number)) for number in range(40)]
    assert len(set(cases)) == len(cases)
    assert str(draw(17)) == cases[17]


@dataclass(frozen=True)
class Broken:
    """A part whose cases of odd seeds fail."""

    @staticmethod
    def draw(seed: int) -> str:
        return f"seed {seed}: nothing"

    @staticmethod
    def run(case: str, place: matrix_targets.Runner, spent: Counter[str]) -> str:
        assert int(case.split()[1].rstrip(":")) % 2 == 0, "odd"
        return "right"


def test_failures_are_reported_and_the_others_run(monkeypatch, capsys):
    monkeypatch.setattr(generated, "part", lambda _: Broken)
    assert generated.main("rows", 4, 4, float("inf"), "host") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "4 rows from seed 4 on host: 2 right, 2 failed, of seeds 5, 7"
    assert "FAILED, again: generated.py rows --first 5 --count 1 --on host" in lines
    assert "AssertionError: odd" in lines
    assert generated.main("rows", 4, 1, float("inf"), "host") == 0
    assert generated.main("rows", 5, 10, 0, "host") == 0, "no time"


def test_a_module_that_computes_something_else_is_found(tmp_path):
    number = [path.name for path in generated_mutants.MODULES].index("chain.mlir")
    text = generated_mutants.MODULES[number].read_text()
    case = generated_mutants.Case(0, "module", number, text, "nothing")
    path = tmp_path / "chain.mlir"
    path.write_text(text)
    assert generated_mutants.run_module(case, path) == "right"
    path.write_text(text.replace("constant 0.0", "constant 1.0"))
    with pytest.raises(AssertionError, match="is not what upstream's passes make of it"):
        generated_mutants.run_module(case, path)
