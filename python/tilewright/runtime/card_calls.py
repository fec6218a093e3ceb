# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of kernels on a card: whose memory operands are in, on which stream, and where the result goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tilewright.dtypes import stored_numpy
from tilewright.errors import OperandError
from tilewright.operand import OperandSpec
from tilewright.payload.attention_pass import AttentionPass
from tilewright.runtime import cards, gpu_call, gpu_passes
from tilewright.runtime.card_repeats import Repeats
from tilewright.runtime.cards import Card, Loaded
from tilewright.runtime.cuda_core import checked
from tilewright.runtime.device_arrays import DeviceArray, device_of, library_of, view
from tilewright.runtime.gpu_call import ALIGNMENT, Array
from tilewright.spec import MatmulSpec

if TYPE_CHECKING:
    from tilewright.emit.gpu_stages import GpuStages
    from tilewright.targets.gpu import GpuTarget


class CardKernel(Protocol):
    """What a call on a card needs of a kernel."""

    @property
    def spec(self) -> gpu_call.Called:
        """What is computed."""
        ...

    @property
    def target(self) -> GpuTarget:
        """For which target."""
        ...

    @property
    def row_multiple(self) -> int:
        """Elements of which rows that are read in pieces of 16 bytes have to be multiples."""
        ...

    @property
    def repeats(self) -> Repeats:
        """Its calls that can be repeated."""
        ...

    def of_call(self, called: MatmulSpec) -> CardKernel:
        """The kernel for the extents of a call."""
        ...

    def code(self, aligned: bool, make: Callable[[GpuStages], Any], *, boxed: bool = True) -> tuple[GpuStages, Any]:
        """A form, and what `make` makes of it to run it, which is kept."""
        ...


def call(kernel: CardKernel, operands: Sequence[object], out: object, stream: object) -> Any:  # noqa: ANN401 - `out`, or as the operands
    """Runs a kernel on the card where its operands are, or, of numpy arrays, on the first one, with copies there and back.

    Args:
        kernel: The kernel.
        operands: All numpy arrays, or all arrays on one card that speak DLPack.
        out: The array of the result; None for a new one, of the operands' library, on their card.
        stream: On which the kernel runs, after what is pending on the operands: the handle of one, or an object that has one
            (cuda-core's, torch's, CuPy's); None: the one on which the operands' library works at present, or CUDA's default one.
            A call with numpy arrays waits for its end, others do not.

    Raises:
        OperandError: An operand does not fit, or is somewhere else than another one.
        TargetError: There is no card that runs the kernel, or the driver reports an error.
    """
    given = [*operands, *(() if out is None else (out,))]
    # A factor may be a number, whatever the others are.
    scalars = kernel.spec.scalars if isinstance(kernel.spec, MatmulSpec) else ()
    of_matrices = len(kernel.spec.operands) - len(scalars)
    factors = [each for each in operands[of_matrices:] if isinstance(each, np.ndarray)]
    places = {device_of(each) for each in given if not any(each is factor for factor in factors)}
    if len(places) > 1:
        named = ", ".join(
            f"card {each}" if each is not None else "this machine's memory" for each in sorted(places, key=str)
        )
        raise OperandError(
            f"are in {named}", where="operands", expected="all in one place", remedy="Move them to one card"
        )
    (number,) = places
    card = cards.find(kernel.target, number or 0)
    handle = handle_of(stream) if stream is not None else _stream_of(operands, card)
    with cards.current(card):
        if number is None:
            return _on_copies(kernel, card, operands, out, handle)
        return _in_place(kernel, card, operands, out, handle)


def handle_of(stream: object) -> int:
    """The handle of a stream.

    Raises:
        OperandError: It has none.
    """
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        answer: Any = protocol() if callable(protocol) else protocol
        return int(answer[1])
    found = next(
        (each for each in (getattr(stream, name, None) for name in ("cuda_stream", "ptr")) if each is not None), stream
    )
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise OperandError(
            f"is a {type(stream).__name__}",
            operand="stream",
            expected="a stream's handle, or an object with __cuda_stream__ (torch's, CuPy's and cuda-core's streams)",
        )
    return found


def _stream_of(operands: Sequence[object], card: Card) -> int:
    found = library_of(operands[0])
    return 0 if found is None else int(found[0].stream(found[1], card.number))


