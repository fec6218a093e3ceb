# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of schedules for GPUs: from linalg to blocks, each of which computes a tile of C in vectors as large as the tile.

What a block computes is then all in its vectors: whatever lies beyond the edges of an operand is masked, so that every shape is
of whole tiles. How the vectors are shared among a block's threads is for the steps in `sharing` to decide, which come after these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.mlir.dialects import transform
from tilewright.mlir.dialects.transform import loop, memref, structured, tensor, vector
from tilewright.mlir.dialects.transform import tilewright as ours
from tilewright.schedules import steps
from tilewright.schedules.steps import Handle, Script, Size
from tilewright.spec import MatmulSpec

Sizes = TypeVar("Sizes")
INSTRUCTION = 16
"""What parts of a tile that matrix instructions multiply are multiples of: rows, columns and depth."""
_RESULT = "result"
"""Mark of the op that makes C."""
_PROLOGUE = "prologue"
"""Mark of the ops that make what is multiplied of A and B."""
_BLOCKS = "blocks"
"""Mark of the loop over blocks."""


def with_sizes(kind: type[Sizes], sizes: Mapping[str, int]) -> Sizes:
    """The usual sizes of a strategy, a dataclass of ints and flags, with some overridden by name.

    Raises:
        ScheduleError: A name is unknown, or a size is no int above zero, or they do not fit together.
    """
    of: Any = kind
    # What is 0 or False by default may be left out.
    known = {each.name: int(bool(each.default)) for each in fields(of)}
    for name, size in sizes.items():
        if name not in known or not isinstance(size, int) or size < known[name]:
            raise ScheduleError(
                f"{name}={size!r}", where="schedule parameters", expected=f"{', '.join(known)}, ints above zero"
            )
    return kind(**sizes)


def check_parts(what: str, tile: tuple[int, int, int], part: tuple[int, int]) -> None:
    """Checks that parts of so many rows and columns, those of `what`, make up a tile of bm x bn x bk.

    Raises:
        ScheduleError: They do not, or a part or the depth is no multiple of what an instruction multiplies.
    """
    (bm, bn, bk), (wm, wn) = tile, part
    if bm % wm or bn % wn or wm % INSTRUCTION or wn % INSTRUCTION or bk % INSTRUCTION:
        raise ScheduleError(
            f"{what} of {wm}x{wn} in a tile of {bm}x{bn}x{bk}",
            where="schedule parameters",
            expected=f"{what}' parts of multiples of {INSTRUCTION} that make up the tile, and bk a multiple of {INSTRUCTION}",
        )


def tile(script: Script, spec: MatmulSpec, bm: Size, bn: Size, bk: Size) -> Handle:
    """All steps of this file: blocks of bm x bn, steps of bk over K, everything in vectors. Returns the loop over blocks.

    Before: ``P = A * B``, ``C = f(P)``. After::

        forall (i, j) in blocks:
            for k in 0..K step bk: sums += a * b      # vectors of bm x bk and bk x bn, whatever is beyond an edge under a mask
            C[i*bm:(i+1)*bm, j*bn:(j+1)*bn] = f(sums)
    """
    mark(script, spec)
    entries(script, spec)
    blocks(script, spec, bm, bn)
    steps_over_k(script, spec, bm, bn, bk)
    vectorize_tiles(script, spec, bm, bn, bk)
    return steps.match_marked(script.functions, _BLOCKS)


def mark(script: Script, spec: MatmulSpec) -> None:
    """Marks the op that makes C, and those that make what is multiplied."""
    result = steps.match_result(script, spec)
    product = steps.producer(result, 0)
    steps.mark(result, _RESULT)
    for operand, prologue in enumerate((spec.prologue_a, spec.prologue_b)):
        if prologue:
            steps.mark(steps.producer(product, operand), _PROLOGUE)


def entries(script: Script, spec: MatmulSpec) -> None:
    """Takes a batch apart: blocks of threads for each of its entries.

    Before: ``P[:] = A[:] * B[:]``, ``C[:] = f(P[:])``. After::

        forall entry in batch:
            p = A[entry] * B[entry]
            C[entry] = f(p)
    """
    if not spec.batch_axes:
        return
    axes = len(spec.batch_axes)
    mapping = [ir.Attribute.parse(f"#gpu.block<linear_dim_{axis}>") for axis in range(axes)]
    producers = [*_prologues(script, spec), steps.match(script.functions, "linalg.fill")]
    _tile_result(script, spec, [1] * axes, ir.ArrayAttr.get(mapping), [*producers])
    interface = structured.MatchInterfaceEnum.LinalgOp
    ops = structured.structured_match(transform.AnyOpType.get(), script.functions, interface=interface)
    ours.tilewright_drop_batch(ops, axes)
    # No canonicalization: a C that is only the sums would lose the op that makes it.
    steps.apply(script.functions, memref.apply_patterns_memref_resolve_ranked_shaped_type_result_dims, cse=True)


