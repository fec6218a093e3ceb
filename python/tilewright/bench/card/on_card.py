# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The process that uses a card: runs steps of the plan one after the other, until one breaks the card's context."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from tilewright.bench.card import attention, numbers, peers, plan, proofs, timing
from tilewright.bench.card.guarded import Guarded, guarded
from tilewright.bench.card.numbers import Known
from tilewright.bench.card.peers import Operands, Peers
from tilewright.bench.card.plan import Kernel, Step
from tilewright.bench.card.plan_operators import Operator
from tilewright.bench.card.proofs import Prover
from tilewright.bench.suites import Shape
from tilewright.errors import TargetError
from tilewright.operator_specs import AttentionSpec
from tilewright.runtime import gpu_passes
from tilewright.runtime.cards import Card
from tilewright.runtime.device_arrays import view

ROUNDS = 7
_TRIES = 3
"""Samples of each choice, before the best ones are timed beside each other."""
_SMI_SECONDS = 5
"""The clocks are asked for at most so often: it takes a part of a second."""
_COPIED_BYTES = 1 << 30
_TOO_LARGE = "OutOfResources"
"""What Triton raises for sizes that do not fit shared memory: these are left out and are no failure."""
OURS = "tilewright"

T = TypeVar("T")


class BrokenError(Exception):
    """The card's context is lost: what ran, and what the driver reported."""

    def __init__(self, what: str, text: str) -> None:
        """Keeps both."""
        super().__init__(f"{what}: {text}")
        self.what, self.text = what, text


@dataclass(frozen=True, slots=True)
class _Set:
    """Operands of a product.

    Attributes:
        stored: As the kernel takes them, the result last.
        seen: As they are multiplied.
        guards: What tells of bytes around the result, and of the other operands.
    """

    stored: list[Any]
    seen: Operands
    guards: list[Guarded]

    @property
    def is_intact(self) -> bool:
        """Whether nothing around any of them was written."""
        return all(each.is_intact for each in self.guards)


@dataclass(frozen=True, slots=True)
class _Contender:
    """What is timed under one name.

    Attributes:
        choices: Its variants, by name: what binds one to a set of operands, and gives what runs it.
        wrong: Runs one of them on the first set, and says what is wrong with its result.
    """

    choices: Mapping[str, Callable[[Any], Callable[[], object]]]
    wrong: Callable[[Callable[[], object]], str]


