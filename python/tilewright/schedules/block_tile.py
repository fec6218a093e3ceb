# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of schedules for GPUs: from linalg to blocks, each of which computes a tile of C in vectors as large as the tile.

What a block computes is then all in its vectors: whatever lies beyond the edges of an operand is masked, so that every shape is
of whole tiles. How the vectors are shared among a block's threads is not said here (`lowering.gpu.threads`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.mlir.dialects import transform
from tilewright.mlir.dialects.transform import loop, memref, structured, tensor, vector
from tilewright.schedules import steps
from tilewright.schedules.steps import Handle, Script
from tilewright.spec import MatmulSpec

Sizes = TypeVar("Sizes")


def with_sizes(kind: type[Sizes], sizes: Mapping[str, int]) -> Sizes:
    """The usual sizes of a strategy, a dataclass of ints, with some overridden by name.

    Raises:
        ScheduleError: A name is unknown, or a size is no int above zero, or they do not fit together.
    """
    of: Any = kind
    known = [each.name for each in fields(of)]
    for name, size in sizes.items():
        if name not in known or not isinstance(size, int) or size <= 0:
            raise ScheduleError(
                f"{name}={size!r}", where="schedule parameters", expected=f"{', '.join(known)}, ints above zero"
            )
    return kind(**sizes)


def schedule(spec: MatmulSpec, bm: int, bn: int, bk: int) -> ir.Module:
    """The schedule: blocks of bm x bn, steps of bk over K, everything in vectors.

    Needs an active `ir.Context`.
    """
    with steps.script() as script:
        blocks(script, spec, bm, bn)
        steps_over_k(script, spec, bm, bn, bk)
        vectorize_tiles(script, spec, bm, bn, bk)
    return script.module


def blocks(script: Script, spec: MatmulSpec, bm: int, bn: int) -> Handle:
    """Cuts C into tiles, a block of threads for each, and computes all that a tile needs in its block. Returns the loop.

    Before: ``P = A * B``, ``C = f(P)``. After::

        forall (i, j) in blocks:
            p = A[i*bm:(i+1)*bm, :] * B[:, j*bn:(j+1)*bn]
            C[i*bm:(i+1)*bm, j*bn:(j+1)*bn] = f(p)
    """
    mapping = ir.ArrayAttr.get([ir.Attribute.parse(f"#gpu.block<{axis}>") for axis in "yx"])
    product, zeros = steps.match_product(script.root, spec), steps.match(script.functions, "linalg.fill")
    result = steps.match_result(script, spec)
    container = structured.TileUsingForallOp(result, tile_sizes=[bm, bn], mapping=mapping).results[1]
    for producer in (product, zeros):
        container = structured.FuseIntoContainingOp(producer, container).results[1]
    steps.clean(script.functions)
    return steps.match(script.functions, "scf.forall")


def steps_over_k(script: Script, spec: MatmulSpec, bm: int, bn: int, bk: int) -> None:
    """Multiplies a block's tiles in steps over K, of operands that are padded with zeros to whole tiles.

    Before: ``p = a * b``. After::

        p = 0
        for k in 0..K step bk: p += pad(a[:, k:k+bk]) to (bm, bk) * pad(b[k:k+bk, :]) to (bk, bn)
    """
    product = steps.pad(steps.match_product(script.root, spec), spec, sizes=(bm, bn, 0), pack=(False, False, False))
    tile, _ = steps.tile(product, [0, 0, bk])
    steps.pad(tile, spec, sizes=(0, 0, bk), pack=(True, True, False))

    def patterns() -> None:
        memref.apply_patterns_memref_resolve_ranked_shaped_type_result_dims()
        transform.apply_patterns_canonicalization()

    steps.apply(script.functions, patterns, cse=True)


def vectorize_tiles(script: Script, spec: MatmulSpec, bm: int, bn: int, bk: int) -> None:
    """Makes every op of a block one of whole tiles in vectors, and keeps the sums in one over all of K.

    Before: ``for k: p += pad(a[:, k:k+bk]) * pad(b[k:k+bk, :])``, ``c = f(p)``. After::

        sums = dense<0> : vector<bm x bn>
        for k: sums = contract(read a[:, k:k+bk] under a mask, read b[k:k+bk, :] under a mask, sums)
        write c <- f(sums) under a mask
    """
    functions = script.functions
    pads = steps.split(steps.match(functions, "tensor.pad"), 2)
    for operand, sizes in zip(pads, ([bm, bk], [bk, bn]), strict=True):
        structured.VectorizeOp(operand, sizes)
    structured.structured_vectorize(steps.match(functions, "linalg.fill"), [])
    steps.vectorize_product(steps.match_product(script.root, spec), functions, spec)
    structured.VectorizeOp(_elementwise(functions), [bm, bn])

    def patterns() -> None:
        vector.apply_patterns_vector_lower_masked_transfers()
        tensor.apply_patterns_tensor_fold_tensor_subset_ops_into_vector_transfers()
        transform.apply_patterns_canonicalization()

    steps.apply(functions, patterns, cse=True)
    loop.HoistLoopInvariantSubsetsOp(steps.match(functions, "scf.for"))
    steps.apply(functions, patterns, cse=True)


def _elementwise(functions: Handle) -> Handle:
    """The op that is done to the sums: a product whose operands differ in sign is a linalg.generic too, but over K as well."""
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    return structured.structured_match(
        transform.AnyOpType.get(),
        functions,
        ops=ir.ArrayAttr.get([ir.StringAttr.get("linalg.generic")]),
        op_attrs=ir.DictAttr.get({"iterator_types": ir.ArrayAttr.get([parallel, parallel])}),
    )
