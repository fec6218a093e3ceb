# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions on the rows of complex matrices, as text: copies that are real matrices, and how results become complex numbers again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from tilewright.lowering.entries.complex_vectors import Vector
from tilewright.lowering.entries.entry import attributes_text
from tilewright.scaling import ARG, Factor
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

INTERNAL = "#llvm.linkage<internal>"
_SHORTER = 4
"""Of how many times fewer lanes the shorter vectors are: of rows of less than a vector, few numbers are left."""

Form = Literal["columns", "rows", "apart"]
"""What two rows of real numbers a row of complex ones becomes: (re, im) and (-im, re); (re, -im) and (im, re); or the real parts and the
imaginary parts."""


@dataclass(frozen=True, slots=True)
class RowFunctions:
    """Writes functions for one entry.

    Attributes:
        spec: What is computed.
        target: For which target.
        symbol: The C entry's name.
    """

    spec: MatmulSpec
    target: Target
    symbol: str

    @property
    def part(self) -> str:
        """The type of real and imaginary parts."""
        return str(self.spec.a_stored.part)

    def function(self, name: str, parameters: Sequence[tuple[str, str]], body: str, result: str = "") -> str:
        """A function that only the entry calls."""
        given = ", ".join(f"%{name}: {kind}" for name, kind in parameters)
        attributes = f"llvm.linkage = {INTERNAL}, {attributes_text(self.target)}"
        return f"""
  func.func @{self.symbol}_{name}({given}){f" -> {result}" if result else ""} attributes {{{attributes}}} {{
    %c0 = arith.constant 0 : i64
    %c1 = arith.constant 1 : i64
    %c2 = arith.constant 2 : i64
    {body}
  }}"""

    def numbers(self, name: str) -> list[tuple[str, str]]:
        """The parameters of a complex number."""
        return [(f"{name}_re", self.part), (f"{name}_im", self.part)]

    def copy(self, name: str, form: Form, factor: Factor, *, conjugate: bool) -> str:
        """The function ``copy_<name>``, which makes a real matrix of a complex one times `factor`."""
        parameters = [("from", "!llvm.ptr"), ("rows", "i64"), ("columns", "i64"), ("ld", "i64"), ("to", "!llvm.ptr")]
        step = "%columns" if form == "apart" else "%wide"
        before = f"{self._row('%from', '%ld', '%in')}\n{self._two_rows('%to', step)}"

        def body(value: Vector) -> None:
            first = value.load("%in")
            first = value.signed(first, (1, -1)) if conjugate else first
            first = value.times(first, factor) if factor != 1 else first
            if form == "apart":
                at = value.half()
                value.store(value.every_other(first, 0), "%even_row", at, value.lanes // 2)
                value.store(value.every_other(first, 1), "%odd_row", at, value.lanes // 2)
                return
            odd = value.swapped(first)
            value.store(first if form == "columns" else value.signed(first, (1, -1)), "%even_row")
            value.store(value.signed(odd, (-1, 1)) if form == "columns" else odd, "%odd_row")

        rows = self._rows("%rows", "%columns", before, body)
        return self.function(f"copy_{name}", [*parameters, *self.numbers("f")], f"{rows}\n    func.return")

    @property
    def scale(self) -> str:
        """The function that multiplies C by a number; with 0 it is never read."""
        parameters = [("c", "!llvm.ptr"), ("m", "i64"), ("n", "i64"), ("ldc", "i64"), *self.numbers("f")]
        row = self._row("%c", "%ldc", "%row")

        def products(value: Vector) -> None:
            value.store(value.times(value.load("%row"), self.spec.beta), "%row")

        return self.function(
            "scale",
            parameters,
            f"""{self.equals("%f", 0, "%none")}
    {self.equals("%f", 1, "%one")}
    %true = arith.constant true
    %some = arith.xori %one, %true : i1
    scf.if %some {{
    scf.if %none {{
    {self._rows("%m", "%n", row, _clear)}
    }} else {{
    {self._rows("%m", "%n", row, products)}
    }}
    }}
    func.return""",
        )

    def merge(self, *, crossed: bool, conjugate: bool) -> str:
        """The function that adds to C what two rows of real numbers mean, times alpha.

        They are the parts of the results; `crossed`: products of the real parts of A, and of its imaginary parts, by those of B, side by
        side. With `conjugate` the imaginary parts (`crossed`: those of A) are the negative ones. C has been multiplied by beta, or, unless
        it `adds`, is not read.
        """
        parameters = [("from", "!llvm.ptr"), ("m", "i64"), ("n", "i64"), ("c", "!llvm.ptr"), ("ldc", "i64")]
        before = f"{self._row('%c', '%ldc', '%row')}\n{self._two_rows('%from', '%wide' if crossed else '%n')}"

        def body(value: Vector, *, adds: bool) -> None:
            if crossed:
                turned = value.swapped(value.load("%odd_row"))
                sum_ = value.sum(value.load("%even_row"), value.signed(turned, (1, -1) if conjugate else (-1, 1)))
            else:
                at = value.half()
                parts = [value.load(row, at, value.lanes // 2) for row in ("%even_row", "%odd_row")]
                sum_ = value.interleaved(*parts)
                sum_ = value.signed(sum_, (1, -1)) if conjugate else sum_
            sum_ = value.times(sum_, self.spec.alpha) if self.spec.alpha != 1 else sum_
            value.store(value.sum(value.load("%row"), sum_) if adds else sum_, "%row")

        reads, writes = (self._rows("%m", "%n", before, partial(body, adds=each)) for each in (True, False))
        rows = f"scf.if %adds {{\n    {reads}\n    }} else {{\n    {writes}\n    }}"
        rows = writes if self.spec.beta == 0 else rows if self.spec.beta == ARG else reads
        return self.function("merge", [*parameters, *self.numbers("f"), ("adds", "i1")], f"{rows}\n    func.return")

    def equals(self, factor: str, number: int, name: str) -> str:
        """Defines `name`: whether a factor is a number."""
        return f"""{name}_re = arith.constant {number}.0 : {self.part}
    {name}_im = arith.constant 0.0 : {self.part}
    {name}_is_re = arith.cmpf oeq, {factor}_re, {name}_re : {self.part}
    {name}_is_im = arith.cmpf oeq, {factor}_im, {name}_im : {self.part}
    {name} = arith.andi {name}_is_re, {name}_is_im : i1"""

    def _rows(self, rows: str, columns: str, before: str, body: Callable[[Vector], None]) -> str:
        """Loops over rows and, in vectors, shorter ones and then in single complex numbers, over columns."""
        bounds, loops, start = "", "", "%c0"
        for lanes in sorted({self._lanes, max(2, self._lanes // _SHORTER), 2}, reverse=True):
            vector = Vector(lanes, self.part)
            body(vector)
            bounds += f"""
    %lanes{lanes} = arith.constant {lanes} : i64
    %rest{lanes} = arith.remui %wide, %lanes{lanes} : i64
    %whole{lanes} = arith.subi %wide, %rest{lanes} : i64"""
            loops += f"""
      scf.for %j = {start} to %whole{lanes} step %lanes{lanes} : i64 {{{vector.text}
      }}"""
            start = f"%whole{lanes}"
        return f"""%wide = arith.muli {columns}, %c2 : i64{bounds}
    scf.for %i = %c0 to {rows} step %c1 : i64 {{
      {before}{loops}
    }}"""

    @property
    def _lanes(self) -> int:
        return 2 * max(1, self.target.lanes(self.spec.a_stored))

    def _row(self, pointer: str, ld: str, name: str) -> str:
        """Defines `name`: where row ``%i`` begins."""
        return f"""{name}_numbers = arith.muli %i, {ld} : i64
      {name}_parts = arith.muli {name}_numbers, %c2 : i64
      {name} = llvm.getelementptr {pointer}[{name}_parts] : (!llvm.ptr, i64) -> !llvm.ptr, {self.part}"""

    def _two_rows(self, pointer: str, step: str) -> str:
        """Defines ``%even_row`` and ``%odd_row``: where the rows of real numbers begin that row ``%i`` is; they are `step` apart."""
        return f"""      %twice = arith.muli %i, %c2 : i64
      %at_even = arith.muli %twice, {step} : i64
      %even_row = llvm.getelementptr {pointer}[%at_even] : (!llvm.ptr, i64) -> !llvm.ptr, {self.part}
      %odd_row = llvm.getelementptr %even_row[{step}] : (!llvm.ptr, i64) -> !llvm.ptr, {self.part}"""


def _clear(value: Vector) -> None:
    value.store(value.define(f"arith.constant dense<0.0> : {value.kind}"), "%row")
