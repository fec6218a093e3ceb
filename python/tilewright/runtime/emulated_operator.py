# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of operators for another architecture, run by an emulator behind the interface of every such kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright import _runtime
from tilewright.operator_specs import OperatorSpec
from tilewright.payload.abi import TENSORS_SUFFIX
from tilewright.payload.signature import Signature
from tilewright.runtime.emulated import POINTER, Stubs
from tilewright.runtime.emulated_call import Emulator, Program, Tensor
from tilewright.runtime.kernel import Metadata
from tilewright.runtime.operator_kernel import OperatorKernel
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
    ) -> None:
        """Links the program that the emulator runs, and stubs for this machine.

        Raises:
            TargetError: There is no linker for the target, or no row for this machine.
            LoweringError: The linker failed.
        """
        name, tensors = signature.name, f"{signature.name}{TENSORS_SUFFIX}"
        self._entries = _Entries(Program(object_, [tensors], target, emulator), signature)
        code = _runtime.Code(self._entries.stubs([name, tensors]), name, [tensors])
        super().__init__(code, signature, spec, target, metadata, stages)

    def __call__(self, *arguments: Any, out: np.ndarray[Any, Any] | None = None, **named: Any) -> Any:  # noqa: ANN401
        """Computes the result, as `OperatorKernel` says."""
        with self._entries.errors():
            return super().__call__(*arguments, out=out, **named)


class _Entries(Stubs):
    """The two entries of a function of tensors: one that takes each, and one that takes an array of pointers to them."""

    def __init__(self, program: Program, signature: Signature) -> None:
        self._written = [each.written for each in signature.parameters]
        self._tensors = f"{signature.name}{TENSORS_SUFFIX}"
        functions = {
            signature.name: ((POINTER,) * len(self._written), self._compute_each),
            self._tensors: ((POINTER,), self._compute),
        }
        super().__init__(program, functions)

    def _compute(self, pointers: int) -> int:
        return self._compute_each(*(POINTER * len(self._written)).from_address(pointers))

    def _compute_each(self, *addresses: int) -> int:
        each = [Tensor(address, written=written) for address, written in zip(addresses, self._written, strict=True)]
        return self.call(self._tensors, (each,))
