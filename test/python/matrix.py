# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Specs drawn from a table of axes, compiled and run on operands between guard pages: a part of `generated`."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import products
import tilewright as tw
from guard_pages import PLACINGS, Guarded, Placing
from matrix_targets import HOST, Runner
from tilewright.dtypes import COMBINATIONS, STORED
from tilewright.entries import Epilogue as Entry
from tilewright.payload.reference import within_bound
from tilewright.payload.samples import values
from tilewright.spec import LAYOUTS, OperandSpec

Drawn = Mapping[str, Any]
"""What was drawn so far, by the axes' names."""

EDGES = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65)
"""Extents around those of vectors and register tiles."""
LONGEST = 140
SHARED = range(130, 200)
"""Extents of products that are large enough for two threads."""

STRATEGIES = ("packed", "unpacked", "streamed", "inner_product")
"""Those that every target takes; others are chosen by targets that have the instructions."""

FLOAT_ENTRIES: tuple[Callable[[random.Random], Any], ...] = (
    lambda _: tw.bias("n"),
    lambda _: tw.bias("m"),
    lambda _: tw.residual("mn"),
    lambda _: tw.residual(""),
    lambda _: tw.multiply("n"),
    lambda r: tw.scale(r.choice((0.5, -1.25))),
    lambda r: tw.scale_by(r.choice(("n", "m", ""))),
    lambda _: tw.relu(),
    lambda _: tw.leaky_relu(0.1),
    lambda _: tw.clamp(-1, 2),
    lambda r: tw.gelu(r.choice(("erf", "tanh"))),
    lambda _: tw.silu(),
    lambda _: tw.hardswish(),
    lambda _: tw.sigmoid(),
    lambda _: tw.tanh(),
    lambda _: tw.exp(),
    lambda _: lambda c, s: tw.math.tanh(c * s),
    lambda _: tw.function(lambda c, s, r: tw.math.where(c > 0, c * s, r), s="m", r="mn"),
)
"""What may follow a sum of floats."""
HALF_ENTRIES = (lambda _: tw.cast("bf16"), lambda _: tw.bias("n", "bf16"), lambda _: tw.residual("mn", "f16"))
"""What may follow one of f32 beside."""
QUANTIZE = (lambda _: tw.quantize(0.05, 3, "i8"), lambda _: tw.quantize(0.02, 128, "u8"))
"""What may end such an epilogue."""
INT_ENTRIES = (lambda _: tw.bias("n"), lambda _: tw.bias("m"), lambda _: tw.relu(), lambda _: tw.residual("mn"))
ROW_ENTRIES = (lambda _: tw.softmax(), lambda _: tw.row_sum(), lambda _: tw.row_max())
"""What may end an epilogue and needs whole rows."""
DEQUANTIZE = (lambda _: tw.dequantize(1e-4), lambda _: tw.dequantize("n", 7), lambda _: tw.dequantize("m"))


def _epilogue(chance: random.Random, drawn: Drawn) -> tuple[Any, ...]:
    """Nothing for half of all, otherwise up to three entries that fit the sum's type."""
    if chance.random() < 0.5:
        return ()
    acc = drawn["types"].acc
    kinds: list[Callable[[random.Random], Any]] = []
    if acc == "i32":
        kinds += chance.choices(INT_ENTRIES, k=chance.randint(0, 2))
        kinds.append(chance.choice(DEQUANTIZE))
    wider = FLOAT_ENTRIES if acc == "f64" else FLOAT_ENTRIES + HALF_ENTRIES
    kinds += chance.choices(wider, k=chance.randint(0 if kinds else 1, 3))
    if acc != "f64" and chance.random() < 0.12:
        kinds.insert(0, lambda r: tw.glu(r.choice(("silu", "gelu"))))
    if chance.random() < 0.2:
        kinds.append(chance.choice(QUANTIZE if chance.random() < 0.6 else ROW_ENTRIES))
    return tuple(kind(chance) for kind in kinds)


def _prologues(chance: random.Random, drawn: Drawn) -> dict[str, Any]:
    """Mostly none; otherwise rows of a table, functions of elements, or weights of bytes that are made floats."""
    fields: dict[str, Any] = {}
    types = drawn["types"]
    back = () if types.a in ("f32", "f64") else (tw.cast(types.a),)
    if types.acc == "i32" or chance.random() < 0.8:
        return fields
    kinds = [tw.scale(0.5), tw.silu(), tw.function(lambda x, s: x * s, s="k"), tw.function(lambda x, s: x + s, s="")]
    if chance.random() < 0.5:
        fields["prologue_a"] = (chance.choice(kinds), *back)
    if not fields or chance.random() < 0.3:
        fields["prologue_b"] = (chance.choice(kinds), *back)
        if chance.random() < 0.4 and types.a != "f64":
            fields |= {"b": "i8", "prologue_b": (tw.dequantize("n"), *back)}
    if chance.random() < 0.3:
        fields["prologue_a"] = (
            tw.gather_rows(chance.randint(1, 50), chance.choice(("i32", "i64"))),
            *fields.get("prologue_a", ()),
        )
    return fields


