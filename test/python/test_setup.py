# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The set-up scripts: what they choose, refuse and check. That they build is what every other test shows."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETUP = ROOT / "tools" / "setup"
sys.path.insert(0, str(SETUP))

import apt_source  # noqa: E402
import common  # noqa: E402
import llvm  # noqa: E402
import native  # noqa: E402
import openblas_arm  # noqa: E402
import packages  # noqa: E402
import sources  # noqa: E402


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """A stand-in for llvm-project's mlir/ with one file in each folder."""
    for name in ("python/CMakeLists.txt", "lib/Bindings/Python/IRCore.cpp"):
        (tmp_path / "mlir" / name).parent.mkdir(parents=True)
        (tmp_path / "mlir" / name).write_text(name)
    return tmp_path / "mlir"


def an_llvm(prefix: Path) -> Path:
    """Makes the files by which a complete LLVM is told."""
    for name in ("lib/cmake/mlir/MLIRConfig.cmake", "bin/mlir-tblgen", "bin/FileCheck"):
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).touch()
    return prefix


@pytest.mark.parametrize("variable", ["MLIR_DIR", "LLVM_DIR"])
@pytest.mark.parametrize("below", ["", "lib/cmake/mlir", "lib/cmake/llvm"])
def test_another_llvm_is_used(monkeypatch, tmp_path, variable, below):
    monkeypatch.delenv("MLIR_DIR", raising=False)
    monkeypatch.setenv(variable, str(an_llvm(tmp_path) / below))
    chosen = llvm.select()
    assert (chosen.prefix, chosen.chosen) == (tmp_path, True)
    assert not any("llvm" in package for need in packages.needs(chosen) for package in need.packages if need.required)


def test_an_incomplete_llvm_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("MLIR_DIR", str(tmp_path))
    with pytest.raises(common.SetupError, match=r"MLIR_DIR=.*: expected an LLVM 22 with MLIR"):
        llvm.select()


def test_what_is_missing_without_apt_is_named(monkeypatch):
    nothing = packages.Need("LLVM 22 with MLIR", lambda: False, ("llvm-22-dev", "libmlir-22-dev"))
    monkeypatch.setattr(packages, "needs", lambda _: [nothing])
    monkeypatch.setattr(packages, "has_program", lambda _: False)
    with pytest.raises(common.SetupError, match=r"missing: LLVM 22 with MLIR.*llvm-22-dev libmlir-22-dev.*MLIR_DIR"):
        packages.ensure(llvm.select())


def test_what_is_optional_is_done_without(monkeypatch, capsys):
    optional = packages.Need("ccache", lambda: False, ("ccache",), required=False)
    monkeypatch.setattr(packages, "needs", lambda _: [optional])
    monkeypatch.setattr(packages, "has_program", lambda _: False)
    packages.ensure(llvm.select())
    assert "going on without ccache" in capsys.readouterr().out


def test_nothing_is_installed_when_nothing_is_missing(monkeypatch):
    monkeypatch.setattr(packages, "run", lambda *_, **__: pytest.fail("apt was called"))
    monkeypatch.setattr(packages, "needs", lambda _: [packages.Need("x", lambda: True, ("x",))])
    packages.ensure(llvm.select())


def test_digest_sees_names_and_contents(upstream):
    before = sources.digest(upstream)
    (upstream / "test.cpp").write_text("not wanted")
    assert sources.digest(upstream) == before
    (upstream / "python" / "CMakeLists.txt").write_text("other")
    changed = sources.digest(upstream)
    (upstream / "python" / "CMakeLists.txt").rename(upstream / "python" / "more.txt")
    assert len({before, changed, sources.digest(upstream)}) == 3


def test_unpack_takes_only_what_is_wanted(tmp_path):
    archive = tmp_path / "llvm-project.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        for name in (
            "llvm/mlir/python/a.py",
            "llvm/mlir/lib/Bindings/Python/b.cpp",
            "llvm/mlir/lib/IR/c.cpp",
            "llvm/clang/python/d.py",
            "llvm/mlir/python/../../../e.py",
        ):
            member = tarfile.TarInfo(name)
            member.size = len(name)
            tar.addfile(member, io.BytesIO(name.encode()))
    sources.unpack(archive, tmp_path / "out")
    found = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*"))
    assert found == ["lib/Bindings/Python/b.cpp", "python/a.py"]


