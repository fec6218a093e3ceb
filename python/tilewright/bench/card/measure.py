# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The half that runs on a card's machine: steps of a bundle, one after the other, each with a record of what came out."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.bench.card import bundle, peers, plan, timing
from tilewright.bench.card.peers import Operands
from tilewright.bench.card.plan import Kernel, Step
from tilewright.bench.suites import Shape
from tilewright.errors import TargetError, TilewrightError
from tilewright.runtime import cards, gpu_call
from tilewright.runtime.cards import Card, Loaded
from tilewright.runtime.device_arrays import view

RECORDS = "records.jsonl"
ROUNDS = 7
_TRIES = 3
"""Samples of each candidate, before the best one is timed beside the peers."""
_ACCUMULATORS: Mapping[str, float] = {"f64": 2.0**-53, "tf32": 2.0**-10 + 2.0**-24}
_SINGLE = 2.0**-24
_SHORT_SUMS = 2.0**-13 / 32
"""Of |A||B|, for each of K: instructions sum 8-bit floats, 32 along K, with some 13 bits after the point, which NVIDIA does not say.
Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", section 3.5.2."""
_PROMOTED = 128
"""Of K, after so many `warpgroup` adds these sums to others."""
_UNWRITTEN_BYTE = 0xFF
"""What results are filled with: NaN in every float, and -1 in integers."""


def pending(steps: Sequence[Step], records: Iterable[Mapping[str, Any]]) -> list[Step]:
    """The steps that no record tells of."""
    done = {each["step"] for each in records}
    return [step for step in steps if step.key not in done]


def read(folder: Path) -> list[dict[str, Any]]:
    """The records so far; a line that was cut off is left out."""
    found = []
    with suppress(FileNotFoundError):
        for line in (folder / RECORDS).read_text().splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
    return found


def run(
    folder: Path,
    budget: float | None = None,
    progress: Callable[[int, int, str], object] = lambda done, total, what: None,
    clock: Callable[[], float] = time.monotonic,
    bench: Bench | None = None,
) -> list[dict[str, Any]]:
    """Runs the steps of a bundle that are left, and returns all records.

    Args:
        folder: The bundle's.
        budget: Seconds after which no further step begins, less what the longest one so far took; None: all steps.
        progress: Told before each step how many are done, how many there are, and which is next.
        clock: Tells the time.
        bench: What runs a step; None: the first card here.

    Raises:
        TilewrightError: There is no bundle, no card, or no torch.
    """
    steps, records = bundle.read_steps(folder), read(folder)
    left = pending(steps, records)
    if not left:
        return records
    start, longest = clock(), 0.0
    runner = bench or Bench(folder)
    with (folder / RECORDS).open("a") as file:
        for step in left:
            before = clock()
            if budget is not None and before - start + longest > budget:
                break
            progress(len(steps) - len(left), len(steps), step.key)
            record = {"step": step.key, "kind": step.kind, "shape": str(step.shape), **runner.run(step), **runner.facts}
            file.write(json.dumps(record) + "\n")
            file.flush()
            records.append(record)
            left = left[1:]
            longest = max(longest, clock() - before)
    return records


