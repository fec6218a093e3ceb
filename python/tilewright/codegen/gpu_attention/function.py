# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The function of a thread of attention: what it takes, and its module."""

from __future__ import annotations

from tilewright.build.views import DYNAMIC
from tilewright.codegen.attention.chain import Chain
from tilewright.codegen.gpu_attention.thread import Thread
from tilewright.mlir import ir
from tilewright.mlir.dialects import func
from tilewright.payload.abi import ENTRY
from tilewright.schedules.decisions import SharedSoftmax
from tilewright.targets.gpu import GpuTarget


def build(chain: Chain, sizes: SharedSoftmax, target: GpuTarget, *, aligned: bool) -> ir.Module:
    """The module of a thread's function, which takes the operands in their order, and the result. Needs an active context and location.

    `aligned` says that rows of queries, keys and values start at multiples of 16 bytes.
    """
    module = ir.Module.create()
    lead = len(chain.batch) + 1
    kinds = {"q": chain.q, "k": chain.k, "v": chain.v, "mask": chain.mask}
    names = sorted(chain.arguments, key=lambda name: chain.arguments[name])
    ranks = [len(chain.mask_axes) if name == "mask" else lead + 2 for name in names]
    types = [_memref(str(kinds[name]), rank) for name, rank in zip(names, ranks, strict=True)]
    types.append(_memref(chain.out, lead + 2))
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(ENTRY, ir.FunctionType.get(types, []), visibility="private")
    with ir.InsertionPoint(function.add_entry_block()):
        *operands, out = function.arguments
        Thread(chain, sizes, target, dict(zip(names, operands, strict=True)), out, aligned=aligned).emit()
        func.return_([])
    return module


def lanes(sizes: SharedSoftmax) -> int:
    """Elements of the vectors that a thread computes with."""
    return {"mma_sync": 2, "matrix_cores": 4, "threads": 4}[sizes.instructions]


def _memref(element: str, rank: int) -> ir.MemRefType:
    layout = ir.StridedLayoutAttr.get(0, [*[DYNAMIC] * (rank - 1), 1])
    return ir.MemRefType.get([DYNAMIC] * rank, ir.Type.parse(element), layout)
