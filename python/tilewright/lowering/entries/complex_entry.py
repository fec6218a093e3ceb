# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C entry of a complex product: makes real matrices of the operands, and calls the kernel of `complex_products.computed`.

In blocks, B, and an A that is stored transposed, are copied to scratch memory, alpha and conjugation included; rows stay rows. Stacked,
A is copied, B stays, and the sums go to scratch memory and from there to C. C is multiplied by beta before, where that is neither 0 nor 1.
Little scratch memory is on the stack: getting it elsewhere takes a quarter of the time of the smallest products.
Written as text, in functions of scf and LLVM ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.dtypes import dtype, to_numpy
from tilewright.lowering.entries import added_text, extents, matrix_tensors, tensor_entry
from tilewright.lowering.entries.complex_rows import INTERNAL, RowFunctions
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
from tilewright.payload.complex_products import STACKED_SIZES, block_numbers, computed, form, least_block
from tilewright.scaling import ARG, ROLES

INNER = "_real"
"""What follows the entry's name in that of the real product's kernel."""
_ON_STACK = 8192
"""Bytes of scratch memory that are on the stack."""
_MATRICES = ("m", "n", "k", "a", "lda", "b", "ldb", "c", "ldc")
_TYPES = [*["i64"] * 3, *["!llvm.ptr", "i64"] * 3]


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
                op.attributes["linkage"] = ir.Attribute.parse(INTERNAL)
    for op in added_text.ops(functions):
        if added_text.name_of(op) not in present:
            module.body.append(op)
    added_text.add(module, entry)


