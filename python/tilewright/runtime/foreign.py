# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that nothing here can run: all that there is of a kernel but its calls."""

from __future__ import annotations

from typing import NoReturn

from tilewright.errors import NotRunnableError
from tilewright.payload.signature import Signature
from tilewright.runtime.kernel import About, Kernel
from tilewright.standalone.packing import PackedFormat


class ForeignKernel(Kernel):
    """A kernel or a function for another machine: `write`, `asm` and `metadata` are as ever, and calls raise TargetError."""

    __slots__ = ("_about", "_packed", "_refusal", "_signature")

    def __init__(
        self,
        about: About,
        refusal: NotRunnableError,
        packed: PackedFormat | None = None,
        signature: Signature | None = None,
    ) -> None:
        """Makes a kernel without code.

        Args:
            about: As for every kernel.
            refusal: What calls raise.
            packed: The format of B when it comes packed.
            signature: What a function takes and gives.
        """
        self._about, self._refusal, self._packed, self._signature = about, refusal, packed, signature

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Refuses.

        Raises:
            NotRunnableError: Always.
        """
        raise self._refusal.with_traceback(None)

    pack = pack_b = count_instructions = __call__

    @property
    def c_function(self) -> NoReturn:
        """Refuses, as a call does."""
        raise self._refusal.with_traceback(None)

    @property
    def signature(self) -> Signature | None:
        """What a function or an operator takes and gives; None for a product."""
        return self._signature

    @property
    def refusal(self) -> NotRunnableError:
        """What calls raise."""
        return self._refusal

    @property
    def packed_format(self) -> PackedFormat | None:
        """The format of the packed B that the kernel takes; None when it takes B as it is."""
        return self._packed
