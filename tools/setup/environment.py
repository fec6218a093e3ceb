# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The virtual environment, with the package installed editable and what building and checking need."""

from __future__ import annotations

import hashlib
import sys

from common import ROOT, VENV, VENV_PYTHON, run

STAMP = VENV / "tilewright-setup.stamp"


def ensure() -> None:
    """Makes or refreshes .venv when the requirements or the interpreter changed since it was made.

    Raises:
        SetupError: venv or pip failed.
    """
    wanted = _fingerprint()
    if VENV_PYTHON.exists() and STAMP.exists() and STAMP.read_text(encoding="utf-8") == wanted:
        return
    if not VENV_PYTHON.exists():
        run([sys.executable, "-I", "-m", "venv", VENV], what=f"making {VENV.name} with Python {sys.version.split()[0]}")
    pip = [VENV_PYTHON, "-I", "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar=off"]
    # Without build isolation nanobind's path stays the same, and with it every ccache entry.
    run([*pip, "setuptools>=64", "wheel"], what="installing pip's own needs")
    run([*pip, "--no-build-isolation", "-e", ".[dev,bench]"], what="installing Python packages")
    STAMP.write_text(wanted, encoding="utf-8")


def _fingerprint() -> str:
    """Changes whenever the environment has to be made anew."""
    total = hashlib.sha256()
    for part in (sys.version, str(ROOT)):
        total.update(part.encode())
    for name in ("pyproject.toml", "setup.py"):
        total.update((ROOT / name).read_bytes())
    return total.hexdigest()
