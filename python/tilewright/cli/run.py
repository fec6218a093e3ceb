# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright run``: compile, run on random data, check, and time."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import options
from tilewright.errors import SpecError

if TYPE_CHECKING:
    from tilewright.runtime.kernel import Kernel
    from tilewright.runtime.trial import Difference
    from tilewright.spec import MatmulSpec
    from tilewright.targets import GpuTarget, Target

_FOR_MODULES = frozenset({"file", "target", "threads", "passes", "seed"})
"""Arguments that a whole module takes."""
_SAMPLES = 7
_SAMPLE_SECONDS = 0.03
_MEMINFO = Path("/proc/meminfo")


@options.verb(short_help="Compile, run, check and time a product, or a module.")
@options.problem
@options.passes
@click.option(
    "--vector-length",
    type=int,
    metavar="BITS",
    help="Bits of the scalable vectors in the emulator, from 128 to 2048; otherwise those of the target.",
)
@click.option(
    "--streaming-length",
    type=int,
    metavar="BITS",
    help="The same for the vectors of SME's streaming mode.",
)
@click.option(
    "--device", type=click.Choice(["emulated"]), help="On what kernels of a GPU run: emulated; otherwise a card."
)
@click.option("--no-verify", "verify", is_flag=True, default=True, flag_value=False, help="Do not check the results.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the random operands; a fresh one otherwise.")
def run(
    file: str | None,
    shapes: tuple[options.Extents, ...],
    target: str | Target | GpuTarget,
    threads: int,
    schedule: str | None,
    parameters: dict[str, int],
    vector_length: int | None,
    streaming_length: int | None,
    device: str | None,
    verify: bool,
    seed: int | None,
    **product: Any,  # noqa: ANN401 - of `options.product`
) -> int:
    """Compile a product, or the functions of FILE.mlir, run them on random data, check the results and time them.

    Exits with status 1 when a result is wrong.
    """
    if file is not None:
        if shapes:
            raise click.UsageError("both FILE.mlir and --shape given; expected one of them")
        options.require_for_shapes_only(*({each.name for each in run.params} - _FOR_MODULES))
        from tilewright.cli import run_module
        from tilewright.cli.problem import read_text

        return run_module.run(read_text(file), file, target, threads, seed)
    if not shapes:
        raise click.UsageError("neither FILE.mlir nor --shape given; expected one of them")
    import tilewright as tw
    from tilewright.cli import problem
    from tilewright.cli.output import console
    from tilewright.runtime.trial import calls
    from tilewright.schedules import make

    seed = secrets.randbits(32) if seed is None else seed
    specs = problem.specs(shapes, **product)
    for called in (each for spec in specs for each in calls(spec)):
        _require_memory(called)
    out = console()
    right = True
    machine = _emulated(target, vector_length, streaming_length, device)
    for spec in specs:
        kernel = tw.compile(
            spec,
            machine,
            threads,
            schedule,
            parameters=parameters,
            # What is not ours may crash, or never end: it is tried in a process of its own first.
            verify=verify and make.is_file(schedule) and tw.targets.gpu(machine) is None,
        )
        if kernel.refusal is not None:
            raise kernel.refusal
        for number, called in enumerate(calls(kernel.spec)):
            outcome = _measure(kernel, called, seed, verify=verify)
            lines = _report(kernel, called, outcome, seed)
            if kernel.spec.open:
                entries = f"{'x'.join(map(str, called.batch))}*" if called.batch else ""
                sizes = f"  {entries}{called.m}x{called.n}x{called.k}:"
                lines = [*(lines[:3] if number == 0 else []), sizes, *lines[3:]]
            for line in lines:
                out.print(line, soft_wrap=True)
            right = right and outcome.right
    return 0 if right else 1


