# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The stages of a GPU kernel, without what makes them: a kernel from the disk cache needs no compiler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget


@dataclass(slots=True)
class GpuStages:
    """The results of `build`.

    Attributes:
        spec: What is computed: a product, or a `RowPass` behind one.
        target: For which target.
        strategy: The strategy's name.
        sizes: Its sizes; from the cache, an object with the same attributes.
        texts: The text of each stage, in order; from the cache, of those that running it takes.
        shared_bytes: Bytes of shared memory that a launch has to give each block.
        binary: The code: PTX as bytes, SPIR-V, or, for AMD's, an object that a linker makes a code object of.
        boxes: How A, B and perhaps C are copied, where the kernel takes a tensor map of each, after its operands.
        cached: Whether it is from the disk cache.
        rows: Of the kernel that a call launches behind this one, where whole rows are needed.
    """

    spec: Any
    target: GpuTarget
    strategy: str
    sizes: Any
    texts: dict[str, str] = field(default_factory=dict)
    shared_bytes: int = 0
    binary: bytes = b""
    boxes: tuple[Any, ...] = ()
    cached: bool = False
    rows: GpuStages | None = None

    @property
    def whole(self) -> MatmulSpec:
        """What a call computes."""
        return self.spec if self.rows is None else self.rows.spec.whole

    @property
    def passes(self) -> tuple[GpuStages, ...]:
        """The kernels that a call launches, in order."""
        return (self,) if self.rows is None else (self, self.rows)
