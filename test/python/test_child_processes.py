# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Child processes import nothing from their parent's current folder, whoever starts them."""

from __future__ import annotations

import ast
import operator
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import tilewright as tw
from own_schedules import MATCH, SPEC, written
from test_house import ROOT, in_a_checkout, tracked
from tilewright.bench import peers
from tilewright.bench.card.worker import Worker
from tilewright.bench.peer_process import PeerProcess
from tilewright.errors import TilewrightError
from tilewright.processes import calls
from tilewright.processes.child import Child, ChildEndedError
from tilewright.processes.command import command, paths_of_children

PACKAGE = Path(tw.__file__).parents[1]
HOSTILE = ("json", "struct", "random", "numpy", "ml_dtypes", "tempfile", "pickle", "tilewright")


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A folder to stand in, whose modules tell that they were run."""
    for name in HOSTILE:
        import_module(name)  # This process is not what is looked at.
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in HOSTILE:
        (folder / f"{name}.py").write_text(
            f"open({str(tmp_path / 'was_run')!r}, 'a').write({name!r})\nraise ImportError({name!r})\n"
        )
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("", ".", "hostile"):
        monkeypatch.syspath_prepend(name)
    monkeypatch.setenv("PYTHONPATH", f".{os.pathsep}")
    monkeypatch.chdir(folder)
    yield folder
    assert not (tmp_path / "was_run").exists(), (tmp_path / "was_run").read_text()


def test_a_schedule_and_a_module_are_compiled(hostile, tmp_path):
    tw.compile(SPEC, schedule=written(tmp_path / "own.mlir", MATCH), cache=False)
    tw.compile_module("func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }", cache=False)


def test_a_schedule_for_a_gpu_is_compiled(hostile, tmp_path):
    path = tmp_path / "own.mlir"
    path.write_text("module {}")
    with pytest.raises(tw.ScheduleError, match="no @__transform_main"):
        tw.compile(tw.MatmulSpec(128, 128, 64, a="bf16"), target="sm_80", schedule=path, cache=False)


def test_many_kernels_are_compiled(hostile):
    kernels = tw.compile_all([tw.MatmulSpec(4, 5, 6), tw.MatmulSpec(5, 6, 7)], jobs=2)
    assert all(kernel.metadata.cached for kernel in kernels)


def test_a_peer_is_started(hostile):
    with PeerProcess(peers.PEERS["numpy"], 1, os.sched_getaffinity(0)) as peer:
        assert peer.version


def test_a_peer_of_another_environment_is_started(hostile, tmp_path):
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    with Child("tilewright.processes.callee", python=other) as child:
        child.send((operator.add, (1, 2), {}))
        assert child.receive(60) == (True, 3)


def test_the_process_of_a_card_is_started(hostile, tmp_path):
    (tmp_path / "refused").touch()
    worker = Worker(tmp_path, "card_process")
    with pytest.raises(tw.TargetError, match="no card"):
        worker.run(None)  # type: ignore[arg-type] - it is refused before


@pytest.mark.parametrize("module", ["venv", "tilewright", "tilewright.bench.card.triton_peer"])
def test_a_program_is_started(hostile, module):
    done = subprocess.run(command(module, "--help"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()


def test_the_path_of_children():
    found = paths_of_children()
    assert found.index(os.path.dirname(os.__file__)) < found.index(str(PACKAGE))
    assert all(os.path.isabs(path) for path in found)


def test_without_the_file_of_an_interpreter_it_is_told(monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(TilewrightError, match=r"sys\.executable is empty; expected the file of a Python"):
        command("venv")


# What a child does.


def test_how_a_child_ended(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "noisy.py").write_text("import os, sys\nprint('well', flush=True)\nos.abort()\n")
    (tmp_path / "silent.py").write_text("import time\ntime.sleep(100)\n")
    with Child("noisy") as child, pytest.raises(ChildEndedError, match=r"^crashed with SIGABRT$") as caught:
        child.receive(60)
    assert caught.value.output == "well\n"
    with Child("silent") as child, pytest.raises(ChildEndedError, match=r"^took more than 0\.5 s$") as caught:
        child.receive(0.5)
    assert caught.value.status is None


def test_what_a_child_started_ends_with_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "parent.py").write_text(
        "import subprocess, sys\nfrom multiprocessing.connection import Connection\n"
        "connection = Connection(int(sys.argv[1]))\nconnection.send(subprocess.Popen(['sleep', '100']).pid)\n"
        "connection.recv()\n"
    )
    with Child("parent") as child:
        sleeping = child.receive(60)
    while _is_running(sleeping):  # The signal has been sent.
        time.sleep(0.01)


def _is_running(process: int) -> bool:
    """Whether it is there, and no zombie that waits for whoever inherited it."""
    try:
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_calls_go_on_when_one_ends_its_process():
    results = dict(calls.each(os._exit, [(3,)] * 3, jobs=2))
    assert sorted(results) == [0, 1, 2]
    assert {str(each) for each in results.values()} == {"ended with status 3"}
    assert sorted(calls.each(operator.add, [(1, 2), (3, 4), (5, 6)], jobs=2)) == [(0, 3), (1, 7), (2, 11)]
    assert list(calls.each(operator.add, [])) == []


def test_what_a_call_raises_is_raised_and_ends_the_others():
    with pytest.raises(TypeError, match="unsupported operand"):
        list(calls.each(operator.add, [(1, "2"), (3, 4)], jobs=2))


# Who starts processes.

INTERPRETERS = ("sys.executable", "VENV_PYTHON", "interpreter", "python")
SPAWNING = ("ProcessPoolExecutor", "set_executable")
SPAWNED = ("spawn", "forkserver")


def started_by_hand(file: Path, text: str) -> Iterator[str]:
    """The lines of a source that start Python with the current folder on its path."""
    in_package = "tilewright" in file.parts[:-1]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.List) and node.elts and ast.unparse(node.elts[0]) in INTERPRETERS:
            words = [ast.unparse(each) for each in node.elts]
            if ("'-m'" in words or "'-c'" in words) and "'-I'" not in words:
                yield f"{node.lineno}: {ast.unparse(node)} without -I"
            if in_package and words[0] == "sys.executable":
                yield f"{node.lineno}: {ast.unparse(node)}; tilewright.processes.command makes command lines"
        if isinstance(node, ast.Name | ast.Attribute | ast.alias):
            name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", "")
            if name.rpartition(".")[2] in SPAWNING:
                yield f"{node.lineno}: {name} starts Python in the current folder; tilewright.processes.calls does not"
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("get_context"):
            for argument in node.args:
                if isinstance(argument, ast.Constant) and argument.value in SPAWNED:
                    yield f"{node.lineno}: {ast.unparse(node)} starts Python in the current folder"


@in_a_checkout
def test_nobody_starts_python_by_hand():
    sources = [file for file in tracked() if file.suffix == ".py" and file.name != Path(__file__).name]
    assert len(sources) > 300
    broken = [
        f"{file.relative_to(ROOT)}:{line}" for file in sources for line in started_by_hand(file, file.read_text())
    ]
    assert broken == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("test/x.py", "run([sys.executable, '-c', program])"),
        ("tools/x.py", "run([VENV_PYTHON, '-m', 'pip'])"),
        ("python/tilewright/x.py", "run([sys.executable, '-I', '-m', 'json'])"),
        ("python/tilewright/x.py", "from concurrent.futures import ProcessPoolExecutor"),
        ("python/tilewright/x.py", "multiprocessing.get_context('spawn')"),
    ],
)
def test_a_process_that_is_started_by_hand_is_found(file, line):
    assert list(started_by_hand(Path(file), line))
