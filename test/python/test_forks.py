# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Children that are forks: each has what its parent has now, and nothing of the others; none is left when the parent ends."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from processes import in_new_process
from tilewright.processes.child import Child, ChildEndedError

PROGRAM = """
import atexit, ctypes, os, signal, subprocess, sys, threading, time
from multiprocessing.connection import Connection

def main():
    line = Connection(int(sys.argv[1]))
    while question := line.recv():
        line.send(eval(question))
"""
SECONDS = 60


@pytest.fixture
def answering(tmp_path, monkeypatch):
    """The name of a module that evaluates what it is sent; the server imports it, and it stays."""
    name = f"answering_{os.getpid()}_{time.monotonic_ns()}"
    (tmp_path / f"{name}.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def asked(child: Child, question: str) -> object:
    child.send(question)
    return child.receive(SECONDS)


def answer(module: str, question: str, needs: tuple[str, ...] = ()) -> object:
    with Child(module, needs=needs) as child:
        return asked(child, question)


def is_running(process: object) -> bool:
    """Whether a process is there, and no zombie that waits for whoever inherited it."""
    try:
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def assert_that_it_ends(process: object) -> None:
    """It has been told, or sent a signal."""
    until = time.monotonic() + SECONDS
    while is_running(process):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_it_has_what_its_parent_has_now(answering, tmp_path, monkeypatch):
    server = answer(answering, "os.getppid()")
    assert server != os.getpid()
    monkeypatch.setenv("SET_LATER", "é\udcff")
    monkeypatch.delenv("HOME", raising=False)
    (folder := tmp_path / "folder").mkdir()
    (packages := tmp_path / "packages").mkdir()
    (packages / "known_later.py").write_text("VALUE = 3")
    monkeypatch.syspath_prepend(packages)
    monkeypatch.chdir(folder)
    with Child(answering, "first", "second", variables={"ONLY_THERE": "yes"}, needs=()) as child:
        assert asked(child, "os.getppid()") == server
        assert asked(child, "os.environ['SET_LATER']") == "é\udcff"
        assert asked(child, "ctypes.CDLL(None).getenv(b'HOME')") == 0
        assert asked(child, "os.environ['ONLY_THERE'], sys.argv[2:]") == ("yes", ["first", "second"])
        assert asked(child, "os.getcwd()") == str(folder)
        assert asked(child, "__import__('known_later').VALUE") == 3
        assert asked(child, "os.sched_getaffinity(0)") == os.sched_getaffinity(0)
        assert asked(child, "sys.stdin.read()") == ""
    folder.rmdir()  # As a process of its own would, it has a folder that is gone.
    assert answer(answering, "os.listdir()") == []


def test_it_uses_the_cores_that_its_parent_may_use_now(answering):
    cores = os.sched_getaffinity(0)
    with ThreadPoolExecutor(1) as one:  # The setting is a thread's.
        fewer = {min(cores)}
        one.submit(os.sched_setaffinity, 0, fewer).result()
        assert one.submit(answer, answering, "os.sched_getaffinity(0)").result() == fewer
    assert answer(answering, "os.sched_getaffinity(0)") == cores


def test_forks_share_nothing(answering):
    assert answer(answering, "setattr(sys, 'left_behind', 1), os.environ.update(LEFT='1'), os.chdir('/')")
    assert answer(answering, "hasattr(sys, 'left_behind') or 'LEFT' in os.environ") is False


def test_what_it_needs_is_imported_once_and_before(answering):
    needs = ("colorsys", "there_is_no_such_module")
    with Child(answering, needs=needs) as child:
        assert asked(child, "'colorsys' in sys.modules")
    assert answer(answering, "'colorsys' in sys.modules")


def test_nothing_of_the_server_is_open_in_it(answering):
    is_open = "[each for each in range(3, 99) if os.path.exists(f'/proc/self/fd/{each}')] == [int(sys.argv[1])]"
    with Child(answering, needs=()) as first, Child(answering, needs=()) as second:
        for child in (first, second):
            assert asked(child, is_open)
            assert asked(child, "signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL and signal.set_wakeup_fd(-1) == -1")
            assert asked(child, "os.getsid(0) == os.getpgid(0) == os.getpid()")


def test_the_server_has_one_thread_and_a_fork_those_that_multiply(answering):
    multiplied = "int((numpy.ones((600, 600)) @ numpy.ones((600, 600))).sum()), len(os.listdir('/proc/self/task'))"
    with Child(answering, needs=("numpy", "tilewright.emit.stages")) as child:
        assert asked(child, "len(os.listdir(f'/proc/{os.getppid()}/task'))") == 1
        assert asked(child, "len(os.listdir('/proc/self/task'))") == 1
        found = asked(child, f"(numpy := __import__('numpy')) and ({multiplied})")
    assert f"{found}\n" == in_new_process(f"import numpy, os; print(({multiplied}))")


@pytest.mark.parametrize(
    ("ending", "how"),
    [
        ("os.abort()", "crashed with SIGABRT"),
        ("os._exit(3)", "ended with status 3"),
        ("sys.exit(4)", "ended with status 4"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "crashed with SIGKILL"),
        ("1 // 0", "ended with status 1"),
    ],
)
def test_how_it_ended_is_told_and_the_next_one_works(answering, ending, how):
    with Child(answering, needs=()) as other, Child(answering, needs=()) as child:
        child.send(f"print('well', flush=True), {ending}")
        with pytest.raises(ChildEndedError, match=how) as caught:
            child.receive(SECONDS)
        assert caught.value.output.startswith("well\n")
        assert ("ZeroDivisionError" in caught.value.output) == ("0" in ending and "//" in ending)
        assert not child.is_running()
        assert other.is_running()
        assert asked(other, "1 + 1") == 2
    assert answer(answering, "2 + 2") == 4


def test_what_it_printed_is_written_when_it_ends_well(answering):
    with Child(answering, needs=()) as child:
        printing = "print('Python'), ctypes.CDLL(None).printf(b'C '), atexit.register(print, 'registered') and None"
        assert asked(child, printing) == (None, 2, None)
        assert child.output() == ""
        child.send("")
        ended = child.ended()
    assert ended.status == 0
    assert sorted(ended.output.split()) == ["C", "Python", "registered"]


def test_one_that_says_nothing_is_ended(answering):
    with Child(answering, needs=()) as child:
        number = asked(child, "os.getpid()")
        child.send("time.sleep(100)")
        with pytest.raises(ChildEndedError, match=r"took more than 0\.2 s") as caught:
            child.receive(0.2)
        assert caught.value.status is None
        assert not is_running(number)


def test_what_it_started_ends_with_it(answering):
    with Child(answering, needs=()) as child:
        started = asked(child, "subprocess.Popen(['sleep', '100']).pid")
    assert_that_it_ends(started)


def test_many_threads_start_them(answering):
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda each: answer(answering, f"({each}, os.getpid())"), range(24)))
    assert [each for each, _ in numbers] == [*range(24)]  # type: ignore[misc]
    assert len({number for _, number in numbers}) == 24  # type: ignore[misc]


