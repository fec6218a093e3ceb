# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels for another architecture, run by an emulator behind the interface of every kernel.

A call checks its operands as ever, and then enters a stub of this machine's code in place of the kernel's own. The stub calls
back into Python, where the emulator is started on copies of the operands.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import Any

from tilewright import targets
from tilewright._runtime import Code
from tilewright.emit import code
from tilewright.errors import TilewrightError
from tilewright.payload import call_forms
from tilewright.payload.abi import ENTRY, PACK_SUFFIX, TENSORS_SUFFIX
from tilewright.runtime.emulated_call import Argument, Operand, Program, Tensor
from tilewright.runtime.kernel import Kernel
from tilewright.spec import MatmulSpec
from tilewright.standalone.packed_b import PackedB
from tilewright.standalone.packing import PackedFormat

_FAILED = -1
"""What a stub returns when the emulator did not run the kernel."""
_PACKER = f"{ENTRY}{PACK_SUFFIX}"
_TENSORS = f"{ENTRY}{TENSORS_SUFFIX}"

INT, POINTER = ctypes.c_int64, ctypes.c_void_p
_SIGNATURES: Mapping[str, tuple[type[Any], ...]] = MappingProxyType(
    {
        ENTRY: (INT, INT, INT, POINTER, INT, POINTER, INT, POINTER, INT),
        _PACKER: (INT, INT, POINTER, INT, POINTER),
        _TENSORS: (POINTER,),
    }
)
"""The parameters of `payload.abi.PROTOTYPE`, of the entry that packs B, and of the one that takes pointers to tensors."""


