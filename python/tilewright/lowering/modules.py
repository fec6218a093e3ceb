# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lowers what stands between the products of a module, which are functions that it calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from tilewright.build.usedef import operations
from tilewright.errors import LoweringError
from tilewright.lowering import pipelines, run
from tilewright.lowering.entries import entry
from tilewright.lowering.passes import dynamic_reshapes, dynamic_workspace, narrow_stores, workspace
from tilewright.lowering.product_calls import Product, call_products
from tilewright.lowering.types import half_floats, math_functions, small_floats
from tilewright.mlir import ir
from tilewright.mlir.dialects import func, transform
from tilewright.mlir.dialects.transform import structured, vector
from tilewright.schedules import steps
from tilewright.targets.base import Target

TIDY = "builtin.module(canonicalize, cse)"
"""Before anything is looked at: indices become numbers, what nothing uses goes."""
RESOLVE = "builtin.module(scf-for-loop-canonicalization, resolve-shaped-type-result-dims, canonicalize, cse)"
"""Dynamic extents become those of arguments, so that scratch memory can be asked for before all."""
GENERIC = "builtin.module(convert-elementwise-to-linalg, linalg-generalize-named-ops, canonicalize, cse)"
"""One form for all ops."""
FUSE = """builtin.module(
    linalg-inline-scalar-operands, linalg-fuse-elementwise-ops, canonicalize, cse, linalg-fuse-elementwise-ops, canonicalize, cse
)"""
"""What is elementwise becomes one op, where each result has one use."""
_WIDEN = """builtin.module(func.func(
    math-extend-to-supported-types, arith-emulate-unsupported-floats{source-types=bf16,f16 target-type=f32}, canonicalize, cse
))"""
"""16-bit floats are computed with in f32, and rounded after each operation."""
_HOIST = "builtin.module(func.func(buffer-loop-hoisting))"
"""Buffers of what is computed in loops stand before them."""
_NATIVE_MATH = frozenset(
    f"math.{each}"
    for each in (
        *("absf", "absi", "ceil", "copysign", "ctlz", "cttz", "ctpop", "floor"),
        *("fma", "round", "roundeven", "rsqrt", "sqrt", "trunc"),
    )
)
"""Functions that processors have; others, as far as they are not written out, are the C library's."""
_LIBRARY = "builtin.module(convert-math-to-libm)"


def decompose(module: ir.Module) -> None:
    """Makes softmax the reductions and elementwise ops that it consists of.

    Raises:
        LoweringError: It failed.
    """
    with steps.script() as script:
        kind = transform.AnyOpType.get()
        structured.DecomposeInterfaceOp(kind, steps.match(script.root, "linalg.softmax"))
    run.run_own_script(module, script.module, "payload")


def scheduled(
    module: ir.Module, schedule: Callable[[Collection[int]], ir.Module | None], count: int
) -> tuple[ir.Module, list[int]]:
    """The module under the schedule of what is left between products, and the numbers of the nests that it does not take.

    Its ops are the user's, of every form there is: that vectors are made of all of them cannot be promised. What the
    schedule fails at stays as it was, for loops over elements.

    Args:
        module: The module.
        schedule: Makes the schedule of the nests of some numbers.
        count: How many nests there are.
    """
    run.run_passes(module, _WIDEN, "scheduled")
    text = str(module.operation.get_asm(enable_debug_info=True))

    def under(numbers: Collection[int]) -> ir.Module | None:
        tried, script = ir.Module.parse(text, module.context), schedule(numbers)
        try:
            if script is not None:
                run.run_own_script(tried, script, "scheduled")
        except LoweringError:
            return None
        return tried

    whole = under(range(count))
    if whole is not None:
        return whole, []
    taken = [number for number in range(count) if under([number]) is not None]
    made = under(taken)
    if made is None:  # Those that go alone do not go together.
        return module, list(range(count))
    return made, [number for number in range(count) if number not in taken]


def bufferize(module: ir.Module, products: Sequence[Product]) -> int:
    """Takes the one function of `module` to memrefs, and lets it call its products.

    Returns the bytes of workspace that it then needs; 0 where a function of the module, `open_workspace.BYTES`, tells them.

    Raises:
        LoweringError: Bufferization failed.
    """
    function = _function(module)
    run.make_private(function)
    with module.context:  # where results go, `boundary.close` has said
        run.run_own_script(module, pipelines.bufferize(empties=False), "bufferized")
    run.run_passes(module, pipelines.DROP_RESULT, "bufferized")
    function = _function(module)
    if function.type.results:
        raise LoweringError("a result is not computed into its argument", stage="bufferized")
    run.run_passes(module, _HOIST, "bufferized")
    with function.context, function.location:
        call_products(_function(module), products)
    run.run_passes(module, pipelines.TIDY_BUFFERS, "bufferized")
    if dynamic_workspace.is_needed(_function(module)):
        dynamic_workspace.gather(module, _function(module))
        size = 0
    else:
        size = workspace.gather(_function(module), reuse=True)
    run.run_passes(module, pipelines.DEALLOCATE, "bufferized")
    return size


def _function(module: ir.Module) -> func.FuncOp:
    return next(op for op in module.body if isinstance(op, func.FuncOp) and not op.is_external)


def to_llvm(module: ir.Module, name: str, target: Target) -> None:
    """Takes a bufferized module to the LLVM dialect; its function is then called `name`.

    Raises:
        LoweringError: A pass failed.
    """
    if "memref.expand_shape" in str(module):
        _drop_unit_dimensions(module)
    run.run_own_script(module, pipelines.lower_vectors(target.vector_bits // 32, ()), "llvm")
    entry.name_body(_function(module), name, target, tiles="amx.tile" in str(module))
    with module.context:
        small_floats.expand(module.operation, target)
    text = str(module)
    halves = [each for each in half_floats.CONVERTERS if re.search(rf"\b{each}\b|x{each}\b", text)]
    with module.context:
        if "f16" in halves and half_floats.CONVERTERS["f16"].isdisjoint(target.features):
            half_floats.expand_f16(module.operation)
        if "bf16" in halves and half_floats.CONVERTERS["bf16"].isdisjoint(target.features):
            run.run_passes(module, half_floats.EXPAND_BF16, "llvm")
        math_functions.expand(module.operation, target)
    if _calls_library(module):
        run.run_passes(module, _LIBRARY, "llvm")
    with module.context:
        dynamic_reshapes.expand(module.operation)
    # Linalg says nothing of the order in which a reduction adds up.
    run.run_passes(module, pipelines.to_llvm(reassociate=True), "llvm")
    with module.context:
        if "avx512bw" in target.features:
            narrow_stores.protect(module.operation)
        if halves:
            half_floats.move_as_integers(module.operation)


def _calls_library(module: ir.Module) -> bool:
    """Whether a function of the C library's is needed."""
    return any(op.name.startswith("math.") and op.name not in _NATIVE_MATH for op in operations(module.operation))


def _drop_unit_dimensions(module: ir.Module) -> None:
    """Lets vectors be read and written along dimensions of more than one element only.

    Upstream's patterns that make reads of a reshaped buffer reads of what it is of never end where the vector has more dimensions
    than that: of memref<32x48xf32> seen as 32x1x48, a vector<1x1x32xf32>. Needs an active `ir.Context`.
    """
    with steps.script() as script:
        steps.apply(script.functions, vector.apply_patterns_vector_rank_reducing_subview_patterns)
    run.run_own_script(module, script.module, "llvm")
