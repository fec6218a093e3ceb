# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels for GPUs: compiled anywhere, run on a card, by the emulator, or by Vulkan."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from tilewright.errors import NotRunnableError, OperandError
from tilewright.runtime import gpu_call, gpu_convolutions, gpu_forms, gpu_runs, linkable, runners
from tilewright.runtime.cache_key import Compilation
from tilewright.runtime.card_repeats import Repeats
from tilewright.runtime.gpu_of_calls import OfCalls
from tilewright.runtime.kernel import About, Kernel, Metadata, StageTexts
from tilewright.schedules import make
from tilewright.schedules.gpu_strategies import GPU_STRATEGIES, for_any_rows
from tilewright.schedules.plan import Schedule
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

if TYPE_CHECKING:
    from tilewright.emit.gpu_stages import Computed, GpuStages
    from tilewright.emit.ptxas import Assembled


def compile(
    spec: Computed,
    target: GpuTarget,
    schedule: Schedule = None,
    parameters: Mapping[str, int] | None = None,
    *,
    cache: bool = False,
) -> GpuKernel:
    """Compiles `spec` for a GPU.

    Args:
        spec: What to compute; of a product, extents m and n may differ from call to call whatever it says of them.
        target: The GPU, and on what its kernels run.
        schedule: A strategy's name; None to have one chosen; or the user's: a function ``(spec, target, sizes)`` that returns a
            transform module, or a .py or .mlir file. A function is called with a spec of open extents, which is what the kernel is for,
            and the sizes of the strategy that would be chosen.
        parameters: Sizes of the strategy that override the usual ones, by name.
        cache: Whether the disk cache is read and written.

    Raises:
        SpecError: The spec asks for what this release does not do on GPUs.
        TargetError: The target has no such device.
        ScheduleError: The strategy is unknown or does not fit, or a size is wrong; or the user's schedule is.
        LoweringError: A stage failed.
    """
    runners.of(target)  # Raises: it cannot be emulated.
    sizes = parameters or {}

    plan = (
        None
        if schedule is None or (isinstance(schedule, str) and not make.is_file(schedule))
        else make.own(schedule, sizes)
    )

    def build(aligned: bool, boxed: bool) -> GpuStages:
        from tilewright.emit import gpu

        gpu.check(spec, target)
        if plan is not None:
            return gpu.build(spec, target, plan, sizes, aligned=aligned, boxed=boxed)
        name = gpu.able(spec, target)[0] if schedule is None else str(schedule)
        other = name if aligned else for_any_rows(name)
        given = sizes if other == name else {}
        return gpu.build(spec, target, other, given, aligned=aligned, boxed=boxed)

    def find(aligned: bool, boxed: bool) -> GpuStages:
        what = Compilation(
            kind="gpu",
            problem=spec,
            target=target,
            schedule=str(schedule) if schedule is not None and plan is None else None,
            own=None if plan is None else plan.text,
            parameters=sizes,
            form=(aligned, boxed),
        )
        return gpu_forms.cached(what, spec, target, lambda: build(aligned, boxed))

    # What a function makes is not known without calling it.
    is_known = plan is None or plan.text is not None
    made = GpuKernel(find if cache and is_known else build, build, own=plan is not None)
    if not isinstance(spec, MatmulSpec):
        gpu_convolutions.check(spec, made.metadata.parameters["bm"])
        return made
    is_open = not all(isinstance(each, int) for each in (spec.m, spec.n, spec.k, *spec.batch))
    if schedule is None and not sizes and is_open:
        strategy = made.metadata.schedule
        model = GPU_STRATEGIES[strategy].by_call
        if model:
            made.others = OfCalls(
                spec, target, model, lambda given: compile(spec, target, strategy, given, cache=cache)
            )
    return made


