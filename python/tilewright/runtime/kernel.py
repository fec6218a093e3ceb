# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The public surface of every kernel, and what kernels know of themselves."""

from __future__ import annotations

import reprlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from tilewright import notebook
from tilewright._runtime import Code
from tilewright.errors import NotRunnableError, SpecError, TargetError, TilewrightError
from tilewright.standalone.packed_b import PackedB
from tilewright.standalone.packing import PackedFormat
from tilewright.targets import GpuTarget, Target
from tilewright.version import VERSION

if TYPE_CHECKING:
    from tilewright.runtime.step_trace import Trace


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
        chosen_by: Who chose the schedule of a product or operator for a processor: "the model"; "the caller"; or a record, with its gain
            and date.
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
    chosen_by: str = ""

    @classmethod
    def of(cls, target: Target | GpuTarget, **facts: Any) -> Metadata:  # noqa: ANN401 - the other fields
        """Those of a kernel that this version compiled for a target."""
        return cls(target=target.name, triple=target.triple, features=target.feature_string, version=VERSION, **facts)

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
    has other strides than it takes; 5 when an index of `tilewright.gather_rows`, or a number in a table of attention, is out of
    range. Leading dimensions are in elements. Operands are not checked further: they must not overlap the result.

    Attributes:
        address: Where the function starts, valid while this object or the kernel lives.
        prototype: Its declaration in C.
        tensors: Where the function starts that takes an array of pointers to its DLTensors, the result last; 0 for a product of two
            matrices and nothing else, which has none.
    """

    address: int
    prototype: str
    _code: Code = field(repr=False, compare=False)
    tensors: int = 0


@dataclass(frozen=True, slots=True)
class About:
    """All that there is of a kernel but its code.

    Attributes:
        spec: What it computes.
        target: What it was compiled for.
        metadata: How it came about.
        asm: The text of every stage.
        write: Writes it to a file, under a name; None for a kernel that cannot be.
        again: Compiles it again, past the disk cache; None for a kernel that cannot be.
    """

    spec: Any
    target: Any
    metadata: Metadata
    asm: Mapping[str, str]
    write: Callable[[str | PathLike[str], str | None], None] | None = None
    again: Callable[[], object] | None = None


class Kernel(ABC):
    """A kernel: what `tilewright.compile` and `tilewright.compile_module` return, whatever it computes and whoever runs it.

    A call takes the operands in order or by name, as arrays of numpy or of any library that speaks DLPack or has `__array_interface__`,
    and returns the result: `out`, or a new array of the library of the first operand that is not numpy's. On a card it also takes arrays
    that lie in its memory. Where nothing here runs the kernel, calls, `pack` and `c_function` raise `NotRunnableError`, and all else
    is as ever.

    Any number of threads may call a kernel at once.

    Raises (the call):
        OperandError: An operand does not fit; the error says which, why, and what to do.
        TypeError: Operands are missing, or too many.
        MemoryError: There is no memory for the result or for scratch memory.
        NotRunnableError: Nothing here runs the kernel.
    """

    __slots__ = ()
    _about: About

    @abstractmethod
    def __call__(self, *operands: Any, out: Any = None, **named: Any) -> Any:  # noqa: ANN401 - arrays of any library
        """Computes the result, as the class says."""

    def pack(self, name: str, b: Any) -> PackedB:  # noqa: ANN401 - an array of any library
        """Packs `b` for the operand `name`, which comes packed, for this kernel and for every other one of an equal format.

        Raises:
            SpecError: The kernel takes that operand as it is.
            OperandError: `b` does not fit; the error says why, and what to do.
            MemoryError: There is no memory for it.
        """
        raise SpecError(
            f"{self!r} takes {name.upper() if len(name) == 1 else name} as it is",
            where="kernel.pack",
            expected="a kernel of a spec with b_packed=True",
            remedy="Pass the operand itself, or compile with b_packed=True",
        )

    def pack_b(self, b: Any) -> PackedB:  # noqa: ANN401 - an array of any library
        """Packs the operand "b", as `pack` says."""
        return self.pack("b", b)

    @property
    def packed_format(self) -> PackedFormat | None:
        """The format of the packed B that the kernel takes; None when it takes B as it is."""
        return None

    def write(self, path: str | PathLike[str], *, name: str | None = None) -> None:
        """Writes the kernel to a file for a linker, a compiler or people, whole or not at all.

        The suffix says the format: .o, .so, .h (the C header), .s, .ll, .mlir (after the schedule). Of a GPU's kernel it is .mlir, .ll,
        .ptx, .cubin, .spv, .s, .o, .hsaco, and its form for aligned operands is written. An object gets its scratch memory from the C
        library, so it is compiled for that. This machine need not be able to run it.

        Args:
            path: Where to write.
            name: What the C entry is called, by default "matmul", or as the operator or function is; others, such as that which packs B,
                are called after it. A GPU's kernel and a module of several functions take none.

        Raises:
            SpecError: The suffix is unknown, or there is no such format, or the name is no C identifier, or there may be none.
            TargetError: A program is missing, such as the linker.
            TilewrightError: The file cannot be written; or, of several threads, there is no OpenMP runtime.
            LoweringError: A stage or a program failed.
        """
        if self._about.write is None:
            raise SpecError(f"{self!r} was not compiled by tilewright.compile", where="write", expected="one that was")
        self._about.write(path, name)

    def can_be_compiled_again(self, by: Callable[[], object]) -> None:
        """Keeps what compiles the kernel again, for `trace`."""
        self._about = replace(self._about, again=by)

    def trace(self) -> Trace:
        """Compiles the kernel again, past the disk cache, and keeps what each transform op and each pass did.

        A schedule in a file is read again.

        Raises:
            SpecError: It was not compiled by `tilewright.compile` or `compile_module`.
            TilewrightError: It cannot be compiled any more.
        """
        from tilewright.runtime import step_trace

        if self._about.again is None:
            raise SpecError(f"{self!r} was not compiled by tilewright.compile", where="trace", expected="one that was")
        return step_trace.required(self._about.again)

    @property
    def spec(self) -> Any:  # noqa: ANN401 - of a product, an operator or nothing
        """What the kernel computes."""
        return self._about.spec

    @property
    def target(self) -> Any:  # noqa: ANN401 - Target or GpuTarget, as compile was given
        """What the kernel was compiled for."""
        return self._about.target

    @property
    def signature(self) -> Any:  # noqa: ANN401 - Signature, or None
        """What a function or an operator takes and gives; None for a product."""
        return None

    @property
    def metadata(self) -> Metadata:
        """How the kernel came about."""
        return self._about.metadata

    @property
    def asm(self) -> Mapping[str, str]:
        """The text of every stage by name, from the payload on; made when asked for, where it is not at hand.

        Raises (on access):
            UnknownStageError: There is no such stage; the message lists those that there are.
        """
        return self._about.asm

    @property
    def c_function(self) -> CFunction:
        """The entry itself, for callers in C.

        Raises:
            SpecError: There is none: the kernel runs on a GPU, or is a module of several functions.
        """
        raise SpecError(f"{self!r} has no entry for C", where="c_function", expected="a kernel for a processor")

    @property
    def refusal(self) -> NotRunnableError | None:
        """What calls raise, where nothing here runs the kernel; None where something does."""
        return None

    def count_instructions(self, *operands: Any, out: Any = None, **named: Any) -> int:  # noqa: ANN401 - as of a call
        """Calls the kernel in an emulator, and returns how many instructions that took; about ten are the call's own.

        The result is not to be used: an emulator that counts may be an older one than the kernel needs to be right.

        Raises:
            TargetError: No emulator that can count runs the kernel.
        """
        raise TargetError(
            f"this machine runs code for {self.target.name} itself",
            where="count_instructions",
            expected="a target of another architecture: instructions are counted in its emulator",
        )

    def __repr__(self) -> str:
        """What it computes, for which target and by which schedule."""
        return f"<tilewright.Kernel {self.spec} {origin(self.metadata)}>"

    def _repr_html_(self) -> str:
        """For notebooks: what it takes and gives, and how it came about."""
        spec, known = self.spec, self.signature
        facts, rows = self.metadata, []
        if known is None and hasattr(spec, "operands"):
            rows = notebook.tensors(spec.operands, [spec.result])
        elif known is not None:
            rows = notebook.tensors(known.arguments, known.results)
        return notebook.card(
            f"Kernel {spec if hasattr(spec, 'operands') else known or ''}".strip(),
            {
                "target": facts.target,
                "schedule": f"{facts.schedule} {sizes(facts.parameters)}".strip(),
                "threads": facts.threads if facts.threads > 1 else None,
                "emulated by": facts.emulator,
                "loaded in" if facts.cached else "compiled in": f"{facts.compile_seconds:.3g} s",
                "code": f"{facts.object_bytes:,} bytes",
                "scratch memory": f"{facts.workspace_bytes:,} bytes" if facts.workspace_bytes else None,
            },
            notebook.TENSORS,
            rows,
        )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:  # noqa: ANN401 - as in object
        """Refuses: a kernel is machine code in this process.

        Raises:
            TilewrightError: Always.
        """
        raise unpicklable(self, "Pickle kernel.spec")


def sizes(parameters: Mapping[str, Any]) -> str:
    """Those parameters of a schedule that are numbers or texts: "mr=6 nr=64"."""
    return " ".join(f"{name}={value}" for name, value in parameters.items() if isinstance(value, int | str))


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


class StageTexts(Mapping[str, str]):
    """Texts by stage; those given as functions are computed once, when they are first asked for."""

    def __init__(self, stages: Mapping[str, str | Callable[[], str]]) -> None:
        """Takes the texts, or functions that make them."""
        self._stages = stages
        self._names = tuple(stages)
        self._made: dict[str, str] = {}
        self._lock = threading.RLock()

    @classmethod
    def made(cls, names: Sequence[str], make: Callable[[str], str], known: Mapping[str, str]) -> StageTexts:
        """The texts of the stages of these names, as `known` or as `make` makes them."""
        return cls({name: known[name] if name in known else partial(make, name) for name in names})

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
