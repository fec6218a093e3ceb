# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""CPU targets as data, from which schedules compute sizes and LLVM generates code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tilewright import dtypes, notebook
from tilewright.dtypes import DType
from tilewright.errors import TargetError
from tilewright.targets import dots
from tilewright.targets.linux import Linux


def _require_positive(where: str, **sizes: int) -> None:
    """Raises TargetError unless every size is an int above zero."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
            raise TargetError(f"{name} is {size!r}", where=where, expected="an int above zero")


def _is_power_of_two(n: int) -> bool:
    return n & (n - 1) == 0


SCALABLE_BITS = (128, 2048)
"""The narrowest and the widest scalable vectors of AArch64; those between are powers of two (Arm DDI 0487, SVE)."""


def check_vector_length(bits: object, where: str) -> int:
    """`bits`, if scalable vectors can be so wide.

    Raises:
        TargetError: They cannot.
    """
    least, most = SCALABLE_BITS
    if not isinstance(bits, int) or isinstance(bits, bool) or not least <= bits <= most or not _is_power_of_two(bits):
        raise TargetError(
            f"a vector length of {bits!r}", where=where, expected=f"a power of two from {least} to {most}, in bits"
        )
    return bits


@dataclass(frozen=True, slots=True)
class Cache:
    """One level of data cache, as one core sees it.

    Attributes:
        bytes: Capacity.
        ways: Associativity; a fully associative cache has ``bytes // line``.
        line: Bytes of a line.
        cpus: Logical CPUs that share it (1: it is private).
    """

    bytes: int
    ways: int
    line: int = 64
    cpus: int = 1

    def __post_init__(self) -> None:
        """Checks the sizes.

        Raises:
            TargetError: A size is not positive, the line is no power of two, or a set does not fit the capacity.
        """
        _require_positive("Cache", bytes=self.bytes, ways=self.ways, line=self.line, cpus=self.cpus)
        if not _is_power_of_two(self.line):
            raise TargetError(f"line is {self.line} bytes", where="Cache", expected="a power of two")
        if self.ways * self.line > self.bytes:
            raise TargetError(
                f"one set of {self.ways} lines of {self.line} bytes exceeds the {self.bytes} bytes of the cache",
                where="Cache",
                expected="ways * line <= bytes",
            )

    @property
    def sets(self) -> int:
        """Sets of `ways` lines."""
        return self.bytes // (self.ways * self.line)


@dataclass(frozen=True, slots=True)
class Emulated:
    """How an emulator runs a target's kernels.

    Attributes:
        scalable_bits: Width of its scalable vectors; 0 where there are none.
        streaming_bits: Width of the vectors of its streaming mode; 0 where there are none.
    """

    scalable_bits: int = 0
    streaming_bits: int = 0


_FUSED = frozenset({"fma", "avx512f", "neon", "sve", "v"})
"""Features of which any one means that a multiply-add is one instruction."""
_MASKED_BITS: Mapping[str, int] = MappingProxyType({"avx2": 32, "avx512f": 32, "avx512bw": 8, "sve": 8, "v": 8})
"""Bits of the smallest elements of which a feature has instructions that load and store vectors under a mask."""
_LEAST_REGISTERS = 4
_MOST_PASSES = 2
"""Kernels use halves of registers, and no smaller parts."""
_MOST_ROWS_AHEAD = 64
"""Rows that are further ahead of their use have left L1 again."""
RATES = (
    *("fma_per_cycle", "fma_latency", "loads_per_cycle", "issue_per_cycle"),
    *("rates", "model_cpu", "model_note", "adds_apart", "is_level", "passes", "rows_ahead", "aligns_branches"),
    "stream_ahead",
)
"""Fields of a `Target` that say how its core issues."""


@dataclass(frozen=True, slots=True)
class Target:
    """A machine or an instruction-set level that code is made for.

    Rows are found with `tilewright.targets.get`; one's own are made from them with `dataclasses.replace`.

    Attributes:
        name: The row's name ("x86-64-v3"), or "host".
        family: Which file of rows it belongs to ("x86").
        triple: LLVM target triple.
        features: Instruction-set features in LLVM's spelling, without sign ("avx512f"). They alone decide which
            instructions may be used.
        cpu: The plainest LLVM processor of the triple, for ``target-cpu``. It must bring no features beyond `features`.
        tune_cpu: LLVM processor for ``tune-cpu``: its scheduling model and preferences, never its features. Never pass
            it as ``target-cpu``.
        vector_bits: Width of the widest vector register that kernels use.
        vector_registers: How many such registers there are.
        fma_per_cycle: Vector multiply-adds (fused, or a multiply with an add) of `vector_bits` that a core of this target starts in a
            cycle; of a level of an instruction set, the core that `rates` names.
        fma_latency: Cycles from one multiply-add to the next one that needs its sum. ``fma_latency * fma_per_cycle``
            independent sums keep the units busy.
        loads_per_cycle: Vector loads from L1, of `vector_bits`, that the same core starts in a cycle.
        issue_per_cycle: Micro-operations that LLVM's scheduling model of it starts in a cycle; 0 where loads are known to hide
            otherwise.
        l1: First-level data cache.
        l2: Second-level cache.
        l3: Last-level cache, or None when there is none or nothing is known about it.
        prefer_vector_width: Bits, for LLVM's ``prefer-vector-width``. It overrides a narrower preference of `tune_cpu`,
            so always give both to LLVM.
        masked: Vector loads and stores under a mask cost about as much as whole ones: tails need no scalar loop.
        source: Where the figures come from.
        scalable_bits: Width of the scalable vectors (SVE's) that machines of this target have, or 0: sizes are computed from it,
            and emulators start with it. Code of such vectors is right at every width.
        scalable_unit: Bits of a scalable register for each ``vscale`` of LLVM's: 128 on AArch64, 64 on RISC-V, where kernels use
            groups of two registers, so that a group has 128 bits for each.
        streaming_bits: The same for the vectors of SME's streaming mode, whose square has a tile of ZA's sums.
        by_lane: A multiply-add can take any one element of a register as an operand, for all lanes: elements of A then are
            loaded a register at a time.
        shuffle_bits: Bits of the blocks of a register within which one instruction takes every other element of two registers; 0: none
            does.
        rates: Whose issue rates and latencies these are, and where they stand: the core of the row, or, of a level of an instruction
            set, the core that it is given those of.
        model_cpu: LLVM processor whose scheduling model explains kernels of this target: it starts as many multiply-adds in a cycle.
            It decides nothing about code. Empty: `tune_cpu`.
        model_note: What the model has otherwise than the core, or why it is not the core's own; empty when there is nothing to say.
        is_level: The rates are those of a core that the row is not: it is a level of an instruction set, whose cores have several.
        adds_apart: Vector additions have units of their own, so that a multiply and an add start as often as a multiply-add.
        passes: In how many passes a vector of `vector_bits` goes through units of that part of its width, one or two: half a vector
            starts as many times as often.
        rows_ahead: Steps over K ahead of their use at which rows of an operand that L1 does not hold are prefetched, on a core whose loads
            from L2 wait otherwise, and more so where they cross lines; 0: its window of instructions reaches far enough.
        stream_ahead: Bytes ahead of its use at which what lies in order, and is read once, is prefetched into L1; 0: an eighth of L1. A
            core whose prefetchers run ahead in L2 by themselves wants them close: further ahead, lines come from memory one by one.
        aligns_branches: Jumps do not cross 32 bytes, or end there: the core would decode what is around them again in each step. That is
            half of a loop over K now and then, by where it happens to lie: f32 128 x 768 x 768 118 and 128 GFLOP/s on Cascade Lake (Intel
            341810, Mitigations for Jump Conditional Code Erratum).
        base: For "host": the name of the row it was made from; otherwise None.
        emulation: How an emulator runs kernels (see `emulated`); None: with vectors as long as the target's machines have, where one
            has to. It decides nothing about code.
    """

    name: str
    family: str
    triple: str
    features: frozenset[str]
    cpu: str
    tune_cpu: str
    vector_bits: int
    vector_registers: int
    fma_per_cycle: int
    fma_latency: int
    loads_per_cycle: int
    l1: Cache
    l2: Cache
    l3: Cache | None
    prefer_vector_width: int
    masked: bool
    source: str
    by_lane: bool = False
    shuffle_bits: int = 0
    issue_per_cycle: int = 0
    scalable_bits: int = 0
    scalable_unit: int = 128
    streaming_bits: int = 0
    rates: str = ""
    model_cpu: str = ""
    model_note: str = ""
    adds_apart: bool = False
    is_level: bool = False
    passes: int = 1
    rows_ahead: int = 0
    stream_ahead: int = 0
    aligns_branches: bool = False
    base: str | None = None
    emulation: Emulated | None = None

    def __post_init__(self) -> None:
        """Checks the row against itself, so that a mistake shows where it is written.

        Raises:
            TargetError: A name is empty, a size is not positive, the vector width is no power of two, the features are
                no frozenset of LLVM names, or an inner cache is larger than an outer one.
        """
        where = f"target {self.name!r}"
        for name in ("name", "family", "triple", "cpu", "tune_cpu", "source"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip():
                raise TargetError(f"{name} is {text!r}", where=where, expected="some text")
        _require_positive(
            where,
            vector_bits=self.vector_bits,
            vector_registers=self.vector_registers,
            fma_per_cycle=self.fma_per_cycle,
            fma_latency=self.fma_latency,
            loads_per_cycle=self.loads_per_cycle,
            prefer_vector_width=self.prefer_vector_width,
        )
        if self.vector_registers < _LEAST_REGISTERS:
            raise TargetError(
                f"vector_registers is {self.vector_registers}",
                where=where,
                expected=f"at least {_LEAST_REGISTERS}: for a sum, a row of B, an element of A and their product",
            )
        if not _is_power_of_two(self.vector_bits):
            raise TargetError(f"vector_bits is {self.vector_bits}", where=where, expected="a power of two")
        if self.passes not in (1, _MOST_PASSES):
            raise TargetError(
                f"passes is {self.passes}",
                where=where,
                expected=f"1, or {_MOST_PASSES} where half a vector of {self.vector_bits} bits takes half the time",
            )
        if type(self.rows_ahead) is not int or not 0 <= self.rows_ahead <= _MOST_ROWS_AHEAD:
            raise TargetError(
                f"rows_ahead is {self.rows_ahead!r}", where=where, expected=f"an int from 0 to {_MOST_ROWS_AHEAD}"
            )
        if type(self.stream_ahead) is not int or not 0 <= self.stream_ahead <= self.l1.bytes:
            raise TargetError(
                f"stream_ahead is {self.stream_ahead!r}", where=where, expected="an int from 0 to the bytes of L1"
            )
        for bits in (self.scalable_bits, self.streaming_bits):
            if bits:
                check_vector_length(bits, where)
        self._check_features(where)
        if self.l1.bytes > self.l2.bytes:
            raise TargetError(
                f"l1 has {self.l1.bytes} bytes, l2 has {self.l2.bytes}",
                where=where,
                expected="an L1 no larger than the L2",
            )

    def _check_features(self, where: str) -> None:
        if not isinstance(self.features, frozenset):
            raise TargetError(
                f"features is a {type(self.features).__name__}",
                where=where,
                expected="a frozenset of LLVM feature names",
                remedy="Write features=frozenset({...})",
            )
        for feature in self.features:
            if not isinstance(feature, str) or not feature or feature[0] in "+-" or set(feature) & set(", \t\n"):
                raise TargetError(
                    f"feature {feature!r}",
                    where=where,
                    expected="an LLVM feature name without sign, such as 'avx512f'",
                    remedy="`llc -mattr=help` lists them",
                )

    def __repr__(self) -> str:
        """The name, the architecture and its vectors: the features alone would fill a screen."""
        of = f" ({self.base})" if self.base else ""
        vectors = f"{self.vector_registers} vectors of {self.vector_bits} bits"
        return f"<tilewright.Target {self.name}{of}: {self.architecture}, {vectors}>"

    def _repr_html_(self) -> str:
        """For notebooks: its registers, rates, caches and features."""
        levels = {"L1": self.l1, "L2": self.l2, "L3": self.l3}
        facts = {
            "triple": self.triple,
            "vectors": f"{self.vector_registers} of {self.vector_bits} bits",
            "multiply-adds a cycle": self.fma_per_cycle,
            "latency": f"{self.fma_latency} cycles",
            **{name: f"{cache.bytes // 1024:,} KiB" for name, cache in levels.items() if cache is not None},
        }
        rows = [("features", " ".join(sorted(self.features))), ("figures from", self.source)]
        return notebook.card(f"Target {self.name}{f' ({self.base})' if self.base else ''}", facts, ("", ""), rows)

    @property
    def feature_string(self) -> str:
        """The features as LLVM's ``target-features`` attribute wants them: "+avx2,+fma,…", sorted."""
        return ",".join(f"+{feature}" for feature in sorted(self.features))

    @property
    def fuses(self) -> bool:
        """Whether a multiply-add is one instruction, which rounds once."""
        return bool(self.features & _FUSED)

    def masks(self, bits: int) -> bool:
        """Whether vectors of elements of so many bits are loaded and stored under a mask; otherwise each element is a branch.

        Smaller elements than a byte lie in bytes.
        """
        return any(least <= max(bits, 8) for feature, least in _MASKED_BITS.items() if feature in self.features)

    @property
    def scalable_group(self) -> int:
        """Bits of the scalable registers that kernels take as one on the machines of this target; 0 where there are none."""
        return self.scalable_bits * SCALABLE_BITS[0] // self.scalable_unit

    @property
    def architecture(self) -> str:
        """The first part of the triple, as ``uname -m`` says it ("x86_64")."""
        return self.triple.split("-", 1)[0]

    def emulated(self, vector_length: int | None = None, streaming_length: int | None = None) -> Target:
        """The same target, whose kernels an emulator runs: the code is the same for every length.

        Args:
            vector_length: Bits of the scalable vectors (of SVE or RVV); None: as many as the target's machines have.
            streaming_length: Bits of the vectors in SME's streaming mode; None: likewise.

        Raises:
            TargetError: The target has no such vectors, or none of such a length.
        """
        lengths = []
        for kind, asked, own in (
            ("scalable", vector_length, self.scalable_bits),
            ("streaming", streaming_length, self.streaming_bits),
        ):
            if asked is not None and not own:
                raise TargetError(
                    f"{self.name} has no {kind} vectors", where="emulated", expected="None, or a target that has them"
                )
            lengths.append(own if asked is None else check_vector_length(asked, f"target {self.name}"))
        return replace(self, emulation=Emulated(*lengths))

    def missing_from(self, features: Iterable[str]) -> tuple[str, ...]:
        """The features of this target that a machine with `features` lacks, sorted."""
        return tuple(sorted(self.features.difference(features)))

    def lanes(self, dtype: DType) -> int:
        """Elements of `dtype` in one vector register.

        Raises:
            TargetError: An element does not divide the register.
        """
        lanes, rest = divmod(self.vector_bits, dtype.bits)
        if rest:
            raise TargetError(
                f"{dtype.name} of {dtype.bits} bits does not divide a vector of {self.vector_bits} bits",
                where=f"target {self.name!r}",
            )
        return lanes

    def dots(self, a: str, b: str) -> tuple[dots.Dot, ...]:
        """How this target multiplies and sums elements of types `a` and `b`: tiles, if it has them, and the best of the rest."""
        rows = self._fitting(a, b)
        tiles = [row for row in rows if row.in_panels]
        rest = [row for row in rows if not row.in_panels]
        return (*tiles[:1], *(rest[:1] or [dots.multiply_add(a, b, self._groups(a))]))

    def scalable_dot(self, a: str, b: str) -> dots.Dot | None:
        """The best way to multiply and sum elements of types `a` and `b` on scalable vectors; None when there is none."""
        fitting = (row for row in dots.SCALABLE if (a, b) in row.operands and row.features <= self.features)
        return next(fitting, None)

    def dot_along_k(self, a: str, b: str) -> dots.Dot | None:
        """The best instruction for both of these operands as they lie in memory, along K; None where they are widened."""
        return next((row for row in self._fitting(a, b) if row.kind == "dot"), None)

    def _fitting(self, a: str, b: str) -> list[dots.Dot]:
        return [
            row
            for row in dots.FAMILIES.get(self.family, ())
            if (a, b) in row.operands and row.features <= self.features and row.bits == self.vector_bits
        ]

    def _groups(self, a: str) -> int:
        """Elements of A in the type of the sum that a multiply-add takes from one register, one by one."""
        return self.lanes(dtypes.dtype(dtypes.dtype(a).accumulator)) if self.by_lane else 1

    def dot(self, a: str, b: str) -> dots.Dot:
        """The best of `dots`."""
        return self.dots(a, b)[0]


@dataclass(frozen=True, slots=True)
class Family:
    """The rows of one architecture, and how a machine of it tells what it can do.

    Attributes:
        name: The rows' `Target.family`.
        architectures: What ``uname -m`` says on such machines, and what the triples of the rows begin with.
        rows: The targets, the most specific one last.
        flags: Linux's name of a CPU flag (in /proc/cpuinfo) to the LLVM features that it stands for.
        linux: How the architecture meets Linux.
        cores: Cores that features do not tell apart, as /proc/cpuinfo identifies them (see `tilewright.targets.host.identity`), to the
            row that has their issue rates. Instructions are chosen by features all the same.
    """

    name: str
    architectures: tuple[str, ...]
    rows: tuple[Target, ...]
    flags: Mapping[str, tuple[str, ...]]
    linux: Linux
    cores: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks that the rows are of this family, named apart, and go from general to specific.

        Raises:
            TargetError: One of these does not hold.
        """
        where = f"target family {self.name!r}"
        names = [row.name for row in self.rows]
        if len(set(names)) < len(names):
            raise TargetError(f"names repeat: {', '.join(names)}", where=where)
        if strange := sorted(set(self.cores.values()).difference(names)):
            raise TargetError(
                f"cores have the rates of {strange[0]!r}", where=where, expected=f"one of {', '.join(names)}"
            )
        for row in self.rows:
            if row.family != self.name:
                raise TargetError(f"row {row.name!r} says family {row.family!r}", where=where)
            if row.architecture not in self.architectures:
                expected = f"one for {', '.join(self.architectures)}"
                raise TargetError(f"row {row.name!r} has triple {row.triple}", where=where, expected=expected)
        for i, row in enumerate(self.rows):
            for later in self.rows[i + 1 :]:
                if later.features < row.features:
                    raise TargetError(
                        f"row {later.name!r} needs less than {row.name!r}, which stands before it",
                        where=where,
                        expected="the most specific row last",
                    )
