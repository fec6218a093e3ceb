# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The scratch memory of a kernel is bounded, however large the operands are. Nothing is run: the operands would not fit."""

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.emit import stages
from tilewright.schedules import make

LARGE = 2**31 - 1
SHAPES = [
    (1024, 1024, 1024),
    (128, 3072, 768),
    (8, 28672, 4096),
    (65536, 64, 64),
    (64, 64, 65536),
    (LARGE, 64, 64),
    (64, LARGE, 64),
    (64, 64, LARGE),
    (2**20, 2**20, 2**20),
    (2**20, 2**20, 3),
]
TYPES = ["f32", "f64", "f16", "bf16", "u8,i8,i32"]
ROWS = ["x86-64", "x86-64-v3", "x86-64-v4", "cascadelake", "sapphirerapids", "znver5"]


def bound(target: tw.Target, threads: int) -> int:
    """Bytes, as docs/explanation/packed.md says: 4 MiB for B, an L2 for each thread's A and what is rounded up."""
    return (4 << 20) + threads * target.l2.bytes + (64 << 10)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("types", TYPES)
def test_packed_panels_are_bounded(row, types):
    target = targets.get(row)
    for shape in SHAPES:
        for threads in (1, 4) if types == "f32" else (1,):
            spec = tw.MatmulSpec.from_dtypes(*shape, types)
            plan = make.make(spec, target, "packed", threads=threads)
            built = stages.build(spec, target, plan, until="bufferized")
            assert 0 < built.workspace <= bound(target, threads), (shape, plan)
            assert "memref.alloc" not in built.texts["bufferized"], (shape, plan)


def test_a_b_that_comes_packed_takes_none_for_itself():
    spec = tw.MatmulSpec(64, 2**20, 2**20, b_packed=True)
    target = targets.get("x86-64-v4")
    built = stages.build(spec, target, make.make(spec, target), until="bufferized")
    assert built.workspace <= target.l2.bytes


def test_a_packed_b_is_little_larger_than_b():
    for n, k in ((768, 768), (1000, 1000), (4096, 4096), (2**20, 2**20)):
        spec = tw.MatmulSpec(64, n, k, b_packed=True)
        target = targets.get("x86-64-v4")
        built = stages.build(spec, target, make.make(spec, target), until="bufferized")
        assert built.packed is not None
        assert built.packed.nbytes <= 1.15 * 4 * n * k, (n, k)


def test_a_kernel_says_what_it_takes():
    spec = tw.MatmulSpec(64, 512, 512)
    kernel = tw.compile(spec, schedule="packed")
    sizes = kernel.metadata.parameters
    assert sizes["kc"] * sizes["nc"] * 4 < kernel.metadata.workspace_bytes <= bound(kernel.target, 1)
    assert tw.compile(spec, schedule="packed").metadata.workspace_bytes == kernel.metadata.workspace_bytes
    assert tw.compile(tw.MatmulSpec(4, 4, 4)).metadata.workspace_bytes == 0
    assert kernel(*(np.zeros((n, 512), np.float32) for n in (64, 512))).shape == (64, 512)


def test_buffers_between_products_take_the_room_of_earlier_ones():
    product = "%t{0} = linalg.matmul ins(%t{1}, %w : {2}, {2}) outs(%z : {2}) -> {2}"
    kind = "tensor<128x128xf32>"
    body = "\n".join(product.format(step, step - 1, kind) for step in range(1, 7))
    text = f"""func.func @f(%t0: {kind}, %w: {kind}) -> {kind} {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {kind}
      %z = linalg.fill ins(%zero : f32) outs(%e : {kind}) -> {kind}
      {body}
      return %t6 : {kind}
    }}"""
    plain = tw.compile_module(text, "x86-64-v3", plain=True)
    assert plain.metadata.workspace_bytes < 4 * 128 * 128 * 4
