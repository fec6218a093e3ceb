# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of a program that an emulator runs: operands are copied into memory that is shared with it, and results out of it."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.emit import coverage
from tilewright.errors import TilewrightError
from tilewright.runtime import emulated_count, emulated_program
from tilewright.runtime.emulated_program import PAGE
from tilewright.runtime.emulator import Emulator
from tilewright.targets.base import Target


@dataclass(frozen=True, slots=True)
class Operand:
    """An array in this process's memory, as bytes.

    Attributes:
        address: Where it starts.
        shape: Its extents, the last one in bytes.
        strides: Bytes from one row to the next, for every axis but the last.
        written: Whether a function writes it.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()
    written: bool = False

    @property
    def nbytes(self) -> int:
        """From its first to its last byte."""
        if 0 in self.shape:
            return 0
        return (
            sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=False))
            + self.shape[-1]
        )

    def copy_to(self, memory: np.ndarray) -> None:
        """Copies its rows into `memory`, bytes that are as far apart as here."""
        if self.nbytes:
            self._rows(memory)[...] = self._rows(self._bytes())

    def copy_from(self, memory: np.ndarray) -> None:
        """Takes its rows from `memory`, and leaves what is between them."""
        if self.nbytes:
            self._rows(self._bytes())[...] = self._rows(memory)

    def _bytes(self) -> np.ndarray:
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.nbytes).from_address(self.address))

    def _rows(self, memory: np.ndarray) -> np.ndarray:
        return np.lib.stride_tricks.as_strided(memory, self.shape, (*self.strides, 1))


class DLTensor(ctypes.Structure):
    """DLPack's, of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_number", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class Tensor:
    """A DLTensor in this process's memory.

    Attributes:
        address: Where it is.
        written: Whether a function writes its elements.
        opaque_bytes: Where only its data is set, how many bytes that has; otherwise 0.
    """

    address: int
    written: bool = False
    opaque_bytes: int = 0

    def place(self, image: _Image) -> int:
        """Copies it with its extents, its strides and its elements, and returns where it is then."""
        tensor = DLTensor.from_buffer_copy(ctypes.string_at(self.address, ctypes.sizeof(DLTensor)))
        start = (tensor.data or 0) + tensor.byte_offset
        tensor.byte_offset = 0
        if self.opaque_bytes:
            operand = Operand(start, (self.opaque_bytes,), written=self.written)
            tensor.shape = tensor.strides = None
        else:
            shape, strides = (_integers(at, tensor.rank) for at in (tensor.shape, tensor.strides))
            operand = _elements(start, shape, strides, tensor.bits // 8, written=self.written)
            tensor.shape = image.integers(shape)
            tensor.strides = image.integers(strides) if strides else None
        tensor.data = image.operand(operand)
        at = image.data(bytes(tensor))
        for name in ("data", "shape", "strides"):
            if getattr(tensor, name) is not None:
                image.relocations.append(at + getattr(DLTensor, name).offset)
        return at


def _integers(address: int | None, count: int) -> tuple[int, ...]:
    """Integers of 64 bits that lie at an address; none at 0."""
    return tuple((ctypes.c_int64 * count).from_address(address)) if address and count else ()


def _elements(address: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int, *, written: bool) -> Operand:
    """The elements of a tensor, each of `size` bytes; without strides in row-major order."""
    steps = strides or tuple(int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape)))
    return Operand(address, (*shape, size), tuple(step * size for step in steps), written)


