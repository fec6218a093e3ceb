# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A contender of an operator's comparison, in this process or in its own, and its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from tilewright.bench.contender import Call, Calls
from tilewright.bench.operands import copied
from tilewright.bench.peer_process import PeerProcess
from tilewright.dtypes import to_numpy
from tilewright.operand import OperandSpec
from tilewright.operator_specs import OperatorSpec
from tilewright.payload.samples import aligned


class Case(Protocol):
    """What is measured: hashable, can be pickled, and its text is what tables call it."""

    @property
    def streams(self) -> bool:
        """Whether operands come from memory each time: its work is bytes, not operations."""
        ...

    def spec(self, asked: str) -> OperatorSpec:
        """Our spec of it in the type asked for."""
        ...

    def work(self, asked: str) -> int:
        """Operations of a call, or bytes."""
        ...

    def values(self, random: np.random.Generator, operand: OperandSpec) -> np.ndarray:
        """An operand."""
        ...


@dataclass(frozen=True, slots=True)
class Arrays:
    """The operands of a case in the order of its spec, and its result, not yet computed."""

    inputs: tuple[np.ndarray, ...]
    result: np.ndarray


def arrays(case: Case, asked: str, total_bytes: int = 0, seed: int = 0) -> list[Arrays]:
    """The same values in every process that asks for them; of a case that streams so many copies that they take `total_bytes`."""
    random = np.random.default_rng(seed)
    spec = case.spec(asked)
    values = [case.values(random, each) for each in spec.operands]
    copies = max(1, -(-total_bytes // case.work(asked))) if case.streams else 1
    return [_copy(values, spec.result) for _ in range(copies)]


def _copy(values: Sequence[np.ndarray], result: OperandSpec) -> Arrays:
    out = aligned(result.shape, to_numpy(result.type))
    out.fill(0)
    return Arrays(tuple(map(copied, values)), out)


Bind = Callable[[Any, str, Arrays], Call]
"""Makes the timed call out of a case, the type asked for and its operands; constants may be put in any order ahead of it."""
Fetch = Callable[[Any, Arrays], np.ndarray]
"""Makes an array like the operands' result of what a call returned."""


class Caller(Calls):
    """Calls of an operator in this process."""

    def __init__(self, name: str, version: str, bind: Bind, fetch: Fetch) -> None:
        """Takes what makes the call; the rest is as for `Calls`."""
        super().__init__(name, version, fetch)
        self._bind = bind

    def load(self, case: Case, asked: str, total_bytes: int) -> None:
        """Makes the operands, in as many copies as take so many bytes, and the calls."""
        self.take(arrays(case, asked, total_bytes), partial(self._bind, case, asked))


Contender = Caller | PeerProcess
"""A contender that is measured, in this process or in its own."""
