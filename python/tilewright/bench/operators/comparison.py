# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures an operator: ours, every library and the machine's limit in turn, each result checked first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import Any

import numpy as np

from tilewright.bench import on_workers
from tilewright.bench.bandwidth import working_sets
from tilewright.bench.checks import CheckError
from tilewright.bench.machine import describe, version
from tilewright.bench.operators.contender import Arrays, Caller, Case, Contender, PeerProcess, arrays
from tilewright.bench.operators.results import LIMIT, Key, Result
from tilewright.bench.peak import Peak, Rate, StreamPeak
from tilewright.bench.peers import PEERS
from tilewright.bench.rows import OURS, Rates
from tilewright.bench.timing import cores
from tilewright.bench.turns import take_turns
from tilewright.errors import TilewrightError
from tilewright.payload.operators import reference
from tilewright.payload.reference import relative_error
from tilewright.runtime.compile import compile as compile_kernel
from tilewright.runtime.kernel import Kernel
from tilewright.targets import Target, resolve


@dataclass(frozen=True, slots=True)
class Comparison:
    """An operator that is compared.

    Attributes:
        name: Its name in results and in `pages.PAGES`.
        tolerances: By type that can be asked for, the relative error in the Frobenius norm that every contender stays below: a
            few roundings of the result.
        libraries: Rows of `bench.peers`.
        worker: The module that a library's process runs.
    """

    name: str
    tolerances: Mapping[str, float]
    libraries: tuple[str, ...]
    worker: str

    def run(
        self,
        cases: Sequence[Case],
        asked: str,
        *,
        target: str | Target = "host",
        libraries: Sequence[str] | None = None,
        threads: int = 1,
        rounds: int = 7,
        min_seconds: float = 0.03,
        memory: int | None = None,
        finished: Mapping[Key, Result] | None = None,
        done: Callable[[Result], object] = lambda result: None,
        jobs: Executor | None = None,
    ) -> list[Result]:
        """Measures cases; constant operands are packed ahead of time where ours takes them so.

        Args:
            cases: Which.
            asked: The type.
            target: What ours is compiled for.
            libraries: Those that must take part; None: all that are installed.
            threads: Of each contender.
            rounds: Samples of each contender.
            min_seconds: What a sample lasts at least.
            memory: Bytes of operands that a case that streams goes through in turn; None: twice what the caches hold.
            finished: Results of an earlier run; what is there is not measured again.
            done: Told each new result.
            jobs: Whose workers measure, each case by itself; None: this process.

        Raises:
            TilewrightError: The type or a library is unknown, or a library that must take part is not there.
            CheckError: A result is wrong.
        """
        if asked not in self.tolerances:
            known = ", ".join(self.tolerances)
            raise TilewrightError(f"no {self.name} of {asked!r}", where="bench", expected=f"one of {known}")
        row = resolve(target)
        keys = {case: Key(self.name, str(case), asked, threads, row.name) for case in cases}
        found = {key: result for key, result in (finished or {}).items() if key in keys.values()}
        waiting = [case for case in cases if keys[case] not in found]
        if jobs is not None:
            how = {"target": target, "libraries": libraries, "threads": threads, "rounds": rounds}
            how |= {"min_seconds": min_seconds, "memory": memory}
            wanted = [(threads, (self, case, asked, how)) for case in waiting]
            for number, result in on_workers.results(_one, wanted, jobs):
                found[keys[waiting[number]]] = result
                done(result)
            return [found[keys[case]] for case in cases]
        absent = self._absent(libraries)
        on = cores(threads)
        if memory is None:
            memory = working_sets(row, threads)["memory"] if any(each.streams for each in cases) else 0
        with ExitStack() as stack:
            members = {
                name: stack.enter_context(closing(PeerProcess(PEERS[name], threads, on, worker=self.worker)))
                for name in self.libraries
                if name not in absent and waiting
            }
            limits: dict[bool, Rate] = {}
            for case in waiting:
                if case.streams not in limits:
                    limits[case.streams] = stack.enter_context(closing(_limit(case, asked, row, memory, on)))
                turns = partial(
                    take_turns,
                    limits={LIMIT: limits[case.streams]},
                    rounds=rounds,
                    min_seconds=min_seconds,
                    on_cores=on,
                    after_round=lambda _: None,
                )
                kernel = compile_kernel(case.spec(asked), target=row, threads=threads, cache=False)
                found[keys[case]] = self._measured(keys[case], case, kernel, members, absent, memory, turns)
                done(found[keys[case]])
        return [found[keys[case]] for case in cases]

    def _absent(self, libraries: Sequence[str] | None) -> dict[str, str]:
        """Why libraries do not take part.

        Raises:
            TilewrightError: One is unknown, or must take part and is not there.
        """
        for name in libraries or ():
            if name not in self.libraries:
                known = ", ".join(self.libraries)
                raise TilewrightError(f"no {self.name} of {name!r}", where="bench", expected=f"some of {known}")
            if missing := PEERS[name].missing():
                raise TilewrightError(missing, where=f"peer {name}")
        if libraries is None:
            return {name: missing for name in self.libraries if (missing := PEERS[name].missing())}
        return {name: "not asked for" for name in self.libraries if name not in libraries}

    def _measured(
        self,
        key: Key,
        case: Case,
        kernel: Kernel,
        members: Mapping[str, Contender],
        absent: Mapping[str, str],
        memory: int,
        turns: Callable[..., Mapping[str, Rates]],
    ) -> Result:
        """One case; a library that refuses it is absent from its result."""
        absent, asked = dict(absent), key.dtype
        (given,) = arrays(case, asked)
        expected = reference(kernel.spec, *given.inputs)
        ours = Caller(OURS, version(), partial(_bind, kernel), lambda _, each: each.result)
        contenders: dict[str, Contender] = {}
        errors = {}
        for name, each in {OURS: ours, **members}.items():
            try:
                each.load(case, asked, memory)
            except TilewrightError as error:
                if name == OURS:
                    raise
                absent[name] = str(error)
                continue
            contenders[name] = each
            errors[name] = self._checked(name, case, asked, each.result(), expected)
        return Result(
            operator=key.operator,
            case=key.case,
            asked=asked,
            threads=key.threads,
            target=key.target,
            streams=case.streams,
            rates=turns(contenders, flops=case.work(asked)),
            versions={name: each.version for name, each in contenders.items()},
            absent=absent,
            error=errors[OURS],
            compile_seconds=kernel.metadata.compile_seconds,
            scratch=kernel.metadata.workspace_bytes,
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            machine=describe(),
        )

    def _checked(self, name: str, case: Case, asked: str, got: np.ndarray, expected: np.ndarray) -> float:
        """The relative error.

        Raises:
            CheckError: It is too large.
        """
        error = relative_error(got, expected)
        if not error <= self.tolerances[asked]:
            raise CheckError(f"{name} computes {case} in {asked} with a relative error of {error:.2g}")
        return error


def _one(comparison: Comparison, case: Case, asked: str, how: Mapping[str, Any]) -> Result:
    """What a worker measures."""
    return comparison.run([case], asked, **how)[0]


def _limit(case: Case, asked: str, target: Target, size: int, on: Sequence[int]) -> Rate:
    """The machine's limit: its peak, or its bandwidth."""
    if case.streams:
        return StreamPeak(target, size, on)
    first, second, *_ = case.spec(asked).operands
    return Peak(target, (first.type.name, second.type.name), on)


def _bind(kernel: Kernel, case: Case, asked: str, given: Arrays) -> Callable[[], object]:
    """The call of our kernel; `case` and `asked` are its spec's."""
    inputs = [
        kernel.pack(each.name, array) if each.packed else array
        for each, array in zip(kernel.signature.arguments, given.inputs, strict=True)
    ]
    return partial(kernel, *inputs, out=given.result)
