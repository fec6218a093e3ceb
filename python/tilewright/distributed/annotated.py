# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the payload of a product over processes: linalg on the matrices as they are stored, with annotations of who has which blocks."""

from __future__ import annotations

from dataclasses import replace

from tilewright.distributed.shardings import Sharding, Split
from tilewright.errors import SpecError
from tilewright.mlir import ir
from tilewright.mlir.dialects import func, shard, tensor
from tilewright.payload import matmul
from tilewright.spec import MatmulSpec

_MAPS = "[affine_map<(m, n, k) -> ({})>, affine_map<(m, n, k) -> ({})>, affine_map<(m, n, k) -> (m, n)>]"


def build(spec: MatmulSpec, sharding: Sharding, grid: tuple[int, ...]) -> ir.Module:
    """The module of ``@matmul(A, B) -> C``, on all of the matrices, each of the shape that it is stored in. Needs an active `ir.Context`.

    Raises:
        SpecError: The product is no plain one of static extents.
    """
    _require_plain(spec)
    module = matmul.build(replace(spec, layout="nn"), ir.Context.current)
    function = module.body.operations[0]
    assert isinstance(function, func.FuncOp)
    _as_stored(function, spec)
    with ir.InsertionPoint.at_block_begin(module.body):
        shard.GridOp("grid", list(grid))
    _annotate(function, spec, sharding)
    return module


def _require_plain(spec: MatmulSpec) -> None:
    """Raises SpecError for what cannot be split."""
    plain = MatmulSpec.from_dtypes(spec.m, spec.n, spec.k, f"{spec.a},{spec.b},{spec.c}", layout=spec.layout)
    if spec.dynamic or spec.is_empty or replace(spec, deterministic=False) != replace(plain, acc=spec.acc):
        raise SpecError(
            f"{spec}",
            where="distributed",
            expected="one product of static extents above zero, without batch, epilogue, alpha, beta and packed B",
            remedy="Apply what follows it to each process's block of C",
        )
    if spec.multiplied != tuple(each.type.name for each in spec.operands) or spec.acc_type.kind == "complex":
        raise SpecError(
            f"{spec}", where="distributed", expected="real types that are multiplied as they are, not widened before"
        )


def _as_stored(function: func.FuncOp, spec: MatmulSpec) -> None:
    """Lets the function take A and B as they are stored, and no C: it is not read."""
    block = function.entry_block
    a, b, c = block.arguments
    product = next(use.owner.operation for use in a.uses)
    letters = []
    for argument, transposed, axes in zip((a, b), spec.transposed, ("mk", "kn"), strict=False):
        kind = ir.RankedTensorType(argument.type)
        if transposed:
            argument.set_type(ir.RankedTensorType.get(kind.shape[::-1], kind.element_type))
        letters.append(", ".join(axes[::-1] if transposed else axes))
    if any(spec.transposed):
        product.attributes["indexing_maps"] = ir.Attribute.parse(_MAPS.format(*letters))
    kind = ir.RankedTensorType(c.type)
    with ir.InsertionPoint.at_block_begin(block):
        c.replace_all_uses_with(tensor.empty(kind.shape, kind.element_type))
    block.erase_argument(2)
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type, b.type], [kind]))
    function.arg_attrs = [ir.DictAttr.get({}), ir.DictAttr.get({})]


def _annotate(function: func.FuncOp, spec: MatmulSpec, sharding: Sharding) -> None:
    """Says of the operands and of the result how they are split."""
    block = function.entry_block
    splits = [stored(split, turned) for split, turned in zip((sharding.a, sharding.b), spec.transposed, strict=False)]
    with ir.InsertionPoint.at_block_begin(block):
        for argument, split in zip(block.arguments, splits, strict=True):
            uses = list(argument.uses)
            marked = _marked(argument, split)
            for use in uses:
                use.owner.operands[use.operand_number] = marked
    last = block.operations[len(block.operations) - 1]
    with ir.InsertionPoint(last):
        # Where processes have parts of sums, each has its own of all.
        result = _marked(last.operands[0], sharding.sums or sharding.c)
        if sharding.sums is not None:
            result = _marked(result, sharding.c, for_users=True)
        last.operands[0] = result


def stored(split: Split, transposed: bool) -> Split:
    """A split of the rows and columns of a matrix as one of the dimensions that it is stored with."""
    return (split[1], split[0]) if transposed else split


def _marked(value: ir.Value, split: Split, *, for_users: bool = False) -> ir.Value:
    axes = ", ".join(f"[{', '.join(map(str, each))}]" for each in split)
    how = shard.ShardingOp("grid", ir.Attribute.parse(f"#shard<axisarray[{axes}]>"), [], [])
    return shard.ShardOp(value, how.results[0], annotate_for_users=for_users).results[0]
