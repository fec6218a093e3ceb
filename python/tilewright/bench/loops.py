# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The loops that show the machine's limits, as LLVM IR: arithmetic on registers only, and reading.

LLVM's optimizer never sees them, only its code generator, and all values come from memory, so nothing is folded away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.dtypes import dtype as dtype_of
from tilewright.dtypes import to_numpy
from tilewright.targets import Target
from tilewright.targets.dots import AMX_ROWS, Dot

_LLVM_TYPES = {"f32": "float", "f64": "double", "f16": "half", "bf16": "bfloat", "i16": "i16", "i8": "i8", "i32": "i32"}
_STREAMS = 8  # vectors a step of the streaming loop: enough loads in flight, few enough registers everywhere
_TILE_BYTES = 1024  # AMX: 16 rows of 64 bytes
_TILE_SUMS = 6  # of the eight tiles, two hold the factors


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of arithmetic on registers.

    Attributes:
        name: The instruction.
        ir: LLVM IR of ``void peak(i64 n, ptr data)``, n steps on what lies at `data`.
        flops: Operations of one step: two for each product that is added to a sum.
        start: What has to lie at `data` before the first call; a call may change it.
        products: Instructions of one step that multiply.
    """

    name: str
    ir: str
    flops: int
    start: bytes
    products: int


def peak_loop(target: Target, operands: tuple[str, str]) -> Loop:
    """The best loop of the target for products of two element types: AMX tiles, dot products, or multiply-adds.

    Types that the target has no instruction for count at the rate of the type that they are widened to.
    """
    row = target.dot(*operands)
    if row.kind != "multiply_add":
        return _tile_loop(target, row) if row.is_tile else _dot_loop(target, row)
    a = operands[0]
    if a == "f16" and "avx512fp16" in target.features:
        return _fma_loop(target, a)
    accumulator = dtype_of(a).accumulator
    # Integers widened to 32 bits: as many lanes as f32 has, and no faster.
    return _fma_loop(target, accumulator if dtype_of(accumulator).kind == "float" else "f32")


def latency_loop(target: Target) -> Loop:
    """Multiply-adds of f32 of which each needs the sum of the one before: a step takes as long as one."""
    return _fma_loop(target, "f32", sums=1)


CLOCK_CYCLES = 64
"""Cycles of a step of `clock_loop`."""


def clock_loop(target: Target) -> Loop:
    """Steps of `CLOCK_CYCLES` cycles, which count as its operations: of one cycle each, and each needs the last.

    Neither LLVM nor a core can shorten the chain: exclusive or and addition by numbers that are only known when it runs.
    """
    chain = "".join(
        f"  %a{i + 1} = {'add' if i % 2 else 'xor'} i64 %a{i}, %{'y' if i % 2 else 'x'}\n" for i in range(CLOCK_CYCLES)
    )
    ir = (
        f"define void @peak(i64 %n, ptr %data) {attributes(target)} {{\nentry:\n  %x = load i64, ptr %data\n"
        "  %y.at = getelementptr i8, ptr %data, i64 8\n  %y = load i64, ptr %y.at\n  br label %loop\n"
        f"loop:\n  %i = phi i64 [ %n, %entry ], [ %i.next, %loop ]\n  %a0 = phi i64 [ %x, %entry ], [ %a{CLOCK_CYCLES}, %loop ]\n{chain}"
        "  %i.next = sub i64 %i, 1\n  %more = icmp ne i64 %i.next, 0\n  br i1 %more, label %loop, label %done\n"
        f"done:\n  store i64 %a{CLOCK_CYCLES}, ptr %data\n  ret void\n}}\n"
    )
    return Loop("clock", ir, CLOCK_CYCLES, np.arange(1, 3, dtype=np.int64).tobytes(), 0)


def accumulators(target: Target) -> int:
    """How many independent sums a loop keeps: all registers but the two factors, as that hides any latency."""
    return target.vector_registers - 2


def attributes(target: Target) -> str:
    """Function attributes that let LLVM use the target's whole registers, whatever its tuning prefers."""
    width = target.vector_bits
    return f'"prefer-vector-width"="{width}" "min-legal-vector-width"="{width}" "tune-cpu"="{target.tune_cpu}"'


