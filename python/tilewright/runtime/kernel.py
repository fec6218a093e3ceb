# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiled kernel: what `tilewright.compile` returns."""

from __future__ import annotations

import reprlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tilewright._runtime import Code, MatmulCall
from tilewright.dims import Dim, Extent
from tilewright.dtypes import stored_numpy, to_numpy
from tilewright.errors import SpecError, TilewrightError
from tilewright.payload.abi import TENSORS_SUFFIX, dlpack_code, prototype
from tilewright.payload.packing import PackedFormat
from tilewright.runtime.linkable import Linkable
from tilewright.runtime.packed_b import PackedB, Packing
from tilewright.spec import MatmulSpec, OperandSpec
from tilewright.targets.base import Target


class UnknownStageError(TilewrightError, KeyError):
    """`Kernel.asm` was asked for a stage that this kernel does not have."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """How a kernel came about.

    Attributes:
        target: The target's name.
        triple: LLVM target triple.
        features: Instruction-set features in LLVM's spelling, "+avx2,+fma".
        schedule: The strategy's name, or the user's function or file.
        parameters: The schedule's sizes by name ("mr", "kc").
        threads: Most threads that a call uses: of those asked for, as many as the product fills.
        seconds: Time of each stage of the compilation, by name; empty when the object came from the cache.
        compile_seconds: Time of the whole compilation, or of the loading from the cache.
        object_bytes: Size of the ELF object.
        workspace_bytes: Scratch memory that a call takes for packed panels and partial sums, and gives back.
        cached: Whether the object came from the disk cache.
        version: tilewright's version.
        emulator: The program that runs the code, where this machine itself cannot; otherwise empty.
    """

    target: str
    triple: str
    features: str
    schedule: str
    parameters: Mapping[str, Any]
    threads: int
    seconds: Mapping[str, float]
    compile_seconds: float
    object_bytes: int
    cached: bool
    version: str
    workspace_bytes: int = 0
    emulator: str = ""

    def __post_init__(self) -> None:
        """Freezes copies of the mappings."""
        for name in ("parameters", "seconds"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __repr__(self) -> str:
        """The fields by name, long ones cut short."""
        short = reprlib.Repr()
        short.maxstring, short.maxdict, short.maxtuple = 60, 8, 3
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {name: dict(each) if isinstance(each, Mapping) else each for name, each in values.items()}
        return f"Metadata({', '.join(f'{name}={short.repr(each)}' for name, each in plain.items())})"


@dataclass(frozen=True, slots=True)
class CFunction:
    """The entry of a kernel, for callers in C.

    It may be called from any number of threads at once. It returns 0; 1 when the extents are not those that the kernel was
    compiled for; 2 when there is no memory for its packed panels; 4 when a DLTensor is of another type, rank or device, or
    has other strides than it takes; 5 when an index of `tilewright.gather_rows` is out of range. Leading dimensions
    are in elements. Operands are not checked further: they must not overlap the result.

    Attributes:
        address: Where the function starts, valid while this object or the kernel lives.
        prototype: Its declaration in C.
    """

    address: int
    prototype: str
    _code: Code = field(repr=False, compare=False)


class Kernel(MatmulCall):
    """A matmul compiled for one spec and target.

    ``kernel(a, b, *further, out=None)`` computes A·B of numpy arrays, and what the spec's epilogue makes of it with the
    further operands, which may be passed by name too, and returns the result: a new array, or `out`. The arrays are
    used where they lie and never copied. They need the spec's element types and shapes (an extent of None takes any);
    elements of a row adjacent; rows any distance apart, but in order and without overlap; and natural alignment. `out` must
    be writable and share no element with `a` or `b`. With beta 1 in the spec, `out` is what is added to, and must be given.
    With `b_packed` in the spec, `b` is what `pack_b` returned.
    A subclass of ndarray is taken for the memory that it describes.

    Any number of threads may call a kernel at once. Other Python threads run meanwhile, except beside very small products.

    Raises (the call):
        OperandError: An operand does not fit; the error says which, why, and what to do.
        TypeError: Operands are missing, or too many.
        MemoryError: There is no memory for the result or for packed panels.
    """

    __slots__ = ("_asm", "_code", "_files", "_metadata", "_packing", "_spec", "_target")

    def __init__(
        self,
        code: Code,
        spec: MatmulSpec,
        target: Target,
        metadata: Metadata,
        stages: Mapping[str, str | Callable[[], str]],
        packing: Packing | None = None,
        files: Linkable | None = None,
    ) -> None:
        """Makes a kernel of linked code.

        Args:
            code: The linked entry, compiled from `spec`.
            spec: What it computes.
            target: What it was compiled for; this machine must be able to run it.
            metadata: How it came about.
            stages: The text of each stage by name, in order; or a function that makes the text when it is first asked for.
            packing: How it packs B, when the spec says that B comes packed.
            files: How it is made as a file; None for a kernel that cannot be.
        """
        a, b, c = (to_numpy(element) for element in (spec.a_stored, spec.b_stored, spec.c_type))
        super().__init__(
            code,
            *(None if isinstance(extent, Dim) else extent for extent in (spec.m, spec.n, spec.k)),
            a=a,
            b=b,
            c=c,
            a_transposed=spec.a_transposed,
            b_transposed=spec.b_transposed,
            accumulate=bool(spec.beta),
            packed=packing,
            tensor_entry=f"{code.entry}{TENSORS_SUFFIX}",
            operands=tensors(spec),
            limits=[_limits(extent) for extent in spec.extents.values()],
        )
        self._packing = packing
        self._files = files
        self._code = code
        self._spec = spec
        self._target = target
        self._metadata = metadata
        self._asm = StageTexts(stages)

    if TYPE_CHECKING:  # The native base class has it.

        def __call__(
            self,
            a: np.ndarray[Any, Any],
            b: np.ndarray[Any, Any] | PackedB,
            *further: np.ndarray[Any, Any],
            out: np.ndarray[Any, Any] | None = None,
            **named: np.ndarray[Any, Any],
        ) -> np.ndarray[Any, Any]:
            """Computes A·B, as the class says."""
            ...

    def pack_b(self, b: np.ndarray[Any, Any]) -> PackedB:
        """Packs `b`, an array as the call would take it, for this kernel and for every other one of an equal format.

        Raises:
            SpecError: The kernel was not compiled with `b_packed`.
            OperandError: `b` does not fit; the error says why, and what to do.
            MemoryError: There is no memory for it.
        """
        if self._packing is None:
            raise SpecError(
                f"{self!r} takes B as it is",
                where="kernel.pack_b",
                expected="a kernel of a spec with b_packed=True",
                remedy="Pass b itself, or compile with b_packed=True",
            )
        return self._packing.pack(b)

    def write(self, path: str | PathLike[str], *, name: str | None = None) -> None:
        """Writes the kernel to a file for a linker, a compiler or people, whole or not at all.

        The suffix says the format: .o, .so, .h (the C header), .s, .ll, .mlir (after the schedule). What is written gets its scratch
        memory from the C library, so it is compiled for that. This machine need not be able to run it.

        Args:
            path: Where to write.
            name: What the C entry is called, by default "matmul": other functions, such as that which packs B, are called after it.

        Raises:
            SpecError: The suffix is unknown, or the name is no C identifier.
            TargetError: For .so: there is no linker for the target.
            TilewrightError: The file cannot be written; or, of several threads, there is no OpenMP runtime.
            LoweringError: A stage or the linker failed.
        """
        if self._files is None:
            raise SpecError(f"{self!r} was not compiled by tilewright.compile", where="write", expected="one that was")
        self._files.write(path, name)

    @property
    def packed_format(self) -> PackedFormat | None:
        """The format of the packed B that the kernel takes; None when it takes B as it is."""
        return None if self._packing is None else self._packing.format

    @property
    def spec(self) -> MatmulSpec:
        """What the kernel computes."""
        return self._spec

    @property
    def target(self) -> Target:
        """What the kernel was compiled for."""
        return self._target

    @property
    def metadata(self) -> Metadata:
        """How the kernel came about."""
        return self._metadata

    @property
    def asm(self) -> Mapping[str, str]:
        """The text of every stage by name, from the payload to the assembly; made when asked for, where it is not at hand.

        Raises (on access):
            UnknownStageError: There is no such stage; the message lists those that there are.
        """
        return self._asm

    @property
    def c_function(self) -> CFunction:
        """The entry itself, for callers in C."""
        return CFunction(self._code.address, prototype(self._spec, self._code.entry), self._code)

    def __repr__(self) -> str:
        """What it computes, for which target and by which schedule."""
        return f"<tilewright.Kernel {self._spec} {origin(self._metadata)}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:  # noqa: ANN401 - as in object
        """Refuses: a kernel is machine code in this process.

        Raises:
            TilewrightError: Always.
        """
        raise unpicklable(self, "Pickle kernel.spec")


def origin(metadata: Metadata) -> str:
    """How a kernel came about, in short: "for x86-64-v3, schedule packed, 4 threads"."""
    threads = f", {metadata.threads} threads" if metadata.threads > 1 else ""
    how = f", emulated by {metadata.emulator}" if metadata.emulator else ""
    return f"for {metadata.target}, schedule {metadata.schedule}{threads}{how}"


def unpicklable(value: object, instead: str) -> TilewrightError:
    """Why machine code is neither pickled nor copied, and what is passed on instead of it."""
    return TilewrightError(
        f"{value!r} cannot be pickled or copied: it is machine code in this process",
        remedy=f"{instead}, and compile it in the other process, which takes milliseconds when it is cached",
    )


def tensors(spec: MatmulSpec) -> list[tuple[str, tuple[int, ...], np.dtype[Any], int, int, int]]:
    """All operands of a kernel that has further ones, as `MatmulCall` takes them; none for other kernels."""
    if not spec.takes_tensors:
        return []
    operands = (*spec.operands, replace(spec.result, name="out"))
    return [
        (each.name, _shape(each, spec), stored_numpy(each.type), *dlpack_code(each.type.name), each.batch)
        for each in operands
    ]


_OPEN = -2
"""How `MatmulCall` takes the first one of the spec's extents in a shape, where only a call tells it; others are below it."""


