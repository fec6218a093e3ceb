# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plan of what runs on a card, as data: kernels, and the steps that use them, the most informative ones first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from tilewright.bench.card import plan_operators
from tilewright.bench.card.plan_operators import Operator
from tilewright.bench.suites import Shape, parse_shape, suite
from tilewright.payload.epilogues import parse
from tilewright.schedules.gpu_strategies import GPU_STRATEGIES
from tilewright.spec import MatmulSpec

TARGET = "sm_90a"
FUSED = "bias:n,gelu"
"""The epilogue that is timed beside a product and a kernel of its own."""


@dataclass(frozen=True, slots=True)
class Types:
    """Element types as a user says them.

    Attributes:
        a: Of A and B.
        c: Of the result, the one that cuBLASLt gives.
        tf32: Whether f32 is multiplied with the bits of tf32.
    """

    a: str
    c: str
    tf32: bool = False


TYPES: Mapping[str, Types] = MappingProxyType(
    {
        "bf16": Types("bf16", "bf16"),
        "f16": Types("f16", "f16"),
        "f8E4M3FN": Types("f8E4M3FN", "bf16"),
        "f8E5M2": Types("f8E5M2", "f32"),
        "i8": Types("i8", "i32"),
        "tf32": Types("f32", "f32", tf32=True),
        "f32": Types("f32", "f32"),
        "f64": Types("f64", "f64"),
    }
)
TIMED = ("bf16", "f16", "f8E4M3FN", "i8", "tf32")
"""Those that are timed."""
_STRATEGIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "simt": tuple(TYPES),
        "mma_sync": ("bf16", "f16", "f8E4M3FN", "f8E5M2", "i8", "tf32", "f64"),
        "warpgroup": ("bf16", "f16", "f8E4M3FN", "f8E5M2", "i8", "tf32"),
    }
)
"""Which strategies multiply which types."""
_ALONG_K = frozenset({"f8E4M3FN", "f8E5M2", "i8", "tf32"})
"""Types whose wgmma operands are contiguous along K: layout nt."""
_SMALL: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "simt": {"bm": 32, "bn": 32, "bk": 8},
        "mma_sync": {"bm": 64, "bn": 64, "wm": 32, "wn": 32},
        "warpgroup": {"bm": 128, "bn": 64},
    }
)
"""Sizes that the emulator computes within a second."""
_MODES: tuple[tuple[str, Mapping[str, int]], ...] = (
    ("nn", {"bm": 128, "bn": 128, "cluster": 2}),
    ("nn", {"bm": 64, "bn": 64, "pingpong": 1}),
    ("nn", {"bm": 16, "bn": 128, "swapped": 1, "streamed": 1}),
    ("tn", {"bm": 64, "bn": 128, "swapped": 1, "split": 2}),
    ("tt", {"bm": 64, "bn": 128, "swapped": 1}),
)
"""The other modes of `warpgroup`, each with its own waits and fences, and the layout of A and B it is checked in."""
WHOLE, ODD = "512x512x512", "457x514x330"
"""What is checked: whole tiles, and a size that is a multiple of nothing."""
_QUICK_EDGES = ("4096x4096x4096", "8192x8192x8192")
_QUICK_DECODE = ("1x4096x4096", "16x28672x4096", "64x4096x14336")
"""Linear layers of few rows."""
TOOLS: Mapping[str, str] = MappingProxyType(
    {"memcheck": "compute-sanitizer", "racecheck": "compute-sanitizer", "profile": "ncu"}
)
"""Kinds of steps that run under one of NVIDIA's tools, and its program."""
TIMES = ("time", "attention")
"""Kinds of steps that are timed beside peers."""
RANKED = 10
"""How many of the sizes that the model of `warpgroup` compares are tried: those that it predicts to be fastest."""
CANDIDATES: tuple[Mapping[str, int], ...] = (
    {"bm": 128, "bn": 256, "consumers": 2, "cluster": 2},
    {"bm": 128, "bn": 256, "consumers": 2, "cluster": 2, "band": 4},
    {"bm": 128, "bn": 256, "consumers": 2, "cluster": 2, "band": 16},
    {"bm": 128, "bn": 256, "consumers": 2, "cluster": 2, "beside": 2},
    {"bm": 128, "bn": 128, "consumers": 2, "cluster": 2},
    {"bm": 128, "bn": 128, "consumers": 2, "cluster": 2, "band": 16},
    {"bm": 128, "bn": 128, "pingpong": 1},
    {"bm": 64, "bn": 256, "pingpong": 1},
    {"bm": 64, "bn": 128, "pingpong": 1, "cluster": 2},
)
"""What is tried besides, of products of more than `FEW` rows: bands, and ways that the model does not compare."""
FEW_ROWS: tuple[Mapping[str, int], ...] = (
    {"swapped": 1, "bm": 16, "bn": 128, "split": 4},
    {"swapped": 1, "bm": 64, "bn": 128, "split": 4},
)
"""Of products of at most so many."""
FEW = 64
_FIRST, _LATER = (8192, 4096), (16384, 2048, 1024)
"""Edges of cubes."""
_LLM_ROWS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the bundle, for every M, N and K.

    Attributes:
        types: The name of a row of `TYPES`.
        layout: How A and B are stored.
        strategy: The strategy.
        sizes: Those of its sizes that are given.
        epilogue: What is done to the sums.
        aligned: Whether it is the form for rows of whole pieces of 16 bytes, or the one for any rows.
        boxed: Whether it is the form for a result whose rows are whole pieces of 16 bytes, or the one for any.
    """

    types: str
    layout: str
    strategy: str
    sizes: tuple[tuple[str, int], ...] = ()
    epilogue: str = ""
    aligned: bool = True
    boxed: bool = True

    @property
    def key(self) -> str:
        """Its name in the bundle, the same on every machine."""
        text = plan_operators.named(self)
        return f"{self.strategy}-{self.types}-{self.layout}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def spec(self) -> MatmulSpec:
        """What it computes."""
        return spec_of(self.types, self.layout, self.epilogue)


@dataclass(frozen=True, slots=True)
class Step:
    """Something to run on the card.

    Attributes:
        kind: "layout": the same bits as the emulator; "check": right numbers; "operator": those of an operator; one of `TIMES`: beside
            the peers; or one of `TOOLS`.
        shape: M, N and K.
        kernels: What is run: of what is timed, the model's choice first.
        predicted: Cycles that the model predicts of each kernel; empty, or None, where it does not.
        code: What identifies the kernels' machine code, in a bundle.
        quick: Whether it is one of a quick run.
    """

    kind: str
    shape: Shape
    kernels: tuple[Kernel | Operator, ...]
    predicted: tuple[float | None, ...] = ()
    code: str = ""
    quick: bool = False

    @property
    def key(self) -> str:
        """Its name in the records: the same as long as it asks for the same."""
        first = self.kernels[0]
        own = f" {first.key}" if self.kind != "time" else ""
        # A quick run times fewer choices: another measurement than the whole plan's.
        kind = f"quick {self.kind}" if self.quick and self.kind in TIMES else self.kind
        return f"{kind} {first.types} {first.layout} {self.shape} {first.epilogue or '-'}{own}"


def spec_of(types: str, layout: str, epilogue: str = "", shape: Shape | None = None) -> MatmulSpec:
    """The spec of a row of `TYPES`; without a shape, for every one."""
    row = TYPES[types]
    m, n, k = (None, None, None) if shape is None else (shape.m, shape.n, shape.k)
    entries = parse(epilogue) if epilogue else ()
    return MatmulSpec(m, n, k, a=row.a, b=row.a, c=row.c, layout=layout, tf32=row.tf32, epilogue=entries)


def layouts() -> Iterator[Step]:
    """Tiny products of whole numbers, exact in any order, so that card and emulator agree in every bit or in none of a fragment."""
    for kernel in _small("layout"):
        yield Step("layout", parse_shape("128x64x128"), (kernel,))


def checks() -> Iterator[Step]:
    """Every strategy with every type it multiplies: at whole tiles, and at a size that is a multiple of nothing."""
    for kernel in _small("check"):
        yield Step("check", parse_shape(WHOLE), (kernel,))
        # Threads that load pieces of 16 bytes need rows of whole pieces; copies of boxes do not.
        boxes = GPU_STRATEGIES[kernel.strategy].from_shared
        yield Step("check", parse_shape(ODD), (replace(kernel, aligned=boxes, boxed=not boxes),))


def operators(*, quick: bool = False) -> Iterator[Step]:
    """Attention and convolutions, at sizes that are multiples of nothing."""
    for kernel in plan_operators.kernels(quick=quick):
        yield Step("operator", kernel.shape, (kernel,))


def quick() -> Iterator[Step]:
    """What the first minutes on a card are for, but its timings: fragments and descriptors of wgmma, and NVIDIA's own checkers."""
    small = [step for step in layouts() if GPU_STRATEGIES[step.kernels[0].strategy].needs == "wgmma"]
    kept = [step for step in small if step.kernels[0].types in ("bf16", "f8E4M3FN")]
    yield from kept
    plain, *_ = kept
    clustered, turns = (
        next(each for each in kept if dict(each.kernels[0].sizes).get(name)) for name in ("cluster", "pingpong")
    )
    for step in (plain, clustered, turns):
        for kind in ("memcheck", "racecheck"):
            yield replace(step, kind=kind)
    yield from operators(quick=True)


