# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The objects of a BLAS around its kernels: the routines, and what goes on to the BLAS that is installed.

The routines are LLVM IR, made of native/blas when tilewright was built, and compiled here for any target.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tilewright.blas import names
from tilewright.blas.letters import Letter
from tilewright.emit import code
from tilewright.errors import TargetError
from tilewright.libraries import detection, dispatch
from tilewright.libraries.dispatch import Choice, Function
from tilewright.spec import MatmulSpec
from tilewright.targets import Target

_FOLDER = Path(__file__).parents[1] / "bin" / "blas"
_OF_A_MACHINE = re.compile(
    r'^target (datalayout|triple) = .*\n|"(target-cpu|target-features|tune-cpu)"="[^"]*" ?', re.MULTILINE
)
"""What says which processor IR was made for."""
_EXPORTED = re.compile(
    r"^(?:define (?!internal|hidden|linkonce|private)[^@]*@(\w+)\(|@(\w+) = (?:global|alias) )", re.MULTILINE
)
BASELINE = "baseline"
"""What the code is called that every processor of an architecture runs."""
_OPS = "ntc"
"""Of layouts, in the order in which the routines number them."""


def text(name: str) -> str:
    """The LLVM IR of a part of the interface, for no processor yet.

    Raises:
        TargetError: tilewright was built without clang, so that there is none.
    """
    file = _FOLDER / f"{name}.ll"
    if not file.is_file():
        remedy = "Install the clang of the LLVM that tilewright was built with, and build tilewright again"
        raise TargetError("the BLAS's routines are not there", where=str(file), expected="LLVM IR", remedy=remedy)
    return _OF_A_MACHINE.sub("", file.read_text(encoding="utf-8"))


def exported(llvmir: str) -> list[str]:
    """The names that a part of the interface defines for programs."""
    return [found[1] or found[2] for found in _EXPORTED.finditer(llvmir)]


def compiled(llvmir: str, target: Target) -> bytes:
    """The object of a part."""
    return code.object_file(code.optimize(llvmir, target), target)


def blocks(library: str, letter: str, targets: Sequence[Target], plain: Target) -> list[bytes]:
    """The objects of what routines of a letter do besides products: code for each target, and what chooses.

    A processor below all targets, for which routines compute products without kernels, takes the code for `plain`.
    """
    bits = detection.positions(targets)
    if not any(each.features <= plain.features for each in targets):
        targets = [*targets, replace(plain, name=BASELINE)]
    own, objects = text(f"blocks_{letter}"), []
    symbols = [f"tilewright_{letter}_{what}" for what in ("substitute", "turn")]
    for number, target in enumerate(targets):
        named = own
        for symbol in symbols:
            named = named.replace(f"@{symbol}_code", f"@{symbol}_{number}")
        objects.append(compiled(named, target))
    for symbol in symbols:
        choices = [
            Choice(detection.mask(target.features, bits), target.name, f"{symbol}_{number}")
            for number, target in enumerate(targets)
        ]
        entries = dispatch.entries(library, symbol, [Function(f"int32_t {symbol}(const void *given)")], choices)
        objects.append(compiled(entries, plain))
    return objects


def shapes(letter: Letter, own: Mapping[str, MatmulSpec]) -> str:
    """LLVM IR of what the routines of a letter know of its kernels.

    That is a table in which they look up those for one shape each, by name, and whether all of them have the same bits.
    """
    size = 1 << (2 * len(own)).bit_length()
    rows = ["%shape zeroinitializer"] * size
    for name, spec in own.items():
        m, n, k = (int(str(each)) for each in (spec.m, spec.n, spec.k))
        layout = _OPS.index(spec.layout[0]) * 3 + _OPS.index(spec.layout[1])
        at = (((m * 31 + n) * 31 + k + layout) % 2**64) % size
        while rows[at] != "%shape zeroinitializer":
            at = (at + 1) % size
        rows[at] = f"%shape {{ i64 {m}, i64 {n}, i64 {k}, i64 {layout}, ptr @{name} }}"
    declared = "\n".join(f"declare hidden i32 @{name}(...)" for name in own)
    return f"""
%shape = type {{ i64, i64, i64, i64, ptr }}
{declared}
@table = internal constant [{size} x %shape] [{", ".join(rows)}]
@tilewright_{letter.prefix}_shapes = hidden constant {{ i64, ptr, i64 }} {{ i64 {size - 1}, ptr @table, i64 {int(letter.deterministic)} }}
"""


def forwarding(forwarded: Sequence[str], architecture: str) -> str:
    """LLVM IR of functions that go on, with whatever arguments, to those of their names in another BLAS, found at the first call."""
    parts = ["declare hidden ptr @tilewright_blas_resolve(i64)", _FIND]
    for array, texts in (("names", forwarded), ("fallbacks", names.fallbacks(architecture))):
        parts += [
            f'@{array}.{number} = private unnamed_addr constant [{len(each) + 1} x i8] c"{each}\\00"'
            for number, each in enumerate(texts)
        ]
        rows = ", ".join([*(f"ptr @{array}.{number}" for number in range(len(texts))), "ptr null"])
        parts.append(f"@tilewright_blas_{array} = hidden constant [{len(texts) + 1} x ptr] [{rows}]")
    parts.append(f"@tilewright_blas_slots = hidden global [{len(forwarded) + 1} x ptr] zeroinitializer")
    parts += [_forwarding(name, number) for number, name in enumerate(forwarded)]
    return "\n".join(parts)


def _forwarding(name: str, number: int) -> str:
    """One function: of variable arguments and a call that must be a jump, LLVM passes every register on, and the stack as it is.

    Its number goes along in the register of `nest`, which no caller of C or Fortran uses, to what all share and what is done once.
    """
    return f"""
define void @{name}(ptr nest %unused, ...) {{
  %slot = getelementptr ptr, ptr @tilewright_blas_slots, i64 {number}
  %known = load atomic ptr, ptr %slot acquire, align 8
  %absent = icmp eq ptr %known, null
  %there = select i1 %absent, ptr @find, ptr %known
  musttail call void (ptr, ...) %there(ptr nest inttoptr (i64 {number} to ptr), ...)
  ret void
}}"""


_FIND = """
define internal void @find(ptr nest %number, ...) noinline {
  %at = ptrtoint ptr %number to i64
  %found = call ptr @tilewright_blas_resolve(i64 %at)
  musttail call void (ptr, ...) %found(ptr nest %number, ...)
  ret void
}"""
