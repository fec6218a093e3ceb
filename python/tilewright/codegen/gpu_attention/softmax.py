# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A thread's part of a softmax that is computed block by block of keys: running maxima, weights, and sums of weights, by rows.

Before, of all scores S of a row: ``P = exp(S - max(S)); l = sum of P``. After, of one block of keys after the other::

    m' = max(m, the largest of S, of all threads of the row)
    a = exp(m - m'); P = exp(S - m'); l = l * a + sum of P

What was summed of weights by values so far is multiplied by a.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.build.constants import constant, zero
from tilewright.codegen.attention.chain import Chain
from tilewright.codegen.gpu_attention.exchange import Exchange
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, llvm, math
from tilewright.payload.attention_numbers import LOG2_E, LOWEST
from tilewright.targets.gpu import GpuTarget

Rows = Sequence[Sequence[ir.Value]]
"""A thread's numbers, by rows."""


@dataclass(frozen=True, slots=True)
class Block:
    """What a block of keys makes.

    Attributes:
        weights: By rows.
        factors: What is multiplied with all that was summed before, for each row.
        largest: The largest scores so far.
        sums: Sums of the thread's weights so far.
    """

    weights: Sequence[Sequence[ir.Value]]
    factors: Sequence[ir.Value]
    largest: Sequence[ir.Value]
    sums: Sequence[ir.Value]


@dataclass(frozen=True, slots=True)
class Softmax:
    """How it is computed.

    Attributes:
        scale: What scores are multiplied by when they come here already scaled: 1, or else what remains to be done.
        fast: Whether there is an instruction for powers of two: a weight then is a multiply-add and that.
    """

    scale: float
    fast: bool

    @staticmethod
    def of(chain: Chain, target: GpuTarget) -> Softmax:
        """That of a chain. Scores that nothing is added to are scaled together with the subtraction of the largest one.

        Only by a factor of at most 1, so that the lowest number stays one.
        """
        fast = "mma.sync" in target.instructions
        together = fast and chain.mask is None and 0 < chain.scale * LOG2_E <= 1
        return Softmax(chain.scale if together else 1.0, fast)

    def start(self, height: int) -> list[ir.Value]:
        """The largest scores and the sums of so many rows, before the first block."""
        f32 = ir.F32Type.get()
        return [constant(f32, LOWEST)] * height + [zero(f32)] * height

    def block(self, scores: Rows, most: Sequence[ir.Value], sums: Sequence[ir.Value], exchange: Exchange) -> Block:
        """What scores of a block of keys make of the largest scores and the sums so far."""
        largest = exchange.combined([reduced(row, arith.maxnumf) for row in scores], arith.maxnumf)
        largest = [arith.maxnumf(before, now) for before, now in zip(most, largest, strict=True)]
        factors = [self.power(arith.subf(before, now)) for before, now in zip(most, largest, strict=True)]
        weights = [self._weights(row, now) for row, now in zip(scores, largest, strict=True)]
        sums = [
            arith.addf(arith.mulf(total, factor), reduced(row, arith.addf))
            for total, factor, row in zip(sums, factors, weights, strict=True)
        ]
        return Block(weights, factors, largest, sums)

    def _weights(self, row: Sequence[ir.Value], largest: ir.Value) -> list[ir.Value]:
        if self.scale == 1:
            return [self.power(arith.subf(each, largest)) for each in row]
        factor = self._factor
        less = arith.mulf(arith.negf(largest), factor)
        return [_power_of_two(math.fma(each, factor, less)) for each in row]

    def power(self, difference: ir.Value) -> ir.Value:
        """The power of e to a difference of scores, scaled."""
        return _power_of_two(arith.mulf(difference, self._factor)) if self.fast else math.exp(difference)

    @property
    def _factor(self) -> ir.Value:
        return constant(ir.F32Type.get(), self.scale * LOG2_E)


def _power_of_two(number: ir.Value) -> ir.Value:
    """As NVIDIA's instruction approximates it, to 2 units in the last place, and to 0 below the normal numbers.

    Ops of the math dialect become polynomials here.
    """
    return llvm.call_intrinsic(number.type, ir.StringAttr.get("llvm.nvvm.ex2.approx.ftz.f32"), [number], [], [])


def reduced(row: Sequence[ir.Value], combine: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """A row's numbers, in a tree."""
    left = list(row)
    while len(left) > 1:
        pairs = [combine(left[at], left[at + 1]) for at in range(0, len(left) - 1, 2)]
        left = [*pairs, *left[2 * len(pairs) :]]
    return left[0]
