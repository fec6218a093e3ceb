# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels in Triton, which its compiler writes as PTX without a GPU: ``python triton_kernels.py FOLDER``.

Run by the Python that has Triton. Each kernel is FOLDER/NAME.ptx, with its launch in NAME.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from triton.backends.compiler import GPUTarget  # pyright: ignore[reportMissingImports]
from triton.compiler import ASTSource  # pyright: ignore[reportMissingImports]


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SUM: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), SUM)
    for first in range(0, k, BK):
        depth = first + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
        y = tl.load(
            b + depth[:, None] * n + columns[None, :], mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0
        )
        acc = tl.dot(x, y, acc, out_dtype=SUM)
    tl.store(c + rows[:, None] * n + columns[None, :], acc, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def split_matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Parts of K by different blocks, which add up what they have."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for number in range(tl.program_id(2), tl.cdiv(k, BK), tl.num_programs(2)):
        depth = number * BK + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
        y = tl.load(
            b + depth[:, None] * n + columns[None, :], mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0
        )
        acc = tl.dot(x, y, acc)
    tl.atomic_add(c + rows[:, None] * n + columns[None, :], acc, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def boxes_matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALIZED: tl.constexpr):
    """By tensor maps; where SPECIALIZED, copying and multiplying are different warps'."""
    row = tl.program_id(0) * BM
    for tile in tl.range(tl.program_id(1), tl.cdiv(n, BN), tl.num_programs(1), warp_specialize=SPECIALIZED):
        acc = tl.zeros((BM, BN), tl.float32)
        for first in range(0, k, BK):
            acc = tl.dot(a.load([row, first]), b.load([first, tile * BN]), acc)
        c.store([row, tile * BN], acc.to(tl.float16))


@triton.jit
def attention(q, k, v, out, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """Online softmax over blocks of keys; `scale` is times the logarithm of e to base 2."""
    start, offset = tl.program_id(0) * BM, tl.program_id(1) * length * D
    rows, across = start + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + offset + rows[:, None] * D + across[None, :], mask=rows[:, None] < length, other=0.0)
    acc = tl.zeros((BM, D), tl.float32)
    largest = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for first in range(0, tl.minimum(start + BM, length) if CAUSAL else length, BN):
        keys = first + tl.arange(0, BN)
        key = tl.load(k + offset + keys[None, :] * D + across[:, None], mask=keys[None, :] < length, other=0.0)
        scores = tl.dot(query, key) * scale
        seen = (keys[None, :] < length) & ((keys[None, :] <= rows[:, None]) | (not CAUSAL))
        scores = tl.where(seen, scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - larger[:, None])
        factor = tl.exp2(largest - larger)
        total = total * factor + tl.sum(weights, 1)
        value = tl.load(v + offset + keys[:, None] * D + across[None, :], mask=keys[:, None] < length, other=0.0)
        acc = tl.dot(weights.to(value.dtype), value, acc * factor[:, None])
        largest = larger
    result = (acc / total[:, None]).to(query.dtype)
    tl.store(out + offset + rows[:, None] * D + across[None, :], result, mask=rows[:, None] < length)


@triton.jit
def normalized(x, out, weights, n, BLOCK: tl.constexpr):
    """Layer normalization of rows."""
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    around = tl.where(at < n, row - tl.sum(row, 0) / n, 0)
    variance = tl.sum(around * around, 0) / n
    result = around * tl.rsqrt(variance + 1e-5) * tl.load(weights + at, mask=at < n)
    tl.store(out + tl.program_id(0) * n + at, result, mask=at < n)


@triton.jit
def ordered(x, out, n, BLOCK: tl.constexpr):
    """Rows sorted."""
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=float("inf"))
    tl.store(out + tl.program_id(0) * n + at, tl.sort(row), mask=at < n)


KERNELS: list[tuple[str, Any, int, dict[str, Any], dict[str, int]]] = []
"""Name, function, capability, types of what it takes or the values of constants, and options."""
for _chip in (80, 90):
    for _type in ("fp16", "bf16", "fp32", "i8", "fp8e4nv", "fp8e5"):
        if _chip == 80 and _type.startswith("fp8"):
            continue
        _sums = "i32" if _type == "i8" else "fp32"
        _given: dict[str, Any] = {
            "a": f"*{_type}",
            "b": f"*{_type}",
            "c": f"*{_sums}",
            "m": "i32",
            "n": "i32",
            "k": "i32",
        }
        _sizes: dict[str, Any] = {
            "BM": 64,
            "BN": 64,
            "BK": 64 if _type != "fp32" else 32,
            "SUM": tl.int32 if _type == "i8" else tl.float32,
        }
        KERNELS.append((f"matmul_{_type}_{_chip}", matmul, _chip, {**_given, **_sizes}, {"num_stages": 3}))
    _halves = {
        "a": "*bf16",
        "b": "*bf16",
        "c": "*fp32",
        "m": "i32",
        "n": "i32",
        "k": "i32",
        "BM": 64,
        "BN": 32,
        "BK": 32,
    }
    KERNELS.append((f"split_matmul_bf16_{_chip}", split_matmul, _chip, _halves, {"num_stages": 3}))
    for _type, _causal in (("fp16", True), ("bf16", False)):
        _given = dict.fromkeys(("q", "k", "v", "out"), f"*{_type}") | {"length": "i32", "scale": "fp32"}
        _sizes = {"D": 64, "BM": 64, "BN": 32 if _chip == 80 else 64, "CAUSAL": _causal}
        KERNELS.append((f"attention_{_type}_{_chip}", attention, _chip, {**_given, **_sizes}, {"num_stages": 2}))
    _given = {"x": "*fp32", "out": "*fp32", "weights": "*fp32", "n": "i32", "BLOCK": 1024}
    KERNELS.append((f"normalized_{_chip}", normalized, _chip, _given, {}))
    KERNELS.append((f"ordered_{_chip}", ordered, _chip, {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": 128}, {}))
for _specialized in (False, True):
    _boxes = {"a": "tensordesc<fp16[64,64]>", "b": "tensordesc<fp16[64,64]>", "c": "tensordesc<fp16[64,64]>"}
    _given = {**_boxes, "m": "i32", "n": "i32", "k": "i32", "BM": 64, "BN": 64, "BK": 64, "SPECIALIZED": _specialized}
    KERNELS.append((f"boxes_matmul_{int(_specialized)}", boxes_matmul, 90, _given, {"num_stages": 3}))


def main(folder: Path) -> None:
    """Compiles all."""
    for name, function, chip, given, options in KERNELS:
        signature = {each: kind if isinstance(kind, str) else "constexpr" for each, kind in given.items()}
        constants = {each: kind for each, kind in given.items() if not isinstance(kind, str)}
        pointers = [number for number, kind in enumerate(given.values()) if isinstance(kind, str) and kind[0] == "*"]
        divisible = pointers + [list(given).index(each) for each in ("n", "k") if each in given and "matmul" in name]
        marks = {(number,): [["tt.divisibility", 16]] for number in divisible}
        source = ASTSource(function, signature, constexprs=constants, attrs=marks)
        made = triton.compile(source, target=GPUTarget("cuda", chip, 32), options={"num_warps": 4, **options})
        (folder / f"{name}.ptx").write_text(made.asm["ptx"])
        launch = {"kernel": made.metadata.name, "shared": made.metadata.shared}
        (folder / f"{name}.json").write_text(json.dumps(launch))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
