# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutants of valid MLIR: each gives right numbers or an error in one line, and ends. A part of `generated`.

Products go through ``tilewright run``, which checks what it computes by a reference of what it read; schedules through
`tilewright.compile`, whose spec says what is right; modules through `tilewright.compile_module`, whose functions are checked by
those that upstream's passes alone make, where these take them.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path

import numpy as np
import plain_module
import products
import tilewright as tw
from generated_schedules import outcome
from matrix import timed
from matrix_targets import Runner
from tilewright.cli import main
from tilewright.dtypes import to_numpy
from tilewright.payload.signature import Parameter

MODULES = sorted((Path(__file__).parents[1] / "modules").glob("*.mlir"))
SPECS = (
    tw.MatmulSpec(8, 16, 12),
    tw.MatmulSpec(33, 17, 65, beta=1),
    tw.MatmulSpec(7, 40, 64, a="u8", b="i8", layout="nt"),
)
"""Those whose schedules are changed."""
_PRODUCT = """
func.func @f(%a: tensor<8x16xf32>, %b: tensor<16x12xf32>) -> tensor<8x12xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x12xf32>
  %c0 = linalg.fill ins(%zero : f32) outs(%e : tensor<8x12xf32>) -> tensor<8x12xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x12xf32>) outs(%c0 : tensor<8x12xf32>) -> tensor<8x12xf32>
  return %c : tensor<8x12xf32>
}
"""
_ADDED = """
func.func @g(%a: tensor<16x8xbf16>, %b: tensor<16x12xbf16>, %c: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %r = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>,
    affine_map<(m, n, k) -> (m, n)>] ins(%a, %b : tensor<16x8xbf16>, tensor<16x12xbf16>) outs(%c : tensor<8x12xf32>)
    -> tensor<8x12xf32>
  return %r : tensor<8x12xf32>
}
"""
PRODUCTS = (_PRODUCT, _ADDED)
_TOKEN = re.compile(r"[%@#!]?[A-Za-z_][\w.$]*|%\d+|-?\d+(?:\.\d+)?|\"[^\"\n]*\"|->|[ \n\t]+|.", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?\Z")
_NUMBERS = (
    "0",
    "-1",
    "1",
    "2",
    "3",
    "7",
    "1000",
    "2147483648",
    "-9223372036854775808",
    "99999999999999999999",
    "0.0",
    "1e39",
)
_TYPES = ("f32", "f64", "bf16", "f16", "i8", "i32", "i1", "index", "i64", "f8E4M3FN", "complex", "none", "i17")
_LARGEST = 10**6
"""Elements of operands that are still tried."""

Change = Callable[[random.Random, list[str]], list[str]]


def _other_number(chance: random.Random, tokens: list[str]) -> list[str]:
    return _replaced(
        chance, tokens, lambda each: bool(_NUMBER.match(each)), lambda each: chance.choice((*_NUMBERS, each + "0"))
    )


def _other_type(chance: random.Random, tokens: list[str]) -> list[str]:
    return _replaced(
        chance,
        tokens,
        lambda each: each.rpartition("x")[2] in _TYPES,
        lambda each: each[: each.rfind("x") + 1] + chance.choice(_TYPES),
    )


def _other_word(chance: random.Random, tokens: list[str]) -> list[str]:
    """One word for another of the same kind: a value, a symbol, an op, a keyword."""
    words = [each for each in tokens if len(each) > 1 and not each.isspace()]
    return _replaced(
        chance,
        tokens,
        lambda each: each in words,
        lambda each: chance.choice([other for other in words if other[0] == each[0]]),
    )


def _everywhere(chance: random.Random, tokens: list[str]) -> list[str]:
    """A number or a type for another in all places, which mostly leaves the text valid."""
    text = "".join(tokens)
    sizes = sorted(set(re.findall(r"(?<![\w.#])\d+(?![\w.])|(?<=<)\d+(?=x)|(?<=x)\d+(?=x)", text)))
    types = sorted(set(re.findall(r"\b(?:f32|f64|bf16|f16|i8|i32)\b|(?<=x)(?:f32|f64|bf16|f16|i8|i32)\b", text)))
    if chance.random() < 0.6 and sizes:
        old, new = chance.choice(sizes), chance.choice((*sizes, *_NUMBERS[:6]))
        return [re.sub(rf"(?<![\w.#%-]){old}(?![\w.])|(?<=[<x]){old}(?=x)", new, text)]
    old, new = chance.choice(types or ["f32"]), chance.choice(_TYPES[:6])
    return [re.sub(rf"(?<![a-z0-9]){old}\b|(?<=x){old}\b", new, text)]


def _replaced(
    chance: random.Random, tokens: list[str], fits: Callable[[str], bool], other: Callable[[str], str]
) -> list[str]:
    places = [at for at, each in enumerate(tokens) if fits(each)]
    if not places:
        return tokens
    at = chance.choice(places)
    return [*tokens[:at], other(tokens[at]), *tokens[at + 1 :]]


def _no_token(chance: random.Random, tokens: list[str]) -> list[str]:
    at = chance.randrange(len(tokens))
    return tokens[:at] + tokens[at + chance.choice((1, 1, 2, 5)) :]


def _swapped(chance: random.Random, tokens: list[str]) -> list[str]:
    one, two = sorted(chance.sample([at for at, each in enumerate(tokens) if not each.isspace()], 2))
    return [*tokens[:one], tokens[two], *tokens[one + 1 : two], tokens[one], *tokens[two + 1 :]]


def _lines(chance: random.Random, tokens: list[str]) -> list[str]:
    """A line less, twice, or in another place."""
    lines = "".join(tokens).splitlines(keepends=True)
    at = chance.randrange(len(lines))
    line = lines.pop(at)
    for _ in range(chance.randint(0, 2)):
        lines.insert(chance.randrange(len(lines) + 1), line)
    return lines


def _characters(chance: random.Random, tokens: list[str]) -> list[str]:
    """Something that is no MLIR, or the beginning of it only."""
    text = "".join(tokens)
    at = chance.randrange(len(text))
    if chance.random() < 0.2:
        return [text[:at]]
    return [text[:at] + chance.choice(("\0", "é", '"', "(" * 50, "<", "}", "//", "?x", "*x", "\\")) + text[at:]]


CHANGES: dict[Change, int] = {
    _everywhere: 8,
    _other_number: 6,
    _other_type: 2,
    _other_word: 5,
    _no_token: 1,
    _swapped: 2,
    _lines: 3,
    _characters: 1,
}
"""How often each is made."""


@dataclass(frozen=True)
class Case:
    """A changed text.

    Attributes:
        seed: What it was drawn with.
        kind: "product", "schedule" or "module".
        number: Of which text of that kind.
        text: What it became.
        change: The changed lines.
    """

    seed: int
    kind: str
    number: int
    text: str
    change: str

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.kind} {self.number} with {self.change}"