def _shape(operand: OperandSpec, spec: MatmulSpec) -> tuple[int, ...]:
    """The shape of an operand as the native base class takes it."""
    number = {name: index for index, name in enumerate(spec.extents)}
    pairs = zip(operand.stored, operand.names, strict=True)
    return tuple(_OPEN - number[name] if isinstance(extent, Dim) else extent for extent, name in pairs)


def _limits(extent: Extent) -> tuple[int, int, int]:
    """The least and the most that an extent can be, and what divides it."""
    return (extent.min, extent.max, extent.multiple) if isinstance(extent, Dim) else (extent, extent, 1)


class StageTexts(Mapping[str, str]):
    """Texts by stage; those given as functions are computed once, when they are first asked for."""

    def __init__(self, stages: Mapping[str, str | Callable[[], str]]) -> None:
        """Takes the texts, or functions that make them."""
        self._stages = stages
        self._names = tuple(stages)
        self._made: dict[str, str] = {}
        self._lock = threading.RLock()

    def __getitem__(self, stage: str) -> str:
        """The text of a stage.

        Raises:
            UnknownStageError: There is no such stage.
        """
        if stage not in self._names:
            raise UnknownStageError(
                f"no stage {stage!r}", where="kernel.asm", expected=f"one of {', '.join(self._names)}"
            )
        with self._lock:
            if stage not in self._made:
                text = self._stages[stage]
                self._made[stage] = text if isinstance(text, str) else text()
            return self._made[stage]

    def __contains__(self, stage: object) -> bool:
        """Whether there is such a stage."""
        return stage in self._names

    def __iter__(self) -> Iterator[str]:
        """The stages, in order."""
        return iter(self._names)

    def __len__(self) -> int:
        """How many stages there are."""
        return len(self._names)

    def __repr__(self) -> str:
        """The stages' names."""
        return f"<stages {', '.join(self._names)}>"