def test_sources_by_hand_come_first(monkeypatch, upstream, capsys):
    monkeypatch.setenv("MLIR_PYTHON_SOURCES", str(upstream.parent))
    assert sources.locate(llvm.select()) == upstream
    assert "not the files of" in capsys.readouterr().out


def test_wrong_sources_by_hand_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("MLIR_PYTHON_SOURCES", str(tmp_path))
    with pytest.raises(common.SetupError, match=r"MLIR_PYTHON_SOURCES=.*expected llvm-project's mlir/"):
        sources.locate(llvm.select())


def test_damaged_cache_is_fetched_again_and_a_bad_download_is_refused(monkeypatch, tmp_path, upstream):
    """Both places give files with another sum: nothing of them stays in the cache."""
    cached = tmp_path / "cache" / "tilewright" / f"mlir-python-{common.LLVM_VERSION}"
    cached.mkdir(parents=True)
    monkeypatch.delenv("MLIR_PYTHON_SOURCES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = tmp_path / "a.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(upstream, "llvm/mlir")
    monkeypatch.setattr(apt_source, "download", lambda _: archive)
    monkeypatch.setattr(sources, "_download_release", lambda _: archive)
    with pytest.raises(common.SetupError, match=r"cannot get MLIR's binding sources.*MLIR_PYTHON_SOURCES"):
        sources.locate(llvm.LLVM(tmp_path, chosen=True))
    assert list(cached.parent.iterdir()) == []


def test_good_download_is_cached(monkeypatch, tmp_path, upstream):
    monkeypatch.delenv("MLIR_PYTHON_SOURCES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sources.FILES_SHA256, common.LLVM_VERSION, sources.digest(upstream))
    archive = tmp_path / "a.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(upstream, "llvm/mlir")
    monkeypatch.setattr(apt_source, "download", lambda _: archive)
    first = sources.locate(llvm.LLVM(tmp_path, chosen=True))
    monkeypatch.setattr(apt_source, "download", lambda _: pytest.fail("downloaded again"))
    assert sources.locate(llvm.LLVM(tmp_path, chosen=True)) == first
    assert first is not None
    assert (first / "python" / "CMakeLists.txt").exists()


def test_compiler_of_the_environment_wins(monkeypatch):
    monkeypatch.setenv("CXX", "g++")
    monkeypatch.delenv("CC", raising=False)
    command = native._configure_command(llvm.select(), None)
    assert "-DCMAKE_CXX_COMPILER=g++" in command
    assert not any("clang" in word or "LLVM_USE_LINKER" in word for word in command)


def test_unknown_step_of_check_is_refused():
    done = subprocess.run([sys.executable, SETUP / "check.py", "lnt"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "check: unknown step lnt; expected lint, lit, pytest, long, browser, format\n"


def test_make_alone_prints_every_target():
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in (
        "setup",
        "setup-bench",
        "setup-frameworks",
        "demo",
        "check",
        "bench",
        "bench-quick",
        "fmt",
        "lint",
        "docs",
        "wheel",
        "clean",
    ):
        assert f"make {target}" in done.stdout


def test_openblas_for_arm_is_looked_for_where_the_package_looks(monkeypatch, tmp_path):
    from tilewright import knobs

    for variable in ("TILEWRIGHT_PEERS_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
        peers = knobs.load().peers_dir
        assert peers is not None
        assert openblas_arm.folder() == peers / "openblas-arm64"
        monkeypatch.delenv(variable)


def test_openblas_for_arm_is_fetched_once(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWRIGHT_PEERS_DIR", str(tmp_path))
    found = tmp_path / "openblas-arm64"
    found.mkdir()
    (found / openblas_arm.VERSION).write_text("0")
    monkeypatch.setattr(openblas_arm, "run", lambda *_, **__: pytest.fail("apt was called"))
    openblas_arm.ensure()


def test_without_a_mirror_nothing_is_left_of_openblas_for_arm(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWRIGHT_PEERS_DIR", str(tmp_path))
    monkeypatch.setattr(openblas_arm, "output", lambda _: "http://mirror.invalid/other stable\n")
    with pytest.raises(common.SetupError, match="apt has no Debian mirror"):
        openblas_arm.ensure()
    assert list(tmp_path.iterdir()) == []
