# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a call of a GPU kernel comes to: the operands checked, how they are laid out, and the sizes of the launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dims import Dim, fits, least
from tilewright.dtypes import stored_numpy, to_numpy
from tilewright.errors import OperandError
from tilewright.operator_specs import AttentionSpec, Conv2dSpec, OperatorSpec
from tilewright.payload import attention_entries
from tilewright.payload.attention_pass import AttentionPass
from tilewright.payload.row_pass import RowPass
from tilewright.runtime import gpu_numbers
from tilewright.runtime.device_arrays import DeviceArray
from tilewright.runtime.launches import Launch
from tilewright.spec import MatmulSpec, OperandSpec

if TYPE_CHECKING:
    from tilewright.emit.gpu_stages import GpuStages

Array = np.ndarray[Any, Any] | DeviceArray
"""An operand: in this machine's memory, or in a card's."""
Called = MatmulSpec | OperatorSpec
"""What a call computes."""
Problem = MatmulSpec | RowPass | AttentionPass
"""What one kernel computes."""
ALIGNMENT = 16
"""Bytes of a piece that is copied at once."""
_FARTHEST = 1 << 40
"""Bytes from a row to the next. Source: CUDA Driver API, cuTensorMapEncodeTiled."""
_OVERLAP_WORK = 100_000
"""Steps after which it is taken that two arrays share an element, as calls of other kernels have it (`Operands.cpp`)."""
MOST_BLOCKS = 65535
"""Of a grid's second and third axis. Source: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability"; Vulkan
1.1 specification, "Required Limits": maxComputeWorkGroupCount."""


