# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a library says of itself: a text in JSON, in its data, which programs in any language can read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .errors import TilewrightError

FORMAT = 1
"""The version of the text, which grows when older readers would misread it."""

START = b'{"format":'
"""What the text starts with."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A C entry of a kernel.

    Attributes:
        kernel: The name of the kernel that it belongs to: its own, but for those of a module with several functions.
        signature: What it takes and gives, in words: "gemm(a: 8x8 f32, b: 8x8 f32) -> 8x8 f32".
        prototype: The declaration of its C entry.
        call: What calls from Python take and give.
        packings: How operands are packed that come packed, by their names.
    """

    kernel: str
    signature: str
    prototype: str
    call: Mapping[str, Any]
    packings: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Contents:
    """What a library has.

    Attributes:
        name: Its name.
        version: The version of tilewright that made it.
        architecture: That of the processors that run it.
        targets: Those that it has code for, best first.
        threads: Most threads that a call uses.
        digest: A digest of the code.
        kernels: The C entries of its kernels, by name.
    """

    name: str
    version: str
    architecture: str
    targets: tuple[str, ...]
    threads: int
    digest: str
    kernels: Mapping[str, Entry]

    def as_text(self) -> str:
        """The text, which `read` reads."""
        return json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":"))


def read(text: str, where: str) -> Contents:
    """The contents of a text.

    Raises:
        TilewrightError: It is of a format that this release does not know.
    """
    fields = json.loads(text)
    if fields.pop("format") != FORMAT:
        raise TilewrightError(
            f"tilewright {fields['version']} made it in another format",
            where=where,
            expected=f"format {FORMAT}",
            remedy="Use that release of tilewright-runtime",
        )
    kernels = {name: Entry(**each) for name, each in fields.pop("kernels").items()}
    return Contents(**{**fields, "targets": tuple(fields["targets"]), "kernels": kernels})


def symbol(library: str) -> str:
    """What the text is called in a library."""
    return f"{library}_contents"
