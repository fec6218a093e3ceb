# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C entry of a kernel with further operands, as text: takes DLTensors, and checks them before anything is read.

A DLTensor (DLPack's dlpack.h) is { data, device type and number, rank, type, shape, strides, byte offset } at the bytes below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tilewright.dims import Dim
from tilewright.dtypes import dtype
from tilewright.payload.abi import (
    DLPACK_CPU,
    OK,
    TENSORS_SUFFIX,
    WRONG_EXTENTS,
    WRONG_INDEX,
    WRONG_OPERAND,
    dlpack_number,
)

DATA, DEVICE, RANK, TYPE, SHAPE, STRIDES, OFFSET = 0, 8, 16, 20, 24, 32, 40


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """An argument of the entry.

    Attributes:
        name: Its name in the text.
        shape: The extents that it must have, each an int or a `Dim`.
        element: Its element type.
        checked: Whether it is a tensor; otherwise only its data is looked at.
        batch: How many of its extents are of a batch: their strides may be any, if it is not written.
        passed: The axes that the body takes; None for all.
        written: Whether the body writes it.
        below: Where its elements are numbers of rows: how many rows there are; otherwise 0.
        compact: Whether its elements have to follow one another without gaps.
        names: Which one of the spec's extents each is, where it is a `Dim`.
    """

    name: str
    shape: tuple[Any, ...]
    element: str
    checked: bool = True
    batch: int = 0
    passed: tuple[int, ...] | None = None
    written: bool = False
    below: int = 0
    compact: bool = False
    names: tuple[str, ...] = ()

    @property
    def descriptor(self) -> str:
        """The arguments into which its memref is expanded, once the checks have defined them."""
        extents = [f"%{self.name}_extent{axis}" for axis in self._axes]
        strides = [f"%{self.name}_step{axis}" for axis in self._axes]
        return ", ".join([f"%{self.name}, %{self.name}, %zero", *extents, *strides])

    @property
    def types(self) -> str:
        """The types of those arguments."""
        return ", ".join(["!llvm.ptr, !llvm.ptr, i64", *["i64"] * (2 * len(self._axes))])

    @property
    def _axes(self) -> tuple[int, ...]:
        return tuple(range(len(self.shape))) if self.passed is None else self.passed


def text(symbol: str, arguments: Sequence[TensorArgument], attributes: str, declarations: str, run: str) -> str:
    """The entry `symbol`, and the one that takes an array of pointers in place of them.

    Args:
        symbol: The entry's name.
        arguments: Its arguments, in order.
        attributes: Attributes of a function, as MLIR text.
        declarations: What stands before it.
        run: What is done when all arguments fit; it uses their `descriptor`, ``%zero``, ``%one`` and ``%ok``, and of
            ``%m``, ``%n`` and ``%k`` the dynamic ones.
    """
    writer = _Writer()
    for argument in arguments:
        _check(writer, argument)
    for argument in arguments:
        if argument.below:
            _check_numbers(writer, argument)
    loads = "".join(
        f"""
    %at{index} = llvm.getelementptr %list[{8 * index}] : (!llvm.ptr) -> !llvm.ptr, i8
    %pointer{index} = llvm.load %at{index} : !llvm.ptr -> !llvm.ptr"""
        for index in range(len(arguments))
    )
    pointers = ", ".join(f"%{each.name}_tensor: !llvm.ptr" for each in arguments)
    passed = ", ".join(f"%pointer{index}" for index in range(len(arguments)))
    types = ", ".join(["!llvm.ptr"] * len(arguments))
    return f"""
  {declarations}
  llvm.func @{symbol}({pointers}) -> i32 attributes {{{attributes}}} {{
    %zero = llvm.mlir.constant(0 : i64) : i64
    %one = llvm.mlir.constant(1 : i64) : i64
    %ok = llvm.mlir.constant({OK} : i32) : i32
    %wrong_extents = llvm.mlir.constant({WRONG_EXTENTS} : i32) : i32
    %wrong_operand = llvm.mlir.constant({WRONG_OPERAND} : i32) : i32
    %wrong_index = llvm.mlir.constant({WRONG_INDEX} : i32) : i32
    %null_pointer = llvm.mlir.zero : !llvm.ptr
    {writer.text}
    llvm.br ^fits
  ^refused(%reason: i32):
    llvm.return %reason : i32
  ^fits:
    {run}
  }}
  llvm.func @{symbol}{TENSORS_SUFFIX}(%list: !llvm.ptr) -> i32 attributes {{{attributes}}} {{{loads}
    %status = llvm.call @{symbol}({passed}) : ({types}) -> i32
    llvm.return %status : i32
  }}
"""


class _Writer:
    """Collects ops, and gives their results names.

    Attributes:
        extents: The values of the dynamic ones, by name, once a tensor has told them.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0
        self.extents: dict[str, str] = {}

    @property
    def text(self) -> str:
        """All of them."""
        return "\n    ".join(self._lines)

    def line(self, text: str) -> None:
        """Adds a line."""
        self._lines.append(text)

    def value(self, text: str, name: str = "") -> str:
        """Adds an op with one result, and returns its name."""
        self._count += 1
        name = name or f"%v{self._count}"
        self.line(f"{name} = {text}")
        return name

    def constant(self, value: int, kind: str = "i64", name: str = "") -> str:
        """Adds a constant."""
        return self.value(f"llvm.mlir.constant({value} : {kind}) : {kind}", name)

    def load(self, pointer: str, offset: int, kind: str) -> str:
        """Adds a load at `offset` bytes."""
        at = self.value(f"llvm.getelementptr {pointer}[{offset}] : (!llvm.ptr) -> !llvm.ptr, i8")
        return self.value(f"llvm.load {at} : !llvm.ptr -> {kind}")

    def require(self, predicate: str, x: str, y: str, kind: str, reason: str) -> None:
        """Goes on only if x compares so with y."""
        holds = self.value(f'llvm.icmp "{predicate}" {x}, {y} : {kind}')
        self._count += 1
        self.line(f"llvm.cond_br {holds}, ^next{self._count}, ^refused({reason} : i32)")
        self.line(f"^next{self._count}:")


def _check(writer: _Writer, argument: TensorArgument) -> None:
    """Checks one argument, and defines what its `descriptor` names."""
    tensor, name, shape = f"%{argument.name}_tensor", f"%{argument.name}", argument.shape
    if argument.checked:
        for offset, wanted in (
            (DEVICE, DLPACK_CPU),
            (RANK, len(shape)),
            (TYPE, dlpack_number(argument.element)),
        ):
            found = writer.load(tensor, offset, "i32")
            writer.require("eq", found, writer.constant(wanted, "i32"), "i32", "%wrong_operand")
        _check_shape(writer, tensor, argument)
    else:
        assert not any(isinstance(extent, Dim) for extent in shape), "a B that comes packed has extents that are known"
        for axis, extent in enumerate(shape):
            writer.constant(extent, name=f"{name}_extent{axis}")
            writer.constant(max(1, prod(shape[axis + 1 :])), name=f"{name}_step{axis}")
    data, offset = writer.load(tensor, DATA, "!llvm.ptr"), writer.load(tensor, OFFSET, "i64")
    writer.value(f"llvm.getelementptr {data}[{offset}] : (!llvm.ptr, i64) -> !llvm.ptr, i8", name)


def _check_numbers(writer: _Writer, argument: TensorArgument) -> None:
    """Checks that each element of a vector is the number of a row."""
    label, kind = argument.name, dtype(argument.element).mlir
    rows = writer.constant(argument.below)
    writer.line(f"llvm.br ^{label}_next(%zero : i64)")
    writer.line(f"^{label}_next(%{label}_at: i64):")
    more = writer.value(f'llvm.icmp "ult" %{label}_at, %{label}_extent0 : i64')
    writer.line(f"llvm.cond_br {more}, ^{label}_one, ^{label}_all")
    writer.line(f"^{label}_one:")
    at = writer.value(f"llvm.getelementptr %{label}[%{label}_at] : (!llvm.ptr, i64) -> !llvm.ptr, {kind}")
    number = writer.value(f"llvm.load {at} : !llvm.ptr -> {kind}")
    if kind != "i64":
        number = writer.value(f"llvm.sext {number} : {kind} to i64")
    writer.require("ult", number, rows, "i64", "%wrong_index")  # what is below zero is too large, too
    after = writer.value(f"llvm.add %{label}_at, %one : i64")
    writer.line(f"llvm.br ^{label}_next({after} : i64)")
    writer.line(f"^{label}_all:")


def _check_shape(writer: _Writer, tensor: str, argument: TensorArgument) -> None:
    """Checks extents and strides; without strides, elements lie in row-major order."""
    shape, label = argument.shape, argument.name
    if not shape:
        return
    extents = writer.load(tensor, SHAPE, "!llvm.ptr")
    if any(isinstance(extent, Dim) for extent in shape):
        _check_open(writer, tensor, argument, extents)
        return
    for axis, extent in enumerate(shape):
        wanted = writer.constant(extent, name=f"%{label}_extent{axis}")
        writer.require("eq", writer.load(extents, 8 * axis, "i64"), wanted, "i64", "%wrong_extents")
    compact = [writer.constant(max(1, prod(shape[axis + 1 :]))) for axis in range(len(shape))]
    types = ", ".join(["i64"] * len(shape))
    given = writer.load(tensor, STRIDES, "!llvm.ptr")
    none = writer.value(f'llvm.icmp "eq" {given}, %null_pointer : !llvm.ptr')
    writer.line(f"llvm.cond_br {none}, ^{label}_strides({', '.join(compact)} : {types}), ^{label}_given")
    writer.line(f"^{label}_given:")
    loaded = [writer.load(given, 8 * axis, "i64") for axis in range(len(shape))]
    writer.line(f"llvm.br ^{label}_strides({', '.join(loaded)} : {types})")
    steps = [f"%{label}_stride{axis}" for axis in range(len(shape))]
    writer.line(f"^{label}_strides({', '.join(f'{step}: i64' for step in steps)}):")
    for axis, (step, least) in enumerate(zip(steps, compact, strict=True)):
        # With one element or none along an axis, its stride means nothing.
        means = 0 not in shape and shape[axis] > 1
        if means:
            predicate = "eq" if axis == len(shape) - 1 or argument.compact else "sge"
            bound = least
            if (
                axis < argument.batch
            ):  # Matrices may lie between the rows of others, and be the same where they are read.
                bound = writer.constant(shape[-1] if argument.written else 0)
            writer.require(predicate, step, bound, "i64", "%wrong_operand")
        source = step if means else least
        writer.value(f"llvm.add {source}, %zero : i64", f"%{label}_step{axis}")


def _check_open(writer: _Writer, tensor: str, argument: TensorArgument, extents: str) -> None:
    """The same for a tensor with dynamic extents."""
    shape, label = argument.shape, argument.name
    sizes = []
    for axis, (extent, name) in enumerate(zip(shape, argument.names, strict=True)):
        size = writer.value(f"llvm.add {writer.load(extents, 8 * axis, 'i64')}, %zero : i64", f"%{label}_extent{axis}")
        sizes.append(size)
        if not isinstance(extent, Dim):
            writer.require("eq", size, writer.constant(extent), "i64", "%wrong_extents")
        elif name in writer.extents:
            writer.require("eq", size, writer.extents[name], "i64", "%wrong_extents")
        else:
            writer.extents[name] = writer.value(f"llvm.add {size}, %zero : i64", f"%{name}")
            writer.require("sge", size, writer.constant(extent.min), "i64", "%wrong_extents")
            writer.require("sle", size, writer.constant(extent.max), "i64", "%wrong_extents")
            rest = writer.value(f"llvm.urem {size}, {writer.constant(extent.multiple)} : i64")
            writer.require("eq", rest, "%zero", "i64", "%wrong_extents")
    # Without elements strides mean nothing, and elements of a row follow one another all the same.
    compact = ["%one"]
    for size in reversed(sizes[1:]):
        some = writer.value(f"llvm.intr.umax({size}, %one) : (i64, i64) -> i64")
        compact.insert(0, writer.value(f"llvm.mul {compact[0]}, {some} : i64"))
    elements = sizes[0]
    for size in sizes[1:]:
        elements = writer.value(f"llvm.mul {elements}, {size} : i64")
    empty = writer.value(f'llvm.icmp "eq" {elements}, %zero : i64')
    types = ", ".join(["i64"] * len(shape))
    given = writer.load(tensor, STRIDES, "!llvm.ptr")
    none = writer.value(f'llvm.icmp "eq" {given}, %null_pointer : !llvm.ptr')
    writer.line(f"llvm.cond_br {none}, ^{label}_strides({', '.join(compact)} : {types}), ^{label}_given")
    writer.line(f"^{label}_given:")
    loaded = [writer.load(given, 8 * axis, "i64") for axis in range(len(shape))]
    writer.line(f"llvm.br ^{label}_strides({', '.join(loaded)} : {types})")
    steps = [f"%{label}_stride{axis}" for axis in range(len(shape))]
    writer.line(f"^{label}_strides({', '.join(f'{step}: i64' for step in steps)}):")
    for axis, (step, least) in enumerate(zip(steps, compact, strict=True)):
        # With one element or none along an axis, its stride means nothing.
        single = writer.value(f'llvm.icmp "ule" {sizes[axis]}, %one : i64')
        idle = writer.value(f"llvm.or {single}, {empty} : i1")
        bound = least
        if axis < argument.batch:
            bound = sizes[-1] if argument.written else "%zero"
        taken = writer.value(f"llvm.select {idle}, {bound}, {step} : i1, i64")
        predicate = "eq" if axis == len(shape) - 1 or argument.compact else "sge"
        writer.require(predicate, taken, bound, "i64", "%wrong_operand")
        writer.value(f"llvm.select {idle}, {least}, {step} : i1, i64", f"%{label}_step{axis}")
