# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GPU kernels run on this machine, thread by thread, by an emulator that reports races and missing waits.

The kernel is LLVM IR for NVPTX, as MLIR's NVVM dialect translates to. Each of its threads is a fiber; barriers, shuffles, matrix
instructions, asynchronous copies and barrier objects do what PTX says, and asynchronous operations are completed as late as
they may be. What two threads do to a byte of shared memory must be ordered by a barrier, a wait or a fence between them. Addresses
must be multiples of what an access moves at once, as on a card.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import _codegen, knobs
from tilewright.emit import coverage as instrument
from tilewright.errors import LoweringError, TilewrightError
from tilewright.payload.patch_windows import Window
from tilewright.runtime import coverage
from tilewright.runtime.launches import Launch

_TRIPLE = "x86_64-unknown-linux-gnu"
_LIBRARY = "libtilewright_emulator.so"
_VERSION = 2
"""Of the interface in native/emulator/Emulator.h."""
_POINTER_BYTES = 8
_MOST_AXES = 5
IMAGE_AXES = 4
"""Of images: their number, rows, columns and channels."""
_REPORT_BYTES = 16384
_NO_END = 2
_MOST_EVENTS = 4_000_000
_MOST_COUNTS = 65536
"""Instructions of a kernel whose passes through shared memory are told; no kernel has as many."""


class EmulationError(TilewrightError):
    """An emulated kernel did something wrong: a race, a missing wait, an access outside of its operands, a deadlock."""


@dataclass(frozen=True, slots=True)
class SharedCount:
    """What an instruction did in shared memory in a launch.

    Attributes:
        name: What it is: a load, a store, an atomic operation, or its name.
        line: Of the source; 0 where that is not known.
        executions: By warps.
        passes: Through the banks; of global memory, sectors of 32 bytes.
        least: As many as there would be without conflicts.
        site: What the events of a trace call it.
        is_global: Whether it is of global memory, which only traces have.
    """

    name: str
    line: int
    executions: int
    passes: int
    least: int
    site: int = 0
    is_global: bool = False


class _SharedCount(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("site", ctypes.c_void_p),
        ("line", ctypes.c_uint32),
        ("is_global", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("executions", "passes", "least")),
    )


class _Observed(ctypes.Structure):
    _fields_ = (
        ("counts", ctypes.c_void_p),
        ("count_room", ctypes.c_uint64),
        ("counts_made", ctypes.c_uint64),
        ("events", ctypes.c_void_p),
        ("event_room", ctypes.c_uint64),
        ("events_made", ctypes.c_uint64),
    )


EVENT = np.dtype([("warp", np.uint32), ("kind", np.uint32), ("key", np.uint64), ("amount", np.uint64)])
"""Something that takes time, as native/emulator/Trace.h has it."""


class _Buffer(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("bytes", ctypes.c_uint64), ("writable", ctypes.c_uint32))


class _TensorMap(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_void_p),
        ("extents", ctypes.c_uint64 * _MOST_AXES),
        ("strides", ctypes.c_uint64 * _MOST_AXES),
        ("box", ctypes.c_uint32 * _MOST_AXES),
        ("rank", ctypes.c_uint32),
        ("element_bytes", ctypes.c_uint32),
        ("swizzle", ctypes.c_uint32),
        ("atom", ctypes.c_uint32),
        ("pixels", ctypes.c_uint32),
        ("lower", ctypes.c_int32 * 2),
        ("upper", ctypes.c_int32 * 2),
        ("steps", ctypes.c_uint32 * 2),
    )


