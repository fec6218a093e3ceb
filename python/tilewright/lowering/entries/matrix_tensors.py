# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The entry of a kernel of two matrices and of factors that takes an array of DLTensors, as text: Python's calls use it."""

from __future__ import annotations

from tilewright.lowering.entries.tensor_entry import DATA, OFFSET, SHAPE, STRIDES
from tilewright.payload.abi import TENSORS_SUFFIX
from tilewright.spec import MatmulSpec


def text(spec: MatmulSpec, symbol: str, attributes: str) -> str:
    """The entry beside `symbol`, which it calls; the tensors have been checked, and all but a packed B have strides.

    Args:
        spec: What is computed.
        symbol: The kernel's name.
        attributes: Attributes of a function, as MLIR text.
    """
    lines: list[str] = []

    def load(name: str, pointer: str, offset: int, kind: str = "i64") -> str:
        lines.append(f"%{name}_at = llvm.getelementptr {pointer}[{offset}] : (!llvm.ptr) -> !llvm.ptr, i8")
        lines.append(f"%{name} = llvm.load %{name}_at : !llvm.ptr -> {kind}")
        return f"%{name}"

    names = ["a", "b", *(each.name for each in spec.scalars), "c"]
    for index, name in enumerate(names):
        tensor = load(f"{name}_tensor", "%list", 8 * index, "!llvm.ptr")
        start, offset = load(f"{name}_data", tensor, DATA, "!llvm.ptr"), load(f"{name}_offset", tensor, OFFSET)
        lines.append(f"%{name} = llvm.getelementptr {start}[{offset}] : (!llvm.ptr, i64) -> !llvm.ptr, i8")
    for name in "abc":
        if name == "b" and spec.b_packed:
            lines.append("%ldb = llvm.mlir.constant(0 : i64) : i64")
        else:
            load(f"ld{name}", load(f"{name}_strides", f"%{name}_tensor", STRIDES, "!llvm.ptr"), 0)
    for name, tensor, axis in (("m", "c", 0), ("n", "c", 1), ("k", "a", 0 if spec.a_transposed else 1)):
        load(name, load(f"{name}_shape", f"%{tensor}_tensor", SHAPE, "!llvm.ptr"), 8 * axis)
    values = ["m", "n", "k", "a", "lda", "b", "ldb", "c", "ldc", *names[2:-1]]
    types = [*["i64"] * 3, *["!llvm.ptr", "i64"] * 3, *["!llvm.ptr"] * len(names[2:-1])]
    body = "\n    ".join(lines)
    return f"""
  llvm.func @{symbol}{TENSORS_SUFFIX}(%list: !llvm.ptr) -> i32 attributes {{{attributes}}} {{
    {body}
    %status = llvm.call @{symbol}({", ".join(f"%{each}" for each in values)}) : ({", ".join(types)}) -> i32
    llvm.return %status : i32
  }}
"""
