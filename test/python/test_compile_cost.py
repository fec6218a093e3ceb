# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a compilation does without: bindings that take longer to import than a kernel to compile, dialects, a second reading of its IR."""

from __future__ import annotations

import json

import pytest
from processes import in_new_process
from tilewright.build import contexts
from tilewright.errors import LoweringError
from tilewright.lowering.entries import added_text
from tilewright.mlir import ir

_BODY = "llvm.func internal @body(%x: i32) -> i32 { llvm.return %x : i32 }"
_ENTRY = "llvm.func @entry(%x: i32) -> i32 { %y = llvm.call @body(%x) : (i32) -> i32\n llvm.return %y : i32 }"


def test_a_product_for_a_cpu_imports_one_compiler_and_no_bindings_of_llvm() -> None:
    printed = in_new_process("""
        import json, sys
        import tilewright as tw
        from tilewright.emit import worker
        imported = set(sys.modules)
        tw.compile(tw.MatmulSpec(9, 17, 8), target="x86-64-v4", cache=False)
        found = lambda among, *names: sorted(name for name in among if name.startswith(names))
        print(json.dumps([
            found(imported, "tilewright.codegen", "tilewright.emit.gpu", "tilewright.emit.stages"),
            found(sys.modules, "tilewright.mlir.dialects.llvm", "tilewright.mlir.dialects.openmp", "tilewright.codegen.gpu"),
        ]))
    """)
    assert json.loads(printed) == [[], []]


def test_a_context_has_the_dialects_of_kernels_and_loads_others_when_they_are_read() -> None:
    context = contexts.new()
    for name in (
        "transform.yield",
        "linalg.matmul",
        "vector.fma",
        "llvm.add",
        "omp.parallel",
        "gpu.func",
        "nvvm.barrier",
    ):
        assert context.is_registered_operation(name), name
    assert not context.is_registered_operation("tosa.add")
    ir.Module.parse(
        "func.func @f(%x: tensor<4xf32>) { %y = tosa.exp %x : (tensor<4xf32>) -> tensor<4xf32>\n return }", context
    )
    assert context.is_registered_operation("tosa.add")


def test_added_functions_call_those_that_are_there() -> None:
    module = ir.Module.parse(_BODY, contexts.new())
    added_text.add(module, _ENTRY)
    assert [added_text.name_of(op) for op in added_text.ops(module)] == ["body", "entry"]
    assert module.operation.verify()
    with pytest.raises(LoweringError, match="entry would be defined twice"):
        added_text.add(module, _ENTRY)