class GpuKernel(Kernel):
    """A kernel for a GPU. A call takes and returns numpy arrays, as calls of `tilewright.Kernel` do.

    There are several forms of its code: one for operands whose rows all start at multiples of 16 bytes, which are copied into shared
    memory in pieces of that size, one for a result whose rows do not, where that matters, and one for all others. All but the first
    are compiled when they are first needed.
    """

    def __init__(
        self, find: Callable[[bool, bool], GpuStages], build: Callable[[bool, bool], GpuStages], *, own: bool = False
    ) -> None:
        """Makes a kernel of what `find` gives, for aligned A and B (True) or others, and an aligned result or another one.

        `build` compiles it with the texts of all stages. Under a schedule of the user's `own` there is no other one for operands that
        it is not for.
        """
        start = time.perf_counter()
        stages = find(True, True)
        self._own, self._find = own, find
        self._forms = {(True, True): stages}
        self._made: dict[tuple[bool, bool], Any] = {}
        self.repeats = Repeats()
        """Its calls on a card that can be repeated."""
        self.others: OfCalls[GpuKernel] | None = None
        """Kernels of other sizes, for the extents of calls; None where all calls take this one."""
        target = stages.target
        facts = Metadata.of(
            target,
            schedule=stages.strategy,
            parameters=stages.parameters,
            threads=stages.sizes.threads,
            seconds={},
            compile_seconds=time.perf_counter() - start,
            object_bytes=len(stages.object),
            cached=stages.cached,
            emulator="tilewright's emulator of NVVM" if target.emulation else "",
        )
        self._built = cache(lambda: build(True, True) if stages.cached else stages)
        self._about = About(stages.whole, target, facts, {}, partial(linkable.write_gpu, self._built))

    def _key(self, aligned: bool, boxed: bool) -> tuple[bool, bool]:
        """Which form is for such operands: only copies of boxes depend on the result's rows."""
        return aligned, boxed or not aligned or not self._stages.boxes

    def _form(self, key: tuple[bool, bool]) -> GpuStages:
        if key not in self._forms:
            if key[0] not in self.alignments:
                raise OperandError(
                    f"rows do not start at multiples of {gpu_call.ALIGNMENT} bytes, and {self.metadata.schedule} copies boxes of them",
                    operand="a or b",
                    expected="rows that do",
                    remedy="Pad the rows, or let the schedule share tiles among warps or threads",
                )
            self._forms[key] = self._find(*key)
        return self._forms[key]

    @property
    def alignments(self) -> tuple[bool, ...]:
        """For which A and B there are forms: those whose rows start at multiples of 16 bytes (True), and others (False)."""
        return (True,) if self._own and self._stages.boxes else (True, False)

    @property
    def _stages(self) -> GpuStages:
        return self._forms[True, True]

    def called_as(self, spec: MatmulSpec) -> GpuKernel:
        """The same kernel for calls of a spec of other extents: its code takes any."""

        def find(aligned: bool, boxed: bool) -> GpuStages:
            return self._form(self._key(aligned, boxed)).computing(spec)

        return GpuKernel(find, find, own=self._own)

    @property
    def asm(self) -> Mapping[str, str]:
        """The text of every stage by name, from the payload to PTX; a kernel from the disk cache is compiled for it."""
        return StageTexts(self._built().texts)

    @property
    def refusal(self) -> NotRunnableError | None:
        """What calls raise, where nothing here runs the kernel."""
        return runners.of(self.target).refusal

    @property
    def sizes(self) -> Any:  # noqa: ANN401 - of any strategy
        """The sizes of the strategy, or those that the user's schedule has decided."""
        return self._stages.sizes

    @property
    def row_multiple(self) -> int:
        """Of how many elements rows are multiples, where the form for aligned operands runs."""
        return self._stages.row_multiple

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that each block is given, beyond variables of fixed size."""
        return self._stages.shared_bytes

    def assembled(self, *, aligned: bool = True, boxed: bool = True) -> Assembled:
        """What NVIDIA's assembler makes of the kernel, in its form for aligned operands or for others, and such a result.

        Raises:
            TargetError: There is none.
            LoweringError: It refused the kernel.
        """
        from tilewright.emit import ptxas

        return ptxas.assemble(self._form(self._key(aligned, boxed)))

    def __call__(self, *operands: Any, out: Any = None, seed: int = 0, stream: object = None, **named: Any) -> Any:  # noqa: ANN401 - arrays of any library
        """Computes the product of arrays in this machine's memory, of any library, or, on a card, of those in its memory (torch's, CuPy's).

        Args:
            *operands: The operands.
            out: The array of the result; None for a new one where the operands are, of the library of the first that is not numpy's.
            seed: Decides in which order the emulator lets threads take turns.
            stream: On a card, the stream on which the kernel runs; None: the one of the operands' library.
            **named: Operands by their names, behind those by position.

        Raises:
            TypeError: Operands are missing, or too many.
            OperandError: An operand does not fit.
            TargetError: Nothing here runs the kernel.
            EmulationError: The emulator found that the kernel does something wrong.
        """
        if not named:
            again = self.repeats.again(operands, out, stream)
            if again is not None:
                return again
        given = gpu_call.in_order(self.spec, operands, named)
        result = self._run(*gpu_call.seen(self.spec, given, out), seed, stream)
        return gpu_call.given_back(result, given, out)

    def _run(self, operands: tuple[Any, ...], out: Any, seed: int, stream: object) -> Any:  # noqa: ANN401 - as in calls
        """Calls the kernel on operands, each numpy's or on a card."""
        spec = self.spec
        who = runners.of(self.target)
        if who.refusal is not None:
            raise who.refusal
        if who.kind == "card":
            from tilewright.runtime import card_calls

            return card_calls.call(self, operands, out, stream)
        if stream is not None:
            raise OperandError(
                f"is given to a kernel for {self.target.name} that no card runs", operand="stream", expected="none"
            )
        called = gpu_call.called(spec, operands)
        gpu_call.check_all(called, operands)
        out = gpu_call.result(called, out, operands)
        gpu_runs.run(self, called, [*operands, out], seed)
        return out

    def of_call(self, called: MatmulSpec) -> GpuKernel:
        """The kernel for the extents of a call: this one, or one of other sizes that the model predicts to be faster."""
        return self if self.others is None else self.others.of(self, called)

    def code(self, aligned: bool, make: Callable[[GpuStages], Any], *, boxed: bool = True) -> tuple[GpuStages, Any]:
        """A form, and what `make` makes of it to run it, which is kept."""
        key = self._key(aligned, boxed)
        form = self._form(key)
        if key not in self._made:
            self._made[key] = make(form)
        return form, self._made[key]
