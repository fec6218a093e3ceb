# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of a schedule for a block of C whose rows would be in the same sets of the caches: its sums wait in scratch with longer rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.schedules import steps
from tilewright.schedules.models.blocking import row_gap
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def tile(
    script: steps.Script, op: steps.Handle, blocks: Iterable[Sequence[steps.Size]], spec: MatmulSpec, target: Target
) -> steps.Handle:
    """Tiles a product by `blocks` of C, and gives it scratch for the sums of one. Returns the product.

    Before: ``C = 0; C += A * B``. After, where rows of S are a few lines longer than those of the block::

        for jc: for ic:
          S = 0; S += A[ic:ic+mc, :] * B[:, jc:jc+nc]
          C[ic:ic+mc, jc:jc+nc] = S
    """
    for sizes in blocks:
        op, _ = steps.tile_with_producers(op, sizes)  # Zeros are made for each block.
    product = steps.match_product(script.functions, spec)
    steps.stage(product, 2, row_gap(target, spec.acc_type))
    return product


def write(script: steps.Script, spec: MatmulSpec, lanes: int) -> None:
    """Copies blocks of sums to C, and of a C that is added to from there, row by row in vectors of `lanes` elements.

    Before: ``C[ic:ic+mc, jc:jc+nc] = S``. After::

        for i in 0..mc: for j in 0..nc step lanes: C[ic+i, jc+j:jc+j+lanes] = S[i, j:j+lanes]
    """
    for copy in steps.split(steps.match(script.functions, "linalg.copy"), 1 + bool(spec.beta)):
        row, _ = steps.tile(copy, [1, 0])
        steps.tile(row, [0, lanes])
    steps.clean(script.functions)
    # The last step: as long as they are tensors, cleaning makes copies of slices again of what vectors copy.
    steps.vectorize(steps.match(script.functions, "linalg.copy"))
