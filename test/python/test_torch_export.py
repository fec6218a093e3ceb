# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A package of AOTInductor with ops of ours runs in a program without Python. Compiling both takes a minute: in the long form only."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tilewright.bench import environments

ROOT = Path(__file__).parents[2]
OPS = ROOT / "python" / "tilewright" / "torch" / "libtilewright_torch.so"


def run(*command: object, **variables: str) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=900, env={**os.environ, **variables}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_package_runs_without_python(tmp_path, request):
    python, compiler = environments.python("torch"), shutil.which("c++")
    if request.config.getoption("--length") != "long":
        pytest.skip("compiling takes a minute (--length long, as of make check-long, runs it)")
    if python is None or compiler is None or not OPS.exists():
        pytest.skip("no environment with torch, no ops (make setup-torch makes both), or no C++ compiler")
    run(
        python,
        "-W",
        "ignore",
        ROOT / "test" / "Inputs" / "export_to_aoti.py",
        tmp_path,
        PYTHONPATH=str(ROOT / "python"),
    )
    torch = Path(run(python, "-c", "import torch; print(torch.__path__[0])").strip())
    program = tmp_path / "run_aoti"
    libraries = ("-L", torch / "lib", "-ltorch_cpu", "-ltorch", "-lc10", f"-Wl,-rpath,{torch / 'lib'}", "-ldl")
    source = ROOT / "test" / "Inputs" / "run_aoti.cpp"
    run(compiler, "-std=c++20", "-O0", "-I", torch / "include", source, "-o", program, *libraries)
    files = [tmp_path / name for name in ("model.pt2", "in.bin", "out.bin")]
    printed = run(program, OPS, *files, TILEWRIGHT_TORCH_LIBRARIES=str(tmp_path / "liblayers.so"), OMP_NUM_THREADS="1")
    assert printed == "right, without Python\n"