def _in_place(kernel: CardKernel, card: Card, operands: Sequence[object], out: object, stream: int) -> object:
    """A call with arrays in the card's memory."""
    spec = kernel.spec
    arrays: list[Array] = [
        each if isinstance(each, np.ndarray) else view(each, named.name, stream)
        for each, named in zip(operands, spec.operands, strict=True)
    ]
    called = _checked(spec, arrays)
    make = _maker(operands[0], called, card)
    if out is None:
        out = make()
    result = view(out, "out", stream)
    gpu_call.check_result(called, result, arrays)
    launches = _launched(kernel, card, called, [*arrays, result], stream)
    if launches:
        kernel.repeats.remember(operands, out, stream, launches, make, cards.packages(kernel.target.name)[1])
    return out


def _checked(spec: gpu_call.Called, arrays: Sequence[Array]) -> gpu_call.Called:
    """The spec with the extents of the call, whose operands fit."""
    called = gpu_call.called(spec, tuple(arrays))
    gpu_call.check_all(called, arrays)
    return called


def _maker(like: object, called: gpu_call.Called, card: Card) -> Callable[[], object]:
    """What makes a new array for the result, of the library of an operand, which it does not keep."""
    found, name = library_of(like), type(like).__name__

    def make() -> object:
        if isinstance(called, MatmulSpec) and called.beta:
            raise OperandError("is missing", operand="out", expected="the array that is added to: beta is not 0")
        try:
            if found is not None:
                return found[0].empty(found[1], called.result.shape, called.result.type, card.number)
            what = f"cannot make a result of {name}"
        except (AttributeError, TypeError) as e:
            what = f"{name}'s library has no {called.result.type.name}: {e}"
        raise OperandError(what, operand="out", expected="an array for the result", remedy="Give it: out=")

    return make


def _launched(
    kernel: CardKernel, card: Card, called: gpu_call.Called, arrays: Sequence[Array], stream: int
) -> list[Callable[[int], None]]:
    """Launches all products of a call. Returns what launches it again; nothing where that cannot be kept."""
    all_: list[Callable[[int], None]] = []
    is_kept = True
    for product, own in gpu_passes.products(called, arrays):
        if isinstance(product, MatmulSpec):
            product, own = gpu_passes.without_products(product, own)
        launches = _launch(kernel, card, product, own, stream)
        is_kept = is_kept and bool(launches)
        all_ += launches
    return all_ if is_kept else []


def _launch(
    kernel: CardKernel, card: Card, called: MatmulSpec | AttentionPass, arrays: Sequence[Array], stream: int
) -> list[Callable[[int], None]]:
    """Launches what a call takes; what one kernel leaves to the next is in memory of the stream's own.

    Returns what launches it again; nothing where it takes such memory.
    """
    _, driver = cards.packages(kernel.target.name)
    boxed = gpu_call.is_boxed(called, arrays)
    aligned = gpu_call.are_aligned(called, arrays, kernel.row_multiple)
    if aligned and isinstance(called, MatmulSpec):  # The form for other rows is the same for all.
        kernel = kernel.of_call(called)
    form, loaded = kernel.code(aligned, lambda stages: {}, boxed=boxed)
    if card not in loaded:
        loaded[card] = [Loaded(card, each) for each in form.passes]
    of_form = {id(each): its for each, its in zip(form.passes, loaded[card], strict=True)}
    where = f"a call of a kernel for {kernel.target.name}"
    left: list[int] = []
    launches: list[Callable[[int], None]] = []

    def scratch(operand: OperandSpec) -> DeviceArray:
        strides, bytes_ = gpu_call.aligned_strides(operand)
        with cards.reported(where):
            left.append(int(checked(driver.cuMemAllocAsync(max(1, bytes_), stream))))
        return DeviceArray(left[-1], operand.shape, strides, np.dtype(stored_numpy(operand.type)), card.number)

    def on_card(array: Array) -> Array:
        """A factor that is a number, in the card's memory; what is there is as it is."""
        if isinstance(array, DeviceArray):
            return array
        with cards.reported(where):
            left.append(int(checked(driver.cuMemAllocAsync(array.nbytes, stream))))
            checked(driver.cuMemcpyHtoDAsync(left[-1], array.ctypes.data, array.nbytes, stream))
        return DeviceArray(left[-1], array.shape, array.strides, array.dtype, card.number)

    try:
        arrays = [on_card(each) for each in arrays]
        for each in gpu_passes.passes(form, called, arrays, scratch):
            launches.append(of_form[id(each.form)].bound(each.spec, each.arrays))
            launches[-1](stream)
    finally:
        for place in left:
            driver.cuMemFreeAsync(place, stream)
    return [] if left else launches


