# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that nothing here can run: all that there is of a kernel but its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tilewright.errors import NotRunnableError
from tilewright.operator_specs import OperatorSpec
from tilewright.payload.packing import PackedFormat
from tilewright.payload.signature import Signature
from tilewright.runtime.kernel import CFunction, Kernel, Metadata, StageTexts
from tilewright.runtime.linkable import Linkable
from tilewright.runtime.module import Function
from tilewright.runtime.operator_kernel import OperatorKernel
from tilewright.runtime.packed_b import PackedB
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

Texts = Mapping[str, str | Callable[[], str]]


class ForeignKernel(Kernel):
    """A kernel for another machine: `write`, `asm` and `metadata` are as ever, and calls raise TargetError."""

    __slots__ = ("_packed", "_refusal")

    def __init__(
        self,
        spec: MatmulSpec,
        target: Target,
        metadata: Metadata,
        stages: Texts,
        packed: PackedFormat | None,
        files: Linkable | None,
        refusal: NotRunnableError,
    ) -> None:
        """Makes a kernel without code; the arguments are as for `Kernel`, and `refusal` is what calls raise."""
        self._spec, self._target, self._metadata, self._asm = spec, target, metadata, StageTexts(stages)
        self._packing, self._packed, self._files, self._refusal = None, packed, files, refusal

    @property
    def refusal(self) -> NotRunnableError:
        """Why nothing here runs it."""
        return self._refusal

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Refuses.

        Raises:
            NotRunnableError: Always.
        """
        raise self._refusal.with_traceback(None)

    def pack_b(self, b: object) -> PackedB:
        """Refuses, as a call does."""
        return self(b)

    @property
    def packed_format(self) -> PackedFormat | None:
        """The format of the packed B that the kernel takes; None when it takes B as it is."""
        return self._packed

    @property
    def c_function(self) -> CFunction:
        """Refuses, as a call does."""
        return self()


class ForeignFunction(Function):
    """The same for a function of a module."""

    __slots__ = ("_refusal",)

    def __init__(self, signature: Signature, refusal: NotRunnableError) -> None:
        """Makes a function without code; `refusal` is what calls raise."""
        self._signature, self._packings, self._refusal = signature, {}, refusal

    def __call__(self, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401 - as of Function
        """Refuses.

        Raises:
            NotRunnableError: Always.
        """
        raise self._refusal.with_traceback(None)

    def pack(self, name: str, b: object) -> PackedB:
        """Refuses, as a call does."""
        return self(name, b)

    @property
    def c_function(self) -> CFunction:
        """Refuses, as a call does."""
        return self()


class ForeignOperator(OperatorKernel):
    """The same for the kernel of an operator."""

    __slots__ = ("_refusal",)

    def __init__(
        self,
        signature: Signature,
        spec: OperatorSpec,
        target: Target,
        metadata: Metadata,
        stages: Texts,
        files: Linkable,
        refusal: NotRunnableError,
    ) -> None:
        """Makes a kernel without code; the arguments are as for `OperatorKernel`, and `refusal` is what calls raise."""
        self._spec, self._target, self._metadata, self._asm = spec, target, metadata, StageTexts(stages)
        self._signature, self._packings, self._files, self._refusal = signature, {}, files, refusal

    def __call__(self, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401 - as of Function
        """Refuses.

        Raises:
            NotRunnableError: Always.
        """
        raise self._refusal.with_traceback(None)

    def pack(self, name: str, b: object) -> PackedB:
        """Refuses, as a call does."""
        return self(name, b)

    @property
    def c_function(self) -> CFunction:
        """Refuses, as a call does."""
        return self()
