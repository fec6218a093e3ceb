# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM IR by which programs of tvm-ffi call the kernels of a library: ``__tvm_ffi_NAME(handle, args, count, result)``.

The arguments are tensors, the results last, as values of tvm-ffi: a DLTensor's address, or an object that has a DLTensor after its header.
It returns 0, or -1 with an error that is raised as tvm-ffi raises errors. That function of tvm-ffi is looked for when there is an
error, so a library does not need tvm-ffi. Source: tvm/ffi/c_api.h of apache-tvm-ffi 0.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.lowering.entries.tensor_entry import DATA, DEVICE, OFFSET, RANK, SHAPE, STRIDES, TYPE
from tilewright.payload.abi import (
    DLPACK_CPU,
    OUT_OF_MEMORY,
    TENSORS_SUFFIX,
    UNSUPPORTED,
    WRONG_EXTENTS,
    WRONG_INDEX,
    WRONG_OPERAND,
    dlpack_number,
)
from tilewright.payload.signature import Signature
from tilewright.spec import MatmulSpec

PREFIX = "__tvm_ffi_"
"""What tvm-ffi looks for before a function's name."""
_ADDRESS, _OBJECT, _HEADER = 7, 70, 24
"""A value's number where it is a DLTensor's address, or an object that has one, and the bytes of an object's header."""
_VALUE = 16
"""Bytes of a value: its number, and at 8 what it is."""
_COUNT, _NO_TENSOR, _OTHER = -1, -2, -3
_ERRORS: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        _COUNT: ("TypeError", "another number of arguments; expected the operands and the results"),
        _NO_TENSOR: ("TypeError", "an argument is no tensor"),
        WRONG_EXTENTS: ("ValueError", "an argument has another shape"),
        OUT_OF_MEMORY: ("MemoryError", "no memory for packed panels"),
        WRONG_OPERAND: (
            "ValueError",
            "an argument is of another type or rank, on another device, or its rows are not adjacent elements",
        ),
        WRONG_INDEX: ("ValueError", "an index of rows, or a number in a table, is out of range"),
        UNSUPPORTED: ("RuntimeError", "no code of the kernel fits this processor and the cap"),
        _OTHER: ("RuntimeError", "the kernel failed"),
    }
)
"""By status, the kind of an error and what it says after the kernel's signature; the last one is that of any other."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A function of a kernel that tvm-ffi can call.

    Attributes:
        name: That of the C entry.
        signature: What it takes and gives, in words.
        tensors: How many, results included.
        product: The spec of a product whose entry takes two matrices; None where one takes an array of tensors.
    """

    name: str
    signature: str
    tensors: int
    product: MatmulSpec | None = None

    @property
    def symbol(self) -> str:
        """What it is called."""
        return f"{PREFIX}{self.name}"


def exported(source: object, name: str, signatures: Sequence[Signature], product: Signature | None) -> list[Exported]:
    """The functions of a kernel that can be called so: those whose operands are all tensors.

    Args:
        source: What it computes.
        name: Its name.
        signatures: Those of an operator or of a module's functions.
        product: That of a product.
    """
    found = [
        Exported(each.name, str(each), len(each.parameters))
        for each in signatures
        if not any(argument.packed for argument in each.arguments)
    ]
    if isinstance(source, MatmulSpec) and product is not None and not (source.b_packed or source.scalars):
        tensors = len(product.parameters)
        found.append(Exported(name, str(product), tensors, None if source.takes_tensors else source))
    return found


def symbols(library: str) -> dict[str, str]:
    """What the library's own functions are called in its objects."""
    return {name: f"{library}.tvm.{name}" for name in ("call", "matrices")}


def entries(library: str, functions: Sequence[Exported]) -> str:
    """The functions of a kernel; its C entries are defined beside them."""
    names = symbols(library)
    declared = [f'declare hidden i32 @"{names["call"]}"(ptr, i32, i32, ptr, ptr)']
    if any(each.product is not None for each in functions):
        declared.append(f'declare hidden i32 @"{names["matrices"]}"(ptr, ptr, i32, i32, i32, i1, i1)')
    return "\n".join([*declared, *(_entry(each, names) for each in functions)])


