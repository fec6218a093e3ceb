# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each target does with each pair of element types: what it widens them to inside the kernel, and what multiplies them.

Everything follows from the rows of targets, instructions and types; the tests run every cell.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.codegen.gpu import matrix_cores, mma_types
from tilewright.schedules.models import outer_blocks, scalable_blocks
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.dots import Dot
from tilewright.targets.gpu import GpuTarget

_BYTES = ("i8", "u8")
_SMALL_FLOATS = ("f8E4M3FN", "f8E5M2")
TYPES = (
    *((each, each) for each in ("f64", "f32", "f16", "bf16")),
    *((a, b) for a in _SMALL_FLOATS for b in _SMALL_FLOATS),
    *((a, b) for a in _BYTES for b in (*_BYTES, "i4", "u4")),
    *(("bf16", each) for each in ("i4", "u4", "f4E2M1FN")),
)
"""The types of A and B, as they are stored, of which the table tells. Others of them meet in the same ways."""

_PLAIN = "multiply-add"
_STRATEGIES = {"simt": _PLAIN, "mma_sync": "mma.sync"}


@dataclass(frozen=True, slots=True)
class Cell:
    """How a target multiplies elements of two types.

    Attributes:
        types: Those of A and B, as they are stored.
        multiplied: As what they are multiplied: those that are stored, where the instruction takes them.
        instruction: What multiplies: an instruction, of which brackets enclose letters that depend on signs; or "multiply-add", of
            vectors of the sum's type.
        strategy: The strategy whose kernels use it.
    """

    types: tuple[str, str]
    multiplied: tuple[str, str]
    instruction: str
    strategy: str

    @property
    def native(self) -> bool:
        """Whether nothing is widened."""
        return self.types == self.multiplied

    def __str__(self) -> str:
        """For people: "vpdpbusd", "widened to bf16: vdpbf16ps"."""
        wide = "×".join(dict.fromkeys(self.multiplied))
        return self.instruction if self.native else f"widened to {wide}: {self.instruction}"


def cell(a: str, b: str, target: Target | GpuTarget) -> Cell:
    """How `target` multiplies elements of A by those of B, of these types as they are stored."""
    spec = MatmulSpec(64, 64, 64, a=a, b=b)
    if isinstance(target, GpuTarget):
        return _of_gpu(spec, target)
    if (outer := outer_blocks.outer(spec, target)) is not None and outer_blocks.fits(spec, target):
        return Cell((a, b), (a, b), outer.name, "outer_product")
    strategy, dot = "packed", target.dot(spec.a_type.name, spec.b_type.name)
    scalable = target.scalable_dot(spec.a_type.name, spec.b_type.name)
    if scalable is not None and scalable_blocks.fits(spec, target):
        strategy, dot = "scalable", scalable
    return Cell((a, b), _as_stored_in_panels(spec, dot), dot.name, strategy)


def _as_stored_in_panels(spec: MatmulSpec, dot: Dot) -> tuple[str, str]:
    """The types of the elements that an instruction is given."""
    if dot.storage is not None:
        return dot.storage, dot.storage
    if dot.kind == "multiply_add":
        return spec.acc_type.name, spec.acc_type.name
    return spec.a_type.name, spec.b_type.name


def _of_gpu(spec: MatmulSpec, target: GpuTarget) -> Cell:
    types = (spec.a_stored.name, spec.b_stored.name)
    if matrix_cores.does(spec, target):
        (instruction,) = (name for name in target.instructions if name in matrix_cores.INSTRUCTIONS)
        return Cell(types, (spec.a_type.name, spec.b_type.name), instruction, "matrix_cores")
    pair = mma_types.multiplied(spec, target)
    strategy = "simt" if pair is None else "mma_sync"
    wide = spec.acc_type.name
    return Cell(types, (wide, wide) if pair is None else pair, _STRATEGIES[strategy], strategy)


def cells(target: Target | GpuTarget) -> tuple[Cell, ...]:
    """All of a target's."""
    return tuple(cell(a, b, target) for a, b in TYPES)
