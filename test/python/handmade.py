# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small kernels in LLVM IR, to test the runtime without the compiler."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from tilewright import _codegen, _runtime, targets
from tilewright.standalone import _native

_SIGNATURE = "(i64 %m, i64 %n, i64 %k, ptr %a, i64 %lda, ptr %b, i64 %ldb, ptr %c, i64 %ldc)"

# c[i, j] = sum of a[i, p] * b[p, j], one by one.
_LOOPS = f"""
define internal void @loops{_SIGNATURE} {{
entry:
  br label %rows
rows:
  %i = phi i64 [0, %entry], [%i.next, %row.end]
  %i.more = icmp slt i64 %i, %m
  br i1 %i.more, label %columns, label %end
columns:
  %j = phi i64 [0, %rows], [%j.next, %column.end]
  %j.more = icmp slt i64 %j, %n
  br i1 %j.more, label %sum, label %row.end
sum:
  %p = phi i64 [0, %columns], [%p.next, %product]
  %s = phi TYPE [0.0, %columns], [%s.next, %product]
  %p.more = icmp slt i64 %p, %k
  br i1 %p.more, label %product, label %column.end
product:
  %a.row = mul i64 %i, %lda
  %a.index = add i64 %a.row, %p
  %a.at = getelementptr TYPE, ptr %a, i64 %a.index
  %x = load TYPE, ptr %a.at
  %b.row = mul i64 %p, %ldb
  %b.index = add i64 %b.row, %j
  %b.at = getelementptr TYPE, ptr %b, i64 %b.index
  %y = load TYPE, ptr %b.at
  %xy = fmul TYPE %x, %y
  %s.next = fadd TYPE %s, %xy
  %p.next = add i64 %p, 1
  br label %sum
column.end:
  %c.row = mul i64 %i, %ldc
  %c.index = add i64 %c.row, %j
  %c.at = getelementptr TYPE, ptr %c, i64 %c.index
  store TYPE %s, ptr %c.at
  %j.next = add i64 %j, 1
  br label %columns
row.end:
  %i.next = add i64 %i, 1
  br label %rows
end:
  ret void
}}
"""
_CALL = "call void @loops(i64 %m, i64 %n, i64 %k, ptr %a, i64 %lda, ptr {b}, i64 {ldb}, ptr %c, i64 %ldc)"


@cache
def compiled(ir: str, triple: str | None = None) -> bytes:
    """The object of LLVM IR for `triple`, by default for this machine."""
    return _codegen.emit(ir, triple=triple or targets.resolve("host").triple, cpu="", features="", kind="obj")


def entry(body: str, declarations: str = "") -> str:
    """LLVM IR of a C entry with this body."""
    return f"{declarations}\ndefine i32 @matmul{_SIGNATURE} {{\n{body}\n}}\n"


def matmul_ir(element: str = "float") -> str:
    """LLVM IR of a product of matrices with any extents, of LLVM's `element` type."""
    return entry(_CALL.format(b="%b", ldb="%ldb") + "\nret i32 0", _LOOPS.replace("TYPE", element))


def matmul(element: str = "float") -> bytes:
    """The object of `matmul_ir`."""
    return compiled(matmul_ir(element))


def returning(status: int) -> bytes:
    """A kernel that does nothing and returns `status`."""
    return compiled(entry(f"ret i32 {status}"))


def packing(reserve: int) -> bytes:
    """A product of float matrices that copies B into scratch memory of `reserve` bytes first, row by row."""
    declarations = """
declare ptr @_mlir_memref_to_llvm_aligned_alloc(i64, i64)
declare void @_mlir_memref_to_llvm_free(ptr)
declare ptr @memcpy(ptr, ptr, i64)
"""
    body = f"""
entry:
  %w = call ptr @_mlir_memref_to_llvm_aligned_alloc(i64 4096, i64 {reserve})
  %none = icmp eq ptr %w, null
  br i1 %none, label %memory, label %copy
memory:
  ret i32 2
copy:
  %p = phi i64 [0, %entry], [%p.next, %row]
  %more = icmp slt i64 %p, %k
  br i1 %more, label %row, label %product
row:
  %to.index = mul i64 %p, %n
  %to = getelementptr float, ptr %w, i64 %to.index
  %from.index = mul i64 %p, %ldb
  %from = getelementptr float, ptr %b, i64 %from.index
  %bytes = mul i64 %n, 4
  call ptr @memcpy(ptr %to, ptr %from, i64 %bytes)
  %p.next = add i64 %p, 1
  br label %copy
product:
  {_CALL.format(b="%w", ldb="%n")}
  call void @_mlir_memref_to_llvm_free(ptr %w)
  ret i32 0
"""
    return compiled(entry(body, declarations + _LOOPS.replace("TYPE", "float")))


def waiting(turns: int) -> bytes:
    """A kernel that returns 0 once another thread has made the first element of A nonzero, and 7 after `turns` looks."""
    body = f"""
entry:
  br label %look
look:
  %turn = phi i64 [0, %entry], [%turn.next, %again]
  %x = load atomic i32, ptr %a seq_cst, align 4
  %set = icmp ne i32 %x, 0
  br i1 %set, label %seen, label %again
again:
  %turn.next = add i64 %turn, 1
  %more = icmp slt i64 %turn.next, {turns}
  br i1 %more, label %look, label %tired
seen:
  ret i32 0
tired:
  ret i32 7
"""
    return compiled(entry(body))


def call(m: int | None, n: int | None, k: int | None, *, object_: bytes | None = None, **types: Any) -> Any:
    """A MatmulCall of a kernel from here, of f32 unless told otherwise."""
    code = _runtime.Code(object_ or matmul(), "matmul")
    return _native.MatmulCall(code, m, n, k, **{"a": "float32", "b": "float32", "c": "float32", **types})


def matrix(rows: int, columns: int, dtype: str = "float32") -> np.ndarray:
    """Random numbers in [-1, 1), the same for the same shape."""
    return np.random.default_rng(rows * 1000 + columns).uniform(-1, 1, (rows, columns)).astype(dtype)
