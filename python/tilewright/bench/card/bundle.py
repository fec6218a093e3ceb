# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the folder for a card's machine: assembled kernels, and the emulator's results for them."""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import targets
from tilewright.bench.card import plan
from tilewright.bench.card.plan import Kernel, Step
from tilewright.bench.card.plan_operators import Operator
from tilewright.bench.suites import Shape
from tilewright.emit.gpu_stages import GpuStages, as_json, from_json
from tilewright.errors import TilewrightError
from tilewright.processes import calls
from tilewright.processes.child import ChildEndedError
from tilewright.version import VERSION

PLAN = "plan.json"
_COMPILER = "tilewright.runtime.gpu"
"""What compiles kernels: only an edit of what this imports makes it compile them again."""
_FEW_KERNELS = 4
"""Up to so many kernels, compiling takes less time than starting further processes."""
_WHOLE = 4
"""Whole numbers of operands are at most this: products of them are exact in every type, sums of a thousand in every order."""


def make(
    folder: Path,
    progress: Callable[[int, int, str], object] = lambda done, total, what: None,
    *,
    quick: bool = False,
) -> list[str]:
    """Makes what is missing of the bundle in `folder`. Returns a line for each kernel that could not be made.

    Args:
        folder: Where it is.
        progress: Told of each kernel how many are done, how many there are, and which is next.
        quick: Whether only the steps of a quick run are wanted.

    Raises:
        TilewrightError: There is no assembler, or the folder cannot be written.
    """
    from tilewright.emit import gpu, versions

    if gpu.tool("ptxas") is None:
        raise TilewrightError("there is no ptxas", expected="NVIDIA's assembler", remedy="make setup-gpu installs it")
    folder.mkdir(parents=True, exist_ok=True)
    steps: list[Step] = []
    for step in _steps(quick=quick):
        if all(step.key != each.key for each in steps):
            steps.append(step)
    kernels = list(dict.fromkeys(kernel for step in steps for kernel in step.kernels))
    compared = {kernel for step in steps if step.kind == "layout" for kernel in step.kernels}
    compiler = versions.fingerprint_of(_COMPILER)
    wanted = [(each, each in compared) for each in kernels if not _is_current(folder / f"{each.key}.json", compiler)]
    failures = list(_compiled(folder, wanted, len(kernels), progress))
    failures += _remarked(folder, kernels)
    made = {each: _digest(folder, each) for each in kernels if (folder / f"{each.key}.json").exists()}
    texts = []
    for step in steps:
        some = [(kernel, cycles) for kernel, cycles in zip_longest(step.kernels, step.predicted) if kernel in made]
        if some:
            code = hashlib.sha256("".join(made[kernel] for kernel, _ in some).encode()).hexdigest()[:12]
            about: dict[str, Any] = {"kind": step.kind, "shape": str(step.shape), "code": code, "quick": step.quick}
            about |= {"kernels": [asdict(kernel) for kernel, _ in some], "predicted": [cycles for _, cycles in some]}
            texts.append(about)
    (folder / PLAN).write_text(json.dumps({"version": VERSION, "steps": texts}, indent=1) + "\n")
    progress(len(kernels), len(kernels), "")
    return failures


def _compiled(
    folder: Path,
    wanted: Sequence[tuple[Kernel | Operator, bool]],
    total: int,
    progress: Callable[[int, int, str], object],
) -> Iterator[str]:
    """Compiles kernels, in processes where there are many; a line for each that could not be."""
    done = total - len(wanted)
    progress(done, total, "")
    if len(wanted) <= _FEW_KERNELS:
        for kernel, exact in wanted:
            progress(done, total, kernel.key)
            yield from filter(None, [_tried(folder, kernel, exact)])
            done += 1
        return
    for kernel, line in in_processes(folder, wanted, _tried):
        done += 1
        progress(done, total, kernel.key)
        yield from filter(None, [line])


def in_processes(
    folder: Path, wanted: Sequence[tuple[Kernel | Operator, bool]], work: Callable[[Path, Kernel | Operator, bool], str]
) -> Iterator[tuple[Kernel | Operator, str]]:
    """Each kernel as it is ready, and a line if it is not; one that ends its process does not keep the others.

    Args:
        folder: The bundle's.
        wanted: Kernels, and whether the emulator's result is wanted.
        work: Makes one, in a process of its own; gives a line where it cannot.
    """
    for number, line in calls.each(work, [(folder, *each) for each in wanted]):
        kernel, _ = wanted[number]
        if isinstance(line, ChildEndedError):
            line = f"{kernel.key}: the compiler's process {line.reason}"
        yield kernel, line


