# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Warp groups that multiply what they make themselves of codes that are copied (`held_weights`): the loop over K of a consumer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tilewright.build.index import Index, add, less, mul, value
from tilewright.build.loops import if_else, loop
from tilewright.build.usedef import body, function_of
from tilewright.codegen.gpu import prologues, short_products
from tilewright.codegen.gpu.barriers import meet_warp
from tilewright.codegen.gpu.grouped import Grouped, number_of
from tilewright.codegen.gpu.held_weights import DEPTH, HeldWeights
from tilewright.codegen.gpu.reads import Reading
from tilewright.codegen.gpu.ring import Turn
from tilewright.codegen.gpu.tma_loads import multiplied, stored_of
from tilewright.codegen.gpu.warp_group_fragments import WarpGroups
from tilewright.codegen.gpu.warpgroups import Specialized
from tilewright.errors import LoweringError
from tilewright.mlir import ir
from tilewright.mlir.dialects import nvvm, scf

_AT_ONCE = 4 * DEPTH
"""Elements along K whose registers are made while the products of as many before go on."""


class WeightGroups(Specialized):
    """One loop over tiles on its way to a group that copies A and codes of B, and others that make weights of these, and multiply."""

    def __init__(
        self,
        loop: ir.Operation,
        groups: WarpGroups,
        types: tuple[str, str],
        grouped: Mapping[int, Grouped],
        *,
        boxes_of_c: bool,
    ) -> None:
        """Makes it; `grouped` are the operands with an element for each group along K."""
        super().__init__(loop, groups, types, boxes_of_c=boxes_of_c)
        self._reading = Reading(self._of, self._extents, aligned=False, groups=grouped)

    def run(self) -> None:
        """Makes the loop the code of a thread.

        Raises:
            LoweringError: There is an op in it that cannot be shared.
        """
        function = function_of(self._loop)
        super().run()
        short_products.rewrite(function)

    def _sources(self, over_k: ir.Operation) -> list[ir.Operation]:
        """A as it is stored, and the codes of B; the prologue of these is for consumers."""
        a, b = multiplied(over_k)
        stored = stored_of(prologues.forms(a)[-1][0])
        element = ir.VectorType(stored.results[0].type).element_type
        forms = [made for made, _ in prologues.forms(b) if ir.VectorType(made.type).element_type == element]
        if not forms:
            raise LoweringError(
                f"B is not made {element} before it is multiplied", stage="threads", expected="A's type"
            )
        self._block, self._made = body(over_k), prologues.Computed(forms[-1], 0, self._reading)
        codes = [read.op for read in self._made.reads(0, 0, 1) if number_of(read.op.operands[0]) == 1]
        return [stored, stored_of(codes[0].results[0])]

    def _multiply_all(self, lower: Index, upper: ir.Value, turn: Turn, row: Index) -> tuple[list[ir.Value], Turn]:
        """The loop over K: the sums, and the turn after it."""
        sizes = self._sizes
        weights = HeldWeights(self._made, self._tiles[1], sizes.bk, sizes.groups)
        place = self._places[1]

        def load(k: ir.Value) -> list[ir.Value]:
            self._enter_step(self._block, k)
            return weights.load(self._column)

        start = [*self._products.undefined(), *load(value(lower)), *turn.values]
        with loop(lower, upper, sizes.bk, start) as (k, carried, over):
            sums, (held, turn) = list(carried[: sizes.groups]), _held_and_turn(carried[sizes.groups :])
            after = add(k, sizes.bk)
            later = if_else(less(after, upper), partial(load, after), lambda: held, weights.kinds) if held else []
            self._ring.await_full(turn)
            self._enter_step(self._block, k)
            codes = weights.start(self._memory, add(mul(turn.slot, self._slot_bytes), place), self._column, self._lane)
            found = weights.finish(held)
            for first in range(0, sizes.bk, _AT_ONCE):
                fragments = [
                    [
                        weights.fragment(codes, self._lane, group, k_, found)
                        for k_ in range(first, first + _AT_ONCE, DEPTH)
                    ]
                    for group in range(sizes.groups)
                ]
                adds = less(lower, k) if first == 0 else True
                sums = self._products.begin_held(turn.slot, fragments, first, sums, adds)
                nvvm.wgmma_wait_group_sync_aligned(1)
            nvvm.wgmma_wait_group_sync_aligned(0)
            meet_warp()  # All of its threads have read their codes.
            self._ring.release(turn.slot, self._lane)
            scf.yield_([*sums, *later, *self._ring.after(turn).values])
        results: list[ir.Value] = list(over.results)
        return results[: sizes.groups], _held_and_turn(results[sizes.groups :])[1]

    def _release_last(self, turn: Turn) -> None:
        """Each step has released its slot."""


def _held_and_turn(values: list[ir.Value]) -> tuple[list[ir.Value], Turn]:
    *held, slot, parity = values
    return held, Turn(slot, parity)