def test_another_server_is_started_where_one_is_gone(answering):
    with Child(answering, needs=()) as child:
        server = asked(child, "os.getppid()")
        assert isinstance(server, int)
        os.kill(server, signal.SIGKILL)
        assert answer(answering, "os.getppid()") not in (server, os.getpid())
        child.kill()
        assert not child.is_running()


def test_variables_that_are_read_at_the_start_ask_for_another_server(answering, monkeypatch):
    server = answer(answering, "os.getppid()")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    assert answer(answering, "os.getppid()") != server
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert answer(answering, "os.getppid()") == server


def test_one_that_cannot_start_is_an_error(answering, monkeypatch):
    monkeypatch.setattr("tilewright.processes.forks._SERVER", "there_is_no_such_module")
    monkeypatch.setenv("LD_UNKNOWN", "1")
    with pytest.raises(ChildEndedError, match="did not start"):
        Child(answering, needs=())


STARTED = """
    import os, signal, sys
    from tilewright.processes.child import Child
    sys.path.insert(0, {folder!r})
    child = Child({module!r}, needs=())
    child.send("os.getppid(), os.getpid()")
    server, fork = child.receive(60)
    child.send("time.sleep(100)")
    print(server, fork, flush=True)
"""


@pytest.mark.parametrize("ending", ["", "os._exit(0)", "child.close()"])
def test_none_is_left_when_the_parent_ends(answering, tmp_path, ending):
    printed = in_new_process(STARTED.format(folder=str(tmp_path), module=answering) + f"    {ending}\n")
    for each in printed.split():
        assert_that_it_ends(each)


def test_a_fork_of_the_parent_has_a_server_of_its_own(answering, tmp_path):
    program = f"""
        import os, sys
        from tilewright.processes.child import Child
        sys.path.insert(0, {str(tmp_path)!r})
        def server():
            with Child({answering!r}, needs=()) as child:
                child.send("os.getppid()")
                return child.receive(60)
        mine = server()
        other = os.fork()
        if not other:
            sys.exit(0 if server() not in (mine, os.getpid()) else 1)
        status = os.waitpid(other, 0)[1]
        print(status, mine == server())
    """
    assert in_new_process(program) == "0 True\n"


def test_a_server_that_nobody_asks_ends(tmp_path):
    program = """
        import socket
        from tilewright.processes import forking
        forking._IDLE_SECONDS = 0.05
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        print(forking.serve(theirs))
    """
    assert in_new_process(program) == "None\n"