class _TensorMapHandle(ctypes.Structure):
    _fields_ = (("map", ctypes.POINTER(_TensorMap)), ("rest", ctypes.c_uint8 * 120))


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor of which box copies read or write boxes, as the driver's tensor maps describe one.

    Attributes:
        array: The tensor, the innermost axis last, whose elements are adjacent.
        box: The extents of a box, in the order of the array's.
        swizzle: Bytes of the swizzle pattern: 0, 32, 64 or 128.
        atom: Bytes that it moves at once: 16, or 32 of a pattern of 128.
        window: Of images, an array of four axes: copies take boxes of patches from there, of so many pixels and channels.
        writable: Whether stores go to it.
        by_value: Whether the map lies among the kernel's parameters; otherwise the parameter is its address.
    """

    array: np.ndarray[Any, Any]
    box: tuple[int, ...]
    swizzle: int = 0
    atom: int = 16
    window: Window | None = None
    writable: bool = False
    by_value: bool = False

    def __post_init__(self) -> None:
        """Checks what the driver would.

        Raises:
            EmulationError: The box does not fit the array's rank or the swizzle, or rows are not adjacent elements.
        """
        array, axes = self.array, self.array.ndim if self.window is None else 2
        if not 1 <= array.ndim <= _MOST_AXES or len(self.box) != axes:
            raise EmulationError(f"a box of {len(self.box)} axes", where="TensorMap", expected=f"{axes}, 1 to 5")
        steps = [stride for size, stride in zip(array.shape[:-1], array.strides[:-1], strict=True) if size > 1]
        wrong = [stride for stride in array.strides[:-1] if stride % 16] + [each for each in steps if each <= 0]
        if array.strides[-1] != array.itemsize or wrong or array.ctypes.data % 16:
            raise EmulationError(
                f"strides {array.strides}",
                where="TensorMap",
                expected="adjacent elements, rows 16 bytes apart or a multiple of so many, from such an address on",
            )
        if self.swizzle not in (0, 32, 64, 128) or self.atom not in ((16, 32) if self.swizzle == 128 else (16,)):
            raise EmulationError(
                f"swizzle {self.swizzle}, {self.atom} at once", where="TensorMap", expected="0, 32, 64 or 128 bytes"
            )
        if self.window is not None and not (array.ndim == IMAGE_AXES and self.window.is_described):
            raise EmulationError(
                f"corners {self.window.lower} and {self.window.upper}, steps {self.window.steps}, of {array.ndim} axes",
                where="TensorMap",
                expected="four axes, corners from -128 to 127 with a pixel between them, and steps from 1 to 8",
            )
        most = (256,) * len(self.box) if self.window is None else (1024, 256)
        if not all(1 <= extent <= limit for extent, limit in zip(self.box, most, strict=True)):
            raise EmulationError(f"box {self.box}", where="TensorMap", expected=f"extents from 1 to {max(most)}")
        inner = self.box[-1] * array.itemsize
        if inner % 16:
            raise EmulationError(f"a box {inner} bytes wide", where="TensorMap", expected="a multiple of 16 bytes")
        if self.swizzle and inner > self.swizzle:
            raise EmulationError(
                f"a box {inner} bytes wide", where="TensorMap", expected=f"at most the {self.swizzle} of its swizzle"
            )

    def _native(self) -> _TensorMap:
        def whole(values: Sequence[int], rest: int) -> list[int]:
            return [*reversed(values), *[rest] * (_MOST_AXES - len(values))]

        kind, array = _TensorMap, self.array
        return kind(
            array.ctypes.data,
            (ctypes.c_uint64 * _MOST_AXES)(*whole(array.shape, 1)),
            (ctypes.c_uint64 * _MOST_AXES)(*whole(array.strides, 0)),
            (ctypes.c_uint32 * _MOST_AXES)(*whole(self.box, 1)),
            array.ndim,
            array.itemsize,
            self.swizzle,
            self.atom,
            *self._native_window(),
        )

    def _native_window(self) -> tuple[Any, ...]:
        """Pixels of a box, or 0, and the corners and steps of images, columns first."""
        if self.window is None:
            return ()
        corners = (
            kind(*pair[::-1])
            for kind, pair in (
                (ctypes.c_int32 * 2, self.window.lower),
                (ctypes.c_int32 * 2, self.window.upper),
                (ctypes.c_uint32 * 2, self.window.steps),
            )
        )
        return self.box[0], *corners


class EmulatedGpuKernel:
    """A kernel that the emulator can launch.

    Raises (the constructor):
        LoweringError: The module is not valid, or uses a matrix product's result before it waits for it.
    """

    def __init__(self, llvmir: str, kernel: str, *, lines_of_text: bool = False, title: str = "") -> None:
        """Makes it runnable.

        Args:
            llvmir: The LLVM IR of a module for NVPTX.
            kernel: The kernel's name in it.
            lines_of_text: Whether findings name lines of this text where it has no debug locations, whose lines they name always.
            title: What coverage calls it; empty for its name.
        """
        _library()
        recorded = knobs.load().coverage is not None
        try:
            host = _codegen.host_kernel(
                llvmir, kernel=kernel, triple=_TRIPLE, lines_of_text=lines_of_text, locations=recorded
            )
            optimized = _codegen.optimize(host, triple=_TRIPLE, cpu="x86-64", features="", level=1)
            if recorded:
                optimized = instrument.instrumented(optimized)
            object_ = _codegen.emit(optimized, triple=_TRIPLE, cpu="x86-64", features="", kind="obj")
        except ValueError as e:
            raise LoweringError(str(e), stage="emulation") from None
        self._code = coverage.linked(object_, "launch", ["shared", "parameters"], title or kernel)
        self._shared = ctypes.CFUNCTYPE(ctypes.c_int32)(self._code.address_of("shared"))()
        table = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_uint32))(self._code.address_of("parameters"))()
        self._parameters: list[int] = table[1 : 1 + table[0]]
        self._name = kernel

    @property
    def static_shared(self) -> int:
        """Bytes of shared memory that the kernel's variables have."""
        return self._shared

    def __call__(
        self,
        sizes: Launch,
        *arguments: np.ndarray[Any, Any] | TensorMap | np.generic,
        seed: int = 0,
        counts: list[SharedCount] | None = None,
    ) -> None:
        """Runs the kernel.

        Args:
            sizes: The launch's.
            *arguments: The kernel's, in order: arrays, which are used where they lie, and written where they may be; tensor
                maps, of which a kernel gets the address; and NumPy scalars of the parameters' types.
            seed: Threads take turns in an order that depends on it.
            counts: Gets what instructions did in shared memory, by their lines, also where the run fails.

        Raises:
            EmulationError: The kernel did something wrong; the error has a line for each kind of finding.
            TilewrightError: There are more or fewer arguments than parameters, or one has another size.
        """
        self._run(sizes, arguments, seed, counts, None)

    def trace(
        self, sizes: Launch, *arguments: np.ndarray[Any, Any] | TensorMap | np.generic
    ) -> tuple[np.ndarray[Any, Any], list[SharedCount]]:
        """What takes time in the first cluster of a launch, whose matrix products are not computed, and what its instructions move.

        Args:
            sizes: The launch's.
            *arguments: The kernel's, as for a run.

        Returns:
            Elements of `EVENT`, in the order of each warp; and the counts, to which events of accesses refer.

        Raises:
            EmulationError: The kernel comes to no end, or makes an access outside of its operands.
            TilewrightError: As of a run.
        """
        events = np.zeros(_MOST_EVENTS, EVENT)
        counts: list[SharedCount] = []
        made = self._run(sizes, arguments, 0, counts, events)
        if made > _MOST_EVENTS:
            raise EmulationError(
                f"{made} events in a cluster",
                where="emulated kernel",
                expected=f"{_MOST_EVENTS} at most: a smaller problem",
            )
        return events[:made].copy(), counts

    def _run(
        self,
        sizes: Launch,
        arguments: Sequence[np.ndarray[Any, Any] | TensorMap | np.generic],
        seed: int,
        counts: list[SharedCount] | None,
        events: np.ndarray[Any, Any] | None,
    ) -> int:
        """Runs the kernel, and says how many events there were."""
        self._check(arguments)
        kept: list[Any] = []
        buffers: list[_Buffer] = []
        pointers: list[int] = []
        for argument in arguments:
            value, buffer = _argument(argument, kept)
            pointers.append(value)
            buffers += buffer
        text = ctypes.create_string_buffer(_REPORT_BYTES)
        counted = (_SharedCount * _MOST_COUNTS)() if counts is not None else None
        observed = _Observed(
            ctypes.addressof(counted) if counted is not None else None,
            _MOST_COUNTS,
            0,
            events.ctypes.data if events is not None else None,
            len(events) if events is not None else 0,
            0,
        )
        failed = _library().tilewrightEmulate(
            ctypes.c_void_p(self._code.address),
            (ctypes.c_void_p * max(len(pointers), 1))(*pointers),
            (ctypes.c_uint32 * 9)(*sizes.grid, *sizes.block, *sizes.cluster),
            ctypes.c_uint64(self._shared + sizes.dynamic_shared),
            (_Buffer * max(len(buffers), 1))(*buffers),
            ctypes.c_uint32(len(buffers)),
            ctypes.c_uint32(seed),
            text,
            ctypes.c_uint64(_REPORT_BYTES),
            ctypes.byref(observed),
        )
        if counts is not None and counted is not None:
            found = counted[: observed.counts_made]
            counts += [
                SharedCount(_short(e.name), e.line, e.executions, e.passes, e.least, e.site, bool(e.is_global))
                for e in found
            ]
        if failed == _NO_END or (failed and events is None):
            raise EmulationError(text.value.decode().strip(), where="emulated kernel")
        return observed.events_made

    def _check(self, arguments: Sequence[np.ndarray[Any, Any] | TensorMap | np.generic]) -> None:
        if [_bytes_of(each) for each in arguments] == self._parameters:
            return
        given = ", ".join(f"{_described(each)} of {_bytes_of(each)} bytes" for each in arguments)
        raise TilewrightError(
            f"it is given {len(arguments)} arguments" + (f": {given}" if given else ""),
            where=f"kernel {self._name}",
            expected=f"{len(self._parameters)} parameters of {', '.join(map(str, self._parameters)) or 'no'} bytes",
            remedy="Give an argument (--arg) for each parameter, in their order, of its size; one of 8 bytes may be an array",
        )


