# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The function of a thread of attention: what it takes, and its module."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.build.views import DYNAMIC
from tilewright.codegen.attention.chain import Chain
from tilewright.codegen.gpu.tma_tiles import Box
from tilewright.codegen.gpu_attention import group_function
from tilewright.codegen.gpu_attention.heads import rank_of
from tilewright.codegen.gpu_attention.thread import Thread
from tilewright.errors import LoweringError
from tilewright.mlir import ir
from tilewright.mlir.dialects import func
from tilewright.payload.abi import ENTRY
from tilewright.schedules.decisions import SharedSoftmax, WarpGroupSoftmax
from tilewright.targets.gpu import GpuTarget


@dataclass(frozen=True, slots=True)
class Form:
    """What a form of the kernel is for.

    Attributes:
        aligned: Whether rows of queries, keys and values start at multiples of 16 bytes.
        boxed: Whether rows of the result do.
    """

    aligned: bool
    boxed: bool


def build(
    chain: Chain, sizes: SharedSoftmax | WarpGroupSoftmax, target: GpuTarget, form: Form
) -> tuple[ir.Module, list[Box]]:
    """The module of a thread's function, which takes the operands in their order, the result, and a tensor map of each of the boxes.

    Needs an active context and location.
    """
    module = ir.Module.create()
    entry = 1 if chain.packed else len(chain.batch)
    kinds = {"q": chain.q, "k": chain.k, "v": chain.v, "mask": chain.mask}
    ranks = {name: rank_of(chain, name) for name in "qkv"}
    ranks |= {"mask": len(chain.mask_axes), "q_starts": 1, "k_starts": 1, "lengths": entry, "table": entry + 1}
    names = sorted(chain.arguments, key=lambda name: chain.arguments[name])
    types = [_memref(str(kinds.get(name, "i32")), ranks[name]) for name in names]
    types.append(_memref(chain.out, ranks["q"]))
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(ENTRY, ir.FunctionType.get(types, []), visibility="private")
    boxes: list[Box] = []
    with ir.InsertionPoint(function.add_entry_block()):
        *operands, out = function.arguments
        named = dict(zip(names, operands, strict=True))
        if isinstance(sizes, SharedSoftmax):
            Thread(chain, sizes, target, named, out, aligned=form.aligned).emit()
        else:
            if not form.aligned:
                raise LoweringError("rows that are not aligned cannot be copied in boxes", stage="threads")
            boxes = group_function.emit(function, chain, sizes, target, named, out, boxed=form.boxed)
        func.return_([])
    return module, boxes


def lanes(sizes: SharedSoftmax | WarpGroupSoftmax) -> int:
    """Elements of the vectors that a thread computes with."""
    if isinstance(sizes, WarpGroupSoftmax):
        return 2
    return {"mma_sync": 2, "matrix_cores": 4, "threads": 4}[sizes.instructions]


def _memref(element: str, rank: int) -> ir.MemRefType:
    layout = ir.StridedLayoutAttr.get(0, [*[DYNAMIC] * (rank - 1), 1])
    return ir.MemRefType.get([DYNAMIC] * rank, ir.Type.parse(element), layout)
