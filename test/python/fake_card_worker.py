# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The process of ``bench card`` that uses a card, on the fake driver: each launch runs the kernel of its step in the emulator."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import fake_card
from tilewright import targets
from tilewright.bench.card import plan, proofs, worker
from tilewright.runtime import gpu


class Emulating(proofs.Prover):
    """Tells the fake driver which kernel is launched."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._driver_of_tests = fake_card.Driver()

    def run(self, step: plan.Step) -> dict[str, Any]:
        (kernel,) = step.kernels
        target = targets.gpu(plan.TARGET)
        assert target is not None
        made = gpu.compile(kernel.spec, target, kernel.strategy, dict(kernel.sizes))
        self._driver_of_tests.runs(made, aligned=kernel.aligned, boxed=kernel.boxed)
        return super().run(step)


if __name__ == "__main__":
    from tilewright.bench.card import on_card

    on_card.Prover = Emulating
    with Connection(int(sys.argv[1])) as connection:
        worker.serve(Path(sys.argv[2]), connection)
