# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs anyone's kernel for NVIDIA's GPUs in the emulator, in a process of its own, and says what it does wrong.

A kernel is a file of PTX, of LLVM IR for NVPTX, or of MLIR in the dialects LLVM and NVVM. Its arguments are described in words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import ptx
from tilewright.dtypes import DTYPES, DType, to_numpy
from tilewright.errors import LoweringError, TilewrightError
from tilewright.payload.patch_windows import Window
from tilewright.processes.child import Child, ChildEndedError
from tilewright.runtime.emulated_gpu import IMAGE_AXES, EmulatedGpuKernel, EmulationError, SharedCount, TensorMap
from tilewright.runtime.emulated_time import Estimate, estimate
from tilewright.runtime.launches import Launch

SUFFIXES = (".ll", ".mlir", ".ptx")
"""Of files with kernels."""
_MOST_THREADS = 1024
"""Of a block."""
_CALLEE = "tilewright.processes.callee"
_WARP = 32
_ALIGNED = 256
"""Bytes of which an array's address is a multiple, as memory of a card's driver has it."""
_ARGUMENT = re.compile(
    r"(?P<out>out:|inout:)?(?P<map>map:)?(?P<type>\w+)\[(?P<shape>[0-9x]+)\]"
    r"(?:/(?P<box>[0-9x]+)(?:/(?P<swizzle>\d+)(?P<window>(?:/-?\d+x-?\d+){3})?)?)?"
)
_SCALAR = re.compile(r"(?P<type>\w+)=(?P<value>\S+)")
_KERNELS = (
    re.compile(r"^define [^\n]*\bptx_kernel\b[^\n@]*@\"?([\w.$]+)", re.MULTILINE),
    re.compile(r"ptr @([\w.$]+), !\"kernel\""),
)
"""How LLVM IR says which functions are kernels: a calling convention, or, as older compilers write it, annotations."""
_FORMS = "f32[64x64], out:f32[64x64], inout:f32[64], map:bf16[128x64]/64x64/128, i32=64, or a FILE.npy"


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a kernel.

    Attributes:
        type: The element type.
        shape: Extents of an array; None for a number.
        value: The number.
        written: Whether the kernel may write it.
        drawn: Whether it has random numbers at first; otherwise every byte is 0xFF, which is NaN in every float.
        box: Extents of the boxes of a tensor map; None where the kernel gets a pointer.
        swizzle: Bytes of the map's pattern.
        window: Of a map of images, what it says beside the pixels and channels of a box.
        file: A file of numpy's with its elements.
    """

    type: DType | None = None
    shape: tuple[int, ...] | None = None
    value: float = 0
    written: bool = False
    drawn: bool = True
    box: tuple[int, ...] | None = None
    swizzle: int = 0
    window: Window | None = None
    file: str = ""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a file.

    Attributes:
        llvmir: The LLVM IR of its module.
        name: Its name there.
        block: Threads that a block must have along x, y and z; None where the file leaves that open.
        cluster: Blocks of a cluster, likewise.
        lines_of_text: Whether lines of the module's text are those of the file.
        counting: The same as `llvmir` with the number of instructions told to the emulator, for estimates of time; empty where the
            file is no PTX.
    """

    llvmir: str
    name: str
    block: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    lines_of_text: bool = False
    counting: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of runs of a kernel.

    Attributes:
        findings: A line for each kind of thing that it did wrong; empty where nothing was found.
        outputs: What it has written, by the number of the argument: in the first run, or in the one with findings.
        counts: What its instructions did in shared memory in the first run, where that was asked for.
    """

    findings: tuple[str, ...]
    outputs: dict[int, np.ndarray[Any, Any]]
    counts: tuple[SharedCount, ...] = ()


def argument(text: str) -> Argument:
    """An argument described in words.

    Args:
        text: ``f32[64x64]`` for an array of random numbers that is only read, ``out:f32[64x64]`` for one that is written,
            ``inout:…`` for both, ``map:bf16[128x64]/64x64/128`` for a tensor map with its box and swizzle, behind which
            one of images has its lower and upper corner and its steps, ``i32=64`` for a number, or a FILE.npy.

    Raises:
        ValueError: It says nothing of the kind.
    """
    if text.endswith(".npy"):
        out, _, file = text.rpartition(":")
        if out not in ("", "inout"):
            raise ValueError(f"{text!r} is no argument; expected FILE.npy or inout:FILE.npy")
        return Argument(file=file, written=bool(out))
    found = _ARGUMENT.fullmatch(text)
    if found is not None:
        box = found["box"]
        if bool(found["map"]) != bool(box):
            raise ValueError(f"{text!r} is no argument; a tensor map has a box, and nothing else has: {_FORMS}")
        shape = _extents(found["shape"])
        return Argument(
            type=_type(found["type"]),
            shape=shape,
            written=bool(found["out"]),
            drawn=found["out"] != "out:",
            box=_extents(box) if box else None,
            swizzle=int(found["swizzle"] or 0),
            window=_window(text, shape, found["window"]) if found["window"] else None,
        )
    found = _SCALAR.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no argument; expected such as {_FORMS}")
    return Argument(type=_type(found["type"]), value=float(found["value"]))


def _type(name: str) -> DType:
    if name not in DTYPES or DTYPES[name].packed != 1:
        known = ", ".join(each.name for each in DTYPES.values() if each.packed == 1)
        raise ValueError(f"{name!r} is no element type; expected one of {known}")
    return DTYPES[name]


def _window(text: str, shape: tuple[int, ...], corners: str) -> Window:
    """The window of images without gaps."""
    if len(shape) != IMAGE_AXES:
        raise ValueError(f"{text!r} is no argument; a map of images has {IMAGE_AXES} axes, channels last")
    _, rows, columns, channels = shape
    lower, upper, steps = (
        (int(down), int(right)) for down, right in (each.split("x") for each in corners[1:].split("/"))
    )
    pitches = rows * columns * channels, columns * channels, channels
    window = Window((rows, columns, channels), pitches, lower, upper, steps)
    if not window.is_described:
        raise ValueError(
            f"{text!r} is no argument; corners are from -128 to 127 with a pixel between them, and steps from 1 to 8"
        )
    return window


def _extents(text: str) -> tuple[int, ...]:
    extents = text.split("x")
    if not all(extents) or not all(map(int, extents)):
        raise ValueError(f"{text!r} has an extent that is none; expected such as 64x64")
    return tuple(map(int, extents))


def read(file: Path, kernel: str | None = None, *, timed: bool = False) -> Kernel:
    """A kernel of a file.

    Args:
        file: It.
        kernel: The kernel's name; None where there is one.
        timed: Whether its time is to be estimated, which needs PTX.

    Raises:
        TilewrightError: It is no such file, or has no such kernel, or several.
        LoweringError: It cannot be translated to LLVM IR; of PTX, the error names the line.
    """
    if file.suffix not in SUFFIXES:
        raise TilewrightError(
            f"the emulator does not read {file.suffix or 'such files'}",
            where=str(file),
            expected="PTX (.ptx), LLVM IR for NVPTX (.ll), or MLIR in the dialects LLVM and NVVM (.mlir)",
            remedy="cuobjdump -ptx has the PTX of a compiled kernel",
        )
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise TilewrightError(
            "it is no text in UTF-8", where=str(file), expected="PTX, LLVM IR or MLIR as text"
        ) from None
    said: Mapping[str, ptx.Kernel] = {}
    if timed and file.suffix != ".ptx":
        raise TilewrightError(
            "its time cannot be estimated", where=str(file), expected="PTX, whose instructions are counted"
        )
    counting = ptx.translated(text, counts=True).llvmir if timed else ""
    if file.suffix == ".mlir":
        text = _translated(text, file)
    elif file.suffix == ".ptx":
        module = ptx.translated(text)
        text, said = module.llvmir, module.kernels
    names = list(dict.fromkeys(name for pattern in _KERNELS for name in pattern.findall(text)))
    if kernel is None and len(names) == 1:
        kernel = names[0]
    if kernel is None or not re.search(rf"^define [^\n]*@\"?{re.escape(kernel)}\"?\(", text, re.MULTILINE):
        raise TilewrightError(
            f"there is no kernel {kernel}" if kernel else f"there are {len(names)} kernels",
            where=str(file),
            expected=f"one of {', '.join(names)}" if names else "a function of the calling convention ptx_kernel",
        )
    about = said.get(kernel, ptx.Kernel(None, None))
    return Kernel(text, kernel, about.block, about.cluster, lines_of_text=file.suffix == ".ll", counting=counting)


def _translated(text: str, file: Path) -> str:
    from tilewright.emit import llvmir
    from tilewright.mlir import ir
    from tilewright.mlir.passmanager import PassManager

    with ir.Context():
        try:
            module = ir.Module.parse(text)
            inner = [each for each in module.body if each.operation.name == "gpu.module"]
            if inner:
                functions = [str(each) for each in inner[0].regions[0].blocks[0]]
                module = ir.Module.parse("\n".join(functions))
            PassManager.parse("builtin.module(convert-nvvm-to-llvm)").run(module.operation)
        except ir.MLIRError as e:
            raise LoweringError(str(e), stage=f"reading {file.name}") from None
        return llvmir.translated(module.operation)


def run(
    kernel: Kernel,
    sizes: Launch,
    arguments: Sequence[Argument],
    seeds: Sequence[int],
    seconds: float,
    allowed: Collection[str] = (),
    *,
    counted: bool = False,
) -> Outcome:
    """Runs a kernel in several orders in which its threads take turns, until one shows something, in a process of its own.

    Args:
        kernel: It.
        sizes: The launch.
        arguments: Its arguments.
        seeds: Decide the orders.
        seconds: How long all runs may take: a kernel that loops forever without a barrier never ends.
        allowed: Kinds of findings that are left out.
        counted: Whether to count what instructions do in shared memory.

    Raises:
        TilewrightError: An argument cannot be made, or the kernel cannot be run, or not in such blocks and clusters.
    """
    _check_sizes(kernel, sizes)
    with Child(_CALLEE, needs=[__name__]) as child:
        try:
            child.send((_run, (kernel, sizes, tuple(arguments), tuple(seeds), frozenset(allowed), counted), {}))
            fine, value = child.receive(seconds)
        except ChildEndedError as error:
            return Outcome((f"ended: the process with the kernel {error.reason}",), {})
    if not fine:
        raise value
    return value


def time(kernel: Kernel, sizes: Launch, arguments: Sequence[Argument], seconds: float, resident: int) -> Estimate:
    """How long a launch would take on a Hopper GPU, by a model; in a process of its own.

    Args:
        kernel: It, read to be timed.
        sizes: The launch.
        arguments: Its arguments.
        seconds: How long the run may take.
        resident: Blocks that a multiprocessor has at the same time.

    Raises:
        TilewrightError: As `run`; or the run takes too long.
    """
    _check_sizes(kernel, sizes)
    with Child(_CALLEE, needs=[__name__]) as child:
        try:
            child.send((_time, (kernel, sizes, tuple(arguments), resident), {}))
            fine, value = child.receive(seconds)
        except ChildEndedError as error:
            raise TilewrightError(f"the process with the kernel {error.reason}", where=kernel.name) from None
    if not fine:
        raise value
    return value


def _time(kernel: Kernel, sizes: Launch, arguments: tuple[Argument, ...], resident: int) -> Estimate:
    made = _loaded(kernel, kernel.counting)
    events, counts = made.trace(sizes, *(_made(each, number) for number, each in enumerate(arguments)))
    return estimate(
        events,
        counts,
        warps=-(-prod(sizes.block) // _WARP),
        blocks=prod(sizes.grid),
        cluster=prod(sizes.cluster),
        resident=resident,
    )


def _check_sizes(kernel: Kernel, sizes: Launch) -> None:
    if prod(sizes.block) > _MOST_THREADS:
        raise TilewrightError(
            f"a block of {prod(sizes.block)} threads",
            where=kernel.name,
            expected=f"{_MOST_THREADS} at most, as every chip has",
            remedy="Make --block smaller, and --grid larger",
        )
    for what, wanted, given in (("block", kernel.block, sizes.block), ("cluster", kernel.cluster, sizes.cluster)):
        if wanted not in (None, given):
            raise TilewrightError(
                f"a {what} of {given}",
                where=kernel.name,
                expected=f"{wanted}, as the kernel says",
                remedy=f"--{what} {','.join(map(str, wanted))}",
            )


def _loaded(kernel: Kernel, llvmir: str) -> EmulatedGpuKernel:
    try:
        return EmulatedGpuKernel(llvmir, kernel.name, lines_of_text=kernel.lines_of_text)
    except OSError as e:
        raise TilewrightError(
            f"the kernel calls what the emulator does not have: {e}",
            where=kernel.name,
            expected="a kernel that calls nothing",
        ) from None


def _run(
    kernel: Kernel,
    sizes: Launch,
    arguments: tuple[Argument, ...],
    seeds: tuple[int, ...],
    allowed: frozenset[str],
    counted: bool,
) -> Outcome:
    made = _loaded(kernel, kernel.llvmir)
    outcome = Outcome((), {})
    counts: list[SharedCount] = []
    for seed in seeds:
        given = [_made(each, number) for number, each in enumerate(arguments)]
        arrays = (each.array if isinstance(each, TensorMap) else each for each in given)
        written = {number: each for number, each in enumerate(arrays) if arguments[number].written}
        try:
            made(sizes, *given, seed=seed, counts=counts if counted and not counts else None)
        except EmulationError as error:
            findings = tuple(line for line in error.what.splitlines() if line.partition(":")[0] not in allowed)
            if findings:
                return Outcome(findings, written, tuple(counts))
        outcome = outcome if outcome.outputs else Outcome((), written)
    return replace(outcome, counts=tuple(counts))


def _made(about: Argument, number: int) -> Any:  # noqa: ANN401 - an array, a map or a number
    """An argument as the emulator takes it: the same in every run."""
    if about.file:
        loaded = np.load(about.file)
        array = _aligned(loaded.shape, loaded.dtype)
        array[...] = loaded
        array.flags.writeable = about.written
        return array
    assert about.type is not None, "all else has one"
    kind = to_numpy(about.type)
    if about.shape is None:
        return np.array(about.value).astype(kind)[()]
    array = _aligned(about.shape, kind)
    if about.drawn:
        random = np.random.default_rng(number)
        integers = kind.kind in "iu"
        array[...] = (random.integers(0, 100, about.shape) if integers else random.uniform(-1, 1, about.shape)).astype(
            kind
        )
    if about.box is not None:
        return TensorMap(array, about.box, about.swizzle, window=about.window, writable=about.written, by_value=True)
    array.flags.writeable = about.written
    return array


def _aligned(shape: tuple[int, ...], kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array of bytes 0xFF whose address a card's driver could have given."""
    memory = np.full(prod(shape) * kind.itemsize + _ALIGNED, 0xFF, np.uint8)
    return np.ndarray(shape, kind, memory, -memory.ctypes.data % _ALIGNED)
