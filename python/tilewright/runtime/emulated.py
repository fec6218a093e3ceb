# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels for another architecture, run by an emulator behind the interface of every kernel.

A call checks its operands as ever, and then enters a stub of this machine's code in place of the kernel's own. The stub calls
back into Python, where the emulator is started on copies of the operands.
"""

from __future__ import annotations

import ctypes
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright import _runtime, targets
from tilewright.dtypes import to_numpy
from tilewright.emit import code
from tilewright.errors import TargetError, TilewrightError
from tilewright.payload.abi import ENTRY, PACK_SUFFIX
from tilewright.payload.packing import PackedFormat
from tilewright.runtime.emulated_call import Emulator, Operand, Program
from tilewright.runtime.kernel import Kernel, Metadata
from tilewright.runtime.packed_b import PackedB, Packing
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_PROGRAMS: Mapping[str, tuple[str, ...]] = MappingProxyType({"aarch64": ("qemu-aarch64", "qemu-aarch64-static")})
"""By architecture, the programs that run its code."""
_OPTIONS = ("-cpu", "max")

_FAILED = -1
"""What a stub returns when the emulator did not run the kernel."""
_PACKER = f"{ENTRY}{PACK_SUFFIX}"

_INT, _POINTER = ctypes.c_int64, ctypes.c_void_p
_SIGNATURES: Mapping[str, tuple[type[Any], ...]] = MappingProxyType(
    {
        ENTRY: (_INT, _INT, _INT, _POINTER, _INT, _POINTER, _INT, _POINTER, _INT),
        _PACKER: (_INT, _INT, _POINTER, _INT, _POINTER),
    }
)
"""The parameters of `payload.abi.PROTOTYPE` and of the entry that packs B."""


def find(target: Target) -> Emulator:
    """The emulator for code of `target`.

    Raises:
        TargetError: None is installed, or none is known, or this machine is of that architecture and lacks features.
    """
    names = _PROGRAMS.get(target.architecture, ())
    if not names or targets.runnable(target) != (target.architecture,):
        targets.require_runnable(target)
    for name in names:
        if path := shutil.which(name):
            return Emulator(path, _OPTIONS)
    raise TargetError(
        f"this machine cannot run code for {target.name}: it lacks {target.architecture}, and there is no emulator",
        expected=f"{' or '.join(names)} on the path",
        remedy="Install the package qemu-user (`make setup-arm` does); to compile only, do not call the kernel",
    )


class EmulatedKernel(Kernel):
    """A kernel whose calls run in an emulator: to test and to count, never to be fast.

    Calls, their operands and their errors are those of `Kernel`. One that the emulator does not run to its end raises
    TilewrightError.
    """

    __slots__ = ("_entries",)

    def __init__(
        self,
        object_: bytes,
        spec: MatmulSpec,
        target: Target,
        metadata: Metadata,
        stages: Mapping[str, str | Callable[[], str]],
        packed: PackedFormat | None,
        emulator: Emulator,
    ) -> None:
        """Links the program that the emulator runs, and stubs for this machine.

        Args:
            object_: The kernel's object, for `target`.
            spec: What it computes.
            target: What it was compiled for.
            metadata: How it came about.
            stages: As for `Kernel`.
            packed: The format of B when it comes packed.
            emulator: What runs it.

        Raises:
            TargetError: There is no linker for the target, or no row for this machine.
            LoweringError: The linker failed.
        """
        functions = [ENTRY] if packed is None else [ENTRY, _PACKER]
        self._entries = _Entries(Program(object_, functions, target, emulator), spec, packed)
        stubs = _runtime.Code(self._entries.stubs(functions), ENTRY, functions[1:])
        packing = None
        if packed is not None:
            call = _runtime.PackCall(
                stubs, _PACKER, spec.n, spec.k, b=to_numpy(spec.b_type), b_transposed=spec.b_transposed
            )
            packing = Packing(packed, call)
        super().__init__(stubs, spec, target, metadata, stages, packing)

    def __call__(
        self,
        a: np.ndarray[Any, Any],
        b: np.ndarray[Any, Any] | PackedB,
        *further: np.ndarray[Any, Any],
        out: np.ndarray[Any, Any] | None = None,
        **named: np.ndarray[Any, Any],
    ) -> np.ndarray[Any, Any]:
        """Computes A·B, as `Kernel` says."""
        with self._entries.errors():
            return super().__call__(a, b, *further, out=out, **named)

    def pack_b(self, b: np.ndarray[Any, Any]) -> PackedB:
        """Packs `b`, as `Kernel.pack_b` says."""
        with self._entries.errors():
            return super().pack_b(b)


class _Entries:
    """The functions that stubs call, with the signatures of the kernel's own."""

    def __init__(self, program: Program, spec: MatmulSpec, packed: PackedFormat | None) -> None:
        self._program = program
        self._transposed = spec.a_transposed, spec.b_transposed
        self._sizes = tuple(element.bytes for element in (spec.a_type, spec.b_type, spec.c_type))
        self._packed_bytes = 0 if packed is None else packed.nbytes
        self._raised = threading.local()
        self._callbacks = {
            name: ctypes.CFUNCTYPE(ctypes.c_int32, *_SIGNATURES[name])(function)
            for name, function in ((ENTRY, self._multiply), (_PACKER, self._pack))
        }

    def stubs(self, functions: list[str]) -> bytes:
        """An object for this machine that defines `functions`, each of which calls the one of that name here.

        Raises:
            TargetError: There is no row for this machine.
        """
        text = ""
        for name in functions:
            address = ctypes.cast(self._callbacks[name], ctypes.c_void_p).value
            types = ", ".join("i64" if each is _INT else "ptr" for each in _SIGNATURES[name])
            text += f"""define i32 @{name}({types}) {{
  %r = call i32 inttoptr (i64 {address} to ptr)({", ".join(f"{t} %{i}" for i, t in enumerate(types.split(", ")))})
  ret i32 %r
}}
"""
        return code.object_file(text, targets.resolve("host"))

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raises the error for which a stub that was called meanwhile, in this thread, returned `_FAILED`."""
        self._raised.error = None
        try:
            yield
        except TilewrightError:
            if self._raised.error is None:
                raise
            raise self._raised.error from None

    def _multiply(
        self, m: int, n: int, k: int, a: int | None, lda: int, b: int | None, ldb: int, c: int | None, ldc: int
    ) -> int:
        a_size, b_size, c_size = self._sizes
        a_rows, a_columns = (k, m) if self._transposed[0] else (m, k)
        b_rows, b_columns = (n, k) if self._transposed[1] else (k, n)
        left = Operand(a or 0, a_rows, a_columns * a_size, lda * a_size)
        right = Operand(b or 0, b_rows, b_columns * b_size, ldb * b_size)
        if self._packed_bytes:
            right = Operand(b or 0, 1, self._packed_bytes, self._packed_bytes)
        result = Operand(c or 0, m, n * c_size, ldc * c_size, written=True)
        return self._call(ENTRY, (m, n, k, left, lda, right, ldb, result, ldc))

    def _pack(self, k: int, n: int, b: int | None, ldb: int, packed: int | None) -> int:
        size = self._sizes[1]
        to = Operand(packed or 0, 1, self._packed_bytes, self._packed_bytes, written=True)
        rows, columns = (n, k) if self._transposed[1] else (k, n)
        return self._call(_PACKER, (k, n, Operand(b or 0, rows, columns * size, ldb * size), ldb, to))

    def _call(self, function: str, arguments: tuple[int | Operand, ...]) -> int:
        try:
            return self._program.call(function, arguments)
        except BaseException as error:  # it goes through machine code, and `errors` raises it
            self._raised.error = error
            return _FAILED
