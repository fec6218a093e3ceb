# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A user's schedule in Python runs in a child process, within limits: whatever it does is one error, and the caller goes on."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import tilewright as tw
from own_schedules import SPEC, schedule_failure
from processes import in_new_process
from tilewright.cli import main
from tilewright.processes.child import Child
from tilewright.schedules import steps

GPU = tw.MatmulSpec(128, 128, 64, a="bf16")


def endless(spec, target, parameters):
    while True:
        time.sleep(0.01)  # here it is


def recursive(spec, target, parameters):
    return recursive(spec, target, parameters)


def hungry(spec, target, parameters):
    held = []
    while True:
        held.append(np.ones(1 << 22))  # here it is


def overflowing(spec, target, parameters):
    ctypes.string_at(0)  # here it is


def line_of(error: tw.ScheduleError) -> str:
    with open(__file__, encoding="utf-8") as file:
        return file.read().splitlines()[(error.line or 0) - 1]


@pytest.fixture
def short(monkeypatch):
    with Child("tilewright.emit.worker", needs=("tilewright.emit.stages", "tilewright.emit.gpu")):
        pass  # Now both compilers are imported, and what the limit ends is the schedule.
    monkeypatch.setenv("TILEWRIGHT_COMPILE_TIMEOUT_S", "6")


def test_endless_loops_are_ended(short, tmp_path):
    path = tmp_path / "own.py"
    path.write_text("import time\nwhile True: time.sleep(0.01)\n")

    def on_a_gpu():
        with pytest.raises(tw.ScheduleError, match="the schedule took more than 6 s") as caught:
            tw.compile(GPU, target="sm_80", schedule=endless, cache=False)
        return caught.value

    before = time.monotonic()
    with ThreadPoolExecutor() as pool:  # Each takes as long as it may.
        tries = (partial(schedule_failure, endless), partial(schedule_failure, path), on_a_gpu)
        of_function, of_file, _ = (each.result() for each in [pool.submit(each) for each in tries])
    assert time.monotonic() - before < 40
    assert "took more than 6 s" in of_function.what
    assert "TILEWRIGHT_COMPILE_TIMEOUT_S" in of_function.what
    assert of_function.file == __file__
    assert "here it is" in line_of(of_function)
    assert str(of_file).startswith(f"{path}:2: the schedule took more than 6 s")


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("os.abort()", "crashed with SIGABRT"),
        ("os._exit(3)", "ended with status 3"),
        ("os._exit(0)", "ended with status 0"),
        ("raise SystemExit(5)", "SystemExit: 5"),
        ("raise KeyError('no')", "KeyError: 'no'"),
    ],
)
def test_what_ends_its_process(tmp_path, statement, what):
    path = tmp_path / "own.py"
    path.write_text(f"import os\ndef schedule(spec, target, parameters):\n    {statement}\n")
    error = schedule_failure(path)
    assert what in error.what
    assert str(path) in str(error)


def test_recursion():
    error = schedule_failure(recursive)
    assert error.what.startswith("RecursionError")
    assert error.file == __file__


def test_a_crash_names_its_line():
    error = schedule_failure(overflowing)
    assert "crashed with SIGSEGV" in error.what
    assert "here it is" in line_of(error)