@cache
def _schedule(number: int) -> str:
    return tw.compile(SPECS[number], target="x86-64-v3").asm["schedule"]


def _text(kind: str, number: int) -> str:
    if kind == "product":
        return PRODUCTS[number]
    return _schedule(number) if kind == "schedule" else re.sub("//.*\n", "", MODULES[number].read_text())


_COUNTS = {"product": len(PRODUCTS), "schedule": len(SPECS), "module": len(MODULES)}


def draw(seed: int) -> Case:
    """The case of a seed: a text that is not what it was."""
    chance = random.Random(seed)
    kind = chance.choice(tuple(_COUNTS))
    number = chance.randrange(_COUNTS[kind])
    before = _text(kind, number)
    text = before
    while text == before:
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            (change,) = chance.choices(list(CHANGES), list(CHANGES.values()))
            text = "".join(change(chance, _TOKEN.findall(text))) or " "
    old = set(before.splitlines())
    changed = [line.strip() for line in text.splitlines() if line not in old]
    return Case(seed, kind, number, text, " | ".join(changed)[:2000] or "lines less")


def run(case: Case, place: Runner, spent: Counter[str]) -> str:
    """Compiles a mutant and runs what became of it; in a word what that is."""
    del place  # What a user writes runs on this machine.
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder, timed(spent, case.kind):
        path = Path(folder, "mutant.mlir")
        path.write_text(case.text)
        try:
            return {"product": _run_product, "schedule": _run_schedule, "module": run_module}[case.kind](case, path)
        except tw.TilewrightError as error:
            return outcome(error)