def _bytes_of(argument: object) -> int:
    """Those of a parameter for it."""
    if isinstance(argument, TensorMap) and argument.by_value:
        return ctypes.sizeof(_TensorMapHandle)
    return argument.itemsize if isinstance(argument, np.generic) else _POINTER_BYTES


def _described(argument: object) -> str:
    if isinstance(argument, TensorMap):
        return "a tensor map" if argument.by_value else "a pointer to a tensor map"
    if isinstance(argument, np.ndarray):
        return f"a pointer to {argument.dtype}{list(argument.shape)}"
    return f"a number {type(argument).__name__}"


def _short(name: bytes) -> str:
    """An instruction's name without the article of "a load", and inline PTX up to where its operands begin."""
    return name.decode().split(";")[0].split(" {")[0].removeprefix("an ").removeprefix("a ").strip()


def _argument(argument: object, kept: list[Any]) -> tuple[int, list[_Buffer]]:
    """The address of a parameter's value, and the memory behind it; `kept` holds what must live meanwhile."""
    if isinstance(argument, TensorMap):
        native = argument._native()
        handle = _TensorMapHandle(ctypes.pointer(native))
        pointer = ctypes.c_void_p(ctypes.addressof(handle))
        kept += [native, handle, pointer]
        place = ctypes.addressof(handle if argument.by_value else pointer)
        return place, [_memory(argument.array, argument.writable)]
    if isinstance(argument, np.ndarray):
        pointer = ctypes.c_void_p(argument.ctypes.data)
        kept += [pointer, argument]
        return ctypes.addressof(pointer), [_memory(argument, argument.flags.writeable)]
    if isinstance(argument, np.generic):
        value = np.array(argument)
        kept.append(value)
        return value.ctypes.data, []
    raise EmulationError(
        f"an argument of type {type(argument).__name__}",
        where="emulated kernel",
        expected="arrays, tensor maps, NumPy scalars",
    )


def _memory(array: np.ndarray[Any, Any], writable: bool) -> _Buffer:
    low, high = np.lib.array_utils.byte_bounds(array) if array.size else (0, 0)
    return _Buffer(low, high - low, writable)


@cache
def _library() -> ctypes.CDLL:
    """The emulator, of the version that this file knows, loaded so that kernels find its functions."""
    file = Path(__file__).resolve().parent.parent / _LIBRARY
    try:
        library = ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
    except OSError as e:
        raise TilewrightError(
            f"cannot load the emulator of GPU kernels: {e}", expected=_LIBRARY, remedy="Build again: make setup"
        ) from None
    version = library.tilewrightEmulatorVersion() if hasattr(library, "tilewrightEmulatorVersion") else 0
    if version != _VERSION:
        raise TilewrightError(
            f"the emulator of GPU kernels has the interface of version {version}",
            where=str(file),
            expected=f"{_VERSION}, as this Python code has",
            remedy="Build again: make setup",
        )
    library.tilewrightEmulate.restype = ctypes.c_int
    return library