def _tried(folder: Path, kernel: Kernel | Operator, exact: bool) -> str:
    """Compiles a kernel; a line if that fails."""
    try:
        _compile(folder, kernel, exact=exact)
    except TilewrightError as e:
        return f"{kernel.key}: {' '.join(str(e).split())}"
    return ""


def _remarked(folder: Path, kernels: Sequence[Kernel | Operator]) -> Iterator[str]:
    """A line for each kernel that spills, or that the assembler warned about."""
    for kernel in kernels:
        file = folder / f"{kernel.key}.json"
        about = json.loads(file.read_text()) if file.exists() else {"spill_bytes": 0, "warnings": []}
        if about["spill_bytes"]:
            yield f"{kernel.key}: {about['spill_bytes']} bytes are spilled"
        for line in about["warnings"]:
            yield f"{kernel.key}: {line}"


def _digest(folder: Path, kernel: Kernel | Operator) -> str:
    """The digest of a kernel's code: measurements of other code do not count."""
    return hashlib.sha256(read_code(folder, kernel)).hexdigest()


def _steps(*, quick: bool = False) -> Iterator[Step]:
    """Every step, with the kernels that it takes: those of a quick run first."""
    timed = [plan.quick_of(_timed(*each)) for each in plan.quick_timings()]
    profiled = replace(timed[0], kind="profile", kernels=timed[0].kernels[:1], predicted=())
    attention = next(plan.attentions())
    for step in (*plan.quick(), profiled, *timed, plan.quick_of(attention)):
        yield replace(step, quick=True)
    if quick:
        return
    yield from plan.layouts()
    yield from plan.checks()
    yield from plan.operators()
    yield from plan.attentions()
    for timing in plan.timings():
        yield _timed(*timing)


def _timed(types: str, layout: str, shape: Shape, epilogue: str) -> Step:
    """A measurement: the kernel that is selected for the shape, those that the model ranks behind it, and the candidates."""
    from tilewright.codegen.gpu.strategies import CARRIERS, able
    from tilewright.schedules.gpu import warpgroup_sizes

    target = targets.gpu(plan.TARGET)
    assert target is not None, "it is a GPU"
    spec = plan.spec_of(types, layout, epilogue, shape)
    strategy = able(spec, target)[0]
    every: list[Any] = [CARRIERS[strategy].sizes(spec, target, {})]
    every += warpgroup_sizes.ranked(spec, target)[: plan.RANKED]
    for given in plan.FEW_ROWS if shape.m <= plan.FEW else plan.CANDIDATES:
        with suppress(TilewrightError):  # Not all fit all types.
            every.append(CARRIERS[strategy].sizes(plan.spec_of(types, layout, epilogue), target, given))
    found = {}
    for sizes in every:
        named = tuple(sorted((each.name, int(getattr(sizes, each.name))) for each in fields(sizes)))
        found[Kernel(types, layout, strategy, named, epilogue)] = warpgroup_sizes.predicted(spec, sizes)
    return Step("time", shape, tuple(found), tuple(found.values()))


def _is_current(file: Path, compiler: str) -> bool:
    """Whether a kernel is there, as this compiler makes it."""
    made = _made(file)
    return made is not None and made.get("compiler") == compiler