def _fma_loop(target: Target, dtype: str, sums: int = 0) -> Loop:
    """Multiply-adds to as many sums, as many as hide their latency by default; a target without fused ones gets a multiply and an add."""
    sums = sums or accumulators(target)
    lanes = target.vector_bits // dtype_of(dtype).bits
    kind = f"<{lanes} x {_LLVM_TYPES[dtype]}>"
    name = f"llvm.fma.v{lanes}f{dtype_of(dtype).bits}"
    if target.fuses:
        declaration = f"declare {kind} @{name}({kind}, {kind}, {kind})\n"
        step = f"  %n{{i}} = call {kind} @{name}({kind} %a{{i}}, {kind} %x, {kind} %y)\n"
    else:
        declaration, step = "", f"  %p{{i}} = fmul {kind} %a{{i}}, %x\n  %n{{i}} = fadd {kind} %p{{i}}, %y\n"
    ir = _register_loop(target, declaration, (kind, kind), step, sums)
    return Loop("multiply-add", ir, 2 * lanes * sums, _start(dtype, _register_bytes(target)), sums)


def _dot_loop(target: Target, row: Dot) -> Loop:
    """Dot products of groups, each adding to a sum or followed by an addition."""
    element = row.element
    width = {"i8": 8, "i16": 16, "bf16": 16, "f16": 16}[element]
    sums, add = ("float", "fadd") if element in ("bf16", "f16") else ("i32", "add")
    acc, factor = f"<{row.bits // 32} x {sums}>", f"<{row.bits // width} x {_LLVM_TYPES[element]}>"
    if row.adds:
        declaration = f"declare {acc} @{row.intrinsic}({acc}, {factor}, {factor})\n"
        step = f"  %n{{i}} = call {acc} @{row.intrinsic}({acc} %a{{i}}, {factor} %x, {factor} %y)\n"
    else:
        # The running sum is the second factor: the product of two constants would be computed once, ahead of the loop.
        declaration = f"declare {acc} @{row.intrinsic}({factor}, {factor})\n"
        step = (
            f"  %f{{i}} = bitcast {acc} %a{{i}} to {factor}\n"
            f"  %p{{i}} = call {acc} @{row.intrinsic}({factor} %x, {factor} %f{{i}})\n"
            f"  %n{{i}} = {add} {acc} %p{{i}}, %a{{i}}\n"
        )
    ir = _register_loop(target, declaration, (acc, factor), step, accumulators(target))
    flops = 2 * row.depth * (row.bits // 32) * accumulators(target)
    return Loop(row.name, ir, flops, _start(element, _register_bytes(target)), accumulators(target))


def _register_bytes(target: Target) -> int:
    return (2 + accumulators(target) + 1) * target.vector_bits // 8


def _start(element: str, size: int) -> bytes:
    """Values that never become infinite or subnormal: with 1/2 a multiply-add converges to 1, and a dot product to 2²³."""
    if element.startswith("i"):
        return bytes([1]) * size
    half = np.asarray(0.5, to_numpy(dtype_of(element))).tobytes()
    return half * (size // len(half))


def _register_loop(target: Target, declaration: str, kinds: tuple[str, str], step: str, count: int) -> str:
    """N times `step` for each accumulator, ``%a{i}`` to ``%n{i}``, with the factors ``%x`` and ``%y``.

    A register each of `data` holds the factors and the accumulators' first values; the sum of all goes to one more.
    """
    kind, factor = kinds
    size = target.vector_bits // 8
    add = "add" if " x i" in kind else "fadd"

    def load(what: str, slot: int, loaded: str) -> str:
        address = f"  %{what}.at = getelementptr i8, ptr %data, i64 {slot * size}\n"
        return f"{address}  %{what} = load {loaded}, ptr %{what}.at\n"

    every = range(count)
    starts = "".join(load(f"s{i}", 2 + i, kind) for i in every)
    phis = "".join(f"  %a{i} = phi {kind} [ %s{i}, %entry ], [ %n{i}, %loop ]\n" for i in every)
    sums = "".join(f"  %t{i} = {add} {kind} %{f't{i - 1}' if i > 1 else 'n0'}, %n{i}\n" for i in range(1, count))
    return (
        f"{declaration}define void @peak(i64 %n, ptr %data) {attributes(target)} {{\nentry:\n"
        f"{load('x', 0, factor)}{load('y', 1, factor)}{starts}  br label %loop\n"
        f"loop:\n  %i = phi i64 [ %n, %entry ], [ %i.next, %loop ]\n{phis}{''.join(step.format(i=i) for i in every)}"
        "  %i.next = sub i64 %i, 1\n  %more = icmp ne i64 %i.next, 0\n  br i1 %more, label %loop, label %done\n"
        f"done:\n{sums}  %sink = getelementptr i8, ptr %data, i64 {(2 + count) * size}\n"
        f"  store {kind} %{f't{count - 1}' if count > 1 else 'n0'}, ptr %sink\n  ret void\n}}\n"
    )


def _tile_loop(target: Target, row: Dot) -> Loop:
    """AMX: six sums, each of 16×16 elements of 32 bits. `data` holds the factors and, after them, the tile configuration."""
    name = "llvm.x86." + ("tdpbusd" if row.element == "i8" else row.name)
    body = "".join(f"  call void @{name}(i8 {i}, i8 {_TILE_SUMS}, i8 {_TILE_SUMS + 1})\n" for i in range(_TILE_SUMS))
    zeros = "".join(f"  call void @llvm.x86.tilezero(i8 {i})\n" for i in range(_TILE_SUMS))
    ir = (
        f"declare void @{name}(i8 immarg, i8 immarg, i8 immarg)\ndeclare void @llvm.x86.tilezero(i8 immarg)\n"
        "declare void @llvm.x86.tileloadd64(i8 immarg, ptr, i64)\ndeclare void @llvm.x86.ldtilecfg(ptr)\n"
        "declare void @llvm.x86.tilestored64(i8 immarg, ptr, i64)\ndeclare void @llvm.x86.tilerelease()\n"
        f"define void @peak(i64 %n, ptr %data) {attributes(target)} {{\nentry:\n"
        f"  %y = getelementptr i8, ptr %data, i64 {_TILE_BYTES}\n"
        f"  %config = getelementptr i8, ptr %data, i64 {2 * _TILE_BYTES}\n"
        f"  call void @llvm.x86.ldtilecfg(ptr %config)\n{zeros}"
        f"  call void @llvm.x86.tileloadd64(i8 {_TILE_SUMS}, ptr %data, i64 64)\n"
        f"  call void @llvm.x86.tileloadd64(i8 {_TILE_SUMS + 1}, ptr %y, i64 64)\n  br label %loop\n"
        f"loop:\n  %i = phi i64 [ %n, %entry ], [ %i.next, %loop ]\n{body}"
        "  %i.next = sub i64 %i, 1\n  %more = icmp ne i64 %i.next, 0\n  br i1 %more, label %loop, label %done\n"
        f"done:\n  call void @llvm.x86.tilestored64(i8 0, ptr %data, i64 64)\n"
        "  call void @llvm.x86.tilerelease()\n  ret void\n}\n"
    )
    flops = 2 * _TILE_SUMS * AMX_ROWS * AMX_ROWS * row.depth * AMX_ROWS
    return Loop(row.name, ir, flops, _start(row.element, 2 * _TILE_BYTES) + _TILE_CONFIGURATION, _TILE_SUMS)


_TILE_CONFIGURATION = bytes([1, *([0] * 15), *([64, 0] * 8), *([0] * 16), *([16] * 8), *([0] * 8)])
"""What LDTILECFG reads: palette 1, eight tiles of 16 rows of 64 bytes (Intel SDM, volume 1, chapter 18)."""


def stream_loop(target: Target) -> str:
    """LLVM IR of ``void stream(i64 passes, i64 steps, ptr data, ptr sink)``: reads `steps` times eight registers, `passes` times."""
    lanes = target.vector_bits // 32
    kind = f"<{lanes} x i32>"
    every = range(_STREAMS)
    phis = "".join(f"  %a{i} = phi {kind} [ %o{i}, %outer ], [ %n{i}, %loop ]\n" for i in every)
    outer = "".join(f"  %o{i} = phi {kind} [ zeroinitializer, %entry ], [ %n{i}, %latch ]\n" for i in every)
    body = "".join(
        f"  %at{i} = getelementptr {kind}, ptr %block, i64 {i}\n  %v{i} = load {kind}, ptr %at{i}\n"
        f"  %n{i} = xor {kind} %a{i}, %v{i}\n"
        for i in every
    )
    mix = "".join(f"  %t{i} = xor {kind} %{f't{i - 1}' if i > 1 else 'n0'}, %n{i}\n" for i in range(1, _STREAMS))
    return (
        f"define void @stream(i64 %passes, i64 %steps, ptr %data, ptr %sink) {attributes(target)} {{\n"
        f"entry:\n  br label %outer\nouter:\n  %p = phi i64 [ %passes, %entry ], [ %p.next, %latch ]\n{outer}  br label %loop\n"
        f"loop:\n  %i = phi i64 [ 0, %outer ], [ %i.next, %loop ]\n{phis}"
        f"  %at = mul i64 %i, {stream_step(target)}\n  %block = getelementptr i8, ptr %data, i64 %at\n{body}"
        "  %i.next = add i64 %i, 1\n  %more = icmp ult i64 %i.next, %steps\n  br i1 %more, label %loop, label %latch\n"
        "latch:\n  %p.next = sub i64 %p, 1\n  %again = icmp ne i64 %p.next, 0\n  br i1 %again, label %outer, label %done\n"
        f"done:\n{mix}  store {kind} %t{_STREAMS - 1}, ptr %sink\n  ret void\n}}\n"
    )


def stream_step(target: Target) -> int:
    """Bytes that a step of the streaming loop reads."""
    return target.vector_bits // 8 * _STREAMS