def attentions() -> Iterator[Step]:
    """Attention that is timed, all of whose sizes are tried."""
    for kernels in plan_operators.timed():
        yield Step("attention", kernels[0].shape, kernels)


def quick_timings() -> Iterator[tuple[str, str, Shape, str]]:
    """Types, layout, shape and epilogue of each measurement of a quick run."""
    for shape in _QUICK_EDGES:
        yield "bf16", "nn", parse_shape(shape), ""
    yield "f8E4M3FN", "nt", parse_shape(_QUICK_EDGES[0]), ""
    for shape in _QUICK_DECODE:
        yield "bf16", "nt", parse_shape(shape), ""


def quick_of(step: Step) -> Step:
    """A measurement as a quick run has it: of the model's choice alone."""
    return replace(step, kernels=step.kernels[:1], predicted=step.predicted[:1])


def _small(kind: str) -> Iterator[Kernel]:
    for strategy, names in _STRATEGIES.items():
        from_shared = GPU_STRATEGIES[strategy].from_shared
        for name in names:
            every = ("nt",) if from_shared and name in _ALONG_K else ("nn", "nt", "tn", "tt")
            for layout in every if kind == "check" or from_shared else every[:2]:
                yield Kernel(name, layout, strategy, tuple(sorted(_SMALL[strategy].items())))
    for layout, sizes in _MODES:
        yield Kernel("bf16", layout, "warpgroup", tuple(sorted(sizes.items())))