def _on_copies(kernel: CardKernel, card: Card, operands: Sequence[Any], out: Any, stream: int) -> np.ndarray[Any, Any]:  # noqa: ANN401 - numpy arrays
    """A call with numpy arrays: copies of them, with rows at multiples of 16 bytes, in the card's memory."""
    _, driver = cards.packages(kernel.target.name)
    called = _checked(kernel.spec, operands)
    out = gpu_call.result(called, out, operands)
    if out.size == 0:
        return out
    with _copied(kernel, card, called, [*operands, out], stream) as (copies, call_):
        call_()
        with cards.reported(_where(kernel)):
            result = copies[-1]
            checked(driver.cuMemcpyDtoHAsync(result.memory.ctypes.data, result.place, result.memory.nbytes, stream))
            checked(driver.cuStreamSynchronize(stream))
    out[...] = copies[-1].array
    return out


@contextmanager
def samples(kernel: CardKernel, operands: Sequence[Any], out: Any = None) -> Iterator[Callable[[int], float]]:  # noqa: ANN401 - numpy arrays
    """What takes a sample on the first card: seconds of a call, of so many behind one another, on copies of operands that stay there.

    It is the time between two of the driver's events, and so that of launches where the kernel takes less than these.

    Raises:
        TargetError: There is no card that runs the kernel, or the driver reports an error.
    """
    card = cards.find(kernel.target)
    _, driver = cards.packages(kernel.target.name)
    called = _checked(kernel.spec, operands)
    given = [*operands, gpu_call.result(called, out, operands)]
    with cards.current(card), _copied(kernel, card, called, given, 0) as (_, call_), cards.reported(_where(kernel)):
        events = [checked(driver.cuEventCreate(0)) for _ in range(2)]
        launches = call_()  # Once known, they are no more than the driver's own calls.

        def once() -> None:
            for each in launches:
                each(0)
            if not launches:
                call_()

        def sample(count: int) -> float:
            with cards.current(card), cards.reported(_where(kernel)):
                checked(driver.cuEventRecord(events[0], 0))
                for _ in range(count):
                    once()
                checked(driver.cuEventRecord(events[1], 0))
                checked(driver.cuEventSynchronize(events[1]))
                return float(checked(driver.cuEventElapsedTime(*events))) / 1e3 / count

        try:
            yield sample
        finally:
            for each in events:
                driver.cuEventDestroy(each)


def _where(kernel: CardKernel) -> str:
    return f"a call of a kernel for {kernel.target.name}"


@contextmanager
def _copied(
    kernel: CardKernel, card: Card, called: gpu_call.Called, given: Sequence[np.ndarray[Any, Any]], stream: int
) -> Iterator[tuple[list[_Copy], Callable[[], list[Callable[[int], None]]]]]:
    """Copies of operands and of a result in the card's memory, and what calls the kernel on them."""
    _, driver = cards.packages(kernel.target.name)
    if isinstance(called, MatmulSpec):
        called, given = gpu_passes.without_products(called, given)
    copies = [_Copy.of(each, ALIGNMENT if isinstance(called, MatmulSpec) else 1) for each in given]
    try:
        with cards.reported(_where(kernel)):
            for copy in copies:
                copy.place = int(checked(driver.cuMemAlloc(max(copy.memory.nbytes, 1))))
                if copy.memory.nbytes:
                    checked(driver.cuMemcpyHtoDAsync(copy.place, copy.memory.ctypes.data, copy.memory.nbytes, stream))
        arrays = [copy.on_card(card) for copy in copies]
        yield copies, lambda: _launched(kernel, card, called, arrays, stream)
    finally:
        for copy in copies:
            if copy.place:
                driver.cuMemFree(copy.place)


@dataclass(slots=True)
class _Copy:
    """A copy of an array whose rows start at multiples of so many bytes.

    Attributes:
        memory: Its bytes.
        array: The array in them.
        place: Its address in the card's memory; 0 until it is there.
    """

    memory: np.ndarray[Any, Any]
    array: np.ndarray[Any, Any]
    place: int = 0

    @staticmethod
    def of(array: np.ndarray[Any, Any], alignment: int) -> _Copy:
        """The copy; an operator's has no gaps."""
        *outer, columns = array.shape or (1,)
        # Rows without elements start at such places too: they take the same form of the kernel.
        pitch = -(-max(columns * array.itemsize, 1) // alignment) * alignment
        memory = np.zeros(prod(outer) * pitch, np.uint8)
        rows = memory.reshape(*outer, pitch)[..., : columns * array.itemsize]
        copy = rows.view(array.dtype).reshape(array.shape)
        copy[...] = array
        return _Copy(memory, copy)

    def on_card(self, card: Card) -> DeviceArray:
        """The same in a card's memory."""
        return DeviceArray(self.place, self.array.shape, self.array.strides, self.array.dtype, card.number)