@dataclass(frozen=True, slots=True)
class ComplexEntry(RowFunctions):
    """Writes the C entry of a complex product."""

    @property
    def functions(self) -> str:
        """The functions that the entry calls."""
        made = form(self.spec)
        text = f"""
  func.func private @{GET}(i64, i64) -> !llvm.ptr
  func.func private @{RELEASE}(!llvm.ptr)
  func.func private @{self.symbol}{INNER}({", ".join(self._real_types)}) -> i32{self.scale}"""
        if made != "stacked":
            text += self._blocks
        if made != "blocks":
            text += self._stacked
        return f"{text}{self._product}{self._batch}"

    @property
    def _blocks(self) -> str:
        """The function of one product of which B becomes blocks of real numbers, and those that it calls.

        B is copied so many columns at a time that it fits `complex_products.MOST_SCRATCH` bytes.
        """
        spec = self.spec
        how_a, how_b = spec.layout
        rows, columns, step = ("%k", "%width", "%c2") if how_b == "n" else ("%width", "%k", "%ldb2")
        copies = self.copy("b", "columns" if how_b == "n" else "rows", spec.alpha, conjugate=how_b == "c")
        before, a, lda = list[str](), "%a", "%lda2"
        if how_a != "n":
            copies += self.copy("a", "apart", 1, conjugate=how_a == "c")
            before = [self._at("%a_copy", "%b_size"), self._copied("a", "%a", "%k", "%m", "%a_copy")]
            a, lda = "%a_copy", "%m"
        return copies + self._computed(
            "blocks",
            f"""%most = arith.constant {block_numbers(spec)} : i64
      %least = arith.constant {least_block(spec)} : i64
      %some_k = arith.maxsi %k, %c1 : i64
      %fitting = arith.divui %most, %some_k : i64
      %beyond_whole = arith.remui %fitting, %least : i64
      %whole = arith.subi %fitting, %beyond_whole : i64
      %block = arith.maxsi %whole, %least : i64
      %columns = arith.minsi %block, %n : i64
      %b_half = arith.muli %k2, %columns : i64
      %b_size = arith.muli %b_half, %c2 : i64
      %a_size = arith.muli %k2, %{"c0" if how_a == "n" else "m"} : i64
      %size = arith.addi %b_size, %a_size : i64""",
            before,
            f"""%ok = arith.constant {OK} : i32
        %result = scf.for %first = %c0 to %n step %block iter_args(%before = %ok) -> (i32) : i64 {{
          %rest = arith.subi %n, %first : i64
          %width = arith.minsi %block, %rest : i64
          %width2 = arith.muli %width, %c2 : i64
          %b_offset = arith.muli %first, {step} : i64
          %b_columns = llvm.getelementptr %b[%b_offset] : (!llvm.ptr, i64) -> !llvm.ptr, {self.part}
          %c_offset = arith.muli %first, %c2 : i64
          %c_columns = llvm.getelementptr %c[%c_offset] : (!llvm.ptr, i64) -> !llvm.ptr, {self.part}
          {self._copied("b", "%b_columns", rows, columns, "%w")}
          {self._called("%status", f"%m, %width2, %k2, {a}, {lda}, %w, {columns}2, %c_columns, %ldc2", "%added")}
          %failed = arith.cmpi ne, %before, %ok : i32
          %worst = arith.select %failed, %before, %status : i32
          scf.yield %worst : i32
        }}""",
        )

    @property
    def _stacked(self) -> str:
        """The function of one product of which A becomes a matrix of twice as many rows, and those that it calls."""
        spec = self.spec
        how_a, how_b = spec.layout
        crossed = how_b == "n"
        conjugate_a, conjugate_b = how_a == "c", how_b == "c"
        rows, columns = ("%m", "%k") if how_a == "n" else ("%k", "%m")
        copies, calls, a, lda = "", list[str](), "%a", "%lda2"
        if not crossed or how_a == "n":
            into = "apart" if crossed else "rows" if how_a == "n" else "columns"
            copies = self.copy("rows_of_a", into, 1, conjugate=conjugate_a != conjugate_b)
            calls = [self._copied("rows_of_a", "%a", rows, columns, "%w")]
            a, lda = "%w", columns if crossed else f"{columns}2"
        sums = "%n2" if crossed else "%n"
        calls.append(self._at("%sums", "%a_size"))
        arguments = f"%m2, {sums}, %{'k' if crossed else 'k2'}, {a}, {lda}, %b, %ldb2, %sums, {sums}"
        merged = f"""func.call @{self.symbol}_merge(%sums, %m, %n, %c, %ldc, %alpha_re, %alpha_im, %adds)
        : (!llvm.ptr, i64, i64, !llvm.ptr, i64, {self.part}, {self.part}, i1) -> ()"""
        return (
            copies
            + self.merge(crossed=crossed, conjugate=conjugate_a if crossed else conjugate_b)
            + self._computed(
                "stacked",
                f"""%a_size = arith.muli %m2, %{"k" if crossed else "k2"} : i64
      %sums_size = arith.muli %m2, {sums} : i64
      %size = arith.addi %a_size, %sums_size : i64""",
                calls,
                "\n        ".join([self._called("%result", arguments, "%zero"), merged]),
            )
        )

    def _called(self, status: str, arguments: str, beta: str) -> str:
        """The call of the kernel of the real product, which gets the address of `beta` where it takes it."""
        given = f"{arguments}, {beta}" if computed(self.spec).scalars else arguments
        return f"{status} = func.call @{self.symbol}{INNER}({given}) : ({', '.join(self._real_types)}) -> i32"

    @property
    def _real_types(self) -> list[str]:
        """Of the arguments of the kernel of the real product."""
        return [*_TYPES, *["!llvm.ptr"] * len(computed(self.spec).scalars)]

    def _computed(self, name: str, size: str, calls: Sequence[str], run: str) -> str:
        """The function `name`, which gets scratch memory for ``%size`` numbers before `calls`; `run` defines ``%result``."""
        doubled = "\n      ".join(
            f"%{each}2 = arith.muli %{each}, %c2 : i64" for each in ("m", "n", "k", "lda", "ldb", "ldc")
        )
        before = "\n      ".join([*self._factors_of_sums, *calls])
        body = f"""{doubled}
      {size}
      %part = arith.constant {self.spec.a_stored.bytes // 2} : i64
      %bytes = arith.muli %size, %part : i64
      %page = arith.constant {ALIGNMENT} : i64
      %pages = arith.constant {-ALIGNMENT} : i64
      %beyond = arith.addi %bytes, %page : i64
      %rounded = arith.andi %beyond, %pages : i64
      %on_stack = arith.constant {_ON_STACK} : i64
      %stack = llvm.alloca %on_stack x i8 {{alignment = 64 : i64}} : (i64) -> !llvm.ptr
      %added = llvm.alloca %c1 x {self.part} : (i64) -> !llvm.ptr
      %zero = llvm.alloca %c1 x {self.part} : (i64) -> !llvm.ptr
      %is_little = arith.cmpi sle, %bytes, %on_stack : i64
      %w = scf.if %is_little -> (!llvm.ptr) {{
        scf.yield %stack : !llvm.ptr
      }} else {{
        %got = func.call @{GET}(%page, %rounded) : (i64, i64) -> !llvm.ptr
        scf.yield %got : !llvm.ptr
      }}
      %null = llvm.mlir.zero : !llvm.ptr
      %lacks = llvm.icmp "eq" %w, %null : !llvm.ptr
      %made = scf.if %lacks -> (i32) {{
        %out_of_memory = arith.constant {OUT_OF_MEMORY} : i32
        scf.yield %out_of_memory : i32
      }} else {{
        {before}
        {run}
        scf.if %is_little {{
        }} else {{
          func.call @{RELEASE}(%w) : (!llvm.ptr) -> ()
        }}
        scf.yield %result : i32
      }}
    func.return %made : i32"""
        return self.function(name, [*self._matrices, *self._factors], body, "i32")

    def _copied(self, name: str, pointer: str, rows: str, columns: str, to: str) -> str:
        """The call of a function that copies a matrix of so many rows and columns as it is stored."""
        return f"""func.call @{self.symbol}_copy_{name}({pointer}, {rows}, {columns}, %ld{pointer[1]}, {to}, %alpha_re, %alpha_im)
        : (!llvm.ptr, i64, i64, i64, !llvm.ptr, {self.part}, {self.part}) -> ()"""

    def _at(self, name: str, offset: str) -> str:
        return f"{name} = llvm.getelementptr %w[{offset}] : (!llvm.ptr, i64) -> !llvm.ptr, {self.part}"

    @property
    def _factors_of_sums(self) -> list[str]:
        """Lines that define ``%adds``, whether beta is other than 0, and multiply C by it then.

        What the kernel of the real product takes as beta is at ``%added``, 1 or 0 accordingly, and at ``%zero``.
        """
        if self.spec.beta == 0:
            return ["%adds = arith.constant false"]
        lines = [
            self.equals("%beta", 0, "%unread"),
            "%true = arith.constant true",
            "%adds = arith.xori %unread, %true : i1",
            f"scf.if %adds {{ {self._scaled}\n      }}",
        ]
        if computed(self.spec).scalars:
            lines += [
                f"%one = arith.constant 1.0 : {self.part}",
                f"%factor = arith.select %adds, %one, %unread_re : {self.part}",
                f"llvm.store %factor, %added : {self.part}, !llvm.ptr",
                f"llvm.store %unread_re, %zero : {self.part}, !llvm.ptr",
            ]
        return lines

    @property
    def _scaled(self) -> str:
        """The call that multiplies C by beta."""
        return f"func.call @{self.symbol}_scale(%c, %m, %n, %ldc, %beta_re, %beta_im) : {self._scale_type}"

    @property
    def _scale_type(self) -> str:
        return f"(!llvm.ptr, i64, i64, i64, {self.part}, {self.part}) -> ()"

    @property
    def _product(self) -> str:
        """The function that computes one product of matrices."""
        names, types = (", ".join(each) for each in zip(*self._passed, strict=True))
        made = form(self.spec)
        call = {each: f"func.call @{self.symbol}_{each}({names}) : ({types}) -> i32" for each in ("blocks", "stacked")}
        chosen = f"%computed = {call.get(made, '')}"
        if made == "either":
            by_k, by_n, all_of = STACKED_SIZES
            chosen = f"""%most = arith.constant {2**16} : i64
      %by_k = arith.constant {by_k} : i64
      %by_n = arith.constant {by_n} : i64
      %by_both = arith.constant {all_of} : i64
      %of_k = arith.muli %k, %by_k : i64
      %of_n = arith.muli %n, %by_n : i64
      %of_row = arith.addi %of_k, %of_n : i64
      %stacked = arith.muli %m, %of_row : i64
      %kn = arith.muli %k, %n : i64
      %blocks = arith.muli %kn, %by_both : i64
      %is_less = arith.cmpi slt, %stacked, %blocks : i64
      %is_few = arith.cmpi slt, %m, %most : i64
      %stacks = arith.andi %is_less, %is_few : i1
      %computed = scf.if %stacks -> (i32) {{
        %one = {call["stacked"]}
        scf.yield %one : i32
      }} else {{
        %other = {call["blocks"]}
        scf.yield %other : i32
      }}"""
        body = f"""{self.equals("%alpha", 0, "%no_products")}
    %elements = arith.muli %m, %n : i64
    %empty = arith.cmpi eq, %elements, %c0 : i64
    %none = arith.ori %no_products, %empty : i1
    %status = scf.if %none -> (i32) {{
      {self._scaled}
      %ok = arith.constant {OK} : i32
      scf.yield %ok : i32
    }} else {{
      {chosen}
      scf.yield %computed : i32
    }}
    func.return %status : i32"""
        return self.function("product", [*self._matrices, *self._factors], body, "i32")

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
        return self.function("batch", [*self._matrices, *self._factors, *steps], body, "i32")

    @property
    def entry(self) -> str:
        """The C entry, in the LLVM dialect."""
        spec, attributes = self.spec, attributes_text(self.target)
        pairs = self._passed
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
        return [each for name in ROLES for each in self.numbers(name)]

    @property
    def _passed(self) -> list[tuple[str, str]]:
        """Both as a call has them."""
        return [(f"%{name}", kind) for name, kind in (*self._matrices, *self._factors)]


def _bits(value: float, part: str) -> str:
    """A number as MLIR has it to the last bit."""
    with np.errstate(over="ignore"):
        return f"0x{np.array(value, to_numpy(dtype(part))).tobytes()[::-1].hex()}"
