# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the machine can do at most, measured: multiply-adds that touch registers only, and bytes streamed through.

Both loops are written as LLVM IR and compiled for the same target as the kernel. LLVM's optimiser never sees them, only its
code generator, and all values come from memory, so nothing is folded away; every multiply-add counts two operations.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np

from tilewright.bench.operands import aligned
from tilewright.bench.timing import Clock, calibrate, pinned
from tilewright.dtypes import dtype as dtype_of
from tilewright.errors import SpecError
from tilewright.targets import Target

_FUSED = frozenset({"fma", "avx512f", "neon", "sve"})
"""Features of which any one means that a multiply-add is one instruction."""

_LLVM_TYPES = {"f32": "float", "f64": "double"}
_STREAMS = 8  # vectors a step of the streaming loop: enough loads in flight, few enough registers everywhere


class Code(Protocol):
    """Machine code in memory, alive as long as the object is."""

    @property
    def address(self) -> int:
        """Where the entry is."""
        ...


def _vector(target: Target, dtype: str) -> tuple[str, int]:
    """LLVM's type of a full register of `dtype`, and its lanes."""
    row = dtype_of(dtype)
    if dtype not in _LLVM_TYPES:
        raise SpecError(f"no peak loop for element type {dtype}", expected=f"one of {', '.join(_LLVM_TYPES)}")
    return f"<{target.lanes(row)} x {_LLVM_TYPES[dtype]}>", target.lanes(row)


def _attributes(target: Target) -> str:
    """Function attributes that let LLVM use the target's whole registers, whatever its tuning prefers."""
    width = target.vector_bits
    return f'"prefer-vector-width"="{width}" "min-legal-vector-width"="{width}" "tune-cpu"="{target.tune_cpu}"'


def accumulators(target: Target) -> int:
    """How many independent sums the peak loop keeps: all registers but the two factors, as that hides any latency."""
    return target.vector_registers - 2


def fma_ir(target: Target, dtype: str) -> str:
    """LLVM IR of ``void peak(i64 n, ptr data)``: n times one multiply-add into each of `accumulators` registers.

    `data` holds the two factors and the accumulators' first values, a register each; the sum of all goes to one register more.
    A target without fused multiply-add gets a multiply and an add.
    """
    kind, _ = _vector(target, dtype)
    count = accumulators(target)
    name = f"v{target.lanes(dtype_of(dtype))}f{dtype_of(dtype).bits}"
    fused = bool(target.features & _FUSED)
    declaration = f"declare {kind} @llvm.fma.{name}({kind}, {kind}, {kind})\n" if fused else ""

    def step(i: int) -> str:
        if fused:
            return f"  %n{i} = call {kind} @llvm.fma.{name}({kind} %a{i}, {kind} %x, {kind} %y)\n"
        return f"  %p{i} = fmul {kind} %a{i}, %x\n  %n{i} = fadd {kind} %p{i}, %y\n"

    def load(what: str, slot: int) -> str:
        address = f"  %{what}.at = getelementptr {kind}, ptr %data, i64 {slot}\n"
        return f"{address}  %{what} = load {kind}, ptr %{what}.at\n"

    every = range(count)
    body = "".join(step(i) for i in every)
    starts = "".join(load(f"s{i}", 2 + i) for i in every)
    phis = "".join(f"  %a{i} = phi {kind} [ %s{i}, %entry ], [ %n{i}, %loop ]\n" for i in every)
    sums = "".join(f"  %t{i} = fadd {kind} %{f't{i - 1}' if i > 1 else 'n0'}, %n{i}\n" for i in range(1, count))
    return (
        f"{declaration}define void @peak(i64 %n, ptr %data) {_attributes(target)} {{\nentry:\n"
        f"{load('x', 0)}{load('y', 1)}{starts}  br label %loop\n"
        f"loop:\n  %i = phi i64 [ %n, %entry ], [ %i.next, %loop ]\n{phis}{body}"
        "  %i.next = sub i64 %i, 1\n  %more = icmp ne i64 %i.next, 0\n  br i1 %more, label %loop, label %done\n"
        f"done:\n{sums}  %sink = getelementptr {kind}, ptr %data, i64 {2 + count}\n"
        f"  store {kind} %t{count - 1}, ptr %sink\n  ret void\n}}\n"
    )


