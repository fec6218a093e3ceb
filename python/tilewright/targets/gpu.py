# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GPU targets as data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright import notebook
from tilewright.errors import TargetError
from tilewright.targets.base import Emulated


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """A GPU, or a level of one.

    Attributes:
        name: The row's name ("sm_90a").
        family: Which file of rows it belongs to ("nvidia").
        triple: LLVM target triple.
        cpu: LLVM's processor.
        features: Instruction-set features in LLVM's spelling, without sign: for NVIDIA, the version of PTX.
        warp: Threads that run in step.
        registers: 32-bit registers of a thread at most.
        block_threads: Threads of a block at most.
        shared_bytes: Bytes of shared memory of a block at most.
        static_shared_bytes: Those of them that variables of fixed size may take.
        instructions: The matrix instructions it has: as PTX calls them, "mma.sync", "wgmma", "tcgen05", or AMD, "mfma", "wmma".
        types: The element types that its kernels may have; None for all.
        processors: Multiprocessors of the largest card of its kind; 0 where no schedule asks.
        least_bits: Bits of the narrowest elements that its memory holds.
        source: Where the figures come from.
        emulation: Not None where this package's emulator runs kernels, thread by thread on this machine (see `emulated`).
    """

    name: str
    family: str
    triple: str
    cpu: str
    features: frozenset[str]
    warp: int
    registers: int
    block_threads: int
    shared_bytes: int
    static_shared_bytes: int
    instructions: frozenset[str]
    source: str
    emulation: Emulated | None = None
    types: frozenset[str] | None = None
    processors: int = 0
    least_bits: int = 8

    def __post_init__(self) -> None:
        """Checks the row against itself.

        Raises:
            TargetError: A size is not above zero.
        """
        where = f"target {self.name!r}"
        for field in ("warp", "registers", "block_threads", "shared_bytes", "static_shared_bytes"):
            size = getattr(self, field)
            if not isinstance(size, int) or size <= 0:
                raise TargetError(f"{field} is {size!r}", where=where, expected="an int above zero")

    def __repr__(self) -> str:
        """The name, and whether kernels are emulated."""
        return f"<tilewright.GpuTarget {self.name}{', emulated' if self.emulation else ''}>"

    def _repr_html_(self) -> str:
        """For notebooks: its instructions and what a block has."""
        facts = {
            "triple": self.triple,
            "threads in step": self.warp,
            "threads of a block": f"{self.block_threads:,}",
            "shared memory of a block": f"{self.shared_bytes:,} bytes",
            "registers of a thread": self.registers,
        }
        rows = [("matrix instructions", " ".join(sorted(self.instructions))), ("figures from", self.source)]
        return notebook.card(f"GpuTarget {self.name}", facts, ("", ""), rows)

    @property
    def feature_string(self) -> str:
        """The features as LLVM wants them: "+ptx80"."""
        return ",".join(f"+{feature}" for feature in sorted(self.features))

    @property
    def fuses(self) -> bool:
        """Whether a multiply-add is one instruction: on every GPU."""
        return True

    @property
    def architecture(self) -> str:
        """The first part of the triple ("nvptx64")."""
        return self.triple.split("-", 1)[0]

    @property
    def base(self) -> None:
        """No row that it was made from."""
        return

    def emulated(self) -> GpuTarget:
        """The same, whose kernels an emulator runs: the code is the same."""
        return replace(self, emulation=Emulated())
