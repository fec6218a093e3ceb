# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The version is written twice, and the same both times."""

from pathlib import Path

import tilewright
from tilewright.version import VERSION

ROOT = Path(__file__).parents[2]


def test_the_package_and_its_project_file_agree() -> None:
    assert f'version = "{VERSION}"' in (ROOT / "pyproject.toml").read_text()
    assert tilewright.__version__ == VERSION
