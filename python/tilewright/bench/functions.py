# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls the functions of a module on random arguments: compares them with the same functions compiled plainly, and times them.

There is no reference for what users write. So the results are compared with those of the same module compiled in the plainest way:
without products, fusion and vectors, as loops over elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.bench.timing import median_of
from tilewright.dims import Dim
from tilewright.dtypes import DType, to_numpy
from tilewright.errors import SpecError
from tilewright.payload.reference import relative_error
from tilewright.payload.samples import values
from tilewright.payload.signature import Parameter, Signature

if TYPE_CHECKING:
    from tilewright.runtime.kernel import Kernel

OPEN_SIZES = ((1, 1), (7, 30), (64, 0))
"""Values with which dynamic extents are checked, dimension i being a + b * i; they are timed with the last."""
SAMPLES = 7


def _shape(parameter: Parameter, sizes: tuple[int, int]) -> tuple[int, ...]:
    """The extents of a tensor, with the dynamic ones as one of `OPEN_SIZES` has them."""
    first, more = sizes
    names = parameter.names or [""] * len(parameter.shape)
    numbered = zip(parameter.shape, names, strict=True)
    return tuple(first + more * int(name[1:]) if isinstance(size, Dim) else size for size, name in numbered)


def _given(signature: Signature, random: np.random.Generator, sizes: tuple[int, int]) -> list[Any]:
    """Random arguments."""
    needed = sum(int(np.prod(_shape(each, sizes), dtype=object)) * each.type.bytes for each in signature.parameters)
    _require_memory(signature, needed)
    return [values(random, _shape(each, sizes), each.type) for each in signature.arguments]


def check(function: Kernel, plain: Kernel, random: np.random.Generator, sizes: tuple[int, int]) -> float:
    """The largest relative error of a result."""
    signature = function.signature
    given = _given(signature, random, sizes)
    results = []
    for each in (function, plain):
        arguments = [array.copy() for array in given]
        returned = each(*arguments)
        found = list(returned) if isinstance(returned, tuple) else [returned] * (returned is not None)
        written = [array for array, of in zip(arguments, signature.arguments, strict=True) if of.written]
        results.append(found + written)
    return max((relative_error(*pair) for pair in zip(*results, strict=True)), default=0.0)


def seconds_of(function: Kernel, random: np.random.Generator) -> float:
    """The median time of a call."""
    signature, sizes = function.signature, OPEN_SIZES[-1]
    given = _given(signature, random, sizes)
    outs = [np.empty(_shape(each, sizes), to_numpy(each.type)) for each in signature.results]
    named: dict[str, Any] = {"out": tuple(outs) if len(outs) > 1 else outs[0]} if outs else {}
    seconds, _ = median_of(lambda: function(*given, **named), SAMPLES)
    return seconds


def allowed(signature: Signature) -> float:
    """The relative error from which on a result is called wrong: half of the digits; of integers, one in a hundred is rounded otherwise."""
    return max((_allowed(each.type) for each in signature.parameters if each.written), default=0.0)


def errors(function: Kernel, plain: Kernel, random: np.random.Generator) -> list[float]:
    """The relative errors of a function's calls; one with dynamic extents is called with several."""
    tried = OPEN_SIZES if function.signature.is_open else OPEN_SIZES[-1:]
    return [check(function, plain, random, each) for each in tried]


def _allowed(element: DType) -> float:
    """That of a result of one type."""
    return 0.01 if element.roundoff is None else element.roundoff**0.5


def _require_memory(signature: Signature, needed: int) -> None:
    """Checks that the tensors, of so many bytes, are not larger than anything that can be tried out.

    Raises:
        SpecError: They are.
    """
    if needed > 1 << 34:
        raise SpecError(
            f"the tensors of {signature.name} take {needed / 2**30:.1f} GiB",
            where="run",
            expected="at most 16 GiB",
            remedy="Compile it with `tilewright compile`",
        )
