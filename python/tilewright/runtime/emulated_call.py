# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of a program that an emulator runs: operands are copied into memory that is shared with it, and results out of it."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.runtime import emulated_program
from tilewright.targets.base import Target


@dataclass(frozen=True, slots=True)
class Emulator:
    """A program that runs code of another architecture.

    Attributes:
        path: Where it is.
        options: Its options, before the program that it runs.
    """

    path: str
    options: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its file's name."""
        return os.path.basename(self.path)


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix in this process's memory.

    Attributes:
        address: Where it starts.
        rows: How many rows it has.
        row_bytes: Bytes of a row that belong to it.
        leading_bytes: Bytes from one row to the next.
        written: Whether a function writes it.
    """

    address: int
    rows: int
    row_bytes: int
    leading_bytes: int
    written: bool = False

    @property
    def nbytes(self) -> int:
        """From its first to its last byte."""
        return (self.rows - 1) * self.leading_bytes + self.row_bytes if self.rows and self.row_bytes else 0

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
        shape = (self.rows, self.row_bytes)
        return np.lib.stride_tricks.as_strided(memory, shape, (self.leading_bytes, 1))


class Program:
    """The functions of a kernel, each call in a child process of its own: any number of threads may call at once."""

    def __init__(self, object_: bytes, functions: Sequence[str], target: Target, emulator: Emulator) -> None:
        """Links the program.

        Raises:
            TargetError: There is no linker for the target.
            LoweringError: The linker failed.
        """
        self._emulator = emulator
        self._target = target
        self._functions = tuple(functions)
        self._file = os.memfd_create(f"tilewright-{target.name}")
        weakref.finalize(self, os.close, self._file)
        with open(self._file, "wb", closefd=False) as file:
            file.write(emulated_program.program(object_, functions, target))

    def call(self, function: str, arguments: Sequence[int | Operand]) -> int:
        """Calls a function, and returns its status.

        Raises:
            TilewrightError: The emulator did not run it to its end.
            OSError: There is no memory for copies of the operands.
        """
        words: list[int] = []
        places: list[tuple[Operand, int]] = []
        end = emulated_program.HEADER_BYTES
        for argument in arguments:
            if isinstance(argument, int):
                words.append(argument)
                continue
            places.append((argument, end))
            words.append(end)
            # They start on pages, with one between them: what a kernel reads beyond one is zero.
            end += (-(-argument.nbytes // mmap.PAGESIZE) + 1) * mmap.PAGESIZE
        pointers = sum(1 << i for i, argument in enumerate(arguments) if isinstance(argument, Operand))
        header = emulated_program.header(end, self._functions.index(function), words, pointers)
        file = os.memfd_create("tilewright-operands")
        try:
            os.ftruncate(file, end)
            memory = np.frombuffer(mmap.mmap(file, end), np.uint8)
            memory[: len(header)] = np.frombuffer(header, np.uint8)
            for operand, start in places:
                operand.copy_to(memory[start:])
            self._run(file)
            for operand, start in places:
                if operand.written:
                    operand.copy_from(memory[start:])
            return emulated_program.status(memory[: len(header)].tobytes())
        finally:
            os.close(file)

    def _run(self, file: int) -> None:
        """Runs the program with `file` as its standard input."""
        command = [self._emulator.path, *self._emulator.options, f"/proc/self/fd/{self._file}"]
        done = subprocess.run(command, stdin=file, capture_output=True, pass_fds=[self._file], check=False)
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise TilewrightError(
                f"{self._emulator.name} ended with status {done.returncode}{f': {lines[-1]}' if lines else ''}",
                where=f"emulated kernel for {self._target.name}",
            )
