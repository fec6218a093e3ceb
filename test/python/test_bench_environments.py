# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The peers' Python environments: made once, made anew when their list changes, and gone when something failed."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tilewright import knobs
from tilewright.bench import environments, peers
from tilewright.cli import main
from tilewright.errors import TilewrightError
from tilewright.processes.command import command


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_PEERS_DIR", str(tmp_path / "peers"))
    return tmp_path / "peers"


class Runs:
    """Notes commands, and makes the interpreter that venv would make."""

    def __init__(self, fails_at=None):
        self.commands = []
        self._fails_at = fails_at

    def __call__(self, command):
        self.commands.append(command)
        if command[0] == sys.executable:
            interpreter = Path(command[-1]) / "bin" / "python"
            interpreter.parent.mkdir(parents=True)
            interpreter.symlink_to(sys.executable)
            (interpreter.parent / "payload").write_bytes(b"x" * 2_000_000)
        failed = self._fails_at is not None and len(self.commands) > self._fails_at
        return subprocess.CompletedProcess(command, 1 if failed else 0, "", "hello\nERROR: no such wheel\nbye")


def test_the_folder_is_the_one_that_was_named_or_lies_beside_the_kernels():
    assert knobs.load({"TILEWRIGHT_PEERS_DIR": "/somewhere"}).peers_dir == Path("/somewhere")
    default = knobs.load({"HOME": "/users/me"})
    assert default.peers_dir == Path("/users/me/.cache/tilewright/peers")
    assert knobs.load({}).peers_dir is None


def test_without_a_folder_nothing_is_set_up(monkeypatch):
    monkeypatch.setattr(environments, "folder", lambda: None)
    assert environments.python("numpy") is None
    with pytest.raises(TilewrightError, match="no folder for the peers"):
        environments.setup("numpy", Runs())


def test_an_environment_is_made_once(place):
    runs = Runs()
    made = environments.setup("torch", runs)
    assert (made.problem, made.new) == (None, True)
    assert made.megabytes == pytest.approx(2.0, abs=0.1)
    venv, pip, check = runs.commands
    assert venv == command("venv", str(place / "torch"))
    assert pip[0] == str(place / "torch" / "bin" / "python")
    assert "torch==2.13.0" in pip
    assert "import numpy, ml_dtypes, torch" in check[-1]
    assert environments.python("torch") == place / "torch" / "bin" / "python"
    assert environments.setup("torch", runs).new is False
    assert len(runs.commands) == 3


def test_another_list_of_requirements_makes_it_anew(place):
    environments.setup("jax", Runs())
    (place / "jax" / "tilewright.json").write_text('["jax==0.1"]')
    assert environments.python("jax") is None
    runs = Runs()
    assert environments.setup("jax", runs).new
    assert len(runs.commands) == 3


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_failure_says_why_and_leaves_nothing(place, step):
    made = environments.setup("iree", Runs(fails_at=step))
    assert made.problem == "ERROR: no such wheel"
    assert not (place / "iree").exists()
    assert environments.python("iree") is None


def test_a_peer_is_measured_in_its_own_environment_when_that_is_there(place):
    assert peers.PEERS["numpy"].python() == Path(sys.executable)
    assert "tilewright bench setup" in (peers.PEERS["iree"].missing() or "")
    environments.setup("numpy", Runs())
    environments.setup("iree", Runs())
    assert peers.PEERS["numpy"].python() == place / "numpy" / "bin" / "python"
    assert peers.PEERS["iree"].missing() is None


def test_every_peer_has_an_environment():
    wanted = {peer.environment for peer in peers.PEERS.values()}
    wanted |= {environments.MODELS, environments.CLUSTER, environments.TRITON}
    assert wanted == set(environments.ENVIRONMENTS)


def test_set_up_says_what_became_of_each(capsys, monkeypatch):
    answers = {
        "torch": environments.Made("torch", None, 950.0, True),
        "jax": environments.Made("jax", "ERROR: no such wheel", 0.0, False),
    }
    monkeypatch.setattr(environments, "setup", lambda name: answers[name])
    assert main(["bench", "setup", "--peers", "onednn,torch"]) == 0
    assert "torch: installed, 950 MB" in capsys.readouterr().out
    assert main(["bench", "setup", "--peers", "xla"]) == 1
    assert "jax: ERROR: no such wheel" in capsys.readouterr().out
    assert main(["bench", "setup", "--peers", "nosuch"]) == 2


def test_of_two_that_make_the_same_one_does():
    runs = Runs()
    with ThreadPoolExecutor() as both:
        made = list(both.map(lambda _: environments.setup("numpy", runs), range(2)))
    assert sorted(each.new for each in made) == [False, True]
    assert len(runs.commands) == 3
