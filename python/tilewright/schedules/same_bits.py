# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `MatmulSpec.deterministic` asks of the choice of a strategy: that no sum's order depends on M, on the batch or on threads.

Strategies that give each lane of a vector a column of C add up the products of an element of C one by one, along K, and go on
where a block of K ended: packed, unpacked, streamed, outer products. With elements as wide as the sum all of these give the
same bits, whatever their blocks, so the model may choose by M. With narrower ones the instruction decides how many products
are added at once: only those strategies agree that take the same one. Sums of integers are the same in any order.

Vectors along K (`inner_product`) are another order, and so are sums of codes (`scaled_sums`). Products of one column have it for every M.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.dims import divided_by
from tilewright.errors import ScheduleError
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_ROWS = 256
"""Rows for which the strategy is chosen where it has to be the same for all: enough that packing is repaid."""
_ALONE = ("inner_product", "scaled_sums")
"""Strategies whose order of sums no other one has."""


def typical(spec: MatmulSpec, target: Target) -> MatmulSpec:
    """The spec by which the strategy for `spec` is chosen: of another M and of no batch, where the choice has to be one for all."""
    if not spec.deterministic or agree(spec, target):
        return spec
    lone = {"batch": (), "a_batch": (), "b_batch": ()}
    return replace(spec, m=_ROWS, **lone)


def settled(name: str, spec: MatmulSpec, target: Target) -> str:
    """The strategy that takes the place of `name`, which was chosen for this M, where others would not sum as it does."""
    alone = spec.deterministic and name in _ALONE and spec.n != 1
    return "packed" if alone else name


def agree(spec: MatmulSpec, target: Target) -> bool:
    """Whether all strategies but `inner_product` add up products in the same order."""
    if spec.acc_type.kind != "float":
        return True
    if not spec.widens:
        return spec.n != 1
    dots = target.dots(spec.a_type.name, spec.b_type.name)
    one = len(dots) == 1 and not target.scalable_bits and not target.streaming_bits
    # Without whole steps, `unpacked` and `streamed` widen the elements first.
    return spec.n != 1 and one and divided_by(spec.k, dots[0].step)


def check(name: str, chosen: str, spec: MatmulSpec, target: Target) -> None:
    """Checks that strategy `name`, asked for by name, keeps to what a deterministic spec promises.

    Raises:
        ScheduleError: With another M, strategy `chosen` would sum in another order.
    """
    alike = agree(spec, target) and name not in _ALONE
    if spec.deterministic and name != chosen and not alike:
        raise ScheduleError(
            f"strategy {name} adds products up in another order than {spec} does with other extents",
            where="deterministic=True",
            expected=f"strategy {chosen}",
            remedy="Leave the choice of a strategy to the model, or compile with deterministic=False",
        )
