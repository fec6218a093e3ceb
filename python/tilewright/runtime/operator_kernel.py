# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernel of an operator: what `tilewright.compile` returns for a spec that is no product."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tilewright._runtime import Code
from tilewright.errors import OperandError
from tilewright.operator_specs import OperatorSpec
from tilewright.payload.signature import Signature
from tilewright.runtime.kernel import Metadata, StageTexts, origin, unpicklable
from tilewright.runtime.linkable import Linkable
from tilewright.runtime.module import Function
from tilewright.runtime.packed_b import PackedB
from tilewright.targets.base import Target

Array = np.ndarray[Any, Any]


class OperatorKernel(Function):
    """An operator compiled for one spec and target.

    ``kernel(*operands, out=None)`` takes the operands of `OperatorSpec.operands`, in that order or by name, as numpy arrays,
    and returns the result: a new array, or `out`. Arrays are used where they lie and never copied; they need the types and
    shapes of the spec and no gaps between their elements, those of up to two dimensions none in a row.

    Any number of threads may call a kernel at once.

    Raises (the call):
        OperandError: An operand does not fit; the error says which, why, and what to do.
        TypeError: Operands are missing, or too many.
        MemoryError: There is no memory for the result or for scratch memory.
    """

    __slots__ = ("_asm", "_files", "_metadata", "_spec", "_target")

    def __init__(
        self,
        code: Code,
        signature: Signature,
        spec: OperatorSpec,
        target: Target,
        metadata: Metadata,
        stages: Mapping[str, str | Callable[[], str]],
        files: Linkable,
    ) -> None:
        """Makes a kernel of linked code.

        Args:
            code: The linked entries.
            signature: What the function takes and gives.
            spec: What it computes.
            target: What it was compiled for.
            metadata: How it came about.
            stages: The text of each stage by name, in order; or a function that makes the text when it is first asked for.
            files: How it is made as a file.
        """
        super().__init__(code, signature)
        self._spec = spec
        self._files = files
        self._target = target
        self._metadata = metadata
        self._asm = StageTexts(stages)

    if TYPE_CHECKING:  # The native base class has it.

        def __call__(
            self, *arguments: Array | PackedB, out: Array | tuple[Array, ...] | None = None, **named: Array | PackedB
        ) -> Any:  # noqa: ANN401 - as of Function
            """Computes the result, as the class says."""
            ...

    def pack(self, name: str, b: Array) -> PackedB:
        """Packs an operand that the spec says comes packed: an array of its shape and type, without gaps.

        Raises:
            SpecError: That operand is taken as it is.
            OperandError: `b` does not fit; the error says why, and what to do.
            MemoryError: There is no memory for it.
        """
        wanted = next((each for each in self._spec.operands if each.name == name), None)
        if wanted is None or name not in self._packings or not isinstance(b, np.ndarray):
            return super().pack(name, b)
        if b.shape != wanted.shape or not b.flags.c_contiguous:
            raise OperandError(
                f"has shape {b.shape} and strides {b.strides}",
                operand=name,
                expected=f"{wanted.shape} without gaps",
                remedy="Pass np.ascontiguousarray(...)",
            )
        form, parameter = self._packings[name].format, next(p for p in self.signature.arguments if p.name == name)
        return super().pack(name, b.reshape((form.n, form.k) if parameter.transposed else (form.k, form.n)))

    def write(self, path: str | PathLike[str], *, name: str | None = None) -> None:
        """Writes the kernel to a file for a linker, a compiler or people, whole or not at all.

        The suffix says the format: .o, .so, .h (the C header), .s, .ll, .mlir (after the schedule). What is written gets its scratch
        memory from the C library, so it is compiled for that. This machine need not be able to run it.

        Args:
            path: Where to write.
            name: What the C entry is called, by default the operator's name.

        Raises:
            SpecError: The suffix is unknown, or the name is no C identifier.
            TargetError: For .so: there is no linker for the target.
            TilewrightError: The file cannot be written; or, of several threads, there is no OpenMP runtime.
            LoweringError: A stage or the linker failed.
        """
        self._files.write(path, name)

    @property
    def spec(self) -> Any:  # noqa: ANN401 - the class of the operator's spec
        """What the kernel computes."""
        return self._spec

    @property
    def target(self) -> Target:
        """What the kernel was compiled for."""
        return self._target

    @property
    def metadata(self) -> Metadata:
        """How the kernel came about."""
        return self._metadata

    @property
    def asm(self) -> Mapping[str, str]:
        """The text of every stage by name, from the payload to the assembly; made when asked for, where it is not at hand.

        Raises (on access):
            UnknownStageError: There is no such stage; the message lists those that there are.
        """
        return self._asm

    def __repr__(self) -> str:
        """What it computes, for which target and by which schedule."""
        return f"<tilewright.OperatorKernel {self._spec} {origin(self._metadata)}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:  # noqa: ANN401 - as in object
        """Refuses: a kernel is machine code in this process.

        Raises:
            TilewrightError: Always.
        """
        raise unpicklable(self, "Pickle kernel.spec")
