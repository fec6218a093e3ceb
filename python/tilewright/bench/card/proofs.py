# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layouts and checks of kernels on a card, by numpy and the driver alone: no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.bench.card import bundle, numbers, plan
from tilewright.bench.card.guarded import BYTE, GUARD, pitch_of
from tilewright.bench.card.plan import Kernel, Step
from tilewright.bench.card.plan_operators import Operator
from tilewright.bench.suites import Shape
from tilewright.dtypes import to_numpy
from tilewright.errors import TilewrightError
from tilewright.operator_specs import AttentionSpec, Conv2dSpec
from tilewright.payload.samples import of_operator
from tilewright.runtime import cards, gpu_call, gpu_passes
from tilewright.runtime.cards import Card, Loaded
from tilewright.runtime.cuda_core import checked
from tilewright.runtime.device_arrays import DeviceArray

SPARE = 48
"""Bytes between rows of what is only checked."""
_SEED = 11
_INDEX = 2
"""Which operand has the numbers of gathered rows: the first one after A and B."""


@dataclass(slots=True)
class Held:
    """A matrix in a card's memory, with a copy of its bytes here and known bytes around it.

    Attributes:
        matrix: The matrix here.
        memory: All bytes here, guard bytes included.
        driver: The driver.
        place: Where these bytes are on the card; 0 before they are sent.
    """

    matrix: np.ndarray[Any, Any]
    memory: np.ndarray[Any, Any]
    driver: Any
    shape: tuple[int, ...]
    place: int = 0

    @staticmethod
    def of(driver: Any, shape: tuple[int, ...], kind: np.dtype[Any], *, spare: bool = True) -> Held:  # noqa: ANN401 - the driver
        """A matrix all of whose bytes are 0xFF, also those around it: NaN in every float.

        Of more axes, all but the last one are its rows. Without `spare` bytes, rows follow one another.
        """
        *outer, columns = shape
        rows = prod(outer)
        pitch = pitch_of(columns * kind.itemsize, SPARE) if spare else columns * kind.itemsize
        memory = np.full(2 * GUARD + rows * pitch, BYTE, np.uint8)
        inner = memory[GUARD : GUARD + rows * pitch].reshape(rows, pitch)
        return Held(inner[:, : columns * kind.itemsize].view(kind), memory, driver, shape)

    def send(self) -> None:
        """Copies all bytes to the card."""
        if not self.place:
            self.place = int(checked(self.driver.cuMemAlloc(self.memory.nbytes)))
        checked(self.driver.cuMemcpyHtoDAsync(self.place, self.memory.ctypes.data, self.memory.nbytes, 0))

    def fetch(self) -> bool:
        """Copies all bytes back, after all that was launched; whether nothing around the matrix was written."""
        checked(self.driver.cuMemcpyDtoHAsync(self.memory.ctypes.data, self.place, self.memory.nbytes, 0))
        checked(self.driver.cuStreamSynchronize(0))
        rows, used = len(self.matrix), self.matrix.shape[1] * self.matrix.itemsize
        between = self.memory[GUARD:-GUARD].reshape(rows, -1)[:, used:]
        return all(bool((each == BYTE).all()) for each in (self.memory[:GUARD], self.memory[-GUARD:], between))

    @property
    def array(self) -> DeviceArray:
        """The matrix, with all axes, as kernels take it."""
        whole = self.whole
        return DeviceArray(self.place + GUARD, whole.shape, whole.strides, whole.dtype, 0)

    @property
    def whole(self) -> np.ndarray[Any, Any]:
        """The matrix here with all axes."""
        return self.matrix.reshape(self.shape)

    def free(self) -> None:
        """Frees the card's memory."""
        if self.place:
            self.driver.cuMemFree(self.place)
        self.place = 0