def _small(chance: random.Random, drawn: Drawn) -> dict[str, str]:
    """Mostly nothing; otherwise an A, a B or both of types that are stored only, and widened to those drawn."""
    types = drawn["types"]
    fused = drawn["schedule"] in (None, "packed") and set(drawn["dynamic"]) <= {"m"}
    if chance.random() < 0.6 or drawn["prologues"] or not fused:
        return {}
    fitting = {field: [each for each in STORED if getattr(types, field) in STORED[each]] for field in ("a", "b")}
    chosen = chance.choice((("a",), ("b",), ("b",), ("a", "b")))
    return {
        field: chance.choice([each for each in fitting[field] if each != "f8E8M0FNU"])
        for field in chosen
        if fitting[field]
    }


def _dynamic(chance: random.Random, drawn: Drawn) -> dict[str, tw.Dim]:
    """Mostly none; otherwise some of the extents, of which the drawn ones are one call's. With a packed B often the rows."""
    if chance.random() < (0.5 if drawn["b_packed"] else 0.94) or drawn["schedule"] or drawn["sizes"]:
        return {}
    dims = {}
    # What only packing fuses wants all of K in a panel, and some of it whole rows; a packed B has its size.
    open_names = "m" if _packs(drawn) or drawn["b_packed"] else "mnk"
    for name, extent in zip("mnk", drawn["extents"], strict=True):
        if chance.random() < 0.6 and name in open_names:
            multiple = chance.choice([each for each in (1, 1, 2, 4, 8) if extent % each == 0])
            dims[name] = chance.choice((tw.Dim(), tw.Dim(multiple=multiple), tw.Dim(min=extent // 2, max=2 * extent)))
    return dims


def _extents(chance: random.Random, drawn: Drawn) -> tuple[int, int, int]:
    """Odd ones, some with few rows or columns; with several threads large ones, of which there is work for them."""
    if drawn["threads"] > 1:
        return chance.choice(SHARED), chance.choice(SHARED), chance.choice(SHARED)

    def extent() -> int:
        return chance.choice(EDGES) if chance.random() < 0.5 else chance.randint(chance.random() < 0.95, LONGEST)

    few, m, n, k = chance.random(), extent(), extent(), extent()
    if few < 0.1:
        return chance.randint(1, 16), n, k
    return (m, chance.choice((1, 1, 2, 5)), k) if few < 0.2 else (m, n, k)


def _batch(chance: random.Random, _: Drawn) -> dict[str, tuple[int, ...]]:
    """Mostly none; otherwise up to three extents, of which A, or B, has all, the last ones, or ones in place of some."""
    if chance.random() < 0.75:
        return {}
    batch = tuple(
        chance.choice((1, 2, 2, 3, 5, 0) if chance.random() < 0.2 else (1, 2, 3)) for _ in range(chance.randint(1, 3))
    )
    fields = {"batch": batch}
    for field in ("a_batch", "b_batch"):
        if chance.random() < 0.4:
            own = batch[chance.randint(0, len(batch)) :]
            fields[field] = tuple(each if chance.random() < 0.7 else 1 for each in own)
    return fields


def _open_batch(chance: random.Random, drawn: Drawn) -> dict[int, tw.Dim]:
    """Mostly none; otherwise the dynamic axes of the batch."""
    fields = drawn["batch"]
    batch = fields.get("batch", ())
    told = set() if {"a_batch", "b_batch"} <= fields.keys() else set(range(len(batch)))
    for own in (fields[field] for field in ("a_batch", "b_batch") if field in fields):
        told |= {axis for axis, size in enumerate(own, len(batch) - len(own)) if size != 1}
    # Nobody else tells what a C that is not given has.
    return {axis: tw.Dim(max=8) for axis in range(len(batch)) if chance.random() < 0.15 and axis in told}


def _packs(drawn: Drawn) -> bool:
    """Whether it has something that only packing fuses."""
    entries = [each for each in drawn["epilogue"] if isinstance(each, Entry)]
    return bool(drawn["prologues"]) or any(each.form != "each" or each.name.startswith("glu") for each in entries)


def _schedule(chance: random.Random, drawn: Drawn) -> str | None:
    """Mostly what is chosen; otherwise one that can do it."""
    _, n, _ = drawn["extents"]
    along_k = n == 1 or drawn["layout"][1] == "t"
    names = ["packed"] if _packs(drawn) else [name for name in STRATEGIES if name != "inner_product" or along_k]
    free = drawn["b_packed"] or drawn["deterministic"]
    return None if free or chance.random() < 0.5 else chance.choice(names)


def _sizes(chance: random.Random, drawn: Drawn) -> dict[str, int]:
    """Mostly the model's; otherwise blocks of which the product has several."""
    if drawn["schedule"] not in (None, "packed", "unpacked") or chance.random() < 0.7:
        return {}
    return {"mc": chance.randint(8, 64), "nc": chance.randint(16, 96), "kc": chance.randint(8, 64)}


Axes = tuple[tuple[str, Callable[[random.Random, Drawn], Any]], ...]
"""Names, and what draws a value of each."""

AXES: Axes = (
    ("types", lambda r, _: r.choice(COMBINATIONS)),
    ("layout", lambda r, _: r.choice(LAYOUTS)),
    ("beta", lambda r, _: r.choice((0, 0, 1))),
    ("b_packed", lambda r, _: r.random() < 0.15),
    ("threads", lambda r, _: 2 if r.random() < 0.06 else 1),
    ("extents", _extents),
    ("batch", _batch),
    ("epilogue", _epilogue),
    ("prologues", _prologues),
    ("deterministic", lambda r, _: r.random() < 0.1),
    ("schedule", _schedule),
    ("sizes", _sizes),
    ("dynamic", _dynamic),
    ("target", lambda r, _: "host" if r.random() < 0.5 else r.choice(products.LEVELS)),
    ("placings", lambda r, _: r.choices(PLACINGS, k=3)),
    ("open_batch", _open_batch),
    ("small", _small),
    ("factors", lambda r, _: _factors(r)),
)
"""What a case is made of, each drawn with what was drawn before it at hand."""


@dataclass(frozen=True)
class Case:
    """A spec, and how it is compiled and called.

    Attributes:
        seed: What it was drawn with.
        spec: What is computed.
        calls: With which extents it is called, those of the batch last: those drawn, and, where any are dynamic, others.
        options: How it is compiled: threads, schedule, parameters and target.
        placings: Of A and the further operands in turn, of B, and of C.
    """

    seed: int
    spec: tw.MatmulSpec
    calls: tuple[tuple[int, ...], ...]
    options: Mapping[str, Any]
    placings: list[Placing]

    def __str__(self) -> str:
        options = ", ".join(f"{name} {value}" for name, value in self.options.items() if value not in (None, {}))
        return f"seed {self.seed}: {self.spec} ({options}; {'; '.join(map(_placing, self.placings))})"


def _placing(placing: Placing) -> str:
    side = "end" if placing.at_end else "start"
    return f"{'each row' if placing.fenced else 'all'} at {side}, gap {placing.gap}"


def draw(seed: int, axes: Axes = AXES) -> Case:
    """The case of a seed: the first draw from `axes` that a spec can say."""
    chance = random.Random(seed)
    while True:
        drawn: dict[str, Any] = {}
        for name, of in axes:
            drawn[name] = of(chance, drawn)
        try:
            spec = _spec(drawn)
        except tw.SpecError:
            continue
        is_open = drawn["dynamic"] or drawn["open_batch"]
        first = (*drawn["extents"], *drawn["batch"].get("batch", ()))
        calls = (first, *(_other(chance, drawn) for _ in range(2 if is_open else 0)))
        options = {name: drawn[name] for name in ("target", "threads", "schedule")} | {"parameters": drawn["sizes"]}
        return Case(seed, spec, calls, options, drawn["placings"])


def _factors(chance: random.Random) -> Drawn:
    """Alpha and beta, mostly as they are usually."""
    usual = {} if chance.random() < 0.8 else {"alpha": chance.choice((1, 2, -3, 0, "arg"))}
    return usual | ({} if chance.random() < 0.9 else {"beta": chance.choice((-2, 3, "arg"))})


def _spec(drawn: Drawn) -> tw.MatmulSpec:
    """The spec of what was drawn."""
    types = drawn["types"]
    fields = {name: drawn[name] for name in ("layout", "beta", "b_packed", "epilogue", "deterministic")}
    fields |= drawn["factors"]
    fields |= {"a": types.a, "b": types.b, "acc": types.acc} | ({} if drawn["epilogue"] else {"c": types.c})
    fields |= dict(zip("mnk", drawn["extents"], strict=True)) | drawn["prologues"] | drawn["dynamic"] | drawn["small"]
    for field in drawn["small"]:
        fields[f"prologue_{field}"] = (tw.cast(getattr(types, field)),)
    return tw.MatmulSpec(**fields | _opened(drawn))


def _opened(drawn: Drawn) -> dict[str, Any]:
    """The batch as drawn, but for the axes that are open; what an operand has one of along such an axis, it has for all."""
    fields = drawn["batch"]
    if not fields:
        return {}
    rank, dims = len(fields["batch"]), drawn["open_batch"]
    opened = {"batch": tuple(dims.get(axis, size) for axis, size in enumerate(fields["batch"]))}
    for field in fields.keys() - {"batch"}:
        own = enumerate(fields[field], rank - len(fields[field]))
        opened[field] = tuple(None if axis in dims and size != 1 else size for axis, size in own)
    return opened


def _other(chance: random.Random, drawn: Drawn) -> tuple[int, ...]:
    """Other extents that the dynamic ones can be."""
    found = []
    for name, extent in zip("mnk", drawn["extents"], strict=True):
        dim = drawn["dynamic"].get(name)
        while dim and (extent := chance.randint(0, LONGEST) // dim.multiple * dim.multiple) not in dim:
            pass
        found.append(extent)
    batch = drawn["batch"].get("batch", ())
    found += [chance.randint(0, 4) if axis in drawn["open_batch"] else size for axis, size in enumerate(batch)]
    return tuple(found)


def run(case: Case, place: Runner, spent: Counter[str]) -> str:
    """Compiles a case, calls it, and checks each element of the result and each byte around the operands."""
    spec = case.spec if place.packs else replace(case.spec, b_packed=False)
    with timed(spent, "compile"):
        kernel = place.compile(spec, case.options)
    for extents in case.calls:
        _call(kernel, spec.at(*extents), case, place, spent)
    return "right"


def _call(kernel: tw.Kernel, spec: tw.MatmulSpec, case: Case, on: Runner, spent: Counter[str]) -> None:
    """One call, whose extents `spec` has."""
    random_values = np.random.default_rng(case.seed)
    inputs = [_values(random_values, each, spec) for each in spec.operands]
    former = _values(random_values, OperandSpec("c", spec.c_shape, spec.c_type), spec)
    if not spec.beta:
        former[...] = products.foreign(former.dtype)
    first, second, last = case.placings
    places = [(first, second)[index % 2] for index in range(len(inputs))]
    guarded = [Guarded(each, place) for each, place in zip(inputs, places, strict=True)]
    result = Guarded(former, last)
    for each in guarded:
        each.make_read_only()
    given: list[Any] = [each.matrix for each in guarded]
    if spec.b_packed:
        given[1] = kernel.pack_b(given[1])
    with timed(spent, "run"):
        kernel(*given, out=result.matrix)
    with timed(spent, "reference"):
        _assert_right(spec, (*inputs, former) if spec.beta else inputs, result.matrix)
    assert not result.is_written_around(), f"{spec}: something around C was written"
    if on is HOST and not spec.beta:
        again = kernel(*given)
        assert again.tobytes() == np.ascontiguousarray(result.matrix).tobytes(), f"{spec}: other bits in another call"


def _assert_right(spec: tw.MatmulSpec, given: Any, result: np.ndarray) -> None:
    expected, bound = tw.reference(spec, *given), tw.error_bound(spec, *given)
    wrong = np.argwhere(~within_bound(result, expected, bound))
    assert len(wrong) == 0, (
        f"{len(wrong)} elements of {spec} are wrong, the first at {wrong[0]}: {result[tuple(wrong[0])]!r}, "
        f"expected {expected[tuple(wrong[0])]!r} ± {bound[tuple(wrong[0])]!r}"
    )


def _values(chance: np.random.Generator, each: OperandSpec, spec: tw.MatmulSpec) -> np.ndarray:
    """Floats in [-1, 1], integers over their whole range; those of 32 bits of a size that sums have; numbers of rows."""
    if each.name == "index":
        return chance.integers(0, spec.prologue_a[0].rows, each.shape, np.dtype(each.type.numpy))
    if each.type.name == "i32":
        return chance.integers(-(10**6), 10**6, each.shape, np.int32)
    return values(chance, each.shape or (1,), each.type).reshape(each.stored)


@contextmanager
def timed(spent: Counter[str], what: str) -> Iterator[None]:
    """Adds the milliseconds that something takes."""
    start = time.perf_counter()
    yield
    spent[what] += round(1000 * (time.perf_counter() - start))