class Bench:
    """A card, with torch, and the bundle's kernels as they are asked for."""

    def __init__(self, folder: Path) -> None:
        """Opens the card.

        Raises:
            TargetError: There is none, or no torch.
        """
        target = bundle.targets.gpu(plan.TARGET)
        assert target is not None, "it is a GPU"
        self._card: Card = cards.find(target)
        try:
            import torch  # pyright: ignore[reportMissingImports]
        except ImportError as e:
            raise TargetError(
                f"no torch: {e}", where="bench --card", expected="torch with CUDA, whose cuBLASLt is the peer"
            ) from None
        self._torch: Any = torch
        self._folder = folder
        self._loaded: dict[Kernel, Loaded] = {}
        torch.backends.cuda.matmul.allow_tf32 = True
        with suppress(AttributeError, RuntimeError):
            torch.backends.cuda.preferred_blas_library("cublaslt")
        self._versions = peers.versions(torch)
        self._cache = int(torch.cuda.get_device_properties(0).L2_cache_size)
        self._warm()

    @property
    def facts(self) -> dict[str, Any]:
        """What is noted with every record."""
        return {"date": datetime.now(timezone.utc).isoformat(timespec="seconds"), "card": self._card.name, **_smi()}

    def _warm(self) -> None:
        """Keeps the card busy until its clock has settled."""
        torch = self._torch
        a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            for _ in range(20):
                torch.mm(a, a)
            torch.cuda.synchronize()

    def run(self, step: Step) -> dict[str, Any]:
        """What comes of a step: its numbers, or the error that ended it."""
        try:
            return {"layout": self._layout, "check": self._check, "time": self._time}[step.kind](step)
        except (TilewrightError, RuntimeError, ValueError, TypeError) as e:
            return {"error": f"{type(e).__name__}: {' '.join(str(e).split())[:500]}"}

    def _launch(self, kernel: Kernel, shape: Shape, stored: Sequence[Any]) -> None:
        """Launches a kernel on torch's current stream, of operands as they are stored, the result last."""
        self._bound(kernel, shape, stored)()

    def _bound(self, kernel: Kernel, shape: Shape, stored: Sequence[Any]) -> Callable[[], None]:
        """What launches a kernel on torch's current stream, of operands as they are stored, the result last."""
        if kernel not in self._loaded:
            form = bundle.read_form(self._folder, kernel)
            with cards.current(self._card):
                self._loaded[kernel] = Loaded(self._card, form, form.cubin)
        cuda, loaded = self._torch.cuda, self._loaded[kernel]
        arrays = [view(each, "operand", int(cuda.current_stream().cuda_stream)) for each in stored]
        if not all(map(gpu_call.is_aligned, arrays)):
            raise TilewrightError("the bundle has kernels for aligned rows alone", where=kernel.key)
        called = kernel.spec.sized({"m": shape.m, "n": shape.n, "k": shape.k})
        return lambda: loaded.launch(called, arrays, int(cuda.current_stream().cuda_stream))

    def _dtype(self, name: str) -> Any:  # noqa: ANN401 - torch's
        from tilewright.dtypes import dtype

        return getattr(self._torch, dtype(name).numpy)

    def _rows(self, rows: int, columns: int, kind: Any) -> Any:  # noqa: ANN401 - torch's
        """A matrix whose rows start at multiples of 16 bytes, every byte of it 0xFF."""
        torch, size = self._torch, kind.itemsize
        pitch = -(-columns * size // 16) * 16
        return torch.full((rows, pitch), _UNWRITTEN_BYTE, dtype=torch.uint8, device="cuda").view(kind)[:, :columns]

    def _random(self, rows: int, columns: int, name: str) -> Any:  # noqa: ANN401 - torch's
        torch, kind = self._torch, self._dtype(name)
        matrix = self._rows(rows, columns, kind)
        if kind.is_floating_point:
            matrix.copy_(torch.rand(rows, columns, device="cuda") * 2 - 1)
        else:
            matrix.copy_(torch.randint(-128, 128, (rows, columns), device="cuda", dtype=torch.int8))
        return matrix

    def _operands(self, kernel: Kernel, shape: Shape) -> tuple[list[Any], Operands]:
        """Random operands as they are stored, and as they are multiplied."""
        row = plan.TYPES[kernel.types]
        a = self._random(*((shape.m, shape.k) if kernel.layout[0] == "n" else (shape.k, shape.m)), row.a)
        b = self._random(*((shape.k, shape.n) if kernel.layout[1] == "n" else (shape.n, shape.k)), row.a)
        c = self._rows(shape.m, shape.n, self._dtype(row.c))
        further = [self._random(1, shape.n, "f32")[0]] if kernel.epilogue else []
        seen = Operands(
            a if kernel.layout[0] == "n" else a.t(),
            b if kernel.layout[1] == "n" else b.t(),
            c,
            further[0].to(self._dtype(row.a)) if further else None,
        )
        return [a, b, *further, c], seen

    def _layout(self, step: Step) -> dict[str, Any]:
        """Whole numbers, on the card and as the emulator had them."""
        torch, (kernel,) = self._torch, step.kernels
        a, b = bundle.whole_numbers(kernel, step.shape)
        row = plan.TYPES[kernel.types]
        stored = [torch.from_numpy(each.astype(np.float32)).cuda().to(self._dtype(row.a)) for each in (a, b)]
        c = self._rows(step.shape.m, step.shape.n, self._dtype(row.c))
        self._launch(kernel, step.shape, [*stored, c])
        torch.cuda.synchronize()
        wanted = np.load(self._folder / f"{kernel.key}.npz")["c"]
        got = c.cpu().contiguous().view(torch.uint8).numpy()
        bytes_ = np.ascontiguousarray(wanted).view(np.uint8).reshape(got.shape)
        wrong = int(np.count_nonzero((got != bytes_).reshape(-1, wanted.itemsize).any(axis=1)))
        return {"kernel": kernel.key, "wrong": wrong, "elements": wanted.size, "right": not wrong}

    def _check(self, step: Step) -> dict[str, Any]:
        """Random numbers against the product in f64, element by element."""
        (kernel,) = step.kernels
        stored, seen = self._operands(kernel, step.shape)
        self._launch(kernel, step.shape, stored)
        return {"kernel": kernel.key, **self._compared(seen.c, *self._expected(kernel, seen))}

    def _expected(self, kernel: Kernel, seen: Operands) -> tuple[Any, Any]:
        """The result in f64, and how far one may be off: γ_K·|A||B|, before it is rounded to its type."""
        a, b = seen.a.double(), seen.b.double()
        expected, sums = a @ b, a.abs() @ b.abs()
        u = _ACCUMULATORS.get(kernel.types, _SINGLE)
        gamma = (a.shape[1] + 2) * _SINGLE + 2 * u if kernel.types == "tf32" else (a.shape[1] + 2) * u
        if kernel.types.startswith("f8") and kernel.strategy != "simt":
            gamma += _SHORT_SUMS * (min(_PROMOTED, a.shape[1]) if kernel.strategy == "warpgroup" else a.shape[1])
        bound = gamma * sums
        if kernel.epilogue:
            bias = seen.bias.double()
            expected = self._torch.nn.functional.gelu(expected + bias)
            bound = 2 * bound + 2.0**-7 * bias.abs() + 1e-4
        return expected, bound

    def _compared(self, got: Any, expected: Any, bound: Any) -> dict[str, Any]:  # noqa: ANN401 - torch's
        """How far a result is off."""
        torch = self._torch
        whole = not got.dtype.is_floating_point
        bound = torch.zeros_like(bound) if whole else bound + torch.finfo(got.dtype).eps * expected.abs() + 1e-30
        off = (got.double() - expected).abs()
        wrong = int((~(off <= bound)).sum())
        error = float(off.nan_to_num(float("inf")).norm() / expected.norm().clamp_min(1e-300))
        return {"wrong": wrong, "elements": off.numel(), "rel_error": error, "right": not wrong}

    def _time(self, step: Step) -> dict[str, Any]:
        """The best of the kernels beside the peers, all on the same operands."""
        torch, first = self._torch, step.kernels[0]
        sets = [self._operands(first, step.shape)]
        bytes_ = sum(each.numel() * each.element_size() for each in sets[0][0])
        while len(sets) < timing.sets(bytes_, self._cache):
            sets.append(self._operands(first, step.shape))
        own: dict[str, Kernel] = {each.key: each for each in step.kernels}
        failures, samples = {}, {}
        known = self._expected(first, sets[0][1])
        for key, kernel in own.items():
            try:
                sets[0][1].c.view(torch.uint8).fill_(_UNWRITTEN_BYTE)
                self._launch(kernel, step.shape, sets[0][0])
                compared = self._compared(sets[0][1].c, *known)
                if not compared["right"]:
                    failures[key] = f"{compared['wrong']} of {compared['elements']} elements are wrong"
                    continue
                samples[key] = timing.graph(torch, self._ours(kernel, step.shape, sets), len(sets))
            except (TilewrightError, RuntimeError) as e:
                failures[key] = " ".join(str(e).split())[:300]
        if not samples:
            return {"failures": failures, "error": "no kernel of ours is right"}
        tried = timing.in_turn(samples, _TRIES)
        best = min(tried, key=lambda key: min(tried[key]))
        contenders = {"tilewright": samples[best]}
        for name, bind in peers.PEERS.items():
            if first.epilogue and name != "cuBLASLt":
                continue
            try:
                runs = [bind(torch, first.types, seen) for _, seen in sets]
                contenders[name] = timing.graph(torch, lambda number, runs=runs: runs[number](), len(sets))
            except (ImportError, RuntimeError, ValueError, TypeError, AttributeError) as e:
                failures[name] = " ".join(str(e).split())[:300]
        seconds = timing.in_turn(contenders, ROUNDS)
        modelled = timing.summary([min(tried[first.key])], step.shape.flops)["tflops"] if first.key in tried else None
        return {
            "types": first.types,
            "layout": first.layout,
            "epilogue": first.epilogue,
            "rates": {name: timing.summary(each, step.shape.flops) for name, each in seconds.items()},
            "kernel": best,
            "sizes": dict(own[best].sizes),
            "modelled": modelled,
            "versions": self._versions,
            "failures": failures,
        }

    def _ours(self, kernel: Kernel, shape: Shape, sets: Sequence[tuple[list[Any], Operands]]) -> timing.Launch:
        every = [self._bound(kernel, shape, stored) for stored, _ in sets]
        return lambda number: every[number]()


def _smi() -> dict[str, str]:
    """The driver's version and the clocks, as nvidia-smi tells them; empty where there is none."""
    fields = ("driver_version", "clocks.sm", "clocks.mem", "power.draw")
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        found = done.stdout.splitlines()[0].split(",")
        return dict(zip(fields, (each.strip() for each in found), strict=True))
    return {}
