# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of complex matrices as products of real ones, in one of two forms.

In blocks (the 1m method): A and C are where they lie matrices of real numbers, M×2K and M×2N, each complex number two of them side
by side. B becomes one of 2K×2N, with the block [[re, im], [-im, re]] for each element. Their product is that of the complex matrices,
part by part.

Stacked, for few rows by a large B: B is a real matrix where it lies, K×2N. A becomes one of 2M×K, the real parts and the imaginary
parts of each row, and each element of C is made of four sums of their product. By a B that is stored transposed, a real matrix of
2K×N, A becomes one of 2M×2K, with the block [[re, -im], [im, re]] for each element.

Source of the former: F. G. Van Zee, "Implementing High-Performance Complex Matrix Multiplication via the 1m Method", SIAM Journal on
Scientific Computing 42(5), 2020.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from tilewright.dims import MAX_EXTENT, Dim, most
from tilewright.scaling import ARG, Factor
from tilewright.spec import MatmulSpec

Form = Literal["blocks", "stacked", "either"]
STACKED_SIZES = (2, 6, 4)
"""Numbers that are copied: stacked, so many times M·K and M·N, and in blocks so many times K·N."""
MOST_SCRATCH = 1 << 28
"""Bytes of a copy of B at most, but for `least_block` columns: so many that it hardly matters that those of A are packed again."""
_LEAST_BLOCK = 64
_FEW_ROWS = 8
"""Rows up to which a product is stacked whatever else is dynamic."""


def is_complex(spec: MatmulSpec) -> bool:
    """Whether elements are complex numbers."""
    return spec.a_stored.part is not None


def form(spec: MatmulSpec) -> Form:
    """The form of a complex product.

    Either where one kernel of the real product serves both, as it does where the extents are dynamic that differ. Sums in blocks are of one
    order, whatever M is.
    """
    rows, other = most(spec.m), spec.k if spec.layout[1] == "n" else spec.n
    if spec.deterministic or spec.alpha == 0:
        return "blocks"
    if isinstance(spec.m, Dim) and isinstance(other, Dim) and rows > _FEW_ROWS:
        return "either"
    if isinstance(spec.n, Dim) or isinstance(spec.k, Dim):
        return "stacked" if rows <= _FEW_ROWS else "blocks"
    by_k, by_n, by_both = STACKED_SIZES
    return "stacked" if rows * (by_k * spec.k + by_n * spec.n) < by_both * spec.k * spec.n else "blocks"


def computed(spec: MatmulSpec) -> MatmulSpec:
    """The product that schedules decide on: `spec`, or, of a complex one, that of real matrices which its entry calls.

    That has no batch: it is of one of the matrices. Where it is of the form "either", its extents are those of both.

    Raises:
        SpecError: Twice an extent is none.
    """
    if not is_complex(spec):
        return spec
    made = form(spec)
    if made != "stacked" and (isinstance(spec.n, Dim) or _is_split(spec)):
        spec = replace(spec, n=_columns(spec))
    whole = {
        "blocks": "nk",
        "stacked": "mn" if spec.layout[1] == "n" else "mk",
        "either": "n" if spec.layout[1] == "n" else "k",
    }
    sizes: dict[str, Any] = {
        name: _twice(size) if name in whole[made] else _once_or_twice(size) if made == "either" else size
        for name, size in (("m", spec.m), ("n", spec.n), ("k", spec.k))
    }
    return MatmulSpec(
        **sizes,
        a=str(spec.a_stored.part),
        layout=spec.layout.replace("c", "t"),
        alpha=int(spec.alpha != 0),
        beta=_added(spec, made),
        deterministic=spec.deterministic,
    )


def _added(spec: MatmulSpec, made: Form) -> Factor:
    """The factor beta of the real product: 0 of what is stacked, whose sums are put together elsewhere, and in blocks 0 or 1."""
    if made == "stacked" or spec.beta == 0:
        return 0
    return ARG if made == "either" or spec.beta == ARG else 1


def block_numbers(spec: MatmulSpec) -> int:
    """Elements of B that are copied at a time at most, but for `least_block` columns; any where the kernel is for all columns."""
    return MOST_SCRATCH // (2 * spec.a_stored.bytes) if isinstance(computed(spec).n, Dim) else 2**62


def least_block(spec: MatmulSpec) -> int:
    """What divides the columns of B that are copied at a time."""
    return _LEAST_BLOCK * (spec.n.multiple if isinstance(spec.n, Dim) else 1)


def _is_split(spec: MatmulSpec) -> bool:
    """Whether the columns of a static product are copied in several parts."""
    both = 0 if isinstance(spec.k, Dim) else 2 * spec.a_stored.bytes * spec.n * spec.k
    return both > MOST_SCRATCH and spec.n > least_block(spec)


def _columns(spec: MatmulSpec) -> Dim:
    """The columns that are copied at a time: all of them, or some."""
    if not isinstance(spec.n, Dim):
        return Dim(1, spec.n)
    return replace(spec.n, min=min(spec.n.min, spec.n.multiple))


def _twice(extent: Any) -> Any:  # noqa: ANN401 - an Extent
    if not isinstance(extent, Dim):
        return 2 * extent
    return Dim(2 * extent.min, min(2 * extent.max, MAX_EXTENT), 2 * extent.multiple)


def _once_or_twice(extent: Dim) -> Dim:
    return Dim(extent.min, min(2 * extent.max, MAX_EXTENT), extent.multiple)
