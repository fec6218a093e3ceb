# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels for AMD's GPUs as the emulator of NVVM takes them: the same threads, blocks, barriers and shared memory under other names.

A matrix instruction, which NVVM has not, becomes a function: the threads of a wave leave their fragments in shared memory, meet, and
each sums up what the instruction gives it, by the layout that `codegen.gpu.matrix_cores` has from AMD's manuals. Other waves do not
wait for them: a barrier that a kernel lacks is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilewright.errors import LoweringError

if TYPE_CHECKING:
    from tilewright.codegen.gpu.matrix_cores import Instruction
    from tilewright.emit.gpu_stages import GpuStages

_NAMES = {
    f"@llvm.amdgcn.{ours}.{axis}": f"@llvm.nvvm.read.ptx.sreg.{theirs}.{axis}"
    for ours, theirs in (("workitem.id", "tid"), ("workgroup.id", "ctaid"))
    for axis in "xyz"
}
_BARRIER = "@llvm.nvvm.barrier.cta.sync.aligned.all"
_NAMED_BARRIER = "@llvm.nvvm.barrier.cta.sync.aligned.count"
_NAMED_BARRIERS = 15
"""Of a block, besides the one of all of its threads."""
_WARP = 32
"""Threads of a warp of the emulator's."""
_MATRIX = re.compile(r"^declare (<[^>]*>) @(llvm\.amdgcn\.w?mf?ma\.[\w.]+)\((.*)\).*$", re.MULTILINE)
_SCHEDULING = re.compile(r"^.*@llvm\.amdgcn\.sched\.barrier\(.*$", re.MULTILINE)
"""What only says in which order instructions are."""
_TYPE = re.compile(r"<[^>]*>|\w+")
_LLVM = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double", "i8": "i8", "u8": "i8"}
_WIDER = {"f16": "fpext", "bf16": "fpext", "i8": "sext", "u8": "zext"}
_BYTES = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "i8": 1}
_LANES = 16
"""Lanes that have the rows, or columns, of a fragment."""
_THREADS = 1024
"""Of a block at most."""


def translated(stages: GpuStages) -> str:
    """The LLVM IR of a kernel for AMDGPU as that of one for NVPTX.

    Raises:
        LoweringError: It has an intrinsic that is not known here.
    """
    text = stages.texts["llvmir"]
    for ours, theirs in _NAMES.items():
        text = text.replace(ours, theirs)
    text = text.replace("call void @llvm.amdgcn.s.barrier()", f"call void {_BARRIER}(i32 0)")
    text = text.replace("@llvm.amdgcn.s.barrier()", f"{_BARRIER}(i32)")
    text = _SCHEDULING.sub("", text)
    found = _MATRIX.search(text)
    if found is not None:
        text = _MATRIX.sub("", text, count=1).replace(f"@{found[2]}(", "@matrix_instruction(")
        text += f"declare void {_NAMED_BARRIER}(i32, i32)\ndeclare void @llvm.nvvm.bar.warp.sync(i32)\n"
        text += "\n".join(_definition(found[1], found[3], stages)) + "\n"
    unknown = re.findall(r"@(llvm\.amdgcn\.[\w.]+)", text)
    if unknown:
        raise LoweringError(f"{unknown[0]} cannot be emulated", stage="emulation")
    return text


