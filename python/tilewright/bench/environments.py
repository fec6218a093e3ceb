# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python environments of the peers, one each, so that no library loads another one's numpy, MKL or OpenMP.

They are in the folder that `knobs` names; `tilewright bench setup` makes them with venv and pip.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tilewright import knobs
from tilewright.errors import TilewrightError
from tilewright.processes.command import command

_STAMP = "tilewright.json"
_COMMON = ("numpy>=1.24", "ml_dtypes>=0.5")  # what a peer's process needs of ours


@dataclass(frozen=True, slots=True)
class Environment:
    """What one environment holds.

    Attributes:
        name: Its folder's name.
        requirements: What pip installs, besides what every peer's process needs, and options for it.
        imports: A module that can be imported when all is well.
    """

    name: str
    requirements: tuple[str, ...]
    imports: str

    @property
    def stamp(self) -> str:
        """What a finished environment says about itself: another list of requirements makes it anew."""
        return json.dumps([*_COMMON, *self.requirements])


MODELS = "models"
"""The environment of whole models, which no peer of single products is measured in."""
_WHOLE = (
    "torch==2.13.0",
    "torchvision==0.28.0",
    "transformers>=5",
    "onnxruntime>=1.18",
    "onnx>=1.16",
    "onnxscript>=0.5",
)
"""Whole models, and what compiles them: a process has them all."""
TRITON = "triton"
"""The environment in which Triton compiles kernels for the emulator of GPUs."""
CLUSTER = "cluster"
"""The environment of what runs calls on many machines, where `tilewright` itself is imported too."""
_MANY = ("distributed>=2024.1", "ray[client]>=2.9", "mpi4py>=4", "click>=8.1", "rich>=13", "cloudpickle>=3,<3.1.3")

_GGML = ("llama-cpp-python==0.3.36", "--config-settings=cmake.define.LLAVA_BUILD=OFF")
"""Built from source, in some minutes, without its readers of pictures."""

_ROWS = (
    Environment("numpy", (), "numpy"),
    Environment("mkl", ("mkl", "intel-openmp"), "numpy"),
    Environment("torch", ("torch==2.13.0",), "torch"),
    # flatbuffers: exported programs as bytes. tvm-ffi: libraries under JAX and numpy without tilewright.
    Environment("jax", ("jax>=0.8", "flatbuffers", "apache-tvm-ffi>=0.1.10", "jax-tvm-ffi>=0.1.3"), "jax"),
    Environment("iree", ("iree-base-compiler>=3.1", "iree-base-runtime>=3.1"), "iree.runtime"),
    Environment("ggml", _GGML, "llama_cpp"),
    Environment("onnxruntime", ("onnxruntime>=1.18", "onnx>=1.16"), "onnxruntime"),
    Environment(TRITON, ("triton>=3.4",), "triton"),
    Environment(MODELS, _WHOLE, "torch, transformers, onnxruntime"),
    Environment(CLUSTER, _MANY, "distributed, ray, mpi4py"),
)

ENVIRONMENTS: Mapping[str, Environment] = MappingProxyType({row.name: row for row in _ROWS})
"""Every environment, by name."""


def folder() -> Path | None:
    """The folder of the environments, or None without a home folder."""
    return knobs.load().peers_dir


def python(name: str) -> Path | None:
    """The interpreter of a finished environment, or None."""
    place = folder()
    if place is None:
        return None
    interpreter = place / name / "bin" / "python"
    try:
        ready = (place / name / _STAMP).read_text(encoding="utf-8") == ENVIRONMENTS[name].stamp
    except OSError:
        return None
    return interpreter if ready and interpreter.exists() else None


@dataclass(frozen=True, slots=True)
class Made:
    """The outcome of setting up one environment.

    Attributes:
        name: Which one.
        problem: None when it is ready, else why not.
        megabytes: What it takes on disk, in 10⁶ bytes; 0 when it is not there.
        new: Whether it was made now.
    """

    name: str
    problem: str | None
    megabytes: float
    new: bool


def setup(
    name: str,
    run: Callable[[list[str]], subprocess.CompletedProcess[str]] | None = None,
) -> Made:
    """Makes an environment, unless it is there already; a failure leaves nothing behind. Of processes that make the same one, one does.

    Args:
        name: Which one.
        run: Runs a command and captures what it says; None: `subprocess.run`.

    Raises:
        TilewrightError: There is no folder to put it in.
    """
    place = folder()
    if place is None:
        raise TilewrightError(
            "no folder for the peers", where="bench", remedy="Set TILEWRIGHT_PEERS_DIR to a folder that can be written"
        )
    place.mkdir(parents=True, exist_ok=True)
    with (place / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Waits while another process makes it.
        return _made(name, place / name, run or _run)


def _made(name: str, target: Path, run: Callable[[list[str]], subprocess.CompletedProcess[str]]) -> Made:
    if python(name) is not None:
        return Made(name, None, _megabytes(target), new=False)
    row = ENVIRONMENTS[name]
    shutil.rmtree(target, ignore_errors=True)
    interpreter = str(target / "bin" / "python")
    commands = (
        command("venv", str(target)),
        [
            interpreter,
            "-I",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *_COMMON,
            *row.requirements,
        ],
        [interpreter, "-I", "-c", f"import numpy, ml_dtypes, {row.imports}"],
    )
    for each in commands:
        done = run(each)
        if done.returncode:
            shutil.rmtree(target, ignore_errors=True)
            return Made(name, _reason(done), 0.0, new=False)
    (target / _STAMP).write_text(row.stamp, encoding="utf-8")
    return Made(name, None, _megabytes(target), new=True)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """The line of a failed command's words that says most: the last that names an error, else the last one."""
    lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [f"status {done.returncode}"])[-1]


def _megabytes(directory: Path) -> float:
    return sum(file.lstat().st_size for file in directory.rglob("*") if not file.is_dir()) * 1e-6
