# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM IR that reads a processor's features at run time, by architecture: ``i64 @detect(i64 wanted)``.

The result has a bit for each feature that the processor has, and whose registers Linux saves. Where tiles of AMX are among those
that are wanted and there, Linux is asked for permission to use them, and it is read back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.emit import system_call
from tilewright.errors import TargetError
from tilewright.libraries.detection import x86
from tilewright.libraries.detection.base import Detection
from tilewright.targets.base import Target
from tilewright.targets.registry import family_of, knowledge

MOST_FEATURES = 62
"""Of a word of 64 bits, in which the library keeps two for itself."""


def of(family: str) -> Detection:
    """How the features of a family's processors are found: `DETECTION` of the module here that is called so.

    Raises:
        TargetError: There is none.
    """
    return knowledge("tilewright.libraries.detection.{}", family).DETECTION


def positions(targets: Sequence[Target]) -> dict[str, int]:
    """The bit of each feature that code for one of the targets, all of a family, needs.

    Raises:
        TargetError: A feature cannot be detected at run time, or there are too many.
    """
    where = of(targets[0].family).where
    for target in targets:
        if unknown := sorted(target.features.difference(where)):
            raise TargetError(
                f"{target.name} needs {unknown[0]}",
                where="library",
                expected=f"features that can be detected at run time: {', '.join(sorted(where))}",
                remedy="Leave the feature out of the target",
            )
    features = sorted(frozenset[str]().union(*(target.features for target in targets)))
    if len(features) > MOST_FEATURES:
        raise TargetError(f"{len(features)} features", where="library", expected=f"at most {MOST_FEATURES}")
    return {feature: number for number, feature in enumerate(features)}


def mask(features: frozenset[str], bits: Mapping[str, int]) -> int:
    """The word with the bits of those features that have one."""
    return sum(1 << bits[each] for each in features if each in bits)


def text(family: str, architecture: str, bits: Mapping[str, int]) -> str:
    """The function ``i64 @detect(i64 wanted)``, with the bits of `positions`, and what it calls."""
    how = of(family)
    lines = [how.words, how.masks, "  %sum0 = or i64 0, 0\n"]
    for number, (feature, position) in enumerate(bits.items()):
        word, bit = how.where[feature]
        lines.append(
            f"  %moved{number} = lshr i64 %{word}, {bit}\n  %only{number} = and i64 %moved{number}, 1\n"
            f"  %at{number} = shl i64 %only{number}, {position}\n"
            f"  %sum{number + 1} = or i64 %sum{number}, %at{number}\n"
        )
    last = f"%sum{len(bits)}"
    for state, features in how.states.items():
        lines.append(
            f"  %free.{state} = or i64 %{state}, {~mask(features, bits)}\n"
            f"  %saved.{state} = and i64 {last}, %free.{state}\n"
        )
        last = f"%saved.{state}"
    lines.append(f"  %found = or i64 {last}, 0\n")
    tiles = mask(x86.TILES, bits)
    lines.append(how.last.format(tiles=tiles, others=~tiles))
    calls = family_of(architecture).linux.calls
    body = "".join(lines)
    return f"{system_call.text(calls)}{how.functions}\ndefine internal i64 @detect(i64 %wanted) {{\n{body}  ret i64 %last\n}}\n"
