# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folder that a card's machine is given: kernels, assembled, and what the emulator computes with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import targets
from tilewright.bench.card import plan
from tilewright.bench.card.plan import Kernel, Step
from tilewright.bench.suites import Shape
from tilewright.errors import TilewrightError
from tilewright.version import VERSION

if TYPE_CHECKING:
    from tilewright.emit.gpu_stages import GpuStages

PLAN = "plan.json"
_SIZES = ("bm", "bn", "threads", "blocks", "cluster", "split")
"""What a launch takes of a strategy's sizes."""
_WHOLE = 4
"""Whole numbers of operands are at most this: products of them are exact in every type, sums of a thousand in every order."""


def make(folder: Path, progress: Callable[[int, int, str], object] = lambda done, total, what: None) -> list[str]:
    """Makes what is missing of the bundle in `folder`. Returns a line for each kernel that could not be made.

    Raises:
        TilewrightError: There is no assembler, or the folder cannot be written.
    """
    from tilewright.emit import gpu

    if gpu.tool("ptxas") is None:
        raise TilewrightError("there is no ptxas", expected="NVIDIA's assembler", remedy="make setup-gpu installs it")
    folder.mkdir(parents=True, exist_ok=True)
    steps = list({step.key: step for step in _steps()}.values())
    kernels = list(dict.fromkeys(kernel for step in steps for kernel in step.kernels))
    failures: list[str] = []
    for number, kernel in enumerate(kernels):
        progress(number, len(kernels), kernel.key)
        if not _is_current(folder / f"{kernel.key}.json"):
            try:
                _compile(folder, kernel, exact=any(step.kind == "layout" and kernel in step.kernels for step in steps))
            except TilewrightError as e:
                failures.append(f"{kernel.key}: {e}")
    made = {kernel for kernel in kernels if (folder / f"{kernel.key}.cubin").exists()}
    kept = [(step, [kernel for kernel in step.kernels if kernel in made]) for step in steps]
    texts = [
        {"kind": step.kind, "shape": str(step.shape), "kernels": [asdict(each) for each in some]}
        for step, some in kept
        if some
    ]
    (folder / PLAN).write_text(json.dumps({"version": VERSION, "steps": texts}, indent=1) + "\n")
    progress(len(kernels), len(kernels), "")
    return failures


def _steps() -> Iterator[Step]:
    """Every step, with the kernels that it takes: those of the model for its shape, and the candidates."""
    yield from plan.layouts()
    yield from plan.checks()
    for epilogue in ("", plan.FUSED):
        types = plan.TIMED if not epilogue else ("bf16",)
        for name, layout, shape, _ in plan.timings(epilogue, types):
            candidates = (*plan.CANDIDATES, *(plan.FEW_ROWS if shape.m <= plan.FEW else ()))
            every = [_modelled(name, layout, shape, epilogue)]
            every += [_of_sizes(name, layout, dict(each), epilogue) for each in candidates]
            yield Step("time", shape, tuple(dict.fromkeys(each for each in every if each is not None)))


def _modelled(types: str, layout: str, shape: Shape, epilogue: str) -> Kernel | None:
    """The kernel that is selected for a shape."""
    return _chosen(types, layout, epilogue, shape, {})


def _of_sizes(types: str, layout: str, sizes: dict[str, int], epilogue: str) -> Kernel | None:
    return _chosen(types, layout, epilogue, None, sizes)


def _chosen(types: str, layout: str, epilogue: str, shape: Shape | None, given: dict[str, int]) -> Kernel | None:
    """The kernel of the best strategy, with all its sizes; None where given ones do not fit the types."""
    from tilewright.lowering.gpu.strategies import STRATEGIES, able

    target = targets.gpu(plan.TARGET)
    assert target is not None, "it is a GPU"
    spec = plan.spec_of(types, layout, epilogue, shape)
    strategy = able(spec, target)[-1]
    try:
        sizes: Any = STRATEGIES[strategy].sizes(spec, target, given)
    except TilewrightError:
        return None
    found = {each.name: int(getattr(sizes, each.name)) for each in fields(sizes)}
    return Kernel(types, layout, strategy, tuple(sorted(found.items())), epilogue)


def _is_current(file: Path) -> bool:
    return file.exists() and json.loads(file.read_text()).get("version") == VERSION


def _compile(folder: Path, kernel: Kernel, *, exact: bool) -> None:
    """Compiles and assembles a kernel for aligned operands; `exact` adds what the emulator computes."""
    from tilewright.runtime import gpu

    target = targets.gpu(plan.TARGET)
    assert target is not None, "it is a GPU"
    compiled = gpu.compile(kernel.spec, target, kernel.strategy, dict(kernel.sizes))
    form, assembled = compiled._form((True, True)), compiled.assembled()
    (folder / f"{kernel.key}.cubin").write_bytes(assembled.cubin)
    if exact:
        shape = next(step.shape for step in plan.layouts())
        a, b = whole_numbers(kernel, shape)
        emulated = gpu.compile(kernel.spec, target.on("emulated"), kernel.strategy, dict(kernel.sizes))
        np.savez_compressed(folder / f"{kernel.key}.npz", c=emulated(a, b))
    about = {"version": VERSION, **described(form)}
    about |= {"registers": assembled.registers, "spill_bytes": assembled.spill_bytes}
    (folder / f"{kernel.key}.json").write_text(json.dumps(about, indent=1) + "\n")


def described(form: GpuStages) -> dict[str, Any]:
    """What a launch of a form takes, as JSON."""
    sizes = {name: getattr(form.sizes, name) for name in _SIZES if hasattr(form.sizes, name)}
    boxes = [{"operand": each.operand, "shape": list(each.shape), "swizzle": each.swizzle} for each in form.boxes]
    return {"sizes": sizes, "boxes": boxes, "shared_bytes": form.shared_bytes}


def read_form(folder: Path, kernel: Kernel) -> Any:  # noqa: ANN401 - what `cards.Loaded` takes of a form
    """A kernel of the bundle as `runtime.cards.Loaded` takes one."""
    about = json.loads((folder / f"{kernel.key}.json").read_text())
    boxes = tuple(SimpleNamespace(**{**each, "shape": tuple(each["shape"])}) for each in about["boxes"])
    return SimpleNamespace(
        cubin=(folder / f"{kernel.key}.cubin").read_bytes(),
        sizes=SimpleNamespace(**about["sizes"]),
        boxes=boxes,
        shared_bytes=about["shared_bytes"],
        spec=kernel.spec,
        target=targets.gpu(plan.TARGET),
    )


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
            f"no bundle: {e}", where=str(folder), remedy="tilewright bench --card FOLDER makes it, without a card too"
        ) from None
    if found["version"] != VERSION:
        raise TilewrightError(f"a bundle of version {found['version']}", where=str(folder), expected=VERSION)
    return [
        Step(
            each["kind"],
            plan.parse_shape(each["shape"]),
            tuple(Kernel(**{**one, "sizes": tuple(map(tuple, one["sizes"]))}) for one in each["kernels"]),
        )
        for each in found["steps"]
    ]


def whole_numbers(kernel: Kernel, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """A and B as they are stored, of small whole numbers: the same on every machine."""
    from tilewright.dtypes import to_numpy

    spec, random = kernel.spec, np.random.default_rng(7)
    stored = spec.sized({"m": shape.m, "n": shape.n, "k": shape.k}).operands[:2]
    drawn = [random.integers(-_WHOLE, _WHOLE + 1, each.shape).astype(np.float32) for each in stored]
    return drawn[0].astype(to_numpy(stored[0].type)), drawn[1].astype(to_numpy(stored[1].type))