class Prover:
    """A card, and the bundle's kernels as they are asked for."""

    def __init__(self, folder: Path) -> None:
        """Opens the card.

        Args:
            folder: The bundle's.

        Raises:
            TargetError: There is none.
        """
        target = bundle.targets.gpu(plan.TARGET)
        assert target is not None, "it is a GPU"
        self.card: Card = cards.find(target)
        self._folder, self._driver = folder, cards.packages(target.name)[1]
        self._loaded: dict[Kernel | Operator, Loaded] = {}

    def loaded(self, kernel: Kernel | Operator, called: gpu_call.Problem, arrays: Sequence[gpu_call.Array]) -> Loaded:
        """A kernel of the bundle on the card, for what a launch computes of such operands and result.

        Raises:
            TilewrightError: It is for rows of whole pieces of 16 bytes, of operands or the result, and these are others.
        """
        if kernel not in self._loaded:
            form, code = bundle.read_form(self._folder, kernel), bundle.read_code(self._folder, kernel)
            with cards.current(self.card):
                self._loaded[kernel] = Loaded(self.card, form, code)
        found = self._loaded[kernel]
        if kernel.aligned and not gpu_call.are_aligned(called, arrays, found.form.row_multiple):
            raise TilewrightError(
                "the bundle's kernel is for rows of whole pieces of 16 bytes, and these are others", where=kernel.key
            )
        if kernel.boxed and found.form.boxes and not gpu_call.is_boxed(called, arrays):
            raise TilewrightError("the bundle's kernel stores whole pieces of 16 bytes", where=kernel.key)
        return found

    def wait(self) -> None:
        """Waits for all that was launched; raises where the card does not go on."""
        with cards.current(self.card):
            checked(self._driver.cuCtxSynchronize())

    def run(self, step: Step) -> dict[str, Any]:
        """What comes of a step of one kernel: whether it has the emulator's bits, or the right numbers."""
        (kernel,) = step.kernels
        with cards.current(self.card):
            operands, result = self._operands(kernel, step)
            every = (*operands, result)
            try:
                self._launch(step, every)
                held = [each.fetch() for each in every]
            finally:
                for each in every:
                    each.free()
        if isinstance(kernel, Operator):
            found = numbers.of_operator(kernel.spec, *(each.whole for each in every))
        elif step.kind == "layout":
            found = self._same(kernel, result)
        else:
            found = numbers.of_arrays(kernel, *(each.matrix for each in every))
        intact = all(held)
        return {"kernel": kernel.key, **found, "intact": intact, "right": found["right"] and intact}

    def _launch(self, step: Step, every: Sequence[Held]) -> None:
        """Sends operands and result to the card, launches, and waits."""
        (kernel,) = step.kernels
        for each in every:
            each.send()
        for part, arrays in gpu_passes.products(sized(kernel, step.shape), [each.array for each in every]):
            self.loaded(kernel, part, arrays).bound(part, arrays)(0)
        checked(self._driver.cuStreamSynchronize(0))

    def _operands(self, kernel: Kernel | Operator, step: Step) -> tuple[list[Held], Held]:
        """Operands on numpy's side: whole numbers where bits are compared, else random ones."""
        spec, random = sized(kernel, step.shape), np.random.default_rng(_SEED)
        drawn = (
            bundle.whole_numbers(kernel, step.shape) if step.kind == "layout" and isinstance(kernel, Kernel) else None
        )
        if isinstance(spec, AttentionSpec):
            drawn = of_operator(random, spec)
        # Rows of images follow one another.
        spare = not isinstance(spec, Conv2dSpec)
        held = []
        for number, each in enumerate(spec.operands):
            shape = each.shape if drawn is None else drawn[number].shape  # There may be any number of pages.
            made = Held.of(self._driver, shape, to_numpy(each.type), spare=spare)
            made.whole[...] = _random(random, each.shape, to_numpy(each.type)) if drawn is None else drawn[number]
            if number == _INDEX and isinstance(kernel, Operator) and kernel.gathered:
                made.whole[...] %= kernel.gathered
            held.append(made)
        return held, Held.of(self._driver, spec.result.shape, to_numpy(spec.result.type), spare=spare)

    def _same(self, kernel: Kernel, result: Held) -> dict[str, Any]:
        """Whether a result has the emulator's bits."""
        wanted = bundle.read_expected(self._folder, kernel)
        got = np.ascontiguousarray(result.matrix)
        size = wanted.itemsize
        rows = [np.ascontiguousarray(each).view(np.uint8).reshape(-1, size) for each in (got, wanted)]
        other = (rows[0] != rows[1]).any(axis=1)
        found: dict[str, Any] = {"wrong": int(other.sum()), "elements": wanted.size, "right": not other.any()}
        if other.any():
            places = [divmod(int(each), got.shape[1]) for each in np.flatnonzero(other)[: numbers.SHOWN]]
            found["where"] = [[*at, float(got[at]), float(wanted[at])] for at in places]
        return found


def sized(kernel: Kernel | Operator, shape: Shape) -> Any:  # noqa: ANN401 - a spec
    """The spec of a call of a kernel."""
    if isinstance(kernel, Operator):
        return kernel.spec
    return kernel.spec.sized({"m": shape.m, "n": shape.n, "k": shape.k})


def _random(random: np.random.Generator, shape: tuple[int, ...], kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if kind.kind in "iu":
        return random.integers(-128, 128, shape).astype(kind)
    return random.uniform(-1, 1, shape).astype(kind)