class Bench:
    """A card, with torch once something is timed, and the bundle's kernels as they are asked for."""

    def __init__(self, folder: Path, tell: Callable[[str], object] = lambda what: None) -> None:
        """Opens the card.

        Args:
            folder: The bundle's.
            tell: Told what runs on the card before it does: the name of a contender's choice, or "" of anything else.

        Raises:
            TargetError: There is none.
        """
        self._tell = tell
        self._prover = Prover(folder)
        self._card: Card = self._prover.card
        self._clocks: dict[str, str] = {}
        self._asked = -float(_SMI_SECONDS)
        self._copied = 0.0
        """Bytes a second, read and written, of a copy in the card's memory; 0: not known yet."""

    @cached_property
    def _torch(self) -> Any:  # noqa: ANN401 - the library
        """What timings need.

        Raises:
            TargetError: There is no torch.
        """
        try:
            import torch  # pyright: ignore[reportMissingImports]
        except ImportError as e:
            raise TargetError(
                f"no torch: {e}", where="bench card", expected="torch with CUDA, whose cuBLASLt is the peer"
            ) from None
        torch.backends.cuda.matmul.allow_tf32 = True
        with suppress(AttributeError, RuntimeError):
            torch.backends.cuda.preferred_blas_library("cublaslt")
        return torch

    @cached_property
    def _peers(self) -> Peers:
        return Peers(self._torch, self._card.processors)

    @cached_property
    def _cache(self) -> int:
        """Bytes of the L2 cache."""
        return int(self._torch.cuda.get_device_properties(0).L2_cache_size)

    @property
    def facts(self) -> dict[str, Any]:
        """What is noted with every record."""
        if time.monotonic() - self._asked >= _SMI_SECONDS:
            self._clocks, self._asked = _smi(), time.monotonic()
        date = datetime.now(timezone.utc).isoformat(timespec="seconds")
        about = {"date": date, "card": self._card.name, "processors": self._card.processors, **self._clocks}
        return about | ({"copy_bytes_a_second": self._copied} if self._copied else {})

    def _warm(self) -> None:
        """Keeps the card busy until its clock has settled."""
        torch = self._torch
        a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            for _ in range(20):
                torch.mm(a, a)
            torch.cuda.synchronize()
        half = torch.empty(2, _COPIED_BYTES, dtype=torch.uint8, device="cuda")
        sample = timing.graph(torch, lambda number: half[number].copy_(half[1 - number]), 2)
        self._copied = 2 * _COPIED_BYTES / min(sample() for _ in range(_TRIES))

    def run(self, step: Step, without: Iterable[str] = ()) -> dict[str, Any]:
        """What comes of a step: its numbers, or the error that ended it.

        Args:
            step: The step.
            without: Choices, by name, that are left out of what is timed: they broke the card's context before.

        Raises:
            BrokenError: The card's context is lost.
            TargetError: Something is to be timed, and there is no torch.
        """
        self._tell("")
        if step.kind in plan.TIMES:
            _ = self._torch
        try:
            if step.kind == "time":
                return self._time(step, frozenset(without))
            if step.kind == "attention":
                return self._attention(step, frozenset(without))
            self._tell(f"{OURS} {step.kernels[0].key}")
            return self._prover.run(step)
        except BrokenError:
            raise
        except Exception as e:
            self._alive("", e)
            return {"error": _said(e)}

    def _alive(self, what: str, error: Exception) -> None:
        """Raises `BrokenError` where the card does not go on after an error."""
        try:
            self._prover.wait()
        except Exception as e:
            raise BrokenError(what, f"{_said(error)}; then {_said(e)}") from error

    def _attempt(self, name: str, failures: dict[str, str], work: Callable[[], T]) -> T | None:
        """The result of `work`; a failure is recorded under the choice's name."""
        self._tell(name)
        try:
            return work()
        except Exception as e:
            self._alive(name, e)
            if type(e).__name__ != _TOO_LARGE:
                failures[name] = _said(e)
            return None

    def _bound(self, kernel: Kernel | Operator, shape: Shape, stored: Sequence[Any]) -> Callable[[], None]:
        """What launches a kernel on torch's current stream, of operands as they are stored, the result last."""
        cuda = self._torch.cuda
        arrays = [view(each, "operand", int(cuda.current_stream().cuda_stream)) for each in stored]
        ((called, arrays),) = gpu_passes.products(proofs.sized(kernel, shape), arrays)
        launch = self._prover.loaded(kernel, called, arrays).bound(called, arrays)
        return lambda: launch(int(cuda.current_stream().cuda_stream))

    def _dtype(self, name: str) -> Any:  # noqa: ANN401 - torch's
        from tilewright.dtypes import dtype

        return getattr(self._torch, dtype(name).numpy)

    def _random(self, rows: int, columns: int, name: str) -> Guarded:
        torch, kind = self._torch, self._dtype(name)
        made = guarded(torch, rows, columns, kind)
        if kind.is_floating_point:
            made.matrix.copy_(torch.rand(rows, columns, device="cuda") * 2 - 1)
        else:
            made.matrix.copy_(torch.randint(-128, 128, (rows, columns), device="cuda", dtype=torch.int8))
        return made

    def _operands(self, kernel: Kernel, shape: Shape, between: Any = None) -> _Set:  # noqa: ANN401 - torch's
        """Random operands."""
        row, torch = plan.TYPES[kernel.types], self._torch
        down, right = (each == "t" for each in kernel.layout)
        a = self._random(*((shape.k, shape.m) if down else (shape.m, shape.k)), row.a)
        b = self._random(*((shape.n, shape.k) if right else (shape.k, shape.n)), row.a)
        c = guarded(torch, shape.m, shape.n, self._dtype(row.c))
        further = [self._random(1, shape.n, "f32")] if kernel.epilogue else []
        bias = further[0].matrix[0] if further else None
        seen = Operands(
            a.matrix.t() if down else a.matrix,
            b.matrix.t() if right else b.matrix,
            c.matrix,
            None if bias is None else bias.to(self._dtype(row.c)),
            between,
        )
        stored = [a.matrix, b.matrix, *([] if bias is None else [bias]), c.matrix]
        return _Set(stored, seen, [a, b, *further, c])

    def _compared(self, given: _Set, known: Known) -> dict[str, Any]:
        found = numbers.compared(self._torch, given.seen.c, known)
        intact = given.is_intact
        return {**found, "intact": intact, "right": found["right"] and intact}

    def _time(self, step: Step, without: frozenset[str]) -> dict[str, Any]:
        """The best of our kernels beside the best choice of each peer, all on the same operands."""
        if not self._copied:
            self._warm()
        ours = [each for each in step.kernels if isinstance(each, Kernel)]
        first, shape = ours[0], step.shape
        sets = self._sets(first, shape)
        known = numbers.expected(self._torch, first, sets[0].seen)
        failures: dict[str, str] = {}

        def right(known: Known) -> Callable[[Callable[[], object]], str]:
            return lambda run: self._wrong(run, sets[0], known)

        contenders = {OURS: _Contender({each.key: self._binder(each, shape) for each in ours}, right(known))}
        # Triton compiles a kernel for each choice: a quick run does not wait for that.
        left_out = {*without, *((peers.COMPILED,) if step.quick else ())}
        for name in (each for each in peers.names(first.types, first.epilogue) if each not in left_out):
            found = self._attempt(
                name, failures, lambda name=name: self._peers.choices(name, first.types, sets[0].seen)
            )
            binders = {choice: (lambda given, bind=bind: bind(given.seen)) for choice, bind in (found or {}).items()}
            contenders[name] = _Contender(binders, right(known.of_peers(first.types)))
        tried, seconds = self._raced(contenders, sets, without, failures)
        if OURS not in seconds:
            return {"failures": failures, "error": "no kernel of ours is right"}
        own = {each.key: each for each in ours}
        chosen = {name: min(each, key=each.__getitem__) for name, each in tried.items() if each}
        predicted = {each.key: cycles for each, cycles in zip(step.kernels, step.predicted, strict=False)}
        rate = {key: shape.flops / each / 1e12 for key, each in tried[OURS].items()}
        return {
            "types": first.types,
            "layout": first.layout,
            "epilogue": first.epilogue,
            "rates": {name: timing.summary(each, shape.flops) for name, each in seconds.items()},
            "kernel": chosen[OURS],
            "sizes": dict(own[chosen[OURS]].sizes),
            "modeled": rate.get(first.key),
            "tried": [
                {"sizes": dict(own[key].sizes), "tflops": each, "predicted_cycles": predicted.get(key)}
                for key, each in rate.items()
            ],
            "choices": {name: choice for name, choice in chosen.items() if name != OURS},
            "versions": self._peers.versions(),
            "failures": failures,
        }

    def _attention(self, step: Step, without: frozenset[str]) -> dict[str, Any]:
        """The same of attention, beside torch's."""
        if not self._copied:
            self._warm()
        torch, spec = self._torch, step.kernels[0].spec
        assert isinstance(spec, AttentionSpec), "the plan's steps of this kind are of attention"
        sets = [attention.operands(torch, spec)]
        bytes_ = sum(each.numel() * each.element_size() for each in sets[0])
        sets += [attention.operands(torch, spec) for _ in range(1, timing.sets(bytes_, self._cache))]
        known, failures = attention.expected(torch, spec, sets[0]), dict[str, str]()

        def wrong(run: Callable[[], object]) -> str:
            sets[0][-1].fill_(float("nan"))
            found = run()
            return attention.wrong(sets[0][-1] if found is None else found, known)

        def binder(kernel: Operator) -> Callable[[Sequence[Any]], Callable[[], object]]:
            return lambda given: self._bound(kernel, step.shape, given)

        ours = {each.key: binder(each) for each in step.kernels if isinstance(each, Operator)}
        contenders = {OURS: _Contender(ours, wrong)}
        contenders |= {name: _Contender({"": bind}, wrong) for name, bind in attention.peers(torch, spec).items()}
        tried, seconds = self._raced(contenders, sets, without, failures)
        if OURS not in seconds:
            return {"failures": failures, "error": "no kernel of ours is right"}
        flops = attention.flops(spec)
        own = {each.key: each for each in step.kernels}
        return {
            "what": attention.words(spec),
            "rates": {name: timing.summary(each, flops) for name, each in seconds.items()},
            "kernel": min(tried[OURS], key=tried[OURS].__getitem__),
            "tried": [
                {"sizes": dict(own[key].sizes), "tflops": flops / each / 1e12} for key, each in tried[OURS].items()
            ],
            "versions": self._peers.versions(),
            "failures": failures,
        }

    def _raced(
        self,
        contenders: Mapping[str, _Contender],
        sets: Sequence[Any],
        without: frozenset[str],
        failures: dict[str, str],
    ) -> tuple[dict[str, dict[str, float]], dict[str, list[float]]]:
        """Seconds of each contender's choices, and those of its best one in rounds, in which all take turns."""
        tried: dict[str, dict[str, float]] = {}
        best: dict[str, Callable[[], float]] = {}
        for name, each in contenders.items():
            choices = {
                choice: bind for choice, bind in each.choices.items() if f"{name} {choice}".strip() not in without
            }
            tried[name] = self._tried(name, choices, sets, each.wrong, failures)
            if tried[name]:
                choice = min(tried[name], key=tried[name].__getitem__)
                full = f"{name} {choice}".strip()
                launches = [choices[choice](given) for given in sets]
                sample = self._attempt(full, failures, lambda launches=launches: self._graph(launches))
                if sample is not None:
                    best[name] = self._told(full, sample)
        return tried, timing.in_turn(best, ROUNDS)

    def _sets(self, first: Kernel, shape: Shape) -> list[_Set]:
        """Operands that rotate."""
        between = None
        if first.epilogue:
            kind = self._dtype(plan.TYPES[first.types].c)
            between = self._torch.empty(shape.m, shape.n, dtype=kind, device="cuda")
        sets = [self._operands(first, shape, between=between)]
        bytes_ = sum(each.numel() * each.element_size() for each in sets[0].stored)
        while len(sets) < timing.sets(bytes_, self._cache):
            sets.append(self._operands(first, shape, between=between))
        return sets

    def _binder(self, kernel: Kernel, shape: Shape) -> Callable[[_Set], Callable[[], object]]:
        return lambda given: self._bound(kernel, shape, given.stored)

    def _wrong(self, run: Callable[[], object], given: _Set, known: Known) -> str:
        """Runs a product, and says what is wrong with its result; "" where nothing is."""
        given.guards[-1].clear()
        run()
        compared = self._compared(given, known)
        if compared["right"]:
            return ""
        beside = "" if compared["intact"] else ", and bytes beside the operands were written"
        said = f"{compared['wrong']} of {compared['elements']} elements are wrong{beside}"
        return f"{said}, relative error {compared['rel_error']:.1e}"

    def _tried(
        self,
        name: str,
        choices: Mapping[str, Callable[[Any], Callable[[], object]]],
        sets: Sequence[Any],
        wrong: Callable[[Callable[[], object]], str],
        failures: dict[str, str],
    ) -> dict[str, float]:
        """Seconds of each choice that gives the right result."""
        found = {}
        for choice, bind in choices.items():
            full = f"{name} {choice}".strip()

            def sampled(bind: Callable[[Any], Callable[[], object]] = bind) -> float | str:
                if text := wrong(bind(sets[0])):
                    return text
                sample = self._graph([bind(each) for each in sets], timing.QUICK_SECONDS)
                return min(sample() for _ in range(_TRIES))

            outcome = self._attempt(full, failures, sampled)
            if isinstance(outcome, str):
                failures[full] = outcome
            elif outcome is not None:
                found[choice] = outcome
        return found

    def _graph(
        self, launches: Sequence[Callable[[], object]], seconds: float = timing.SAMPLE_SECONDS
    ) -> Callable[[], float]:
        return timing.graph(self._torch, lambda number: launches[number](), len(launches), seconds)

    def _told(self, name: str, sample: Callable[[], float]) -> Callable[[], float]:
        """A sample before which its name is told."""

        def told() -> float:
            self._tell(name)
            return sample()

        return told


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


def _smi() -> dict[str, str]:
    """The driver's version and the clocks, as nvidia-smi tells them; empty where there is none."""
    fields = ("driver_version", "clocks.sm", "clocks.mem", "power.draw")
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        found = done.stdout.splitlines()[0].split(",")
        return dict(zip(fields, (each.strip() for each in found), strict=True))
    return {}