def stream_ir(target: Target) -> str:
    """LLVM IR of ``void stream(i64 passes, i64 steps, ptr data, ptr sink)``: reads `steps` times eight registers, `passes` times."""
    kind, lanes = _vector(target, "f32")
    kind = kind.replace("float", "i32")
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
        f"define void @stream(i64 %passes, i64 %steps, ptr %data, ptr %sink) {_attributes(target)} {{\n"
        f"entry:\n  br label %outer\nouter:\n  %p = phi i64 [ %passes, %entry ], [ %p.next, %latch ]\n{outer}  br label %loop\n"
        f"loop:\n  %i = phi i64 [ 0, %outer ], [ %i.next, %loop ]\n{phis}"
        f"  %at = mul i64 %i, {lanes * 4 * _STREAMS}\n  %block = getelementptr i8, ptr %data, i64 %at\n{body}"
        "  %i.next = add i64 %i, 1\n  %more = icmp ult i64 %i.next, %steps\n  br i1 %more, label %loop, label %latch\n"
        "latch:\n  %p.next = sub i64 %p, 1\n  %again = icmp ne i64 %p.next, 0\n  br i1 %again, label %outer, label %done\n"
        f"done:\n{mix}  store {kind} %t{_STREAMS - 1}, ptr %sink\n  ret void\n}}\n"
    )


def load(ir: str, target: Target, entry: str) -> Code:
    """Compiles LLVM IR for `target`, unoptimised but for code generation, and loads it into this process."""
    from tilewright import _runtime
    from tilewright.emit import code

    return _runtime.Code(code.object_file(ir, target), entry)


class Rate:
    """A native loop whose rate is sampled: so many units a step, on one or more pinned threads at once."""

    def __init__(
        self, calls: Sequence[Callable[[int], object]], units: float, cores: Sequence[int], clock: Clock
    ) -> None:
        """Takes one call a thread, each given the number of steps to do; `units` is what a step of all of them does."""
        self._calls = calls
        self._units = units
        self._clock = clock
        self._pools = [ThreadPoolExecutor(1) for _ in calls[1:]]
        for pool, core in zip(self._pools, cores[1:], strict=True):
            pool.submit(_pin_this_thread, core).result()
        self._first_core = cores[0]

    def close(self) -> None:
        """Ends the threads."""
        for pool in self._pools:
            pool.shutdown()

    def calibrate(self, min_seconds: float) -> int:
        """How many steps last at least `min_seconds`."""
        return calibrate(self._seconds, min_seconds)

    def sample(self, steps: int) -> float:
        """Units a second over `steps` steps."""
        return self._units * steps / self._seconds(steps)

    def _seconds(self, steps: int) -> float:
        with pinned((self._first_core,)):
            start = self._clock()
            others = [pool.submit(call, steps) for pool, call in zip(self._pools, self._calls[1:], strict=True)]
            self._calls[0](steps)
            for other in others:
                other.result()
            return (self._clock() - start) * 1e-9


def _pin_this_thread(core: int) -> None:
    os.sched_setaffinity(0, {core})


class FmaPeak(Rate):
    """Floating-point operations a second in registers: the peak that percentages refer to."""

    def __init__(self, target: Target, dtype: str, cores: Sequence[int], clock: Clock = time.perf_counter_ns) -> None:
        """Compiles the loop; one thread on each of `cores`."""
        _, lanes = _vector(target, dtype)
        self._code = load(fma_ir(target, dtype), target, "peak")
        function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(self._code.address)
        slots = 2 + accumulators(target) + 1
        # x = y = 1/2 lets every accumulator converge to 1: never an infinity, never a denormal.
        self._data = [aligned((slots, lanes), np.dtype(dtype_of(dtype).numpy)) for _ in cores]
        for data in self._data:
            data.fill(0.5)

        def bind(data: np.ndarray) -> Callable[[int], object]:
            address = data.ctypes.data
            return lambda steps: function(steps, address)

        units = 2.0 * lanes * accumulators(target) * len(cores)
        super().__init__([bind(data) for data in self._data], units, cores, clock)


class StreamPeak(Rate):
    """Bytes a second read from a working set of a given size, from whichever level of the memory it lies in."""

    def __init__(self, target: Target, size: int, cores: Sequence[int], clock: Clock = time.perf_counter_ns) -> None:
        """Compiles the loop and makes the working set of `size` bytes, an equal part of it for each of `cores`."""
        register = target.vector_bits // 8
        step = register * _STREAMS
        steps = max(1, size // len(cores) // step)
        self._code = load(stream_ir(target), target, "stream")
        function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(
            self._code.address
        )
        self._data = [aligned(((steps + 1) * step,), np.dtype(np.uint8)) for _ in cores]
        for data in self._data:
            data.fill(1)

        def bind(data: np.ndarray) -> Callable[[int], object]:
            address, sink = data.ctypes.data, data.ctypes.data + steps * step
            return lambda passes: function(passes, steps, address, sink)

        super().__init__([bind(data) for data in self._data], float(steps * step * len(cores)), cores, clock)
