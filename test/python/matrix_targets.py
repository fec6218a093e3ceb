# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the cases of `matrix` run: on this machine, or in an emulator of another."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import emulated_amx as amx
import emulated_kernel
import tilewright as tw
from tilewright.runtime import emulators
from tilewright.runtime.emulator import Emulator

X86 = {"x86-64": "qemu64", "x86-64-v2": "Nehalem", "x86-64-v3": "Haswell"}
"""Levels of x86-64, and what QEMU calls a processor of that level and no more. QEMU 7.2 knows no AVX-512."""
QEMU_X86 = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
QEMU_ARM = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")


def _computes_right(target: tw.Target) -> bool:
    """Whether the emulator that is here knows all that `target` has: of outer products of bytes old ones do not."""
    return "sme" not in target.features or QEMU_ARM is None or emulators.multiplies_bytes(emulators.find(target))


ARM = tuple(
    each.target.name for each in tw.targets() if each.target.architecture == "aarch64" and _computes_right(each.target)
)
"""Every target of QEMU's other architecture that it runs."""


GPUS = ("sm_80", "sm_90a")
"""Those whose kernels the emulator runs: all that its kind of warps and copies can be asked for."""


@dataclass(frozen=True)
class Runner:
    """A place where kernels run.

    Attributes:
        name: What it is called on the command line.
        compile: Makes a kernel of a spec and of the options of `tilewright.compile`.
        refuses: Whether some specs are not supported there, which `tilewright.SpecError` says.
        packs: Whether B can be packed ahead of time.
    """

    name: str
    compile: Callable[[tw.MatmulSpec, Mapping[str, Any]], Any]
    refuses: bool = False
    packs: bool = True


HOST = Runner("host", lambda spec, options: tw.compile(spec, cache=False, **options))


def runner(name: str) -> Runner:
    """The place of that name: "host", a row of `ARM`, "qemu:" and a level of `X86`, "amx", "gpu:" and one of `GPUS`, "vulkan"."""
    if name == "host":
        return HOST
    if name == "amx":
        # Tiles of registers take no blocks of any size.
        multiply = _fixed(amx.target("amx-fp16"), _amx())
        return Runner(name, lambda spec, options: multiply(spec, {**options, "parameters": {}}))
    if name == "vulkan" or name.startswith("gpu:"):
        # The strategies, sizes and threads of cases are a processor's.
        card = tw.targets.gpu(name.removeprefix("gpu:"))
        target = card if name == "vulkan" else card.emulated()
        return Runner(name, lambda spec, _: tw.compile(spec, target=target, cache=False), refuses=True, packs=False)
    if name.startswith("qemu:"):
        level = name.removeprefix("qemu:")
        return Runner(name, _fixed(tw.targets.get(level), Emulator(str(QEMU_X86), ("-cpu", X86[level]), exact=False)))
    return Runner(name, lambda spec, options: tw.compile(spec, cache=False, **_alone(options), target=name))


def _fixed(target: tw.Target, emulator: Emulator | None) -> Callable[[tw.MatmulSpec, Mapping[str, Any]], tw.Kernel]:
    return lambda spec, options: emulated_kernel.compiled(spec, target, emulator, **_alone(options))


def _alone(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those that the place decides: emulated kernels have one thread."""
    return {name: value for name, value in options.items() if name not in ("target", "threads")}


def _amx() -> None:
    """Lets this process run AMX: by itself, or by catching its instructions."""
    if not amx.HARDWARE:
        folder = Path(tempfile.mkdtemp(prefix="tilewright-amx-"))
        assert ctypes.CDLL(str(amx.build_emulator(folder))).amx_emulate() == 0
