# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a kernel for one target to the object that a library has of it.

Equal code is one object, whatever kernels and targets it is of: a symbol is named after what the object holds.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tilewright.emit import code
from tilewright.emit.built import Built
from tilewright.emit.llvmir import with_libc_memory
from tilewright.emit.pipeline import Record
from tilewright.libraries import builds, pool
from tilewright.libraries.kernels import Source
from tilewright.payload.signature import Signature
from tilewright.runtime import cache_key
from tilewright.targets import Target

_DIGITS = 24
_SYMBOL = "tilewright_code_"
_PLACE = _SYMBOL + "0" * _DIGITS
"""What the symbol is called before the object is known; other names have as many characters, so that they take its place."""
_DEFINED = re.compile(rf"^define (?=(?!internal |private |weak |linkonce)[^@]*@{_PLACE})", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel for one target.

    Attributes:
        object: The object, whose entries are called by a name that stands for any.
        functions: What an operator or the functions of a module take and give; none for a product.
        threads: Most threads that a call uses.
    """

    object: bytes
    functions: tuple[Signature, ...]
    threads: int

    def named(self, library: str) -> tuple[str, bytes]:
        """The symbol of the code in a library, and the object that has it."""
        digest = hashlib.sha256(library.encode() + b"\0" + self.object).hexdigest()[:_DIGITS]
        symbol = f"{_SYMBOL}{digest}"
        own = self.object.replace(pool.PLACE.encode(), pool.prefix(library).encode())
        return symbol, own.replace(_PLACE.encode(), symbol.encode())


def compile_one(source: Source, target: Target, threads: int) -> Compiled:
    """A kernel for a target, from the disk cache or made.

    Raises:
        TilewrightError: It cannot be compiled.
    """
    what, build, used = builds.of(source, target, threads)
    got = cache_key.fetch(what, partial(_made, build, target, used))
    functions = tuple(map(Signature.from_json, got.about["functions"]))
    return Compiled(got.record.object, functions, got.about["threads"])


def _made(build: Callable[..., Record], target: Target, threads: int) -> tuple[Record, dict[str, Any]]:
    """A kernel, compiled by a function that takes fields of `pipeline.Wanted`, and what is kept with it."""
    made = build(until="llvmir", symbol=_PLACE)
    functions = made.functions if isinstance(made, Built) else ()
    made.object = code.object_file(_for_library(made.texts["llvmir"]), target)
    return made, {"functions": [each.as_json() for each in functions], "threads": threads}


def _for_library(llvmir: str) -> str:
    """A kernel's LLVM IR with entries that only the library sees, and scratch memory from the C library."""
    return pool.renamed(_DEFINED.sub("define hidden ", with_libc_memory(llvmir)))
