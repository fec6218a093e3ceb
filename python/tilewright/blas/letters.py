# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The types that a BLAS computes with, each called after the letters that its routines start with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.spec import MatmulSpec

LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")
"""The targets of the types of every BLAS, where none are named."""
_WITH_DOTS = ("x86-64-v3", "cascadelake", "znver4", "sapphirerapids")
"""Those of smaller types: AVX2, VNNI, with BF16, AMX."""
_REAL = ("nn", "nt", "tn")
_WITHOUT_COPIES = (*_REAL, "tt")
_COMPLEX = (*_REAL, "nc", "cn")


@dataclass(frozen=True, slots=True)
class Letter:
    """A type.

    Attributes:
        types: Element types of A, B and C, as the command line has them.
        prefix: What the names of its kernels have after ``tilewright_``.
        routines: The part of the interface that has its routines.
        layouts: Those of its kernels of any extents. For others, the routines copy B to row-major order.
        whole: Whether it has all of level 3, and not gemm alone.
        targets: Where none are named, for which targets it has kernels.
        deterministic: Whether each element of C has the same bits for every M and N.
    """

    types: str
    prefix: str
    routines: str
    layouts: tuple[str, ...] = _REAL
    whole: bool = True
    targets: tuple[str, ...] = LEVELS
    deterministic: bool = False

    def spec(self, layout: str, m: int | None = None, n: int | None = None, k: int | None = None) -> MatmulSpec:
        """What a kernel of this type computes, by default of any extents."""
        fields = {"layout": layout, "alpha": "arg", "beta": "arg", "deterministic": self.deterministic}
        return MatmulSpec.from_dtypes(m, n, k, self.types, **fields)

    def general(self) -> dict[str, MatmulSpec]:
        """The kernels of any extents, by the names that the routines have for them."""
        return {f"tilewright_{self.prefix}_{layout}": self.spec(layout) for layout in self.layouts}

    def own(self, spec: MatmulSpec) -> tuple[str, MatmulSpec] | None:
        """The kernel of the extents of `spec`, and its name, if that is a product that a routine can call."""
        if spec.dynamic or not self.whole or spec.batch:
            return None
        if self.deterministic and spec.n == 1:  # A static product of one column has an order of its own.
            return None
        m, n, k = (int(str(each)) for each in (spec.m, spec.n, spec.k))
        factors = {"alpha": spec.alpha, "beta": spec.beta}
        if spec != MatmulSpec.from_dtypes(m, n, k, self.types, layout=spec.layout, **factors):
            return None
        return f"tilewright_{self.prefix}_{spec.layout}_{m}x{n}x{k}", self.spec(spec.layout, m, n, k)


LETTERS: Mapping[str, Letter] = MappingProxyType(
    {
        "s": Letter("f32", "f32", "routines_s"),
        "d": Letter("f64", "f64", "routines_d"),
        "c": Letter("c64", "c64", "routines_c", _COMPLEX),
        "z": Letter("c128", "c128", "routines_z", _COMPLEX),
        "sb": Letter("bf16", "bf16", "halves_sb", _WITHOUT_COPIES, whole=False, targets=_WITH_DOTS),
        "sh": Letter("f16", "f16", "halves_sh", _WITHOUT_COPIES, whole=False, targets=_WITH_DOTS),
        "s8u8": Letter("u8,i8,i32", "u8i8", "integers", _WITHOUT_COPIES, whole=False, targets=_WITH_DOTS),
    }
)
"""Those of every BLAS, and floats of 16 bits, bf16 and f16, and integers of 8."""
OF_EVERY_BLAS = ("s", "d", "c", "z")
"""Those that are built where none are named."""
