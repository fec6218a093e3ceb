# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a GPU is as a target: data only."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.errors import TargetError

EMULATED = "emulated"
"""The device that is this package's emulator of NVVM kernels, thread by thread on this machine."""


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
        device: On what kernels run: "" for the card, or "emulated".
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
    device: str = ""
    types: frozenset[str] | None = None
    processors: int = 0
    least_bits: int = 8

    def __post_init__(self) -> None:
        """Checks the row against itself.

        Raises:
            TargetError: A size is not above zero, or the device is not known.
        """
        where = f"target {self.name!r}"
        for field in ("warp", "registers", "block_threads", "shared_bytes", "static_shared_bytes"):
            size = getattr(self, field)
            if not isinstance(size, int) or size <= 0:
                raise TargetError(f"{field} is {size!r}", where=where, expected="an int above zero")
        if self.device not in ("", EMULATED):
            raise TargetError(
                f"device {self.device!r}", where=where, expected=f"{EMULATED!r}, or nothing for the card itself"
            )

    def __repr__(self) -> str:
        """The name, and on what kernels run."""
        return f"<tilewright.GpuTarget {self.name}{f', {self.device}' if self.device else ''}>"

    @property
    def feature_string(self) -> str:
        """The features as LLVM wants them: "+ptx80"."""
        return ",".join(f"+{feature}" for feature in sorted(self.features))

    @property
    def architecture(self) -> str:
        """The first part of the triple ("nvptx64")."""
        return self.triple.split("-", 1)[0]

    @property
    def base(self) -> None:
        """No row that it was made from."""
        return

    def on(self, device: str) -> GpuTarget:
        """The same, with kernels that run on `device`.

        Raises:
            TargetError: It is not known.
        """
        return replace(self, device=device)
