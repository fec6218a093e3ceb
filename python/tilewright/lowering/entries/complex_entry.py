# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C entry of a complex product: makes real matrices of the operands, and calls the kernel of `complex_products.computed`.

B, and an A that is stored transposed, are copied to scratch memory, alpha and conjugation included. Rows stay rows: a B that is stored
transposed stays so. C is multiplied by beta before, where that is neither 0 nor 1. Written as text, in functions of scf and LLVM ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tilewright.dtypes import dtype, to_numpy
from tilewright.lowering.entries import added_text, extents, matrix_tensors, tensor_entry
from tilewright.lowering.entries.complex_vectors import Vector
from tilewright.lowering.entries.entry import (
    ALIGNMENT,
    GET,
    RELEASE,
    attributes_text,
    matrix_arguments,
    tensor_arguments,
)
from tilewright.mlir import ir
from tilewright.payload.abi import OK, OUT_OF_MEMORY, WRONG_EXTENTS
from tilewright.scaling import ARG, ROLES
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

INNER = "_real"
"""What follows the entry's name in that of the real product's kernel."""
_INTERNAL = "#llvm.linkage<internal>"
_MATRICES = ("m", "n", "k", "a", "lda", "b", "ldb", "c", "ldc")
_TYPES = [*["i64"] * 3, *["!llvm.ptr", "i64"] * 3]

Form = Literal["columns", "rows", "apart"]
"""What two rows of real numbers a row of complex ones becomes: those of B (re, im) and (-im, re), those of a B that is stored transposed
(re, -im) and (im, re), or the real parts and the imaginary parts."""


def add(module: ir.Module, functions: ir.Module, entry: str) -> None:
    """Adds the C entry of a complex product to a module with the kernel of the real one, which nobody else sees any more.

    Args:
        module: The module, in the LLVM dialect.
        functions: `ComplexEntry.functions`, in the LLVM dialect.
        entry: `ComplexEntry.entry`.
    """
    present = set()
    with module.context:
        for op in added_text.ops(module):
            present.add(added_text.name_of(op))
            if any(len(region.blocks) for region in op.regions):
                op.attributes["linkage"] = ir.Attribute.parse(_INTERNAL)
    for op in added_text.ops(functions):
        if added_text.name_of(op) not in present:
            module.body.append(op)
    added_text.add(module, entry)


