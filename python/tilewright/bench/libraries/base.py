# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The interface of a library that is a peer; its module is imported in the peer's own process."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.bench.operands import Operands
from tilewright.errors import TilewrightError

Call = Callable[[], object]
"""One product of operands that were bound ahead; calling it is all that is timed. It returns when the product is complete."""


class Library:
    """A library that multiplies matrices."""

    @property
    def version(self) -> str:
        """What is measured, exactly: versions, and the kernels chosen where the library tells."""
        raise NotImplementedError

    def bind(self, operands: Operands) -> Call:
        """A call that computes ``a·b``, with nothing left to convert, and nothing allocated by the caller."""
        raise NotImplementedError

    def bind_packed(self, operands: Operands) -> Call:
        """The same, with B packed ahead of time in the library's own order.

        Raises:
            TilewrightError: The library offers nothing of the kind.
        """
        raise TilewrightError("it does not take B packed ahead of time")

    def fetch(self, returned: Any, operands: Operands) -> np.ndarray:  # noqa: ANN401
        """The product, out of what the call returned, or out of C where the call writes that."""
        return operands.c


def installed(distribution: str, pattern: str) -> Iterator[Path]:
    """The files of an installed distribution whose names match, wherever its wheel put them."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for file in files:
        path = Path(str(file.locate()))
        if re.fullmatch(pattern, file.name) and path.is_file():
            yield path.resolve()
