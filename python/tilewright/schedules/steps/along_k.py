# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of a schedule that multiplies in vectors along K."""

from __future__ import annotations

from tilewright.mlir import ir
from tilewright.mlir.dialects.transform import tilewright as ours
from tilewright.schedules import steps
from tilewright.schedules.decisions import Prefetch
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.dots import Dot
from tilewright.targets.lookups import Lookup


def reorder(product: steps.Handle, found: Lookup) -> None:
    """Lets A have the elements of a block in the order in which those of B come out of words.

    Before: ``C += A * f(B)``. After, with P elements of B in a word, and blocks of P * L::

        A2[:, b + p * L + l] = A[:, b + l * P + p] for each block b, p in 0..P, l in 0..L
        C += A2 * f(B in the same order)
    """
    ours.tilewright_reorder_along_k(product, found.block, found.ways)


def spread(functions: steps.Handle, loop: steps.Handle) -> None:
    """Gives each tile of a loop over columns such that are far apart, and leaves prefetching to the hardware.

    B is read in few streams that go straight on, which the hardware foresees.

    Before: ``for j in 0..N step 2: tile of columns j, j+1``. After: ``for j in 0..N/2: tile of columns j, j + N/2``.
    """
    ours.tilewright_spread_tiles(loop)
    steps.decide(functions, Prefetch("none"))


def contract_along_k(
    functions: steps.Handle, spec: MatmulSpec, target: Target, dot: Dot | None, table: Lookup | None = None
) -> None:
    """Gives each sum of a product a vector of partial sums, multiplied along k: by `dot`, or widened first.

    With `table`, elements of B are looked up. L are the lanes of a register of `target`.

    Before: ``for k step L * D: c = contract(a[k:k+L*D], b[k:k+L*D], c)``, D being what a lane of `dot` takes up at once, or 1.
    After::

        for k step L * D: p[i][j] = dot(p[i][j], a[i, k:k+L*D], b[k:k+L*D, j]) for each sum
        c += sums of the elements of p

    Where `dot` wants the sign of A turned, what that adds to the sums of a column is summed up beside them.
    """
    lanes, blocks = target.lanes(spec.acc_type), target.shuffle_bits or None
    by_table = {} if table is None else {"lookup": table.intrinsic, "block": table.block, "ways": table.ways}
    if dot is None:
        ours.tilewright_contract_along_k(functions, lanes, blocks=blocks, **by_table)
        return steps.clean(functions)
    ours.tilewright_contract_along_k(
        functions,
        lanes,
        depth=dot.depth,
        blocks=blocks,
        element=ir.TypeAttr.get(ir.Type.parse(spec.a_type.mlir)),
        storage=ir.TypeAttr.get(ir.Type.parse(dot.storage)) if dot.storage else None,
        intrinsic=dot.intrinsic,
        adds=dot.adds,
        unsigned_first=dot.unsigned_first,
        both_unsigned=dot.both_unsigned,
        flip=dot.flip,
        **by_table,
    )
    return steps.clean(functions)
