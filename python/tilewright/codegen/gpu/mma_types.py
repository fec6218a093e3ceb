# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The matrix instructions of a warp (mma.sync): one row for each type of an operand.

Source: the PTX ISA manual, "Matrix Multiply-Accumulate Operation using mma instruction".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.dtypes import STORED
from tilewright.entries import Chain
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget


@dataclass(frozen=True, slots=True)
class Instruction:
    """One matrix instruction, of 8 columns.

    Attributes:
        m: Rows: 8 or 16.
        k: Depth.
        type: PTX's name of the operands' type.
        needs: The feature of a target's that it needs.
    """

    m: int
    k: int
    type: str
    needs: str = "mma.sync"


INSTRUCTIONS: Mapping[str, Instruction] = MappingProxyType(
    {
        "f16": Instruction(16, 16, "f16"),
        "bf16": Instruction(16, 16, "bf16"),
        "tf32": Instruction(16, 8, "tf32"),
        "f64": Instruction(8, 4, "f64"),
        "i8": Instruction(16, 32, "s8"),
        "u8": Instruction(16, 32, "u8"),
        "f8E4M3FN": Instruction(16, 32, "e4m3", needs="mma.sync.f8"),
        "f8E5M2": Instruction(16, 32, "e5m2", needs="mma.sync.f8"),
    }
)
"""By element type, and "tf32" for f32 that may be shortened to it."""


def multiplied(spec: MatmulSpec, target: GpuTarget) -> tuple[str, str] | None:
    """The types of A and B, as rows of `INSTRUCTIONS`, that a target's instructions multiply; None where they do not.

    They are the stored ones, where a prologue does no more than widen them and there is an instruction for them.
    """
    for pair in (
        (_stored(spec.a, spec.chain_a), _stored(spec.b or spec.a, spec.chain_b)),
        (spec.a_type.name, spec.b_type.name),
    ):
        a, b = ("tf32" if each == "f32" and spec.tf32 else each for each in pair)
        rows = [INSTRUCTIONS.get(a), INSTRUCTIONS.get(b)]
        if (
            all(row is not None and row.needs in target.instructions for row in rows)
            and len({row and row.k for row in rows}) == 1
        ):
            return a, b
    return None


def only_widens(element: str, chain: Chain) -> bool:
    """Whether all that a prologue does to elements of a stored type is to make them wider."""
    return all(
        not typed.operands
        and [step.op for step in typed.entry.program.steps] == ["value", "convert"]
        and typed.entry.form == "each"
        and typed.result in STORED.get(element, ())
        for typed in chain.entries
    )


def _stored(element: str, chain: Chain) -> str:
    """The type as which elements of a stored type can be multiplied: its own, where the prologue only widens it."""
    return element if only_widens(element, chain) else chain.result


def as_stored(spec: MatmulSpec, target: GpuTarget) -> tuple[str, str] | None:
    """What instructions multiply of A and B where that is what is stored, or its leading bits; None where it is computed."""
    names = multiplied(spec, target)
    b = spec.b or spec.a
    if names is None or not (only_widens(spec.a, spec.chain_a) and only_widens(b, spec.chain_b)):
        return None
    return names if all(name in (stored, "tf32") for name, stored in zip(names, (spec.a, b), strict=True)) else None