class Stubs:
    """Functions of this machine's code, each of which calls back into Python, where the emulator is started."""

    def __init__(
        self, program: Program, functions: Mapping[str, tuple[tuple[type[Any], ...], Callable[..., int]]]
    ) -> None:
        """Makes the callbacks: by name of a function, the types of its parameters, and what is called."""
        self._program = program
        self._local = threading.local()
        self._signatures = {name: types for name, (types, _) in functions.items()}
        self._callbacks = {
            name: ctypes.CFUNCTYPE(ctypes.c_int32, *types)(function) for name, (types, function) in functions.items()
        }

    def linked(self, functions: list[str]) -> Code:
        """Code of this machine that defines `functions`, each of which calls the one of that name here.

        Raises:
            TargetError: There is no row for this machine.
        """
        text = ""
        for name in functions:
            address = ctypes.cast(self._callbacks[name], ctypes.c_void_p).value
            types = ", ".join("i64" if each is INT else "ptr" for each in self._signatures[name])
            text += f"""define i32 @{name}({types}) {{
  %r = call i32 inttoptr (i64 {address} to ptr)({", ".join(f"{t} %{i}" for i, t in enumerate(types.split(", ")))})
  ret i32 %r
}}
"""
        return Code(code.object_file(text, targets.resolve("host")), functions[0], functions[1:])

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raises the error for which a stub that was called meanwhile, in this thread, returned `_FAILED`."""
        self._local.error = None
        try:
            yield
        except TilewrightError:
            if self._local.error is None:
                raise
            raise self._local.error from None

    @contextmanager
    def counting(self) -> Iterator[list[int]]:
        """Counts the instructions of the calls that this thread makes meanwhile: a number each."""
        counts: list[int] = []
        self._local.counts = counts
        try:
            yield counts
        finally:
            self._local.counts = None

    def call(self, function: str, arguments: tuple[Argument, ...]) -> int:
        """Runs a function of the program; the errors of that are kept for `errors`."""
        try:
            return self._program.call(function, arguments, getattr(self._local, "counts", None))
        except BaseException as error:  # it goes through machine code, and `errors` raises it
            self._local.error = error
            return _FAILED


@cache
def emulated(kind: type[Kernel]) -> Callable[..., Kernel]:
    """The class of kernels of a kind whose calls run in an emulator: to test and to count, never to be fast.

    It takes the linked stubs, and then what the kind takes. Calls, their operands and their errors are those of the kind. One that the
    emulator does not run to its end raises TilewrightError.
    """

    class Emulated(kind):
        __slots__ = ("_stubs",)

        def __init__(self, stubs: Stubs, *arguments: Any) -> None:  # noqa: ANN401 - the kind's
            self._stubs = stubs
            super().__init__(*arguments)

        def __call__(self, *operands: Any, out: Any = None, **named: Any) -> Any:  # noqa: ANN401 - the kind's
            with self._stubs.errors():
                return super().__call__(*operands, out=out, **named)

        def pack(self, name: str, b: Any) -> PackedB:  # noqa: ANN401 - the kind's
            with self._stubs.errors():
                return super().pack(name, b)

        def count_instructions(self, *operands: Any, out: Any = None, **named: Any) -> int:  # noqa: ANN401 - the kind's
            with self._stubs.counting() as counts:
                self(*operands, out=out, **named)
            return sum(counts)

    return Emulated


class ProductStubs(Stubs):
    """The functions that stubs call, with the signatures of the kernel's own."""

    def __init__(self, program: Program, spec: MatmulSpec, packed: PackedFormat | None) -> None:
        """Makes the callbacks for a product; `packed` is the format of B when it comes packed."""
        """Makes the callbacks for a product; `packed` is the format of B when it comes packed."""
        self._transposed = spec.a_transposed, spec.b_transposed
        self._sizes = tuple(element.bytes for element in (spec.a_stored, spec.b_stored, spec.c_type))
        self._packed_bytes = 0 if packed is None else packed.nbytes
        self._count = len(call_forms.operands(spec))
        self._scalars = tuple(each.type.bytes for each in spec.scalars)
        functions = {
            ENTRY: self._compute_each if spec.takes_tensors else self._multiply,
            _PACKER: self._pack,
            _TENSORS: self._compute,
        }
        matrices = (*_SIGNATURES[ENTRY], *(POINTER for _ in spec.scalars))
        signatures = {**_SIGNATURES, ENTRY: (POINTER,) * self._count if spec.takes_tensors else matrices}
        super().__init__(program, {name: (signatures[name], function) for name, function in functions.items()})

    def _multiply(
        self,
        m: int,
        n: int,
        k: int,
        a: int | None,
        lda: int,
        b: int | None,
        ldb: int,
        c: int | None,
        ldc: int,
        *scalars: int,
    ) -> int:
        a_size, b_size, c_size = self._sizes
        a_shape, b_shape = self._shapes(m, n, k)
        left = Operand(a or 0, (a_shape[0], a_shape[1] * a_size), (lda * a_size,))
        right = Operand(b or 0, (b_shape[0], b_shape[1] * b_size), (ldb * b_size,))
        if self._packed_bytes:
            right = Operand(b or 0, (self._packed_bytes,))
        result = Operand(c or 0, (m, n * c_size), (ldc * c_size,), written=True)
        factors = [Operand(at, (size,)) for at, size in zip(scalars, self._scalars, strict=True)]
        return self.call(ENTRY, (m, n, k, left, lda, right, ldb, result, ldc, *factors))

    def _pack(self, k: int, n: int, b: int | None, ldb: int, packed: int | None) -> int:
        size = self._sizes[1]
        to = Operand(packed or 0, (self._packed_bytes,), written=True)
        rows, columns = self._shapes(0, n, k)[1]
        return self.call(_PACKER, (k, n, Operand(b or 0, (rows, columns * size), (ldb * size,)), ldb, to))

    def _shapes(self, m: int, n: int, k: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """The rows and columns of A and B as they are stored."""
        a, b = self._transposed
        return (k, m) if a else (m, k), (n, k) if b else (k, n)

    def _compute(self, pointers: int) -> int:
        """Takes an array of pointers to tensors, the result last."""
        return self._compute_each(*(ctypes.c_void_p * self._count).from_address(pointers))

    def _compute_each(self, *addresses: int) -> int:
        """Takes a pointer to each tensor, the result last."""
        each = [Tensor(address) for address in addresses]
        each[-1] = Tensor(addresses[-1], written=True)
        if self._packed_bytes:
            each[1] = Tensor(addresses[1], opaque_bytes=self._packed_bytes)
        return self.call(_TENSORS, (each,))
