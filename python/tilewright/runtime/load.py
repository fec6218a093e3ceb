# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes kernels of objects: linked into this process, run by an emulator, or refusing their calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tilewright.payload import call_forms
from tilewright.payload.abi import ENTRY, PACK_SUFFIX, TENSORS_SUFFIX
from tilewright.payload.signature import Signature
from tilewright.runtime import coverage, tracing
from tilewright.runtime.foreign import ForeignKernel
from tilewright.runtime.kernel import About, Kernel
from tilewright.runtime.module import Function, entries
from tilewright.runtime.product import Product, packing
from tilewright.runtime.runners import Runner
from tilewright.standalone.packing import PackedFormat
from tilewright.targets import amx


def product(object_: bytes, about: About, packed: PackedFormat | None, who: Runner) -> Kernel:
    """The kernel of a product that `who` runs; `packed` is the format of B when it comes packed.

    Raises:
        TargetError: It is emulated, and there is no linker for the target, or no row for this machine.
        LoweringError: The linker failed.
    """
    if who.refusal is not None:
        return ForeignKernel(about, who.refusal, packed)
    spec = about.spec
    kind = tracing.counted(Product)
    make: Callable[..., Kernel] = kind
    packer = f"{ENTRY}{PACK_SUFFIX}"
    names = [
        ENTRY,
        *([packer] if packed else []),
        *([f"{ENTRY}{TENSORS_SUFFIX}"] if call_forms.operands(spec) else []),
    ]
    if who.emulator is not None:
        from tilewright.runtime import emulated

        program = emulated.Program(object_, names, about.target, who.emulator)
        coverage.watch(coverage.title(about), object_, program.recorded)
        stubs = emulated.ProductStubs(program, spec, packed)
        code, make = stubs.linked(names), partial(emulated.emulated(kind), stubs)
    else:
        amx.allow(about.target.features)
        code = coverage.linked(object_, ENTRY, names[1:], coverage.title(about))
    if packed is None:
        return make(code, about)
    return make(code, about, packing(code, packer, spec, packed))


def functions(
    object_: bytes, signatures: Sequence[Signature], about: About, who: Runner, kind: type[Function] = Function
) -> list[Kernel]:
    """The functions of an object that `who` runs: those of a module, or the one of an operator.

    Raises:
        TilewrightError: As for `product`.
    """
    if who.refusal is not None:
        return [ForeignKernel(about, who.refusal, signature=each) for each in signatures]
    names, kind = entries(signatures), tracing.counted(kind)
    make: Callable[..., Kernel] = kind
    if who.emulator is not None:
        from tilewright.runtime import emulated
        from tilewright.runtime.emulated_function import FunctionStubs

        program = emulated.Program(object_, names[len(signatures) :], about.target, who.emulator)
        coverage.watch(coverage.title(about), object_, program.recorded)
        stubs = FunctionStubs(program, signatures)
        code, make = stubs.linked(names), partial(emulated.emulated(kind), stubs)
    else:
        amx.allow(about.target.features)
        code = coverage.linked(object_, names[0], names[1:], coverage.title(about))
    return [make(code, each, about) for each in signatures]
