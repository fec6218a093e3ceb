# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What type checkers and installers read of the package."""

from importlib.resources import files
from pathlib import Path

import tilewright

ROOT = Path(__file__).parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_type_checkers_are_told_that_there_are_hints():
    assert (files("tilewright") / "py.typed").is_file()
    assert '"Typing :: Typed"' in PROJECT
    assert '[tool.setuptools.package-data]\n"*" = ["*"]' in PROJECT  # so that a wheel has it too


def test_the_version_has_its_changes():
    assert f"\n## {tilewright.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
