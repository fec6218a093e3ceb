# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright run FILE.mlir``: compile a module, run its functions on random data, check, and time."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np

from tilewright.bench import functions

if TYPE_CHECKING:
    from tilewright.targets import GpuTarget, Target


def run(text: str, file: str, target: str | Target | GpuTarget, threads: int, seed: int | None) -> int:
    """Runs every function of the module, and returns the exit status: 1 when a result is wrong."""
    import tilewright as tw
    from tilewright.cli.output import console, duration

    seed = secrets.randbits(32) if seed is None else seed
    module = tw.compile_module(text, target, threads, filename=file)
    plain = tw.compile_module(text, target, filename=file, plain=True)
    facts, out = module.metadata, console()
    how = "from the cache" if facts.cached else "compiled"
    lines = [
        f"{file} on {facts.target}",
        f"  compile   {facts.compile_seconds:.3f} s ({how}), {facts.object_bytes} bytes of object code",
    ]
    right = True
    for name, function in module.items():
        random, is_open = np.random.default_rng(seed), function.signature.is_open
        error = max(functions.errors(function, plain[name], random))
        seconds, allowed = functions.seconds_of(function, random), functions.allowed(function.signature)
        operations = 0 if is_open else function.signature.operations
        rate = f", {operations / seconds * 1e-9:.1f} GFLOP/s in its products" if operations else ""
        verdict = "ok" if error <= allowed else "WRONG"
        right = right and error <= allowed
        lines += [f"  {function.signature}", *(f"    product {each}" for each in function.signature.products)]
        lines += [
            f"    time    {duration(seconds)} a call, median of {functions.SAMPLES} samples{rate}{_OPEN if is_open else ''}",
            f"    error   {error:.2g} relative to loops over elements (seed {seed}): {verdict}",
        ]
    for line in lines:
        out.print(line, soft_wrap=True, highlight=False, markup=False)
    return 0 if right else 1


_OPEN = f", each open extent being {functions.OPEN_SIZES[-1][0]}"
