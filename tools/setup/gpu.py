# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Installs what checking GPU kernels without a GPU needs: a Vulkan driver for the CPU, NVIDIA's assembler. `make setup-gpu` calls it."""

from __future__ import annotations

import sys
from pathlib import Path

import packages
from common import VENV_PYTHON, SetupError, run, say

NEEDS = [
    packages.Need(
        "a Vulkan driver",
        lambda: any(Path("/usr/share/vulkan/icd.d").glob("*.json")),
        ("mesa-vulkan-drivers", "libvulkan1"),
        required=False,
    ),
    packages.Need("spirv-val", lambda: packages.has_program("spirv-val"), ("spirv-tools",), required=False),
]
WHEELS = {
    "vulkan": "the tests that run compute shaders are skipped",
    "nvidia-cuda-nvcc": "the tests that assemble PTX are skipped, unless ptxas is on the path",
    "cuda-core": "the tests that call kernels on a card, or on a fake one, are skipped",
    "nvidia-cuda-nvdisasm": "the tests that look at NVIDIA's instructions are skipped, unless nvdisasm is on the path",
}
"""Python packages, and what is lost without each."""
NEEDED_BY = {"vulkan": ("cffi", "pycparser"), "cuda-core": ("cuda-bindings", "cuda-pathfinder")}
"""What those need that the project's environment may lack."""


def main() -> int:
    """Installs what is missing; 0 also where it cannot be had, after a line that says why."""
    try:
        packages.provide(NEEDS)
    except SetupError as error:
        say(f"{error}; the tests that run compute shaders are skipped")
    for wheel, loss in WHEELS.items():
        if packages.is_installed(wheel):
            continue
        try:
            pip = [VENV_PYTHON, "-I", "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps"]
            run([*pip, wheel, *NEEDED_BY.get(wheel, ())], what=f"installing {wheel}")
        except SetupError as error:
            say(f"going on without {wheel}: {loss} ({error})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