def test_memory(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_COMPILE_MEMORY_MB", "300")
    error = schedule_failure(hungry)
    assert "more than 300 MiB of memory" in error.what
    assert "TILEWRIGHT_COMPILE_MEMORY_MB" in error.what
    assert "here it is" in line_of(error)


def test_what_a_function_refers_to_goes_along():
    rows, seen = 4, []

    def tiled(script):
        return steps.tile(steps.match(script.root, "linalg.matmul"), [rows, 0, 0])

    def own(spec, target, parameters):
        seen.append(os.getpid())
        with steps.script() as script:
            tiled(script)
        return script.module

    kernel = tw.compile(SPEC, schedule=own, cache=False)
    assert "step %c4" in kernel.asm["scheduled"]
    assert seen == []  # It ran elsewhere.
    np.testing.assert_array_equal(kernel(np.ones((16, 8), "f4"), np.ones((8, 32), "f4")), 8)


def test_functions_of_a_main_program_and_lambdas():
    program = """
        import tilewright as tw
        from tilewright.schedules import steps
        ROWS = 4
        def own(spec, target, parameters):
            with steps.script() as script:
                steps.tile(steps.match(script.root, "linalg.matmul"), [ROWS, 0, 0])
            return script.module
        for schedule in (own, lambda *given: own(*given)):
            print("step %c4" in tw.compile(tw.MatmulSpec(16, 32, 8), schedule=schedule, cache=False).asm["scheduled"])
    """
    assert in_new_process(program) == "True\nTrue\n"


def test_a_function_of_a_module_beside_the_caller(tmp_path, monkeypatch):
    (tmp_path / "beside_the_caller.py").write_text(
        "from tilewright.schedules import steps\n"
        "def own(spec, target, parameters):\n"
        "    with steps.script() as script:\n        steps.match(script.root, 'linalg.matmul')\n    return script.module\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    import beside_the_caller  # type: ignore[import-not-found] - it is written above

    assert tw.compile(SPEC, schedule=beside_the_caller.own, cache=False)


def test_a_function_that_cannot_be_sent():
    lock = threading.Lock()
    error = schedule_failure(lambda *_: lock.acquire())
    assert "cannot pickle '_thread.lock'" in error.what
    assert "Put it into a .py file" in (error.remedy or "")


def test_what_a_function_prints_is_shown(capfd):
    def own(spec, target, parameters):
        print("mr", parameters.mr)  # noqa: T201
        with steps.script() as script:
            steps.match(script.root, "linalg.matmul")
        return script.module

    tw.compile(SPEC, schedule=own, cache=False)
    assert capfd.readouterr().err.startswith("mr ")


# Text.


def bomb(links: int, each: str = "tuple<!t{0}, !t{0}>") -> str:
    """A function whose argument's type is an alias of aliases."""
    lines = ["!t0 = tuple<f32>", *(f"!t{i} = {each.format(i - 1)}" for i in range(1, links))]
    return "\n".join([*lines, f"func.func @f(%a: !t{links - 1}) {{ return }}"])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (bomb(40), "characters when aliases are written out"),
        (bomb(40, "\n  tuple<!t{0}, !t{0}>"), "characters when aliases are written out"),
        (bomb(40, "tuple\n<!t{0},\n !t{0}>"), "characters when aliases are written out"),
        (bomb(60_000, "tuple<!t{0}>"), "more than 256 nested brackets"),
    ],
)
def test_aliases_of_aliases_are_refused_before_they_are_parsed(text, what):
    with pytest.raises(tw.SpecError, match=what):
        tw.compile_module(text, cache=False)


def test_messages_are_bounded():
    with pytest.raises(tw.SpecError, match="characters left out") as caught:
        tw.compile_module(bomb(15), cache=False)
    assert len(str(caught.value)) < 5000


def test_memory_of_a_module(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_COMPILE_MEMORY_MB", "8")
    with pytest.raises(
        tw.LoweringError, match="more than 8 MiB of memory, the limit that TILEWRIGHT_COMPILE_MEMORY_MB"
    ):
        tw.compile_module(bomb(20), cache=False)


def test_a_file_of_one_product_is_read_in_a_child_process(monkeypatch, tmp_path, capsys):
    file = tmp_path / "one.mlir"
    file.write_text(
        "func.func @mm(%a: memref<4x4xf32>, %b: memref<4x4xf32>, %c: memref<4x4xf32>) {\n"
        "  linalg.matmul ins(%a, %b : memref<4x4xf32>, memref<4x4xf32>) outs(%c : memref<4x4xf32>)\n  return\n}\n"
    )
    monkeypatch.setenv("TILEWRIGHT_COMPILE_TIMEOUT_S", "0.001")
    assert main(["compile", str(file), "--emit", "payload", "-o", "-"]) == 2
    assert "MLIR took more than 0.001 s" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("compile", "-o", "-", "--emit", "payload"), ("run",)])
def test_a_file_that_is_too_large_is_not_read_whole(arguments, tmp_path, capsys):
    file = tmp_path / "large.mlir"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    assert main([arguments[0], str(file), *arguments[1:]]) == 2
    assert "it is larger than 16 MiB" in capsys.readouterr().err


def test_a_schedule_that_is_too_large_is_not_read_whole(tmp_path):
    file = tmp_path / "large.py"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(tw.ScheduleError, match="it is larger than 16 MiB"):
        tw.compile(SPEC, schedule=file, cache=False)
