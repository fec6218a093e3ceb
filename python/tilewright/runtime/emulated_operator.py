# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of operators for another architecture, run by an emulator behind the interface of every such kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tilewright import _runtime
from tilewright.dtypes import dtype
from tilewright.operator_specs import OperatorSpec
from tilewright.payload.abi import PACK_SUFFIX, TENSORS_SUFFIX
from tilewright.payload.packing import PackedFormat
from tilewright.payload.signature import Parameter, Signature
from tilewright.runtime.emulated import INT, POINTER, Stubs
from tilewright.runtime.emulated_call import Operand, Program, Tensor
from tilewright.runtime.emulator import Emulator
from tilewright.runtime.kernel import Metadata
from tilewright.runtime.linkable import Linkable
from tilewright.runtime.module import entries
from tilewright.runtime.operator_kernel import OperatorKernel
from tilewright.runtime.packed_b import PackedB
from tilewright.targets.base import Target


class EmulatedOperator(OperatorKernel):
    """A kernel whose calls run in an emulator: to test and to count, never to be fast.

    Calls, their operands and their errors are those of `OperatorKernel`. One that the emulator does not run to its end raises
    TilewrightError.
    """

    __slots__ = ("_entries",)

    def __init__(
        self,
        object_: bytes,
        signature: Signature,
        spec: OperatorSpec,
        target: Target,
        metadata: Metadata,
        stages: Mapping[str, str | Callable[[], str]],
        emulator: Emulator,
        files: Linkable,
    ) -> None:
        """Links the program that the emulator runs, and stubs for this machine.

        Raises:
            TargetError: There is no linker for the target, or no row for this machine.
            LoweringError: The linker failed.
        """
        names = entries((signature,))
        self._entries = _Entries(Program(object_, names[1:], target, emulator), signature)
        code = _runtime.Code(self._entries.stubs(names), names[0], names[1:])
        super().__init__(code, signature, spec, target, metadata, stages, files)

    def pack(self, name: str, b: np.ndarray[Any, Any]) -> PackedB:
        """Packs an operand, as `OperatorKernel.pack` says."""
        with self._entries.errors():
            return super().pack(name, b)

    def __call__(self, *arguments: Any, out: np.ndarray[Any, Any] | None = None, **named: Any) -> Any:  # noqa: ANN401
        """Computes the result, as `OperatorKernel` says."""
        with self._entries.errors():
            return super().__call__(*arguments, out=out, **named)


class _Entries(Stubs):
    """The entries of a function of tensors: one that takes each, one that takes an array of pointers to them, and packers."""

    def __init__(self, program: Program, signature: Signature) -> None:
        self._parameters = signature.parameters
        self._tensors = f"{signature.name}{TENSORS_SUFFIX}"
        functions: dict[str, tuple[tuple[type[Any], ...], Callable[..., int]]] = {
            signature.name: ((POINTER,) * len(self._parameters), self._compute_each),
            self._tensors: ((POINTER,), self._compute),
        }
        for each in signature.arguments:
            if each.packed:
                name = f"{signature.name}_{each.name}{PACK_SUFFIX}"
                functions[name] = (INT, INT, POINTER, INT, POINTER), partial(self._pack, name, each)
        super().__init__(program, functions)

    def _compute(self, pointers: int) -> int:
        return self._compute_each(*(POINTER * len(self._parameters)).from_address(pointers))

    def _compute_each(self, *addresses: int) -> int:
        each = [
            Tensor(address, written=parameter.written, opaque_bytes=_packed_bytes(parameter))
            for address, parameter in zip(addresses, self._parameters, strict=True)
        ]
        return self.call(self._tensors, (each,))

    def _pack(self, name: str, parameter: Parameter, k: int, n: int, b: int, ldb: int, packed: int) -> int:
        form = PackedFormat.from_header(bytes.fromhex(parameter.format))
        size = dtype(form.element).bytes
        rows, columns = (n, k) if parameter.transposed else (k, n)
        source = Operand(b, (rows, columns * size), (ldb * size,))
        return self.call(name, (k, n, source, ldb, Operand(packed, (form.nbytes,), written=True)))


def _packed_bytes(parameter: Parameter) -> int:
    """Bytes of what comes packed, with its header; 0 for other tensors."""
    return PackedFormat.from_header(bytes.fromhex(parameter.format)).nbytes if parameter.packed else 0
