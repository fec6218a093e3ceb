# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tilewright cache`, and the reproducers that are kept beside the kernels."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tilewright.cli import main
from tilewright.emit import reproducers
from tilewright.runtime.cache import KernelCache


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def filled(folder: Path, count: int = 3, size: int = 1 << 20) -> list[Path]:
    """Kernels of so many bytes in a cache, in the order in which they were used."""
    cache = KernelCache(folder, 1 << 30)
    assert cache.problem() is None
    made = []
    for number in range(count):
        assert cache.put({"number": str(number)}, bytes(size))
        (new,) = set(folder.glob("*.kernel")) - set(made)
        os.utime(new, (number + 1, number + 1))
        made.append(new)
    return made


def answer(capsys, *arguments: str, status: int = 0) -> dict:
    assert main(["cache", *arguments, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def test_size(capsys, folder):
    assert answer(capsys)["kernels"] == 0
    kernels = filled(folder)
    reproducers.keep({"a.mlir": "12345", "b.txt": "678"})
    found = answer(capsys, "size")
    assert found["folder"] == str(folder)
    assert (found["kernels"], found["kernel_bytes"]) == (3, sum(each.stat().st_size for each in kernels))
    assert (found["reproducers"], found["reproducer_bytes"]) == (1, 8)
    assert main(["cache"]) == 0
    printed = capsys.readouterr().out
    assert f"  kernels      3, {found['kernel_bytes']} bytes of {512 << 20}\n" in printed
    assert str(folder / "reproducers" / "tilewright-reproducer-") in printed


def test_prune(capsys, folder):
    kernels = filled(folder)
    assert answer(capsys, "prune")["removed_kernels"] == 0
    found = answer(capsys, "prune", "--to", "2")
    assert (found["removed_kernels"], found["kernels"]) == (2, 1)
    assert [each.exists() for each in kernels] == [False, False, True]
    reproducers.keep({"a.mlir": ""})
    found = answer(capsys, "prune", "--all")
    assert (found["kernels"], found["reproducers"], found["removed_reproducers"]) == (0, 0, 1)


def test_verify(capsys, folder):
    kernels = filled(folder)
    assert answer(capsys, "verify")["damaged"] == []
    data = bytearray(kernels[0].read_bytes())
    data[-100] ^= 1
    kernels[0].write_bytes(data)
    kernels[1].chmod(0o666)
    kernels[2].rename(folder / f"{'0' * 64}.kernel")
    found = answer(capsys, "verify", status=1)
    assert found["damaged"] == sorted([kernels[0].name, kernels[1].name, f"{'0' * 64}.kernel"])
    assert found["kernels"] == 3
    assert main(["cache", "verify"]) == 1
    assert "remove them with --remove" in capsys.readouterr().out
    assert answer(capsys, "verify", "--remove")["kernels"] == 0
    assert answer(capsys, "verify")["damaged"] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["size", "--all"], "--all with size; expected prune"),
        (["prune", "--remove"], "--remove with prune; expected verify"),
        (["prune", "--all", "--to", "3"], "both --to and --all"),
        (["clean"], "'clean' is not one of"),
    ],
)
def test_wrong_usage(capsys, arguments, says):
    assert main(["cache", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_no_cache(capsys, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_NO_CACHE", "1")
    assert main(["cache"]) == 2
    assert "there is no cache" in capsys.readouterr().err


def test_reproducers_are_bounded(folder):
    made = []
    for number in range(reproducers.MOST + 4):
        made.append(reproducers.keep({"a.mlir": str(number)}))
        os.utime(made[-1], (number, number))
    # Each was the newest one when it was made.
    assert [each.exists() for each in made] == [False] * 4 + [True] * reproducers.MOST
    assert reproducers.prune(folder, most_bytes=10) == reproducers.MOST - 5
    huge = reproducers.keep({"a.mlir": "x" * (64 << 20)})
    assert [each.folder for each in reproducers.found(folder)] == [huge]


def test_what_else_lies_there_stays(folder):
    reproducers.keep({})
    other = folder / "reproducers" / "other"
    other.mkdir()
    link = folder / "reproducers" / "tilewright-reproducer-link"
    link.symlink_to(other)
    assert reproducers.prune(folder, 0, 0) == 1
    assert other.is_dir()
    assert link.is_symlink()


@pytest.mark.parametrize("how", ["none", "unsafe"])
def test_without_a_cache_they_are_temporary(folder, monkeypatch, tmp_path, how):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if how == "none":
        monkeypatch.setenv("TILEWRIGHT_NO_CACHE", "1")
    else:
        (folder / "reproducers").mkdir(parents=True)
        (folder / "reproducers").chmod(0o777)
    assert reproducers.keep({"a.mlir": "text"}).parent == tmp_path
