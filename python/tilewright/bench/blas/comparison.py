# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures our BLAS: ours, OpenBLAS, MKL and the machine's peak in turn, each in a process of its own, each result checked first."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import datetime, timezone
from pathlib import Path

from tilewright import targets
from tilewright.bench.blas import contenders as measured
from tilewright.bench.blas.cases import LETTERS, PRODUCTS_ALONE, Case
from tilewright.bench.checks import CheckError
from tilewright.bench.machine import describe
from tilewright.bench.operands import types_of
from tilewright.bench.operators.results import LIMIT, Key, Result
from tilewright.bench.peak import Peak
from tilewright.bench.peer_process import PeerProcess
from tilewright.bench.rows import OURS
from tilewright.bench.timing import cores
from tilewright.bench.turns import take_turns
from tilewright.dtypes import dtype
from tilewright.errors import TilewrightError
from tilewright.payload.reference import relative_error

NAME = "blas"
"""What results call it."""
_TOLERANCES = {"f32": 1e-5, "f64": 1e-13, "c64": 1e-5, "c128": 1e-13, "bf16": 1e-5, "f16": 1e-5, "u8,i8,i32": 0}
"""Relative errors in the Frobenius norm that every BLAS stays below: some hundred roundings of sums."""
_WORKER = "tilewright.bench.blas.worker"


def run(
    library: Path,
    cases: Sequence[Case],
    asked: str,
    *,
    libraries: Sequence[str] | None = None,
    threads: int = 1,
    rounds: int = 7,
    min_seconds: float = 0.03,
    finished: Mapping[Key, Result] | None = None,
    done: Callable[[Result], object] = lambda result: None,
) -> list[Result]:
    """Measures calls, hot.

    Args:
        library: Our BLAS, which was built for this machine and as many threads.
        cases: Which calls.
        asked: The type.
        libraries: Those that must take part; None: all that are installed.
        threads: Of each.
        rounds: Samples of each.
        min_seconds: What a sample lasts at least.
        finished: Results of an earlier run; what is there is not measured again.
        done: Told each new result.

    Raises:
        TilewrightError: The type or a library is unknown, or a library that must take part is not there.
        CheckError: A result is wrong.
    """
    if missing := next((case for case in cases if not case.is_of(asked)), None):
        known = f"one of {', '.join(LETTERS)}; of gemm alone {' '.join(PRODUCTS_ALONE)}"
        raise TilewrightError(f"no {missing.routine} of {asked!r} in a BLAS", where="bench blas", expected=known)
    absent, on, host = measured.absent(libraries, asked), cores(threads), targets.resolve("host")
    keys = {case: Key(NAME, str(case), asked, threads, host.name) for case in cases}
    found = {key: result for key, result in (finished or {}).items() if key in keys.values()}
    waiting = [case for case in cases if keys[case] not in found]
    with ExitStack() as stack:
        members = {
            each.name: stack.enter_context(closing(PeerProcess(each, threads, on, worker=_WORKER)))
            for each in measured.rows(library, absent)
            if waiting
        }
        contenders = {OURS if name == str(library) else name: each for name, each in members.items()}
        a, b = types_of(asked)[:2] if asked in PRODUCTS_ALONE else [str(dtype(asked).part or asked)] * 2
        clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
        peak = stack.enter_context(closing(Peak(host, (a, b), on, clock))) if waiting else None
        for case in waiting:
            assert peak is not None
            errors = {}
            for name, each in contenders.items():
                each.load(case, asked, threads)
                errors[name] = relative_error(each.result(), case.expected(asked))
                if not errors[name] <= _TOLERANCES[asked]:
                    raise CheckError(f"{name} computes {case} in {asked} with a relative error of {errors[name]:.2g}")
            rates = take_turns(
                contenders,
                {LIMIT: peak},
                flops=case.work(asked),
                rounds=rounds,
                min_seconds=min_seconds,
                on_cores=on,
                after_round=lambda _: None,
            )
            found[keys[case]] = Result(
                **{field: getattr(keys[case], field) for field in ("operator", "case", "threads", "target")},
                asked=asked,
                streams=False,
                rates=rates,
                versions={name: each.version for name, each in contenders.items()},
                absent=absent,
                error=errors[OURS],
                compile_seconds=0.0,
                scratch=0,
                date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
                machine=describe(),
            )
            done(found[keys[case]])
    return [found[keys[case]] for case in cases]