def _entry(function: Exported, names: Mapping[str, str]) -> str:
    name, said = function.name, _quoted(f"{function.signature}: ")
    entry, matrices, spec = f"{name}{TENSORS_SUFFIX}", "", function.product
    if spec is not None:
        entry = f"{name}.tvm.matrices"
        types = ", ".join(f"i32 {dlpack_number(each.name)}" for each in (spec.a_stored, spec.b_stored, spec.c_type))
        turned = ", ".join(f"i1 {int(each)}" for each in (spec.a_transposed, spec.b_transposed))
        matrices = f"""
define internal i32 @{entry}(ptr %list) {{
  %r = tail call i32 @"{names["matrices"]}"(ptr %list, ptr @{name}, {types}, {turned})
  ret i32 %r
}}
"""
    return f"""{matrices}
@{name}.tvm.said = private unnamed_addr constant {said}
define i32 @{function.symbol}(ptr %handle, ptr %values, i32 %count, ptr %result) {{
  %r = tail call i32 @"{names["call"]}"(ptr %values, i32 %count, i32 {function.tensors}, ptr @{entry}, ptr @{name}.tvm.said)
  ret i32 %r
}}
"""


def _quoted(text: str) -> str:
    """A constant of C's kind of text."""
    data = text.encode()
    quoted = "".join(chr(each) if 32 <= each < 127 and each not in b'"\\' else f"\\{each:02X}" for each in data)
    return f'[{len(data) + 1} x i8] c"{quoted}\\00"'


def runtime(library: str) -> str:
    """What the functions of all kernels of a library share."""
    texts = [
        f"@{kind}.{number} = private unnamed_addr constant {_quoted(text)}"
        for number, pair in enumerate(_ERRORS.values())
        for kind, text in zip(("kind", "text"), pair, strict=True)
    ]
    rows = [
        f"%error {{ i32 {status}, ptr @kind.{number}, ptr @text.{number} }}" for number, status in enumerate(_ERRORS)
    ]
    names = {name: f'@"{symbol}"' for name, symbol in symbols(library).items()}
    raiser = "TVMFFIErrorSetRaisedFromCStrParts"
    return _RUNTIME.format(
        texts="\n".join(texts),
        errors=f"[{len(rows)} x %error] [{', '.join(rows)}]",
        last=len(rows) - 1,
        raiser=_quoted(raiser),
        **names,
        ADDRESS=_ADDRESS,
        OBJECT=_OBJECT,
        HEADER=_HEADER,
        VALUE=_VALUE,
        NO_TENSOR=_NO_TENSOR,
        COUNT=_COUNT,
        CPU=DLPACK_CPU,
        WRONG_OPERAND=WRONG_OPERAND,
        WRONG_EXTENTS=WRONG_EXTENTS,
        DATA=DATA,
        DEVICE=DEVICE,
        RANK=RANK,
        TYPE=TYPE,
        SHAPE=SHAPE,
        STRIDES=STRIDES,
        OFFSET=OFFSET,
    )