@dataclass
class _Image:
    """What is shared with the program: a header, and after it data, each of which is placed in turn.

    Attributes:
        end: Where the next one will be.
        relocations: Where pointers are: offsets, to which the program adds where it maps all of it.
        guards: Pages that the program lets nobody touch.
    """

    end: int = emulated_program.HEADER_BYTES
    relocations: list[int] = field(default_factory=list)
    guards: list[int] = field(default_factory=list)
    _operands: list[tuple[Operand, int]] = field(default_factory=list)
    _data: list[tuple[bytes, int]] = field(default_factory=list)

    def operand(self, operand: Operand) -> int:
        """Places an array on pages of its own, which it ends with, between two that nobody may touch."""
        at = self._pages(operand.nbytes)
        self._operands.append((operand, at))
        return at

    def data(self, data: bytes) -> int:
        """Places bytes on pages of their own."""
        at = self._pages(len(data))
        self._data.append((data, at))
        return at

    def _pages(self, nbytes: int) -> int:
        """The place of so many bytes."""
        self.guards.append(self.end)
        end = self.end + (1 + max(1, -(-nbytes // PAGE))) * PAGE
        self.end = end + PAGE
        self.guards.append(end)
        return end - nbytes

    def integers(self, values: Sequence[int]) -> int:
        """Places integers of 64 bits."""
        return self.data(np.array(values, np.int64).tobytes())

    def pointers(self, places: Sequence[int]) -> int:
        """Places pointers to what was placed before."""
        at = self.integers(places)
        self.relocations += range(at, at + 8 * len(places), 8)
        return at

    def write(self, memory: np.ndarray) -> None:
        """Writes all that was placed."""
        for data, at in self._data:
            memory[at : at + len(data)] = np.frombuffer(data, np.uint8)
        for operand, at in self._operands:
            operand.copy_to(memory[at:])

    def read(self, memory: np.ndarray) -> None:
        """Takes what was written by the program."""
        for operand, at in self._operands:
            if operand.written:
                operand.copy_from(memory[at:])


Argument = int | Operand | Sequence[Tensor]
"""What a function takes: a number, a pointer to an array's elements, or one to an array of pointers to tensors."""


class Program:
    """The functions of a kernel, each call in a child process of its own: any number of threads may call at once."""

    def __init__(
        self,
        object_: bytes,
        functions: Sequence[str],
        target: Target,
        emulator: Emulator,
        libraries: Sequence[str] = (),
        loader: str = "",
    ) -> None:
        """Links the program, as `emulated_program.program` says.

        Raises:
            TargetError: There is no linker for the target.
            LoweringError: The linker failed.
        """
        self._emulator = emulator
        self._target = target
        self._functions = tuple(functions)
        table = coverage.read(object_)
        self._recorded = np.zeros(table.nbytes if table else 0, np.uint8)
        self._file = os.memfd_create(f"tilewright-{target.name}")
        weakref.finalize(self, os.close, self._file)
        with open(self._file, "wb", closefd=False) as file:
            after = coverage.COPY if table else ""
            file.write(emulated_program.program(object_, functions, target, libraries, loader, after))

    def recorded(self) -> bytes:
        """What the calls so far recorded together, where the object is instrumented."""
        return self._recorded.tobytes()

    def call(self, function: str, arguments: Sequence[Argument], counts: list[int] | None = None) -> int:
        """Calls a function, and returns its status; with `counts`, appends to it how many instructions were executed.

        Raises:
            TilewrightError: The emulator did not run it to its end.
            TargetError: No emulator can count.
            OSError: There is no memory for copies of the operands.
        """
        image = _Image()
        words: list[int] = []
        for number, argument in enumerate(arguments):
            if isinstance(argument, int):
                words.append(argument)
                continue
            if isinstance(argument, Operand):
                words.append(image.operand(argument))
            else:
                words.append(image.pointers([each.place(image) for each in argument]))
            image.relocations.append(emulated_program.argument_at(number))
        recorded = image.data(bytes(self._recorded.size)) if self._recorded.size else 0
        guards = image.guards if self._emulator.exact else []
        which = self._functions.index(function)
        header = emulated_program.header(image.end, which, words, image.relocations, guards, recorded)
        file = os.memfd_create("tilewright-operands")
        try:
            os.ftruncate(file, image.end)
            memory = np.frombuffer(mmap.mmap(file, image.end), np.uint8)
            memory[: len(header)] = np.frombuffer(header, np.uint8)
            image.write(memory)
            log = self._run(file, self._emulator if counts is None else emulated_count.counting(self._emulator))
            if counts is not None:
                counts.append(emulated_count.read(log))
            image.read(memory)
            self._recorded |= memory[recorded : recorded + self._recorded.size]
            return emulated_program.status(memory[: len(header)].tobytes())
        finally:
            os.close(file)

    def _run(self, file: int, emulator: Emulator) -> str:
        """Runs the program with `file` as its standard input, and returns what the emulator logged."""
        command = [emulator.path, *emulator.options, f"/proc/self/fd/{self._file}"]
        done = subprocess.run(command, stdin=file, capture_output=True, pass_fds=[self._file], check=False)
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise TilewrightError(
                f"{emulator.name} ended with status {done.returncode}{f': {lines[-1]}' if lines else ''}",
                where=f"emulated kernel for {self._target.name}",
            )
        return done.stderr.decode(errors="replace")
