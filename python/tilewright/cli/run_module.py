# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright run FILE.mlir``: compile a module, run its functions on random data, check, and time.

There is no reference for what users write. So the results are compared with those of the same module compiled in the plainest way:
without products, fusion and vectors, as loops over elements.
"""

from __future__ import annotations

import secrets
import statistics
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.bench.operands import values
from tilewright.bench.timing import Loop
from tilewright.dtypes import DType, to_numpy
from tilewright.errors import SpecError
from tilewright.payload.reference import relative_error
from tilewright.payload.signature import Signature

if TYPE_CHECKING:
    from tilewright.runtime.module import Function

_SAMPLES = 7
_SAMPLE_SECONDS = 0.03


def run(text: str, file: str, target: str, threads: int, seed: int | None) -> int:
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
        seconds, error, allowed = _measure(function, plain[name], np.random.default_rng(seed))
        operations = function.signature.operations
        rate = f", {operations / seconds * 1e-9:.1f} GFLOP/s in its products" if operations else ""
        verdict = "ok" if error <= allowed else "WRONG"
        right = right and error <= allowed
        lines += [f"  {function.signature}", *(f"    product {each}" for each in function.signature.products)]
        lines += [
            f"    time    {duration(seconds)} a call, median of {_SAMPLES} samples{rate}",
            f"    error   {error:.2g} relative to loops over elements (seed {seed}): {verdict}",
        ]
    for line in lines:
        out.print(line, soft_wrap=True, highlight=False, markup=False)
    return 0 if right else 1


def _measure(function: Function, plain: Function, random: np.random.Generator) -> tuple[float, float, float]:
    """The median time of a call, the largest relative error of a result, and what is allowed."""
    signature = function.signature
    _require_memory(signature)
    given = [values(random, each.shape, each.type) for each in signature.arguments]
    results = []
    for each in (function, plain):
        arguments = [array.copy() for array in given]
        returned = each(*arguments)
        found = list(returned) if isinstance(returned, tuple) else [returned] * (returned is not None)
        written = [array for array, of in zip(arguments, signature.arguments, strict=True) if of.written]
        results.append(found + written)
    error = max((relative_error(*pair) for pair in zip(*results, strict=True)), default=0.0)
    written_types = [each.type for each in signature.parameters if each.written]
    outs = [np.empty(each.shape, to_numpy(each.type)) for each in signature.results]
    named: dict[str, Any] = {"out": tuple(outs) if len(outs) > 1 else outs[0]} if outs else {}
    loop = Loop([lambda: function(*given, **named)])
    count = loop.calibrate(_SAMPLE_SECONDS)
    seconds = statistics.median(loop.sample(count) for _ in range(_SAMPLES))
    return seconds, error, max(map(_allowed, written_types), default=0.0)


def _allowed(element: DType) -> float:
    """The relative error from which on a result is called wrong: half of the digits; of integers, one in a hundred is rounded otherwise."""
    return 0.01 if element.roundoff is None else element.roundoff**0.5


def _require_memory(signature: Signature) -> None:
    """Checks that the tensors are not larger than anything that can be tried out.

    Raises:
        SpecError: They are.
    """
    needed = sum(int(np.prod(each.shape, dtype=object)) * each.type.bytes for each in signature.parameters)
    if needed > 1 << 34:
        raise SpecError(
            f"the tensors of {signature.name} take {needed / 2**30:.1f} GiB",
            where="run",
            expected="at most 16 GiB",
            remedy="Compile it with `tilewright compile`",
        )
