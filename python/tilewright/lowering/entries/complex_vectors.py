# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops on vectors of complex numbers, as text, for the entry of a complex product."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.scaling import Factor


class Vector:
    """Writes ops on vectors of complex numbers, part beside part, of a row at ``%j``.

    Attributes:
        kind: Their type.
        lanes: How many parts they are.
    """

    def __init__(self, lanes: int, part: str) -> None:
        """Writes ops on so many parts, of type `part`."""
        self.lanes, self._part, self._lines = lanes, part, list[str]()
        self.kind = f"vector<{lanes}x{part}>"

    @property
    def text(self) -> str:
        """All of them."""
        return "".join(f"\n        {line}" for line in self._lines)

    def define(self, op: str) -> str:
        """The result of an op."""
        self._lines.append(f"%v{len(self._lines)} = {op}")
        return self._lines[-1].split(" ", 1)[0]

    def load(self, row: str, at: str = "%j", lanes: int = 0) -> str:
        """Those of `row`, or so many parts from `at` on."""
        place = self.define(f"llvm.getelementptr {row}[{at}] : (!llvm.ptr, i64) -> !llvm.ptr, {self._part}")
        return self.define(f"llvm.load {place} {{alignment = {self._bytes} : i64}} : !llvm.ptr -> {self._of(lanes)}")

    def store(self, value: str, row: str, at: str = "%j", lanes: int = 0) -> None:
        """Writes them to `row`, or so many parts from `at` on."""
        place = self.define(f"llvm.getelementptr {row}[{at}] : (!llvm.ptr, i64) -> !llvm.ptr, {self._part}")
        self._lines.append(
            f"llvm.store {value}, {place} {{alignment = {self._bytes} : i64}} : {self._of(lanes)}, !llvm.ptr"
        )

    def half(self) -> str:
        """Where the real parts are that belong to ``%j``, if they are apart."""
        return self.define("arith.divui %j, %c2 : i64")

    def sum(self, x: str, y: str) -> str:
        """The sums of two."""
        return self._binary("addf", x, y)

    def interleaved(self, re: str, im: str) -> str:
        """Those of real parts and imaginary parts."""
        order = [each // 2 + each % 2 * (self.lanes // 2) for each in range(self.lanes)]
        return self.define(
            f"llvm.shufflevector {re}, {im} [{', '.join(map(str, order))}] : {self._of(self.lanes // 2)}"
        )

    def swapped(self, value: str) -> str:
        """Imaginary parts before real parts."""
        return self._shuffled(value, [each ^ 1 for each in range(self.lanes)])

    def every_other(self, value: str, first: int) -> str:
        """The real parts, or, with 1, the imaginary parts."""
        return self._shuffled(value, range(first, self.lanes, 2))

    def signed(self, value: str, signs: tuple[int, int]) -> str:
        """Those of which first and second parts are multiplied by 1 or -1."""
        ones = ", ".join([f"{each}.0" for each in signs] * (self.lanes // 2))
        return self._binary("mulf", value, self.define(f"arith.constant dense<[{ones}]> : {self.kind}"))

    def times(self, value: str, factor: Factor) -> str:
        """Those times ``%f_re`` and ``%f_im``, a factor of which only the first is other than 0 where it is a real number."""
        re, im = (self.define(f"vector.broadcast %f_{each} : {self._part} to {self.kind}") for each in ("re", "im"))
        along = self._binary("mulf", value, re)
        if isinstance(factor, int | float):
            return along
        return self._binary("addf", along, self._binary("mulf", self.swapped(value), self.signed(im, (-1, 1))))

    def _binary(self, op: str, x: str, y: str) -> str:
        return self.define(f"arith.{op} {x}, {y} : {self.kind}")

    def _shuffled(self, value: str, order: Sequence[int]) -> str:
        return self.define(f"llvm.shufflevector {value}, {value} [{', '.join(map(str, order))}] : {self.kind}")

    def _of(self, lanes: int) -> str:
        return f"vector<{lanes or self.lanes}x{self._part}>"

    @property
    def _bytes(self) -> int:
        return int(self._part[1:]) // 8
