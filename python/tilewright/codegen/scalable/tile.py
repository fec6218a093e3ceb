# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The register tile of a product on scalable vectors: what it loads in a step, and how it multiplies."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.build.constants import bits_of, integer, zero
from tilewright.build.index import Index, add, mul, round_up, value
from tilewright.build.loops import loop
from tilewright.build.vectors import REGISTER_BITS, bitcast, fixed, intrinsic, lane_mask, scalable
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, scf, ub, vector
from tilewright.spec import MatmulSpec
from tilewright.targets.dots import Dot

_NOT_UNROLLED = "#llvm.loop_annotation<unroll = <disable = true>>"

Sums = Sequence[Sequence[ir.Value]]
"""Of each row, its vectors."""


class Tile:
    """`rows` by `across` registers of sums, and the instruction that adds to them.

    A word is what a lane of the instruction takes from a column of B: an element, or a group of `depth` elements that lie along K.
    """

    def __init__(self, spec: MatmulSpec, dot: Dot, rows: int, columns: int) -> None:
        """Finds the types.

        Args:
            spec: What is computed.
            dot: How it is multiplied.
            rows: Rows of the tile.
            columns: Columns of the tile, for each 128 bits of a register: whole registers.
        """
        self.dot, self.rows = dot, rows
        self.sum = ir.Type.parse(spec.acc_type.mlir)
        self.lanes = REGISTER_BITS // bits_of(self.sum)
        self.across = columns // self.lanes
        self.a_element, self.b_element = (ir.Type.parse(each.mlir) for each in (spec.a_type, spec.b_type))
        self.a_transposed, self.b_transposed = spec.a_transposed, spec.b_transposed
        self.a_unsigned, self.b_unsigned = (each.kind == "uint" for each in (spec.a_type, spec.b_type))
        self.panel_element = ir.Type.parse(dot.storage) if dot.storage else self.a_element
        self.word_bits = dot.depth * bits_of(self.panel_element)
        self.word = self.panel_element if dot.depth == 1 else integer(self.word_bits)
        self.word_lanes = REGISTER_BITS // self.word_bits

    @property
    def chunk(self) -> int:
        """Elements of a row of A that lie side by side in a panel: what is loaded at once."""
        return self.dot.depth if self.dot.rows > 1 else self.dot.step

    def padded(self, k: Index) -> Index:
        """The elements along K, with the zeros that fill the last step."""
        return round_up(k, self.dot.step)

    def groups_in(self, k: Index) -> Index:
        """How many words `k` elements along K are, a whole number of steps."""
        return k // self.dot.depth if isinstance(k, int) else arith.divui(k, value(self.dot.depth))

    def offset(self, x: int, lanes: int = 0) -> Index:
        """The column that register number `x` of a row starts with."""
        return mul(vector.vscale(), x * (lanes or self.lanes)) if x else 0

    def columns(self) -> Index:
        """The columns of the tile."""
        return self.offset(self.across)

    def masks(self, column: Index, limit: Index) -> list[ir.Value]:
        """Which columns of each register exist, when the tile starts at `column`."""
        return [lane_mask(self.lanes, add(column, self.offset(x)), limit) for x in range(self.across)]

    def zeros(self) -> ir.Value:
        """A register of sums that are zero."""
        return zero(scalable(self.lanes, self.sum))

    def sums(
        self, a: ir.Value, a_start: Index, b: ir.Value, b_start: Index, k: Index, columns: Index, former: Sums
    ) -> Sums:
        """The sums over `k` elements of two panels, which start at an element of `a` and a word of `b`, added to `former`."""
        pairs, words = self.rows // self.dot.rows, self.across * self.dot.rows
        carried = [value(a_start), value(b_start)]
        for i in range(0, self.rows, self.dot.rows):
            carried += former[i] if self.dot.rows == 1 else self._squares_of(former[i], former[i + 1])
        step = self.dot.step
        with loop(0, k, step, carried) as (_, (a_at, b_at, *sums), over):
            # Of a few steps LLVM would make straight code, and load more ahead than there are registers.
            over.attributes["llvm.loop_annotation"] = ir.Attribute.parse(_NOT_UNROLLED)
            groups = step // self.dot.depth
            rows = self._groups_of_a(a, a_at)
            for number in range(groups):
                first = add(b_at, mul(columns, number))
                each = [self._words(b, add(first, self.offset(j, self.word_lanes))) for j in range(words)]
                for i in range(pairs):
                    for j in range(words):
                        sums[i * words + j] = self._product(sums[i * words + j], rows[i][number], each[j])
            scf.yield_([add(a_at, self.rows * step), add(b_at, mul(columns, groups)), *sums])
        found = list(over.results)[2:]
        by_pair = [found[i * words : (i + 1) * words] for i in range(pairs)]
        return by_pair if self.dot.rows == 1 else [row for pair in by_pair for row in self._rows_of(pair)]

    def _words(self, b: ir.Value, at: Index) -> ir.Value:
        """A register of B."""
        return bitcast(self._operand(), vector.load(scalable(self.word_lanes, self.word), b, [value(at)]))

    def _operand(self) -> ir.VectorType:
        """What the instruction multiplies."""
        return scalable(REGISTER_BITS // bits_of(self.panel_element), self.panel_element)

    def _groups_of_a(self, a: ir.Value, at: Index) -> list[list[tuple[ir.Value, int]]]:
        """For each row, or pair of rows, and each group of a step: the register that has it, and its number in there."""
        count, groups = self.rows // self.dot.rows, self.dot.step // self.dot.depth
        if not self.dot.intrinsic:
            starts = [add(at, i * self.chunk) for i in range(count)]
            return [[(self._number(a, add(start, number)), 0) for number in range(groups)] for start in starts]
        if self.dot.rows == 1:
            registers = [self._repeated(a, add(at, i * self.chunk), self.chunk) for i in range(count)]
            return [[(register, number) for number in range(groups)] for register in registers]
        pair = self.dot.rows * self.chunk
        return [
            [(self._repeated(a, add(at, (number * count + i) * pair), pair), 0) for number in range(groups)]
            for i in range(count)
        ]

    def _number(self, a: ir.Value, at: Index) -> ir.Value:
        """One element of A in all lanes; LLVM has instructions that take it from a register of its own."""
        one = memref.load(a, [value(at)])
        return vector.broadcast(self._operand(), one)

    def _repeated(self, a: ir.Value, at: Index, elements: int) -> ir.Value:
        """`elements` of A, repeated in all of a register: by ``ld1rd`` or ``ld1rq``."""
        loaded = vector.load(fixed(elements, self.panel_element), a, [value(at)])
        bits = elements * bits_of(self.panel_element)
        if bits < REGISTER_BITS:
            whole = vector.extract(vector.bitcast(fixed(1, integer(bits)), loaded), [], [0])
            return bitcast(self._operand(), vector.broadcast(scalable(REGISTER_BITS // bits, integer(bits)), whole))
        # LLVM loads and repeats at once what it takes for integers.
        each = bits_of(self.panel_element)
        kind = scalable(REGISTER_BITS // each, integer(each))
        loaded = bitcast(fixed(elements, integer(each)), loaded)
        start = vector.scalable_insert(loaded, ub.poison(kind), 0)
        name = f"llvm.aarch64.sve.dupq.lane.{_suffix(kind)}"
        return bitcast(self._operand(), intrinsic(name, kind, start, arith.constant(integer(64), 0)))

    def _product(self, total: ir.Value, group: tuple[ir.Value, int], words: ir.Value) -> ir.Value:
        """A register of sums and its products."""
        row, number = group
        if not self.dot.intrinsic:
            if isinstance(self.sum, ir.IntegerType):
                return arith.addi(total, arith.muli(row, words))
            return vector.fma(row, words, total)
        if self.dot.rows > 1:
            operands = (words, row) if self.swapped else (row, words)
            return intrinsic(self.dot.intrinsic, total.type, total, *operands)
        return intrinsic(self.dot.intrinsic, total.type, total, words, row, arith.constant(integer(32), number))

    @property
    def swapped(self) -> bool:
        """Whether an mmla instruction gets B first, and so computes transposed squares."""
        return self.dot.unsigned_first and self.b_unsigned

    def _rows_of(self, squares: Sequence[ir.Value]) -> Sums:
        """The two rows of registers that each have sums of two rows by two columns in 128 bits."""
        rows: list[list[ir.Value]] = [[], []]
        for left, right in zip(squares[::2], squares[1::2], strict=True):
            for row, which in zip(rows, ("uzp1", "uzp2"), strict=True):
                row.append(self._sorted(which, left, right))
        return rows

    def _squares_of(self, upper: Sequence[ir.Value], lower: Sequence[ir.Value]) -> list[ir.Value]:
        """Those registers of two rows."""
        pairs = zip(upper, lower, strict=True)
        return [self._sorted(which, *rows) for rows in pairs for which in ("zip1", "zip2")]

    def _sorted(self, which: str, left: ir.Value, right: ir.Value) -> ir.Value:
        """Two registers sorted by an instruction. A row of a square is two sums, side by side, or every other one."""
        kind = scalable(self.lanes, self.sum)
        part = kind if self.swapped else scalable(self.lanes // 2, integer(2 * bits_of(self.sum)))
        operands = [bitcast(part, each) for each in (left, right)]
        return bitcast(kind, intrinsic(f"llvm.aarch64.sve.{which}.{_suffix(part)}", part, *operands))


def _suffix(kind: ir.VectorType) -> str:
    """LLVM's name of a scalable vector in an intrinsic's."""
    return f"nxv{kind.shape[0]}{kind.element_type}"
