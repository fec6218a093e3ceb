# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs AMX kernels in a process of their own: on the hardware, or in the emulator of ``test/emulators/amx.c``."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import tilewright as tw
from products import Bordered
from tilewright.emit import shared, stages
from tilewright.runtime.openmp import openmp_file
from tilewright.schedules import make

KINDS = (
    *("ldtilecfg", "sttilecfg", "tilerelease", "tilezero", "tileloadd", "tileloaddt1", "tilestored"),
    *("tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud", "tdpbf16ps", "tdpfp16ps"),
)
"""The emulator's counters, in order."""
FAULT = 86
"""The exit status with which the emulator ends a process that hardware would not run on."""

_SOURCE = Path(__file__).parents[1] / "emulators" / "amx.c"
CLANG = shutil.which("clang-22") or shutil.which("clang")
HARDWARE = "amx-tile" in tw.targets.resolve("host").features

# Loads the emulator, unless its name is empty, and the kernel; calls it on the operands; prints the counts.
_CHILD = """
import ctypes, json, sys
import numpy as np

emulator, kernel, file, kinds = sys.argv[1:]
library = ctypes.CDLL(kernel)
data = np.load(file)
arrays, starts, extents = [data[name] for name in "abc"], data["starts"].tolist(), data["extents"].tolist()
if emulator:
    amx = ctypes.CDLL(emulator)
    assert amx.amx_emulate() == 0
places = []
for array, start in zip(arrays, starts):
    places += [ctypes.c_void_p(array.ctypes.data + start * array.itemsize), ctypes.c_int64(array.shape[1])]
status = library.matmul(*map(ctypes.c_int64, extents), *places)
counts = dict(zip(json.loads(kinds), (ctypes.c_uint64 * 13).in_dll(amx, "amx_counts"))) if emulator else {}
if emulator:
    counts["crowded"] = ctypes.c_uint64.in_dll(amx, "amx_crowded").value
np.savez(file, *arrays)
print(json.dumps([status, counts]))
"""

AS_HOST = """
import ctypes, sys
from tilewright.targets import host

architecture, flags = host.machine()
host.machine = lambda: (architecture, flags | {"amx_tile", "amx_bf16", "amx_int8"})
emulator = ctypes.CDLL(sys.argv[1])
assert emulator.amx_emulate() == 0


def products():
    return sum((ctypes.c_uint64 * 13).in_dll(emulator, "amx_counts")[7:])

"""
"""What a Python program begins with, whose first argument is the emulator, so that it is on this machine with AMX."""


def target(*features: str) -> tw.Target:
    """The host with AMX and more features, under another name; where it has AMX itself, with those that it has."""
    host = tw.targets.resolve("host")
    more = set() if HARDWARE else {"amx-tile", "amx-int8", "amx-bf16", *features}
    return replace(host, name="emulated", features=host.features | more)


def build_emulator(folder: Path) -> Path:
    """The emulator as a shared library in `folder`."""
    library = folder / "amx.so"
    command = [str(CLANG), "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)]
    subprocess.run(command, check=True)
    return library


def build_kernel(
    folder: Path,
    spec: tw.MatmulSpec,
    to: tw.Target,
    strategy: str | None = None,
    sizes: Mapping[str, int] | None = None,
    threads: int = 1,
) -> Path:
    """The shared library of a kernel, in `folder`."""
    plan = make.make(spec, to, strategy, sizes or {}, threads)
    made = stages.build(spec, to, plan, for_linking=True)
    library = folder / "kernel.so"
    library.write_bytes(shared.link(made.object, openmp_file() if plan.threads > 1 else ""))
    return library


def run(
    folder: Path, emulator: Path | None, kernel: Path, spec: tw.MatmulSpec, operands: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, dict[str, int]]:
    """Runs a kernel on A, B and the former C, in rows that are longer, and checks that nothing around them changes.

    Returns the new C, and where it was emulated how often each instruction ran, and for how many tiles two rows were in one set of L1.
    """
    file = folder / "operands.npz"
    bordered = [Bordered.of(each) for each in operands]
    starts = [(each.inner.ctypes.data - each.whole.ctypes.data) // each.whole.itemsize for each in bordered]
    extents = [spec.m, spec.n, spec.k]
    bits = {name: each.whole.view(f"u{each.whole.itemsize}") for name, each in zip("abc", bordered, strict=True)}
    np.savez(file, allow_pickle=False, starts=np.array(starts), extents=np.array(extents), **bits)
    arguments = [str(emulator or ""), str(kernel), str(file), json.dumps(KINDS)]
    done = subprocess.run([sys.executable, "-I", "-c", _CHILD, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    status, counts = json.loads(done.stdout)
    assert status == 0
    after = np.load(file)
    for number, each in enumerate(bordered):
        each.whole[...] = after[f"arr_{number}"].view(each.whole.dtype)
    assert bordered[0].is_untouched()
    assert bordered[1].is_untouched()
    assert bordered[2].border_is_untouched()
    return bordered[2].inner, counts
