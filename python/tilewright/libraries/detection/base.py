# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How an architecture's processors tell their features, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Detection:
    """How an architecture tells what its processors have.

    Attributes:
        baseline: The features that all its processors have: those that the code which detects may use.
        where: By feature, the word that tells it, and the bit.
        words: LLVM IR that loads the words ``%WORD``, each of 64 bits.
        states: By word of masks, the features that need the processor's state of which that word tells.
        masks: LLVM IR that makes those masks, of all ones where the state is there, of zeros where it is not.
        functions: What both call.
        last: LLVM IR that makes ``%last``, the result, from ``%found``.
    """

    baseline: frozenset[str]
    where: Mapping[str, tuple[str, int]]
    words: str
    states: Mapping[str, frozenset[str]] = field(default_factory=dict)
    masks: str = ""
    functions: str = ""
    last: str = "  %last = or i64 %found, 0\n"


def by_feature(**words: str) -> Mapping[str, tuple[str, int]]:
    """By feature, the word that tells it and the bit, from texts of features and bits for each word."""
    found = {}
    for word, text in words.items():
        names = text.split()
        found |= {feature: (word, int(bit)) for feature, bit in zip(names[::2], names[1::2], strict=True)}
    return MappingProxyType(found)


# AT_HWCAP is 16, AT_HWCAP2 26.
AUXILIARY = "declare i64 @getauxval(i64)\n"
"""The C library's function that tells what Linux says of the processor."""