def launch(form: GpuStages, spec: Problem, processors: int) -> Launch:
    """The launch of a form on a chip of so many multiprocessors: blocks go on from tile to tile where the strategy says so."""
    sizes: Any = form.sizes  # Those of strategies that copy boxes have more than others.
    blocks, cluster = grid(spec, sizes), 1
    if isinstance(spec, AttentionPass):
        cluster, (heads, tiles, entries) = getattr(sizes, "blocks", 1), blocks
        blocks = heads * cluster, tiles, entries
    elif form.boxes:
        cluster, (columns, rows, entries) = sizes.blocks, blocks
        clusters = -(-rows // sizes.cluster) * -(-columns // getattr(sizes, "beside", 1))
        places = max(1, processors // cluster)
        # Where blocks divide steps, tiles may be fewer than they.
        blocks = (places if getattr(sizes, "streamed", False) else min(clusters, places)) * cluster, 1, entries
    return Launch(blocks, (sizes.threads, 1, 1), (cluster, 1, 1), dynamic_shared=form.shared_bytes)


def workspace(form: GpuStages, sizes: Launch) -> int:
    """Bytes of memory, zeros at first, that a kernel takes the address of behind its operands; 0 where it does not."""
    return prod(sizes.grid) * getattr(form.sizes, "workspace", 0)


def grid(spec: Problem, sizes: Any) -> tuple[int, int, int]:  # noqa: ANN401 - of any strategy
    """The blocks of a launch: along N, or the heads of attention; along M, or its queries; and of each entry of the batch."""
    across = getattr(sizes, "merged", 1) if isinstance(spec, AttentionPass) else getattr(sizes, "bn", 1)
    rows = spec.tiles(sizes.bm) if isinstance(spec, AttentionPass) else -(-spec.m // sizes.bm)
    return -(-spec.n // across), rows, prod(spec.batch)


def looped(spec: Problem, number: int) -> tuple[int, ...]:
    """The axes of an operand, or of the result, that a kernel of `spec` takes.

    Of a batch, they are those with more than one entry, and dynamic ones.
    """
    return (*spec.operands, spec.result)[number].looped(spec.batch)


def laid_out(spec: Problem, call: Problem, arrays: Sequence[Array]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Extents and strides, in elements, of each operand and the result as a kernel of `spec` has them in a call.

    The stride between rows is 0 where there is only one: its own says nothing, and kernels form addresses of rows that they do not read.
    """
    layouts = []
    operands, transposed = (*call.operands, call.result), (*spec.transposed, False)
    for number, (operand, array, swapped) in enumerate(zip(operands, arrays, transposed, strict=True)):
        axes = [*looped(spec, number)]
        if swapped:
            axes[-2:] = axes[:-3:-1]
        shared = operand.type.packed
        strides = [stride // array.itemsize * shared for stride in array.strides]
        strides[:-1] = [stride if size > 1 else 0 for stride, size in zip(strides[:-1], array.shape, strict=False)]
        if shared > 1:  # Elements of a row share bytes.
            strides[-1] = 1
        sizes = (operand.shape[axis] for axis in axes)  # Of pages, there may be any number.
        extents = (array.shape[axis] if isinstance(size, Dim) else size for axis, size in zip(axes, sizes, strict=True))
        layouts.append((tuple(extents), tuple(strides[axis] for axis in axes)))
    return layouts


def is_aligned(array: Array) -> bool:
    """Whether every row of each matrix starts at a multiple of 16 bytes, and behind the one before: so tensor maps want them."""
    steps = [stride for size, stride in zip(array.shape[:-1], array.strides[:-1], strict=True) if size > 1]
    if any(each % ALIGNMENT for each in (address(array), *steps)):
        return False
    return not array.size or all(0 < each < _FARTHEST for each in steps)


def are_aligned(spec: Problem, arrays: Sequence[Array], row_multiple: int) -> bool:
    """Whether all operands are so that kernels read in pieces of 16 bytes: matrices like A and B, all but those of the epilogue.

    Where threads load the pieces themselves, rows are of multiples of `row_multiple` elements too.
    """
    if not isinstance(spec, MatmulSpec):
        return all(is_aligned(each) for each in arrays[:3])
    left = len(spec.operands) - len(spec.chain.operands) - len(spec.scalars)
    like_b = [left + number for number, each in enumerate(spec.chain.operands) if each.role == "b"]
    # What has an element for each group along K, or for each row, is read one by one.
    further = [number for number in range(2, left) if len(spec.operands[number].axes.strip("-")) > 1]
    matrices = [0, 1, *further, *like_b]
    rows = (spec.operands[number].type.packed * arrays[number].shape[-1] for number in matrices)
    return not any(each % row_multiple for each in rows) and all(is_aligned(arrays[number]) for number in matrices)


def is_boxed(called: Problem | Called, arrays: Sequence[Array]) -> bool:
    """Whether rows of the result, and of what is added to it element by element, are so that they are copied in boxes.

    Products whose whole rows are needed have a result of their own, which starts at such multiples. On an H200, boxes changed
    bytes behind rows of the result that are no whole pieces of 16 bytes: its rows have to be.
    """
    if arrays[-1].shape[-1] * arrays[-1].itemsize % ALIGNMENT:
        return False
    if not isinstance(called, MatmulSpec):
        return is_aligned(arrays[-1])
    beside = [array for each, array in zip(called.operands, arrays, strict=False) if each.axes == "mn"]
    return all(map(is_aligned, beside if called.has_rows else [*beside, arrays[-1]]))


def aligned_empty(operand: OperandSpec) -> np.ndarray[Any, Any]:
    """A new array for an operand; rows of a matrix start at multiples of 16 bytes."""
    strides, bytes_ = aligned_strides(operand)
    memory = np.empty(bytes_ + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return np.ndarray(operand.shape, stored_numpy(operand.type), memory, start, strides)


def aligned_strides(operand: OperandSpec) -> tuple[tuple[int, ...], int]:
    """The strides of an operand whose rows start at multiples of 16 bytes, and its bytes."""
    size = operand.type.bytes
    step = -(-operand.shape[-1] * size // ALIGNMENT) * ALIGNMENT
    strides = [size]
    for extent in reversed(operand.shape[:-1]):
        strides.insert(0, step)
        step *= extent
    return tuple(strides), step


def result(
    called: Called, out: np.ndarray[Any, Any] | None, operands: Sequence[np.ndarray[Any, Any]]
) -> np.ndarray[Any, Any]:
    """Where a call with `operands` puts its result: `out`, or a new array.

    Raises:
        OperandError: `out` does not fit, or shares elements with an operand, or is missing although it is added to.
    """
    if out is None:
        if isinstance(called, MatmulSpec) and called.beta:
            raise OperandError("is missing", operand="out", expected="the array that is added to: beta is not 0")
        out = np.empty(called.result.shape, to_numpy(called.result.type))
    check_result(called, out, operands)
    return out


def check_result(called: Called, out: Array, operands: Sequence[Array]) -> None:
    """Checks an array that a call with `operands` writes its result to, wherever they are.

    Raises:
        OperandError: It does not fit, is read-only, or shares elements with an operand or with itself.
    """
    check(called.result, out)
    if isinstance(called, Conv2dSpec):
        check_gaps(called.result, out)
    if not (out.writable if isinstance(out, DeviceArray) else out.flags.writeable):
        raise OperandError("is read-only", operand="out", expected="an array that can be written")
    if _meets_itself(out):
        raise OperandError(
            f"has strides {out.strides}, so that its rows overlap",
            operand="out",
            expected="an array with memory of its own for each element",
        )
    for each, array in zip(called.operands, operands, strict=True):
        if _share(out, array):
            raise OperandError(
                f"overlaps operand {each.name}",
                operand="out",
                expected="an array that shares no element with an operand",
                remedy="Write into another array",
            )


def _meets_itself(array: Array) -> bool:
    """Whether two elements of an array share memory, or its axes are interleaved so that this is hard to tell."""
    if not array.size:
        return False
    steps = sorted((abs(stride), size) for size, stride in zip(array.shape, array.strides, strict=True) if size > 1)
    reach = array.itemsize
    for stride, size in steps:
        if stride < reach:
            return True
        reach += stride * (size - 1)
    return False


def _share(one: Array, other: Array) -> bool:
    """Whether arrays share an element; also where that is too hard to tell, as calls of other kernels have it."""
    try:
        return np.shares_memory(_placed(one), _placed(other), _OVERLAP_WORK)  # type: ignore[arg-type] - it takes any number
    except np.exceptions.TooHardError:
        return True


def _placed(array: Array) -> np.ndarray[Any, Any]:
    """A numpy array at the same place, of which only the place may be asked: a card's memory is not this machine's."""
    if isinstance(array, np.ndarray):
        return array
    kind = f"|V{array.itemsize}"
    about = {
        "version": 3,
        "data": (array.address, True),
        "typestr": kind,
        "shape": array.shape,
        "strides": array.strides,
    }
    return np.asarray(SimpleNamespace(__array_interface__=about)) if array.size else np.empty(0, kind)


def in_order(spec: Called, operands: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """The operands of a call by position, some of which were given by name; arrays in place of numbers.

    Raises:
        OperandError: An operand's type does not hold a number.
        TypeError: Some are missing, or too many, or given twice, or of no name that there is, as calls of other kernels do.
    """
    names = [each.name for each in spec.operands]
    signature = f"({', '.join(names)}, *, out=None)"
    if len(operands) > len(names):
        raise TypeError(f"this kernel takes {len(names)} operands {signature}, and {len(operands)} are given")
    for name in named:
        if name not in names:
            raise TypeError(f"this kernel takes {signature}, and no keyword {name!r}")
        if names.index(name) < len(operands):
            raise TypeError(f"this kernel {signature} got several values for operand {name!r}")
    for name in names[len(operands) :]:
        if name not in named:
            raise TypeError(f"this kernel takes {len(names)} operands {signature}, and {name} is missing")
    return gpu_numbers.as_arrays(spec, (*operands, *(named[name] for name in names[len(operands) :])))


def seen(spec: Called, operands: tuple[Any, ...], out: Any) -> tuple[tuple[Any, ...], Any]:  # noqa: ANN401 - as in calls
    """The operands and `out` of a call, those of other libraries in this machine's memory as numpy arrays.

    Raises:
        OperandError: Memory can be used neither from here nor from a card.
    """
    # Not at the top: the machine of a card that runs a bundle has nothing that was built.
    from tilewright.runtime import arrays

    each = (arrays.host_view(operand.name, array) for operand, array in zip(spec.operands, operands, strict=True))
    return tuple(each), None if out is None else arrays.host_view("out", out, written=True)


def given_back(result: Any, operands: tuple[Any, ...], out: Any) -> Any:  # noqa: ANN401 - as in calls
    """What a call returns: `out`, or the result in the kind of the operands."""
    if out is not None:
        return out
    if not isinstance(result, np.ndarray):
        return result
    from tilewright.runtime import arrays

    return arrays.like(result, arrays.kind(operands))


def address(array: Array) -> int:
    """Where an array starts."""
    return array.address if isinstance(array, DeviceArray) else array.ctypes.data


def called(spec: Called, operands: tuple[object, ...]) -> Called:
    """The spec with the extents of a call, which its operands tell.

    Raises:
        OperandError: They do not agree with each other, or with the spec.
    """
    if isinstance(spec, OperatorSpec):
        return _of_shapes(spec, operands) if isinstance(spec, AttentionSpec) else spec
    sizes: dict[str, int] = {}
    told: dict[str, str] = {}
    for each, array in zip(spec.operands, operands, strict=True):
        known = isinstance(array, np.ndarray | DeviceArray)
        if not known or array.ndim != len(each.shape):
            what = f"an array of {array.ndim} dimensions" if known else type(array).__name__
            expected = f"a numpy array of {len(each.shape)} dimensions"
            raise OperandError(f"is {what}", operand=each.name, expected=expected)
        # Where elements share bytes, the last extent is in bytes.
        told_by = each.names if each.type.packed == 1 else each.names[:-1]
        for name, size in zip(told_by, array.shape, strict=False):
            if name not in spec.extents:
                continue
            if sizes.setdefault(name, size) != size:
                expected = f"{sizes[name]}, as {told[name]} has"
                raise OperandError(f"has {size} elements along {name}", operand=each.name, expected=expected)
            told.setdefault(name, each.name)
            if not fits(spec.extents[name], size):
                wanted = spec.extents[name]
                expected = wanted.words if isinstance(wanted, Dim) else str(wanted)
                raise OperandError(f"has {size} elements along {name}", operand=each.name, expected=expected)
    return spec.sized(sizes)


def _of_shapes(spec: AttentionSpec, operands: tuple[Any, ...]) -> AttentionSpec:
    """The spec with the extents of a call; what else does not fit is found where operands are checked."""
    found = {}
    given = dict(zip((each.name for each in spec.operands), operands, strict=True))
    told = [("queries", "q", -2, spec.queries), ("sequences", "q_starts", 0, spec.sequences)]
    told.append(("keys", "k", -2, spec.keys) if spec.page is None else ("keys", "table", -1, spec.keys))
    for name, operand, axis, extent in told:
        array = given.get(operand)
        if isinstance(extent, Dim) and isinstance(array, np.ndarray | DeviceArray) and array.ndim >= -axis:
            size = array.shape[axis] - (name == "sequences")
            if operand == "table":
                size = min(size * (spec.page or 1), extent.max) if fits(spec.columns, size) else -1
            if not fits(extent, max(size, least(extent)) if operand == "table" and size >= 0 else size):
                raise OperandError(f"has {array.shape[axis]} {name}", operand=operand, expected=extent.words)
            found[name] = max(size, least(extent))
    return replace(spec, **found)


def check_all(called: Called, arrays: Sequence[Any]) -> None:
    """Raises `OperandError` unless all operands of a call fit."""
    for each, array in zip(called.operands, arrays, strict=True):
        check(each, array)
        if isinstance(called, Conv2dSpec):
            check_gaps(each, array)
    if isinstance(called, MatmulSpec):
        check_rows(called, arrays)
    if isinstance(called, AttentionSpec):
        attention_entries.check(called, arrays)


def check_gaps(operand: OperandSpec, array: Array) -> None:
    """Raises `OperandError` where there are gaps between the elements of an operator's operand."""
    step = array.itemsize
    for size, stride in zip(array.shape[::-1], array.strides[::-1], strict=True):
        if size > 1 and stride != step:
            raise OperandError(
                f"has strides {array.strides}",
                operand=operand.name,
                expected="elements without gaps",
                remedy="Make it contiguous with np.ascontiguousarray",
            )
        step *= size


def check_rows(called: MatmulSpec, arrays: Sequence[object]) -> None:
    """Raises `OperandError` where an index of gathered rows is out of range; in a card's memory, kernels take such a row as zeros."""
    if not called.gathers:
        return
    numbers, rows = arrays[2], called.a_shape[0]
    if isinstance(numbers, np.ndarray) and numbers.size and not 0 <= numbers.min() <= numbers.max() < rows:
        raise OperandError(
            "an index is out of range",
            operand=called.operands[2].name,
            expected="indices of rows of the table a, from 0 to its number of rows - 1",
        )


def check(operand: OperandSpec, array: object) -> None:
    """Raises `OperandError` unless an operand is an array of the type and shape of the call, elements of rows adjacent."""
    if not isinstance(array, np.ndarray | DeviceArray):
        raise OperandError(f"is a {type(array).__name__}", operand=operand.name, expected="a numpy array")
    wanted = stored_numpy(operand.type)
    if array.dtype != wanted:
        raise OperandError(f"is of {array.dtype}", operand=operand.name, expected=str(wanted))
    fitting = len(array.shape) == len(operand.stored) and all(map(fits, operand.stored, array.shape))
    if not fitting:
        raise OperandError(f"is of shape {array.shape}", operand=operand.name, expected=str(operand.stored))
    steps = [stride for size, stride in zip(array.shape, array.strides, strict=True) if size > 1]
    if array.size and any(each % array.itemsize for each in (address(array), *steps)):
        raise OperandError(
            f"is at address {address(array):#x}, with strides {array.strides}",
            operand=operand.name,
            expected=f"elements at multiples of their {array.itemsize} bytes",
            remedy="Copy it with np.array",
        )
    if array.size and array.ndim and array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        raise OperandError(
            f"has strides {array.strides}",
            operand=operand.name,
            expected="elements of a row side by side",
            remedy="Make it contiguous with np.ascontiguousarray",
        )