_RUNTIME = """
%error = type {{ i32, ptr, ptr }}
%matrix = type {{ i32, i64, i64, i64, ptr }}
declare extern_weak ptr @dlsym(ptr, ptr)
@raiser = private unnamed_addr constant {raiser}
{texts}
@errors = internal constant {errors}

; Raises the error of a status after what is said first, where tvm-ffi is in the process. The last row is that of any other status.
define internal i32 @raise(i32 %status, ptr %said) noinline {{
  %parts = alloca [2 x ptr]
  %can = icmp ne ptr @dlsym, null
  br i1 %can, label %look, label %failed
look:
  %number = phi i64 [ 0, %0 ], [ %next, %other ]
  %row = getelementptr %error, ptr @errors, i64 %number
  %of = load i32, ptr %row
  %same = icmp eq i32 %of, %status
  %last = icmp eq i64 %number, {last}
  %found = or i1 %same, %last
  br i1 %found, label %find, label %other
other:
  %next = add i64 %number, 1
  br label %look
find:
  %raise = call ptr @dlsym(ptr null, ptr @raiser)
  %absent = icmp eq ptr %raise, null
  br i1 %absent, label %failed, label %say
say:
  %kind.at = getelementptr %error, ptr %row, i64 0, i32 1
  %kind = load ptr, ptr %kind.at
  %text.at = getelementptr %error, ptr %row, i64 0, i32 2
  %text = load ptr, ptr %text.at
  store ptr %said, ptr %parts
  %second = getelementptr ptr, ptr %parts, i64 1
  store ptr %text, ptr %second
  call void %raise(ptr %kind, ptr %parts, i32 2)
  br label %failed
failed:
  ret i32 -1
}}

; Calls an entry that takes an array of tensors on values of tvm-ffi.
define hidden i32 {call}(ptr %values, i32 %count, i32 %wanted, ptr %entry, ptr %said) {{
  %right = icmp eq i32 %count, %wanted
  br i1 %right, label %start, label %refused
start:
  %tensors = alloca ptr, i32 %wanted
  %end = zext i32 %wanted to i64
  br label %read
read:
  %number = phi i64 [ 0, %start ], [ %next, %put ]
  %done = icmp eq i64 %number, %end
  br i1 %done, label %run, label %one
one:
  %offset = mul i64 %number, {VALUE}
  %value = getelementptr i8, ptr %values, i64 %offset
  %kind = load i32, ptr %value
  %pointer.at = getelementptr i8, ptr %value, i64 8
  %pointer = load ptr, ptr %pointer.at
  %inside = getelementptr i8, ptr %pointer, i64 {HEADER}
  %object = icmp eq i32 %kind, {OBJECT}
  %tensor = select i1 %object, ptr %inside, ptr %pointer
  %address = icmp eq i32 %kind, {ADDRESS}
  %known = or i1 %object, %address
  %there = icmp ne ptr %pointer, null
  %is = and i1 %known, %there
  br i1 %is, label %put, label %refused
put:
  %place = getelementptr ptr, ptr %tensors, i64 %number
  store ptr %tensor, ptr %place
  %next = add i64 %number, 1
  br label %read
run:
  %status = call i32 %entry(ptr %tensors)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %ok, label %refused
ok:
  ret i32 0
refused:
  %why = phi i32 [ {COUNT}, %0 ], [ {NO_TENSOR}, %one ], [ %status, %run ]
  %r = call i32 @raise(i32 %why, ptr %said)
  ret i32 %r
}}

; A matrix of an element type: 0, or what an entry returns, then its rows, columns, leading dimension and data.
define internal %matrix @matrix(ptr %tensor, i32 %wanted) {{
  %device.at = getelementptr i8, ptr %tensor, i64 {DEVICE}
  %device = load i32, ptr %device.at
  %rank.at = getelementptr i8, ptr %tensor, i64 {RANK}
  %rank = load i32, ptr %rank.at
  %type.at = getelementptr i8, ptr %tensor, i64 {TYPE}
  %type = load i32, ptr %type.at
  %here = icmp eq i32 %device, {CPU}
  %two = icmp eq i32 %rank, 2
  %same = icmp eq i32 %type, %wanted
  %both = and i1 %here, %two
  %fits = and i1 %both, %same
  br i1 %fits, label %sizes, label %refused
sizes:
  %shape.at = getelementptr i8, ptr %tensor, i64 {SHAPE}
  %shape = load ptr, ptr %shape.at
  %rows = load i64, ptr %shape
  %columns.at = getelementptr i64, ptr %shape, i64 1
  %columns = load i64, ptr %columns.at
  %strides.at = getelementptr i8, ptr %tensor, i64 {STRIDES}
  %strides = load ptr, ptr %strides.at
  %compact = icmp eq ptr %strides, null
  br i1 %compact, label %done, label %strided
strided:
  %step = load i64, ptr %strides
  %inner.at = getelementptr i64, ptr %strides, i64 1
  %inner = load i64, ptr %inner.at
  %adjacent = icmp eq i64 %inner, 1
  %single = icmp ule i64 %columns, 1
  %row = or i1 %adjacent, %single
  %apart = icmp sge i64 %step, %columns
  %alone = icmp ule i64 %rows, 1
  %none = icmp eq i64 %columns, 0
  %free = or i1 %alone, %none
  %far = or i1 %apart, %free
  %lie = and i1 %row, %far
  %leading = select i1 %free, i64 %columns, i64 %step
  br i1 %lie, label %done, label %refused
done:
  %ld = phi i64 [ %columns, %sizes ], [ %leading, %strided ]
  %data.at = getelementptr i8, ptr %tensor, i64 {DATA}
  %start = load ptr, ptr %data.at
  %offset.at = getelementptr i8, ptr %tensor, i64 {OFFSET}
  %offset = load i64, ptr %offset.at
  %data = getelementptr i8, ptr %start, i64 %offset
  %m0 = insertvalue %matrix {{ i32 0, i64 0, i64 0, i64 0, ptr null }}, i64 %rows, 1
  %m1 = insertvalue %matrix %m0, i64 %columns, 2
  %m2 = insertvalue %matrix %m1, i64 %ld, 3
  %m3 = insertvalue %matrix %m2, ptr %data, 4
  ret %matrix %m3
refused:
  ret %matrix {{ i32 {WRONG_OPERAND}, i64 0, i64 0, i64 0, ptr null }}
}}

; Calls the entry of a product of two matrices on three tensors.
define hidden i32 {matrices}(ptr %list, ptr %entry, i32 %a.type, i32 %b.type, i32 %c.type, i1 %a.turned, i1 %b.turned) {{
  %b.at = getelementptr ptr, ptr %list, i64 1
  %c.at = getelementptr ptr, ptr %list, i64 2
  %a.tensor = load ptr, ptr %list
  %b.tensor = load ptr, ptr %b.at
  %c.tensor = load ptr, ptr %c.at
  %a = call %matrix @matrix(ptr %a.tensor, i32 %a.type)
  %b = call %matrix @matrix(ptr %b.tensor, i32 %b.type)
  %c = call %matrix @matrix(ptr %c.tensor, i32 %c.type)
  %a.status = extractvalue %matrix %a, 0
  %b.status = extractvalue %matrix %b, 0
  %c.status = extractvalue %matrix %c, 0
  %ab = or i32 %a.status, %b.status
  %status = or i32 %ab, %c.status
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %sizes, label %refused
sizes:
  %m = extractvalue %matrix %c, 1
  %n = extractvalue %matrix %c, 2
  %a.rows = extractvalue %matrix %a, 1
  %a.columns = extractvalue %matrix %a, 2
  %b.rows = extractvalue %matrix %b, 1
  %b.columns = extractvalue %matrix %b, 2
  %a.m = select i1 %a.turned, i64 %a.columns, i64 %a.rows
  %k = select i1 %a.turned, i64 %a.rows, i64 %a.columns
  %b.n = select i1 %b.turned, i64 %b.rows, i64 %b.columns
  %b.k = select i1 %b.turned, i64 %b.columns, i64 %b.rows
  %same.m = icmp eq i64 %a.m, %m
  %same.n = icmp eq i64 %b.n, %n
  %same.k = icmp eq i64 %b.k, %k
  %same.mn = and i1 %same.m, %same.n
  %same = and i1 %same.mn, %same.k
  br i1 %same, label %run, label %refused
run:
  %lda = extractvalue %matrix %a, 3
  %ldb = extractvalue %matrix %b, 3
  %ldc = extractvalue %matrix %c, 3
  %a.data = extractvalue %matrix %a, 4
  %b.data = extractvalue %matrix %b, 4
  %c.data = extractvalue %matrix %c, 4
  %r = call i32 %entry(i64 %m, i64 %n, i64 %k, ptr %a.data, i64 %lda, ptr %b.data, i64 %ldb, ptr %c.data, i64 %ldc)
  ret i32 %r
refused:
  %why = phi i32 [ {WRONG_OPERAND}, %0 ], [ {WRONG_EXTENTS}, %sizes ]
  ret i32 %why
}}
"""