def _compile(folder: Path, kernel: Kernel | Operator, *, exact: bool) -> None:
    """Compiles and assembles a kernel, unless it is there with the same PTX; `exact` adds what the emulator computes."""
    from tilewright.emit import versions
    from tilewright.runtime import gpu

    target = targets.gpu(plan.TARGET)
    assert target is not None, "it is a GPU"
    start = time.perf_counter()
    compiled = gpu.compile(kernel.spec, target, kernel.strategy, dict(kernel.sizes))
    form = compiled._form(compiled._key(kernel.aligned, kernel.boxed))
    file, ptx = folder / f"{kernel.key}.json", form.texts["ptx"]
    about = {"compiler": versions.fingerprint_of(_COMPILER), "form": as_json(form, ())}
    former = _made(file)
    if former is not None and _read_ptx(folder, kernel).decode() == ptx:
        file.write_text(json.dumps({**former, **about}, indent=1) + "\n")
        return
    file.unlink(missing_ok=True)
    assembled = compiled.assembled(aligned=kernel.aligned, boxed=kernel.boxed)
    seconds = time.perf_counter() - start
    (folder / f"{kernel.key}.cubin").write_bytes(assembled.cubin)
    (folder / f"{kernel.key}.ptx.z").write_bytes(zlib.compress(ptx.encode()))
    if exact and isinstance(kernel, Kernel):
        shape = next(step.shape for step in plan.layouts())
        a, b = whole_numbers(kernel, shape)
        emulated = gpu.compile(kernel.spec, target.emulated(), kernel.strategy, dict(kernel.sizes))
        np.savez_compressed(folder / f"{kernel.key}.npz", c=emulated(a, b))
    about |= {"seconds": seconds, "registers": assembled.registers, "spill_bytes": assembled.spill_bytes}
    about |= {"warnings": list(assembled.warnings), "exact": exact}
    # Last: what is there with this file is complete.
    file.write_text(json.dumps(about, indent=1) + "\n")


def _made(file: Path) -> dict[str, Any] | None:
    """What is known of a kernel that is there."""
    with suppress(FileNotFoundError, ValueError):
        return json.loads(file.read_text())
    return None


def read_expected(folder: Path, kernel: Kernel) -> np.ndarray[Any, Any]:
    """What the emulator computed."""
    from tilewright.dtypes import to_numpy

    # Files of numpy's have no types of ml_dtypes.
    return np.load(folder / f"{kernel.key}.npz")["c"].view(to_numpy(kernel.spec.c_type))


def read_form(folder: Path, kernel: Kernel | Operator) -> GpuStages:
    """A kernel of the bundle as `runtime.cards.Loaded` takes one, with PTX for a driver that is older than the assembler."""
    about = json.loads((folder / f"{kernel.key}.json").read_text())
    target = targets.gpu(plan.TARGET)
    assert target is not None, "it is a GPU"
    return from_json(about["form"], kernel.spec, target, _read_ptx(folder, kernel), cached=True)


def _read_ptx(folder: Path, kernel: Kernel | Operator) -> bytes:
    return zlib.decompress((folder / f"{kernel.key}.ptx.z").read_bytes())


def read_code(folder: Path, kernel: Kernel | Operator) -> bytes:
    """Its machine code."""
    return (folder / f"{kernel.key}.cubin").read_bytes()


def read_steps(folder: Path) -> list[Step]:
    """The steps of a bundle.

    Raises:
        TilewrightError: There is no bundle, or one of another version.
    """
    file = folder / PLAN
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError) as e:
        raise TilewrightError(
            f"no bundle: {e}", where=str(folder), remedy="tilewright bench card FOLDER makes it, without a card too"
        ) from None
    if found["version"] != VERSION or any("code" not in each for each in found["steps"]):
        raise TilewrightError(f"a bundle of version {found['version']}", where=str(folder), expected=VERSION)
    return [
        Step(
            each["kind"],
            plan.parse_shape(each["shape"]),
            tuple(map(_read, each["kernels"])),
            tuple(each["predicted"]),
            each["code"],
            each["quick"],
        )
        for each in found["steps"]
    ]


def _read(about: dict[str, Any]) -> Kernel | Operator:
    """A kernel of a plan."""
    pairs = {name: tuple(map(_pair, about[name])) for name in ("sizes", "fields") if name in about}
    return (Operator if "operator" in about else Kernel)(**{**about, **pairs})


def _pair(about: Sequence[Any]) -> tuple[str, Any]:
    """A field of a spec, or a size: its name and value. JSON has lists for tuples."""
    name, value = about
    return name, tuple(value) if isinstance(value, list) else value


def whole_numbers(kernel: Kernel, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """A and B as they are stored, of small whole numbers: the same on every machine."""
    from tilewright.dtypes import to_numpy

    spec, random = kernel.spec, np.random.default_rng(7)
    stored = spec.sized({"m": shape.m, "n": shape.n, "k": shape.k}).operands[:2]
    drawn = [random.integers(-_WHOLE, _WHOLE + 1, each.shape).astype(np.float32) for each in stored]
    return drawn[0].astype(to_numpy(stored[0].type)), drawn[1].astype(to_numpy(stored[1].type))