def _run_product(case: Case, path: Path) -> str:
    said, wrong = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
        status = main(["run", str(path), "--seed", str(case.seed)])
    lines = wrong.getvalue().splitlines()
    assert status in (0, 2), f"status {status}: {said.getvalue()}{wrong.getvalue()}"
    assert status == 0 or len(lines) == 1, f"an error of {len(lines)} lines: {wrong.getvalue()}"
    return "right" if status == 0 else "refused"


def _run_schedule(case: Case, path: Path) -> str:
    spec = SPECS[case.number]
    kernel = tw.compile(spec, schedule=path, cache=False)
    products.check(kernel, products.uniform(spec, case.seed))
    return "right"


def run_module(case: Case, path: Path) -> str:
    module = tw.compile_module(case.text, filename=str(path), cache=False)
    came = "right"
    for function in module.values():
        arguments = function.signature.arguments
        if sum(_elements(each) for each in arguments) > _LARGEST:
            return "too large"
        given = _arguments(case.seed, arguments)
        ours = [each.copy() for each in given]
        result = function(*ours)
        results = () if result is None else result if isinstance(result, tuple) else (result,)
        plain = _plain(path, function.signature.name, given)
        if plain is None:
            came = "compiled"
            continue
        found = [*results, *ours]
        if not _agree(found, plain, None):
            # Unless what is computed magnifies errors: then it does so for those of the arguments, too.
            disturbed = [each * _disturbance(each) if each.dtype.kind == "f" else each for each in given]
            other = _plain(
                path,
                function.signature.name,
                [each.astype(like.dtype) for each, like in zip(disturbed, given, strict=True)],
            )
            assert _agree(found, plain, other), f"{function.signature} is not what upstream's passes make of it"
    return came


def _elements(each: Parameter) -> int:
    return prod(size if isinstance(size, int) else 5 for size in each.shape)


def _arguments(seed: int, arguments: Sequence[Parameter]) -> list[np.ndarray]:
    """Floats in [-1, 1] and small integers; five of what is open."""
    chance = np.random.default_rng(seed)
    found = []
    for each in arguments:
        shape = tuple(size if isinstance(size, int) else 5 for size in each.shape)
        of = chance.uniform(-1, 1, shape) if each.type.kind == "float" else chance.integers(0, 4, shape)
        found.append(np.asarray(of).astype(to_numpy(each.type)))
    return found


def _disturbance(each: np.ndarray) -> np.ndarray:
    return 1 + np.random.default_rng(0).uniform(-1, 1, each.shape) * 2**-18


def _plain(path: Path, name: str, given: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """What upstream's passes alone make of a function's arguments; None where they do not take it."""
    if any(each.dtype.type not in plain_module.NUMPY.values() for each in given):
        return None
    files = [path.with_name("given.npz"), path.with_name("results.npz")]
    np.savez(files[0], *given)
    command = [sys.executable, plain_module.__file__, str(path), name, *map(str, files)]
    try:
        if subprocess.run(command, capture_output=True, timeout=60, check=False).returncode:
            return None
    except subprocess.TimeoutExpired:
        return None
    with np.load(files[1]) as loaded:
        return [loaded[f"arr_{number}"] for number in range(len(loaded.files))]


def _agree(ours: Sequence[np.ndarray], plain: Sequence[np.ndarray], other: Sequence[np.ndarray] | None) -> bool:
    """Whether results are alike: to 2⁻¹⁴ of the largest element, far more than sums in another order differ by.

    With `other`, what disturbed arguments give, to as much more as that differs by.
    """
    for number, (own, known) in enumerate(zip(ours, plain, strict=True)):
        wide = known.astype(np.float64)
        if not np.isfinite(wide).all():
            continue
        allowed = 2**-14 * (1 + np.abs(wide).max(initial=0)) if known.dtype.kind == "f" else 0
        if other is not None:
            allowed = allowed + 64 * np.abs(other[number].astype(np.float64) - wide).max(initial=0)
        if own.shape != known.shape or not (np.abs(own.astype(np.float64) - wide) <= allowed).all():
            return False
    return True