def _definition(result: str, given: str, stages: GpuStages) -> Iterator[str]:
    """The function that does what a kernel's matrix instruction does, of parameters of those types."""
    from tilewright.codegen.gpu import matrix_cores

    kinds = [_TYPE.findall(each)[0] for each in given.split(",")]
    sums = kinds.index(result, 2)
    a, b = (number for number, kind in enumerate(kinds[:sums]) if kind != "i1")
    for name in "ab":
        yield f"@fragments_{name} = private addrspace(3) global [{_THREADS} x {kinds[a]}] undef, align 64"
    parameters = ", ".join(f"{kind} %p{number}" for number, kind in enumerate(kinds))
    yield f"define private {result} @matrix_instruction({parameters}) noinline {{"
    yield "  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()"
    for name, number in (("a", a), ("b", b)):
        yield f"  %own_{name} = getelementptr {kinds[number]}, ptr addrspace(3) @fragments_{name}, i32 %thread"
        yield f"  store {kinds[number]} %p{number}, ptr addrspace(3) %own_{name}, align 1"
    meet = _meeting(stages.target.warp, stages.sizes.threads)
    yield from meet
    one = matrix_cores.instructions(stages.target)[stages.spec.a_type.name]
    types = stages.spec.a_type.name, stages.spec.b_type.name
    yield from _sums(one, types, result, f"%p{sums}", stages.target.warp)
    yield meet[-1]
    yield f"  ret {result} %sums{one.sums}"
    yield "}"


def _meeting(wave: int, threads: int) -> list[str]:
    """Lets the threads of a wave meet: by a warp's barrier, or by a named one for the two warps of each wave. The last line does it.

    Where there are more waves than named barriers, all threads of the block meet.
    """
    if wave == _WARP:
        return ["  call void @llvm.nvvm.bar.warp.sync(i32 -1)"]
    if threads // wave > _NAMED_BARRIERS:
        return [f"  call void {_BARRIER}(i32 0)"]
    return [
        f"  %number = udiv i32 %thread, {wave}",
        "  %barrier = add i32 %number, 1",
        f"  call void {_NAMED_BARRIER}(i32 %barrier, i32 {wave})",
    ]


def _sums(one: Instruction, types: tuple[str, str], result: str, start: str, wave: int) -> Iterator[str]:
    """What a thread sums up: for each of its elements, over K, what lanes of its wave have left."""
    element = _TYPE.findall(result)[0].strip("<>").split(" x ")[1]
    whole = element == "i32"
    multiply, add = ("mul", "add") if whole else ("fmul", "fadd")
    yield f"  %wave = and i32 %thread, {-wave}"
    yield f"  %lane = and i32 %thread, {wave - 1}"
    yield f"  %own = and i32 %lane, {_LANES - 1}"
    yield f"  %group = udiv i32 %lane, {_LANES}"
    yield f"  %first = mul i32 %group, {one.sums if one.step == 1 else 1}"
    yield f"  %sums0 = freeze {result} {start}"
    for number in range(one.sums):
        yield f"  %row{number} = add i32 %first, {number * one.step}"
        yield f"  %sum{number}_0 = extractelement {result} %sums{number}, i32 {number}"
        for k in range(one.k):
            at = f"{number}_{k}"
            for name, line, kind in (("a", f"%row{number}", types[0]), ("b", "%own", types[1])):
                low, size = _LLVM[kind], _BYTES[_LLVM[kind]]
                holder = k // one.items * _LANES if one.high else 0
                yield f"  %lane_{name}{at} = add i32 {line}, {holder}"
                yield f"  %thread_{name}{at} = add i32 %wave, %lane_{name}{at}"
                yield f"  %bytes_{name}{at} = mul i32 %thread_{name}{at}, {one.items * size}"
                yield f"  %byte_{name}{at} = add i32 %bytes_{name}{at}, {k % one.items * size}"
                yield f"  %place_{name}{at} = getelementptr i8, ptr addrspace(3) @fragments_{name}, i32 %byte_{name}{at}"
                yield f"  %load_{name}{at} = load {low}, ptr addrspace(3) %place_{name}{at}, align 1"
                wider = (
                    f"{_WIDER[kind]} {low} %load_{name}{at} to {element}"
                    if kind in _WIDER
                    else f"freeze {low} %load_{name}{at}"
                )
                yield f"  %value_{name}{at} = {wider}"
            yield f"  %product{at} = {multiply} {element} %value_a{at}, %value_b{at}"
            yield f"  %sum{number}_{k + 1} = {add} {element} %sum{at}, %product{at}"
        yield f"  %sums{number + 1} = insertelement {result} %sums{number}, {element} %sum{number}_{one.k}, i32 {number}"