def _emulated(
    target: str | Target | GpuTarget, vector_length: int | None, streaming_length: int | None, device: str | None
) -> Target | GpuTarget:
    """The target of that name, emulated as the options say.

    Raises:
        TargetError: It is unknown, or has no such vectors.
        click.UsageError: An option does not apply to it.
    """
    from tilewright.targets import gpu, resolve

    lengths = (vector_length, streaming_length)
    card = gpu(target)
    if card is not None:
        if lengths != (None, None):
            raise click.UsageError(f"a vector length for {card.name}; expected none: it is a GPU")
        return card if device is None else card.emulated()
    row = resolve(target)
    if device is not None:
        raise click.UsageError(f"--device {device} for {row.name} given; expected a GPU")
    return row if lengths == (None, None) else row.emulated(*lengths)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run showed.

    Attributes:
        seconds: The median time of a call.
        calls: How many calls were timed.
        difference: How far the result is from the reference; None where that was not asked for.
    """

    seconds: float
    calls: int
    difference: Difference | None

    @property
    def right(self) -> bool:
        """Whether no element is known to be beyond its bound."""
        return self.difference is None or self.difference.right


def _measure(kernel: Kernel, spec: MatmulSpec, seed: int, *, verify: bool) -> Outcome:
    """Checks one call on fresh operands, then times many."""
    from tilewright.bench.timing import median_of
    from tilewright.runtime.trial import Trial

    trial = Trial.random(kernel, spec, seed)
    trial()
    difference = trial.difference() if verify else None
    seconds, count = median_of(trial, _SAMPLES, _SAMPLE_SECONDS)
    return Outcome(seconds, count * _SAMPLES, difference)


def _report(kernel: Kernel, spec: MatmulSpec, outcome: Outcome, seed: int) -> list[str]:
    """The lines that people read."""
    from tilewright.cli.output import duration, sizes_text
    from tilewright.schedules import make
    from tilewright.targets import GpuTarget

    facts = kernel.metadata
    base = f" ({kernel.target.base})" if kernel.target.base else ""
    # A GPU kernel's are those that its schedule has decided.
    sizes = sizes_text(
        facts.parameters, given=make.is_file(facts.schedule) and not isinstance(kernel.target, GpuTarget)
    )
    threads = f", {facts.threads} threads" if facts.threads > 1 else ""
    how = "from the cache" if facts.cached else "compiled"
    rate = f", {spec.flops / outcome.seconds * 1e-9:.1f} GFLOP/s" if spec.flops and not facts.emulator else ""
    emulated = f", emulated by {facts.emulator}: times say nothing of the target" if facts.emulator else ""
    return [
        f"{kernel.spec} on {facts.target}{base}{emulated}",
        f"  schedule  {facts.schedule}{f': {sizes}' if sizes else ''}{threads}",
        f"  compile   {facts.compile_seconds:.3f} s ({how}), {facts.object_bytes} bytes of object code",
        f"  time      {duration(outcome.seconds)} a call, median of {_SAMPLES} samples of"
        f" {outcome.calls // _SAMPLES}{rate}",
        f"  error     {_verdict(outcome.difference, seed)}",
    ]


def _verdict(found: Difference | None, seed: int) -> str:
    """How far a result is from the reference, and whether that is right."""
    if found is None:
        return f"not looked at (--no-verify, seed {seed})"
    far = f"{found.worst:.3g} of the bound at most, {found.relative:.2g} relative (seed {seed})"
    if found.right:
        return f"{far}: ok"
    return f"{far}: WRONG: {found.wrong} of {found.elements} elements beyond their bound; {found}"


def _require_memory(spec: MatmulSpec) -> None:
    """Checks that the operands and the reference, in float64, fit the memory that is free.

    Raises:
        SpecError: They do not.
    """
    read, written = prod(spec.a_shape) + prod(spec.b_shape), prod(spec.c_shape)
    # The reference and its bound copy A and B to float64, and hold a few arrays of C's shape.
    needed = (read + written) * spec.a_stored.bytes + 8 * (2 * read + 5 * written)
    free = _free_bytes()
    if free is not None and needed > free:
        raise SpecError(
            f"running and checking {spec} takes {needed / 2**30:.1f} GiB",
            where="run",
            expected=f"at most {free / 2**30:.1f} GiB, the memory that is free",
            remedy="Ask for a smaller shape",
        )


def _free_bytes() -> int | None:
    """Memory that can be used without swapping, or None where the system does not say."""
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None