@dataclass(frozen=True, slots=True)
class ComplexEntry:
    """Writes the C entry of a complex product.

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

    @property
    def functions(self) -> str:
        """The functions that the entry calls."""
        copies = [self._copy("b", "columns" if self.spec.layout[1] == "n" else "rows")]
        copies += [self._copy("a", "apart")] * (self.spec.layout[0] != "n")
        return f"""
  func.func private @{GET}(i64, i64) -> !llvm.ptr
  func.func private @{RELEASE}(!llvm.ptr)
  func.func private @{self.symbol}{INNER}({", ".join(_TYPES)}) -> i32
{"".join(copies)}{self._scale}{self._product}{self._batch}"""

    def _function(self, name: str, parameters: Sequence[tuple[str, str]], body: str, result: str = "") -> str:
        given = ", ".join(f"%{name}: {kind}" for name, kind in parameters)
        attributes = f"llvm.linkage = {_INTERNAL}, {attributes_text(self.target)}"
        return f"""
  func.func @{self.symbol}_{name}({given}){f" -> {result}" if result else ""} attributes {{{attributes}}} {{
    %c0 = arith.constant 0 : i64
    %c1 = arith.constant 1 : i64
    %c2 = arith.constant 2 : i64
    {body}
  }}"""

    def _rows(self, rows: str, columns: str, before: str, each: tuple[str, str]) -> str:
        """Loops over rows and, in vectors and then in single complex numbers, over columns."""
        vectors, singles = each
        return f"""%wide = arith.muli {columns}, %c2 : i64
    %lanes = arith.constant {self._lanes} : i64
    %rest = arith.remui %wide, %lanes : i64
    %whole = arith.subi %wide, %rest : i64
    scf.for %i = %c0 to {rows} step %c1 : i64 {{
      {before}
      scf.for %j = %c0 to %whole step %lanes : i64 {{{vectors}
      }}
      scf.for %j = %whole to %wide step %c2 : i64 {{{singles}
      }}
    }}"""

    def _copy(self, name: str, form: Form) -> str:
        """The function that makes real matrix of `name`, which has `rows` of `columns` complex numbers as it is stored."""
        conjugate = self.spec.layout["ab".index(name)] == "c"
        factor = self.spec.alpha if name == "b" else 1
        parameters = [("from", "!llvm.ptr"), ("rows", "i64"), ("columns", "i64"), ("ld", "i64"), ("to", "!llvm.ptr")]
        step = "%columns" if form == "apart" else "%wide"
        before = f"""{self._row("%from", "%ld", "%in")}
      %twice = arith.muli %i, %c2 : i64
      %at_even = arith.muli %twice, {step} : i64
      %even_row = llvm.getelementptr %to[%at_even] : (!llvm.ptr, i64) -> !llvm.ptr, {self.part}
      %odd_row = llvm.getelementptr %even_row[{step}] : (!llvm.ptr, i64) -> !llvm.ptr, {self.part}"""

        def body(lanes: int) -> str:
            value = Vector(lanes, self.part)
            first = value.load("%in")
            first = value.signed(first, (1, -1)) if conjugate else first
            first = value.times(first, factor) if factor != 1 else first
            even, odd, at = first, value.swapped(first), "%j"
            if form == "columns":
                odd = value.signed(odd, (-1, 1))
            elif form == "rows":
                even = value.signed(even, (1, -1))
            else:
                even, odd = value.every_other(first, 0), value.every_other(first, 1)
                at = value.define("arith.divui %j, %c2 : i64")
            width = lanes // 2 if form == "apart" else lanes
            value.store(even, "%even_row", at, width)
            value.store(odd, "%odd_row", at, width)
            return value.text

        rows = self._rows("%rows", "%columns", before, (body(self._lanes), body(2)))
        return self._function(f"copy_{name}", [*parameters, *self._numbers("f")], f"{rows}\n    func.return")

    @property
    def _scale(self) -> str:
        """The function that multiplies C by a number; with 0 it is never read."""
        parameters = [("c", "!llvm.ptr"), ("m", "i64"), ("n", "i64"), ("ldc", "i64"), *self._numbers("f")]

        def zeros(lanes: int) -> str:
            value = Vector(lanes, self.part)
            value.store(value.define(f"arith.constant dense<0.0> : {value.kind}"), "%row")
            return value.text

        def products(lanes: int) -> str:
            value = Vector(lanes, self.part)
            value.store(value.times(value.load("%row"), self.spec.beta), "%row")
            return value.text

        row = self._row("%c", "%ldc", "%row")
        cleared, multiplied = (self._rows("%m", "%n", row, (each(self._lanes), each(2))) for each in (zeros, products))
        return self._function(
            "scale",
            parameters,
            f"""{self._is("%f", 0, "%none")}
    {self._is("%f", 1, "%one")}
    %true = arith.constant true
    %some = arith.xori %one, %true : i1
    scf.if %some {{
    scf.if %none {{
    {cleared}
    }} else {{
    {multiplied}
    }}
    }}
    func.return""",
        )

    @property
    def _product(self) -> str:
        """The function that computes one product of matrices."""
        spec = self.spec
        b_rows, b_columns = ("%k", "%n") if spec.layout[1] == "n" else ("%n", "%k")
        copy_b = f"""func.call @{self.symbol}_copy_b(%b, {b_rows}, {b_columns}, %ldb, %w, %alpha_re, %alpha_im)
        : (!llvm.ptr, i64, i64, i64, !llvm.ptr, {self.part}, {self.part}) -> ()"""
        copy_a, a, lda = "", "%a", "%lda2"
        if spec.layout[0] != "n":
            copy_a = f"""%a_copy = llvm.getelementptr %w[%b_size] : (!llvm.ptr, i64) -> !llvm.ptr, {self.part}
      func.call @{self.symbol}_copy_a(%a, %k, %m, %lda, %a_copy, %alpha_re, %alpha_im)
        : (!llvm.ptr, i64, i64, i64, !llvm.ptr, {self.part}, {self.part}) -> ()"""
            a, lda = "%a_copy", "%m"
        scale = f"""func.call @{self.symbol}_scale(%c, %m, %n, %ldc, %beta_re, %beta_im)
        : (!llvm.ptr, i64, i64, i64, {self.part}, {self.part}) -> ()"""
        doubled = "\n      ".join(f"%{name}2 = arith.muli %{name}, %c2 : i64" for name in ("n", "k", "lda", "ldc"))
        arguments = f"%m, %n2, %k2, {a}, {lda}, %w, %{b_columns[1]}2, %c, %ldc2"
        body = f"""{self._is("%alpha", 0, "%no_products")}
    %elements = arith.muli %m, %n : i64
    %empty = arith.cmpi eq, %elements, %c0 : i64
    %none = arith.ori %no_products, %empty : i1
    %ok = arith.constant {OK} : i32
    %status = scf.if %none -> (i32) {{
      {scale}
      scf.yield %ok : i32
    }} else {{
      {doubled}
      %b_half = arith.muli %k2, %n : i64
      %b_size = arith.muli %b_half, %c2 : i64
      %a_size = arith.muli %k2, %{"m" if copy_a else "c0"} : i64
      %size = arith.addi %b_size, %a_size : i64
      %part = arith.constant {spec.a_stored.bytes // 2} : i64
      %bytes = arith.muli %size, %part : i64
      %page = arith.constant {ALIGNMENT} : i64
      %pages = arith.constant {-ALIGNMENT} : i64
      %beyond = arith.addi %bytes, %page : i64
      %rounded = arith.andi %beyond, %pages : i64
      %w = func.call @{GET}(%page, %rounded) : (i64, i64) -> !llvm.ptr
      %null = llvm.mlir.zero : !llvm.ptr
      %lacks = llvm.icmp "eq" %w, %null : !llvm.ptr
      %made = scf.if %lacks -> (i32) {{
        %out_of_memory = arith.constant {OUT_OF_MEMORY} : i32
        scf.yield %out_of_memory : i32
      }} else {{
        {scale if spec.beta != 0 else ""}
        {copy_b}
        {copy_a}
        %result = func.call @{self.symbol}{INNER}({arguments}) : ({", ".join(_TYPES)}) -> i32
        func.call @{RELEASE}(%w) : (!llvm.ptr) -> ()
        scf.yield %result : i32
      }}
      scf.yield %made : i32
    }}
    func.return %status : i32"""
        return self._function("product", [*self._matrices, *self._factors], body, "i32")

    @property
    def _batch(self) -> str:
        """The function that computes the products of a batch, one after the other; nothing without a batch."""
        axes = range(len(self.spec.batch_axes))
        if not axes:
            return ""
        steps = [(f"{name}{axis}", "i64") for axis in axes for name in ("extent", *(f"{each}_step" for each in "abc"))]
        given = [name for name, _ in (*self._matrices, *self._factors)]
        lines, closing, pointers = ["%ok = arith.constant 0 : i32"], list[str](), {each: f"%{each}" for each in "abc"}
        for axis in axes:
            before = f"%status{axis}" if axis else "%ok"
            lines.append(
                f"%done{axis} = scf.for %i{axis} = %c0 to %extent{axis} step %c1 iter_args(%status{axis + 1} = {before}) -> (i32) : i64 {{"
            )
            for each, pointer in pointers.items():
                pointers[each] = f"%{each}_in{axis}"
                lines += [
                    f"%{each}_row{axis} = arith.muli %i{axis}, %{each}_step{axis} : i64",
                    f"%{each}_at{axis} = arith.muli %{each}_row{axis}, %c2 : i64",
                    f"%{each}_in{axis} = llvm.getelementptr {pointer}[%{each}_at{axis}] : (!llvm.ptr, i64) -> !llvm.ptr, {self.part}",
                ]
            closing.insert(0, f"scf.yield %{'next' if axis == axes[-1] else f'done{axis + 1}'} : i32\n    }}")
        types = ", ".join(kind for _, kind in (*self._matrices, *self._factors))
        passed = ", ".join(pointers.get(name, f"%{name}") for name in given)
        lines += [
            f"%status = func.call @{self.symbol}_product({passed}) : ({types}) -> i32",
            f"%failed = arith.cmpi ne, %status{len(axes)}, %ok : i32",
            f"%next = arith.select %failed, %status{len(axes)}, %status : i32",
        ]
        body = "\n    ".join([*lines, *closing, "func.return %done0 : i32"])
        return self._function("batch", [*self._matrices, *self._factors, *steps], body, "i32")

    @property
    def entry(self) -> str:
        """The C entry, in the LLVM dialect."""
        spec, attributes = self.spec, attributes_text(self.target)
        pairs = [(f"%{name}", kind) for name, kind in (*self._matrices, *self._factors)]
        if spec.takes_tensors:
            arguments = tensor_arguments(spec)
            at = {each.name: number for number, each in enumerate((*spec.operands, spec.result))}
            lines = [
                f"%{name} = llvm.mlir.constant({getattr(spec, name)} : i64) : i64"
                for name in extents.NAMES
                if name not in spec.dynamic
            ]
            lines += [line for name in ROLES for line in self._factor(name, f"%t{at.get(name, 0)}")]
            names = {f"%{each}": f"%t{at[each]}" for each in "abc"}
            for each in "abc":
                rank = len(arguments[at[each]].shape)
                names[f"%ld{each}"] = f"%t{at[each]}_step{rank - 2}"
            pairs = [(names.get(name, name), kind) for name, kind in pairs]
            pairs += [(name, "i64") for axis in spec.batch_axes for name in self._steps(axis, at)]
            run = "\n    ".join(
                [*lines, self._call("batch" if spec.batch_axes else "product", pairs), "llvm.return %status : i32"]
            )
            return tensor_entry.text(self.symbol, arguments, attributes, "", run)
        parameters = ", ".join(f"%{name}: {kind}" for name, kind in matrix_arguments(spec))
        lines = [line for name in ROLES for line in self._factor(name, f"%{name}")]
        run = "\n    ".join([*lines, self._call("product", pairs), "llvm.return %status : i32"])
        return f"""
  llvm.func @{self.symbol}({parameters}) -> i32 attributes {{{attributes}}} {{
    {extents.check(spec)}
    llvm.cond_br %same, ^fits, ^wrong
  ^wrong:
    %wrong_extents = llvm.mlir.constant({WRONG_EXTENTS} : i32) : i32
    llvm.return %wrong_extents : i32
  ^fits:
    {run}
  }}
{matrix_tensors.text(spec, self.symbol, attributes) if spec.scalars else ""}"""

    def _steps(self, axis: int, at: dict[str, int]) -> list[str]:
        """The extent of an axis of the batch, and how far apart matrices of A, B and C are along it."""
        spec, found = self.spec, [f"%t{at['c']}_extent{axis}"]
        for name, axes, own in (("a", spec.a_axes, spec.a_batch), ("b", spec.b_axes, spec.b_batch)):
            missing = len(spec.batch) - len(own or ())
            found.append(f"%t{at[name]}_step{axis - missing}" if axis in axes else "%zero")
        return [*found, f"%t{at['c']}_step{axis}"]

    def _call(self, name: str, pairs: Sequence[tuple[str, str]]) -> str:
        values, types = (", ".join(each) for each in zip(*pairs, strict=True))
        return f"%status = llvm.call @{self.symbol}_{name}({values}) : ({types}) -> i32"

    def _factor(self, name: str, pointer: str) -> list[str]:
        """Lines that define the parts of alpha or beta."""
        factor = getattr(self.spec, name)
        if factor == ARG:
            return [
                line
                for number, each in enumerate(("re", "im"))
                for line in (
                    f"%{name}_{each}_at = llvm.getelementptr {pointer}[{number}] : (!llvm.ptr) -> !llvm.ptr, {self.part}",
                    f"%{name}_{each} = llvm.load %{name}_{each}_at : !llvm.ptr -> {self.part}",
                )
            ]
        parts = complex(factor)
        return [
            f"%{name}_{each} = llvm.mlir.constant({_bits(value, self.part)} : {self.part}) : {self.part}"
            for each, value in (("re", parts.real), ("im", parts.imag))
        ]

    @property
    def _matrices(self) -> list[tuple[str, str]]:
        return list(zip(_MATRICES, _TYPES, strict=True))

    @property
    def _factors(self) -> list[tuple[str, str]]:
        return [each for name in ROLES for each in self._numbers(name)]

    def _numbers(self, name: str) -> list[tuple[str, str]]:
        return [(f"{name}_re", self.part), (f"{name}_im", self.part)]

    @property
    def _lanes(self) -> int:
        return 2 * max(1, self.target.lanes(self.spec.a_stored))

    def _row(self, pointer: str, ld: str, name: str) -> str:
        """Defines `name`: where row ``%i`` begins."""
        return f"""{name}_numbers = arith.muli %i, {ld} : i64
      {name}_parts = arith.muli {name}_numbers, %c2 : i64
      {name} = llvm.getelementptr {pointer}[{name}_parts] : (!llvm.ptr, i64) -> !llvm.ptr, {self.part}"""

    def _is(self, factor: str, number: int, name: str) -> str:
        """Defines `name`: whether a factor is a number."""
        return f"""{name}_re = arith.constant {number}.0 : {self.part}
    {name}_im = arith.constant 0.0 : {self.part}
    {name}_is_re = arith.cmpf oeq, {factor}_re, {name}_re : {self.part}
    {name}_is_im = arith.cmpf oeq, {factor}_im, {name}_im : {self.part}
    {name} = arith.andi {name}_is_re, {name}_is_im : i1"""


def _bits(value: float, part: str) -> str:
    """A number as MLIR has it to the last bit."""
    with np.errstate(over="ignore"):
        return f"0x{np.array(value, to_numpy(dtype(part))).tobytes()[::-1].hex()}"
