# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What type checkers and installers read of the package, and what its source distribution holds."""

import shutil
import subprocess
import sys
import tarfile
from importlib.resources import files
from pathlib import Path

import pytest
import tilewright
from packaging.metadata import Metadata

ROOT = Path(__file__).parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
OF_SETUPTOOLS = {"PKG-INFO", "setup.cfg", "python/tilewright.egg-info/SOURCES.txt"}


def test_type_checkers_are_told_that_there_are_hints():
    assert (files("tilewright") / "py.typed").is_file()
    assert '"Typing :: Typed"' in PROJECT
    assert '[tool.setuptools.package-data]\n"*" = ["*"]' in PROJECT  # so that a wheel has it too


def test_the_version_has_its_changes():
    assert f"\n## {tilewright.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def tracked() -> list[str]:
    """The files of the checkout."""
    git = shutil.which("git")
    done = subprocess.run([git or "false", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("this is no checkout of git")
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def test_a_source_distribution_holds_every_tracked_file_and_nothing_that_was_built(tmp_path):
    names = tracked()
    built = ["python/tilewright/mlir/ir.py", "python/tilewright/bin/service.ll", "python/tilewright/_codegen.so"]
    for name in names + built:
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        if name in built:
            (tmp_path / "tree" / name).write_text("built")
        else:
            shutil.copy(ROOT / name, tmp_path / "tree" / name)
    make = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-I", "-c", make], cwd=tmp_path / "tree", capture_output=True, check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        held = {each.name.partition("/")[2] for each in opened.getmembers() if each.isfile()}
        about = opened.extractfile(f"tilewright-{tilewright.__version__}/PKG-INFO")
        assert about is not None
        # Of setuptools before 77, which writes it before the version of metadata that has it.
        lines = [line for line in about.read().splitlines() if not line.startswith(b"License-File: ")]
        metadata = Metadata.from_email(b"\n".join(lines), validate=True)
    assert held - OF_SETUPTOOLS == set(names)
    assert metadata.description_content_type == "text/markdown"
    assert metadata.license is not None


def test_a_wheel_of_sources_that_are_not_built_is_refused(tmp_path):
    shutil.copy(ROOT / "setup.py", tmp_path)
    done = subprocess.run(
        [sys.executable, "-I", "setup.py", "build"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "run `make wheel`, or `make setup` first" in done.stderr


def test_the_project_of_calls_alone_counts_as_built(tmp_path):
    shutil.copy(ROOT / "setup.py", tmp_path)
    (tmp_path / "tilewright_runtime").mkdir()
    (tmp_path / "tilewright_runtime" / "_native.so").touch()
    done = subprocess.run(
        [sys.executable, "-I", "setup.py", "build"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
