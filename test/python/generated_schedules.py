# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random transform schedules: each gives right numbers or an error in one line, never anything else. A part of `generated`.

A schedule is a chain of steps, each valid by itself, on what the step before it left. Sizes are mostly sensible; a few are zero,
negative or larger than the extent.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import own_schedules
import products
import tilewright as tw
from matrix import EDGES, timed
from matrix_targets import Runner
from tilewright.spec import LAYOUTS

ANY = "!transform.any_op"
_MOST_STEPS = 6
_PATTERNS = (
    "transform.apply_patterns.canonicalization",
    "transform.apply_patterns.linalg.tiling_canonicalization",
    "transform.apply_patterns.vector.reduction_to_contract",
    "transform.apply_patterns.vector.lower_contraction lowering_strategy = outerproduct",
    "transform.apply_patterns.scf.for_loop_canonicalization",
    "transform.apply_patterns.tensor.merge_consecutive_insert_extract_slice",
)


class Script:
    """The lines of a schedule so far, with the names of the handles to the product and to the last loop."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.lines = [own_schedules.MATCH]
        self.op, self.loop, self._count = "%m", "", 0

    def name(self) -> str:
        """A name that is new."""
        self._count += 1
        return f"%h{self._count}"

    def size(self, *, least: int = 1) -> int:
        """A size, mostly sensible."""
        chance = self.chance
        return (
            chance.choice((-1, 0, 1000))
            if chance.random() < 0.03
            else max(least, chance.choice((0, 1, 2, 3, 4, 5, 8, 16, 33)))
        )

    def sizes(self) -> list[int]:
        """One for each dimension of a product, some of them zero, one at least not."""
        found = [self.size() if self.chance.random() < 0.5 else 0 for _ in range(3)]
        return found if any(found) else [self.size(), 0, 0]

    def add(self, line: str) -> None:
        """Appends an op."""
        self.lines.append(line)


def _tile(script: Script) -> None:
    sizes = script.sizes()
    loops = [script.name() for size in sizes if size]
    tiled = script.name()
    order = list(range(3))
    script.chance.shuffle(order)
    interchange = f" interchange = {order}" if script.chance.random() < 0.2 else ""
    types = ", ".join([ANY] * (1 + len(loops)))
    names = ", ".join([tiled, *loops])
    script.add(
        f"{names} = transform.structured.tile_using_for {script.op} tile_sizes {sizes}{interchange} : ({ANY}) -> ({types})"
    )
    script.op, script.loop = tiled, loops[-1]


def _share(script: Script) -> None:
    """Iterations at once; over the sum, now and then, which makes a race."""
    tiled, loop = script.name(), script.name()
    kind = script.chance.choice(("tile_sizes", "num_threads"))
    sizes = script.sizes()
    if script.chance.random() < 0.9:
        sizes[2] = 0
    script.add(
        f"{tiled}, {loop} = transform.structured.tile_using_forall {script.op} {kind} {sizes} : ({ANY}) -> ({ANY}, {ANY})"
    )
    script.op = tiled


def _split_sum(script: Script) -> None:
    names = [script.name() for _ in range(4)]
    types = ", ".join([ANY] * 4)
    script.add(
        f"{', '.join(names)} = transform.structured.tile_reduction_using_for {script.op} by tile_sizes = [0, 0, {script.size()}] "
        f": ({ANY}) -> ({types})"
    )
    script.op, script.loop = names[1], names[3]


def _split(script: Script) -> None:
    parts = script.name()
    script.add(
        f"{parts} = transform.structured.split {script.op} after {script.size()} {{dimension = {script.chance.randint(0, 2)}}} : {ANY}"
    )
    script.op = parts


def _generalize(script: Script) -> None:
    general = script.name()
    script.add(f"{general} = transform.structured.generalize {script.op} : ({ANY}) -> {ANY}")
    script.op = general
    if script.chance.random() < 0.7:
        order, turned = list(range(3)), script.name()
        script.chance.shuffle(order)
        script.add(
            f"{turned} = transform.structured.interchange {script.op} iterator_interchange = {order} : ({ANY}) -> {ANY}"
        )
        script.op = turned


def _pad(script: Script) -> None:
    padded, pad, copy = script.name(), script.name(), script.name()
    multiples = [script.size(least=1) for _ in range(3)]
    flags = [script.chance.randint(0, 1) for _ in range(3)]
    script.add(
        f"{padded}, {pad}, {copy} = transform.structured.pad {script.op} pad_to_multiple_of {multiples} {{padding_values = "
        f"[0.0 : f32, 0.0 : f32, 0.0 : f32], padding_dimensions = [0, 1, 2], nofold_flags = {flags}, copy_back_op = "
        f'"none"}} : ({ANY}) -> ({ANY}, {ANY}, {ANY})'
    )
    script.op = padded


def _change_loop(script: Script) -> None:
    """Unrolls or peels the last loop, if there is one; its handle is of no use after that."""
    if not script.loop:
        return
    if script.chance.random() < 0.5:
        script.add(f"transform.loop.unroll {script.loop} {{factor = {max(1, script.size())}}} : {ANY}")
    else:
        loop, whole, rest = script.name(), script.name(), script.name()
        script.add(f'{loop} = transform.cast {script.loop} : {ANY} to !transform.op<"scf.for">')
        script.add(f'{whole}, {rest} = transform.loop.peel {loop} : (!transform.op<"scf.for">) -> ({ANY}, {ANY})')
    script.loop = ""


def _apply(script: Script) -> None:
    functions = script.name()
    script.add(f'{functions} = transform.structured.match ops{{["func.func"]}} in %root : ({ANY}) -> {ANY}')
    script.add(f"transform.apply_patterns to {functions} {{")
    script.lines += script.chance.sample(_PATTERNS, k=script.chance.randint(1, 3))
    script.add(f"}} : {ANY}")


def _vectorize(script: Script) -> None:
    masked = script.chance.random() < 0.5
    sizes = f" vector_sizes {[script.chance.choice((1, 2, 4, 8, 16)) for _ in range(3)]}" if masked else ""
    script.add(f"transform.structured.vectorize {script.op}{sizes} : {ANY}")
    if script.chance.random() < 0.5:
        _apply(script)


STEPS: Mapping[Callable[[Script], None], int] = {
    _tile: 6,
    _share: 2,
    _split_sum: 1,
    _split: 1,
    _generalize: 1,
    _pad: 2,
    _change_loop: 2,
    _apply: 2,
}
"""How often each is drawn."""


@dataclass(frozen=True)
class Case:
    """A product, and a schedule for it.

    Attributes:
        seed: What it was drawn with.
        spec: What is computed.
        threads: How many threads it is compiled for.
        lines: The ops of the schedule.
    """

    seed: int
    spec: tw.MatmulSpec
    threads: int
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.spec} (threads {self.threads}) under\n  " + "\n  ".join(self.lines) + "\n "


def draw(seed: int) -> Case:
    """The case of a seed."""
    chance = random.Random(seed)
    extents = [chance.choice(EDGES) if chance.random() < 0.97 else 0 for _ in range(3)]
    spec = tw.MatmulSpec(*extents, a="f32", layout=chance.choice(LAYOUTS), beta=chance.choice((0, 0, 1)))
    script = Script(chance)
    for step in chance.choices(list(STEPS), list(STEPS.values()), k=chance.randint(1, _MOST_STEPS)):
        step(script)
    if chance.random() < 0.6:
        _vectorize(script)
    return Case(seed, spec, 2 if chance.random() < 0.2 else 1, tuple(script.lines))


def run(case: Case, place: Runner, spent: Counter[str]) -> str:
    """Compiles a product under its schedule, and checks the numbers: "right", or what the error is."""
    del place  # What a user writes runs on this machine.
    with tempfile.TemporaryDirectory(prefix="schedule-") as folder, timed(spent, "compile"):
        path = own_schedules.written(Path(folder, "own.mlir"), *case.lines)
        try:
            kernel: Any = tw.compile(case.spec, threads=case.threads, schedule=path, cache=False)
        except tw.TilewrightError as error:
            return outcome(error)
    with timed(spent, "run"):
        products.check(kernel, products.uniform(case.spec, case.seed))
    return "right"


def outcome(error: tw.TilewrightError) -> str:
    """What an error is, which is on one line of less than 4,000 characters, and says what it is."""
    text = str(error)
    assert error.what, "an error without a word"
    assert "\n" not in text, f"an error of several lines: {text}"
    assert len(text) < 4000, f"an error of {len(text)} characters"
    if isinstance(error, tw.LoweringError) and " crashed with " in text:
        return "crashed in the child"
    return "timed out in the child" if isinstance(error, tw.LoweringError) and " took more than " in text else "refused"