def blocks(script: Script, spec: MatmulSpec, bm: Size, bn: Size) -> None:
    """Cuts C into tiles, a block of threads for each, and computes all that a tile needs in its block.

    What prologues make of A and B is left outside. Before: ``P = A * B``, ``C = f(P)``. After::

        forall (i, j) in blocks:
            p = A[i*bm:(i+1)*bm, :] * B[:, j*bn:(j+1)*bn]
            C[i*bm:(i+1)*bm, j*bn:(j+1)*bn] = f(p)
    """
    mapping = ir.ArrayAttr.get([ir.Attribute.parse(f"#gpu.block<{axis}>") for axis in "yx"])
    fills = steps.match(script.functions, "linalg.fill")
    steps.mark(_tile_result(script, spec, [bm, bn], mapping, [fills]), _BLOCKS)
    steps.clean(script.functions)


def _tile_result(
    script: Script, spec: MatmulSpec, sizes: Sequence[Size], mapping: ir.ArrayAttr, producers: list[Handle]
) -> Handle:
    """Makes a parallel loop of the op that makes C, with the products and other ops before it inside. Returns the loop."""
    result = steps.match_marked(script.functions, _RESULT)
    products = [steps.producer(result, operand) for operand in _sums(spec)]
    container = structured.TileUsingForallOp(result, tile_sizes=list(sizes), mapping=mapping).results[1]
    for producer in (*products, *producers):
        container = structured.FuseIntoContainingOp(producer, container).results[1]
    return container


def _sums(spec: MatmulSpec) -> list[int]:
    """Which operands of the op that makes C are sums: of the product with B, and of those with further matrices like B."""
    return [0, *(1 + number for number, each in enumerate(spec.chain.operands) if each.role == "b")]


def _prologues(script: Script, spec: MatmulSpec) -> list[Handle]:
    """The ops that make what is multiplied of A and B."""
    count = sum(map(bool, (spec.prologue_a, spec.prologue_b)))
    return steps.split(steps.match_marked(script.functions, _PROLOGUE), count) if count else []


def steps_over_k(script: Script, spec: MatmulSpec, bm: Size, bn: Size, bk: Size) -> None:
    """Multiplies a block's tiles in steps over K, of operands that are padded with zeros to whole tiles.

    Before: ``p = a * b``. After::

        p = 0
        for k in 0..K step bk: p += pad(a[:, k:k+bk]) to (bm, bk) * pad(b[k:k+bk, :]) to (bk, bn)

    What a prologue makes, ``a = g(x)``, is made there: ``pad(g(x[:, k:k+bk]))``. Several products with the same a are summed in
    one loop.
    """
    product = steps.pad(steps.match_product(script.root, spec), spec, sizes=(bm, bn, 0), pack=(False, False, False))
    if spec.products > 1:
        steps.clean(script.functions)
        product = steps.match_product(script.root, spec)
    each = bk if isinstance(bk, int) else transform.merge_handles([bk] * spec.products)  # One for each product.
    tile, _ = steps.tile(product, [0, 0, each])
    steps.pad(tile, spec, sizes=(0, 0, bk), pack=(True, True, False))
    if spec.products > 1:
        steps.clean(script.functions)
        loops = steps.split(steps.enclosing_loop(steps.match_product(script.root, spec)), spec.products)
        # Into the first one: what follows a loop uses its sums.
        steps.fuse_loops(loops[::-1])

    def patterns() -> None:
        memref.apply_patterns_memref_resolve_ranked_shaped_type_result_dims()
        transform.apply_patterns_canonicalization()

    steps.apply(script.functions, patterns, cse=True)
    for made in _prologues(script, spec):
        structured.FuseIntoContainingOp(made, steps.match_marked(script.functions, _BLOCKS))
    steps.apply(script.functions, patterns, cse=True)


def vectorize_tiles(script: Script, spec: MatmulSpec, bm: Size, bn: Size, bk: Size) -> None:
    """Makes every op of a block one of whole tiles in vectors, and keeps the sums in one over all of K.

    Before: ``for k: p += pad(a[:, k:k+bk]) * pad(b[k:k+bk, :])``, ``c = f(p)``. After::

        sums = dense<0> : vector<bm x bn>
        for k: sums = contract(read a[:, k:k+bk] under a mask, read b[k:k+bk, :] under a mask, sums)
        write c <- f(sums) under a mask
    """
    functions = script.functions
    pads = steps.split(steps.match(functions, "tensor.pad"), 1 + spec.products)
    made = _prologues(script, spec)
    operands = ([bm, bk], spec.prologue_a), *[([bk, bn], spec.prologue_b)] * spec.products
    for operand, (sizes, prologue) in zip(pads, operands, strict=True):
        structured.VectorizeOp(operand, sizes)
        if prologue:
            structured.VectorizeOp(made.pop(0), sizes)
    structured.structured_vectorize(steps.match(functions, "linalg.fill"), [])
    steps.vectorize_product(steps.match_product(script.root, spec), functions, spec)
    structured.VectorizeOp(steps.match_marked(functions, _RESULT), [bm, bn])

    def patterns() -> None:
        vector.apply_patterns_vector_lower_masked_transfers()
        tensor.apply_patterns_tensor_fold_tensor_subset_ops_into_vector_transfers()
        transform.apply_patterns_canonicalization()

    steps.apply(functions, patterns, cse=True)
    loop.HoistLoopInvariantSubsetsOp(steps.match(functions, "scf.for"))
    steps.apply(functions, patterns, cse=True)