def linear() -> tuple[Shape, ...]:
    """The linear layers of language models, from one row to 8192."""
    pairs = dict.fromkeys((each.n, each.k) for each in suite("llm").shapes)
    return tuple(Shape(rows, n, k) for n, k in pairs for rows in _LLM_ROWS)


def timings() -> Iterator[tuple[str, str, Shape, str]]:
    """Types, layout, shape and epilogue of each measurement: what the aims are about first, then what else is of use."""
    first, later = ([("nn", Shape(edge, edge, edge)) for edge in edges] for edges in (_FIRST, _LATER))
    layers = [("nt", shape) for shape in linear()]
    groups: tuple[tuple[Sequence[str], str, list[tuple[str, Shape]]], ...] = (
        (("bf16", "f16"), "", first),
        (("bf16",), "", layers),
        (("f8E4M3FN",), "", [*first, *layers]),
        (("bf16",), FUSED, [*first, *layers]),
        (("f16",), "", layers),
        (("i8", "tf32"), "", first),
        (TIMED, "", later),
        (("i8", "tf32"), "", layers),
    )
    every = (
        (name, "nt" if name in _ALONG_K else layout, shape, epilogue)
        for names, epilogue, some in groups
        for layout, shape in some
        for name in names
    )
    yield from dict.fromkeys(every)
