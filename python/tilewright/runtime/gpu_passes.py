# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a call of a GPU kernel launches: one kernel, or two, one behind the other; and of very large products some rows after others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.operand import OperandSpec
from tilewright.operator_specs import AttentionSpec, Conv2dSpec
from tilewright.payload.attention_pass import AttentionPass
from tilewright.payload.row_pass import RowPass
from tilewright.runtime import gpu_call, gpu_convolutions
from tilewright.runtime.device_arrays import DeviceArray
from tilewright.runtime.gpu_call import Array, Problem
from tilewright.scaling import ARG
from tilewright.spec import MatmulSpec

if TYPE_CHECKING:
    from tilewright.emit.gpu_stages import GpuStages


@dataclass(frozen=True, slots=True)
class Pass:
    """One of the launches of a call.

    Attributes:
        form: Of which kernel.
        spec: What that computes, with the extents of the call.
        arrays: Its operands and its result.
    """

    form: GpuStages
    spec: Problem
    arrays: Sequence[Any]


def products(
    called: gpu_call.Called, arrays: Sequence[Array]
) -> Iterator[tuple[MatmulSpec | AttentionPass, Sequence[Array]]]:
    """The products that a call computes, each with its operands and its result: itself, or those of an operator."""
    if isinstance(called, MatmulSpec):
        if 0 not in called.c_shape:
            yield called, arrays
    elif isinstance(called, AttentionSpec):
        if 0 not in (*called.result.shape, called.sequences):  # Without keys the result is zeros.
            yield AttentionPass(called), arrays
    elif isinstance(called, Conv2dSpec):
        yield from gpu_convolutions.products(called, arrays)


def passes(
    form: GpuStages,
    called: MatmulSpec | AttentionPass,
    arrays: Sequence[Array],
    scratch: Callable[[OperandSpec], Array],
) -> Iterator[Pass]:
    """What a call launches, in order; `scratch` makes an array for what one kernel leaves to the next.

    Of products without elements there is nothing to launch.
    """
    if isinstance(called, AttentionPass):
        yield Pass(form, called, arrays)
        return
    called, arrays = without_products(called, arrays)
    rows = form.sizes.bm
    if (
        form.rows is not None and form.target.family == "vulkan"
    ):  # Whose grids have no more blocks along the first axis.
        rows = min(rows, form.rows.sizes.bn)
    for part, own in _parts(called, arrays, rows):
        if form.rows is None:
            yield Pass(form, part, own)
            continue
        inner = part.inner
        # The operands of the product come first, but for the factors, which come after those of the rows.
        count, last, between = 2 + len(inner.further), len(part.operands) - len(part.scalars), scratch(inner.result)
        if 0 not in inner.c_shape:
            yield Pass(form, inner, [*own[:count], *own[last:-1], between])
        yield Pass(form.rows, RowPass(part), [between, *own[count:last], own[-1]])


def _parts(called: MatmulSpec, arrays: Sequence[Array], rows: int) -> Iterator[tuple[MatmulSpec, Sequence[Array]]]:
    """The call, or, where its blocks of so many rows, or its entries, are more than a grid has, calls for some of them."""
    if -(-called.m // rows) > gpu_call.MOST_BLOCKS:
        step = gpu_call.MOST_BLOCKS // gpu_call.ALIGNMENT * gpu_call.ALIGNMENT * rows  # Rows start where all do.
        for start in range(0, called.m, step):
            size = min(step, called.m - start)
            yield from _parts(replace(called, m=size), _sliced(called, arrays, "m", start, size), rows)
    elif prod(called.batch) > gpu_call.MOST_BLOCKS:
        # The first one: how many entries the others have may be known to the kernel.
        axis = next(number for number, extent in enumerate(called.batch) if extent > 1)
        step = -(-called.batch[axis] // 2)
        for start in range(0, called.batch[axis], step):
            size = min(step, called.batch[axis] - start)
            yield from _parts(_of_entries(called, axis, size), _sliced(called, arrays, f"b{axis}", start, size), rows)
    else:
        yield called, arrays


def _of_entries(called: MatmulSpec, axis: int, size: int) -> MatmulSpec:
    """The same with so many entries along an axis of the batch."""

    def of(own: tuple[int, ...] | None) -> tuple[int, ...]:
        first = len(called.batch) - len(own or ())
        return tuple(
            size if first + number == axis and extent != 1 else extent for number, extent in enumerate(own or ())
        )

    return replace(called, batch=of(called.batch), a_batch=of(called.a_batch), b_batch=of(called.b_batch))


def without_products(called: MatmulSpec, arrays: Sequence[Array]) -> tuple[MatmulSpec, list[Any]]:
    """A call and its arrays, the result last, with a K of 0 where alpha is a 0 that is known here.

    An alpha in a card's memory is not: the kernel then reads A and B, and keeps their NaN out.
    """
    alpha: object = called.alpha
    if alpha == ARG:
        alpha = arrays[len(called.operands) - len(called.scalars)]
    if isinstance(alpha, DeviceArray) or alpha != 0:
        return called, list(arrays)
    return replace(called, k=0), _sliced(called, arrays, "k", 0, 0)


def _sliced(called: MatmulSpec, arrays: Sequence[Array], name: str, start: int, size: int) -> list[Array]:
    """Some of the rows, or entries, of all operands that have such: `size` from `start` on, along the extent `name`."""
    operands = *called.operands, called.result
    return [_of(each, array, name, start, size) for each, array in zip(operands, arrays, strict=True)]


def _of(operand: OperandSpec, array: Array, name: str, start: int, size: int) -> Array:
    if name not in operand.names:
        return array
    axis = operand.names.index(name)
    if axis == len(operand.names) - 1:  # Elements that may share a byte: parts have whole bytes.
        start, size = start // operand.type.packed, -(-size // operand.type.packed)
    if isinstance(array, np.ndarray):
        return array[(slice(None),) * axis + (slice(start, start + size),)]
    shape = (*array.shape[:axis], size, *array.shape[axis + 1 :])
    return replace(array, address=array.address + start * array.strides[axis], shape=shape)
