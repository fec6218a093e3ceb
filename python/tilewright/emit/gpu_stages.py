# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The stages of a GPU kernel as data, without the compiler, for kernels from the disk cache."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace
from typing import Any

from tilewright.emit.pipeline import Record
from tilewright.operator_specs import AttentionSpec, Conv2dSpec
from tilewright.payload.attention_pass import AttentionPass
from tilewright.payload.conv2d_products import of_launch
from tilewright.payload.patch_windows import Window
from tilewright.payload.row_pass import RowPass
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

Computed = MatmulSpec | Conv2dSpec | AttentionSpec
"""What is compiled for GPUs."""
_DERIVED = ("threads", "blocks", "workspace")
"""Properties of a strategy's sizes that a launch needs besides its fields."""


@dataclass(slots=True, kw_only=True)
class GpuStages(Record):
    """The results of `build`: a `Record`, whose object is PTX, SPIR-V, or, for AMD's, what a linker makes a code object of.

    From the disk cache, it has the texts that running it takes.

    Attributes:
        spec: What is computed: a product, a `RowPass` behind one, or an `AttentionPass`.
        target: For which target.
        strategy: The strategy's name.
        sizes: Its sizes; from the cache, an object with the same attributes.
        shared_bytes: Bytes of shared memory that a launch has to give each block.
        boxes: How A, B and perhaps C are copied, where the kernel takes a tensor map of each, after its operands.
        row_multiple: Elements of which rows of operands that are read in pieces of 16 bytes have to be multiples.
        follows: Whether its threads wait for the kernels before by themselves, so that it may begin before those have ended.
        cached: Whether it is from the disk cache.
        rows: Of the kernel that a call launches behind this one, where whole rows are needed.
        operator: The convolution that `spec` is a product of, or attention; None for a product by itself.
    """

    spec: Any
    target: GpuTarget
    strategy: str
    sizes: Any = None
    shared_bytes: int = 0
    boxes: tuple[Any, ...] = ()
    row_multiple: int = 1
    follows: bool = False
    cached: bool = False
    rows: GpuStages | None = None
    operator: Conv2dSpec | AttentionSpec | None = None

    @property
    def whole(self) -> Computed:
        """What a call computes."""
        if self.operator is not None:
            return self.operator
        return self.spec if self.rows is None else self.rows.spec.whole

    def computing(self, spec: MatmulSpec) -> GpuStages:
        """The same for calls of a spec that differs in its extents only: the code takes any."""
        if self.rows is None:
            return replace(self, spec=spec)
        return replace(self, spec=spec.inner, rows=replace(self.rows, spec=RowPass(spec)))

    @property
    def passes(self) -> tuple[GpuStages, ...]:
        """The kernels that a call launches, in order."""
        return (self,) if self.rows is None else (self, self.rows)

    @property
    def parameters(self) -> dict[str, int]:
        """The fields of the strategy's sizes by name."""
        return {name: size for name, size in _sizes(self.sizes).items() if name not in _DERIVED}


def launched(spec: Computed) -> MatmulSpec | AttentionPass:
    """What one launch of a kernel of `spec` computes."""
    if isinstance(spec, AttentionSpec):
        return AttentionPass(spec)
    return of_launch(spec) if isinstance(spec, Conv2dSpec) else spec


def as_json(stages: GpuStages, texts: Collection[str]) -> dict[str, Any]:
    """All of the kernels of a call but the code of the first one, with those of the stages' texts that are named."""
    names = ("operand", "shape", "swizzle", "atom", "window")
    boxes = [{name: getattr(each, name) for name in names} for each in stages.boxes]
    behind = stages.rows
    return {
        "schedule": stages.strategy,
        "sizes": _sizes(stages.sizes),
        "boxes": boxes,
        "shared_bytes": stages.shared_bytes,
        "row_multiple": stages.row_multiple,
        "follows": stages.follows,
        "texts": {name: text for name, text in stages.texts.items() if name in texts},
        "rows": behind and as_json(behind, texts) | {"code": base64.b64encode(behind.object).decode()},
    }


def from_json(
    header: Mapping[str, Any], spec: Computed, target: GpuTarget, binary: bytes, *, cached: bool
) -> GpuStages:
    """The kernels of a spec and target of which `as_json` made `header`."""
    if not isinstance(spec, MatmulSpec):
        return replace(_kernel(header, launched(spec), target, binary, cached=cached), operator=spec)
    behind = header["rows"]
    rows = behind and _kernel(behind, RowPass(spec), target, base64.b64decode(behind["code"]), cached=cached)
    return _kernel(header, spec.inner if rows else spec, target, binary, cached=cached, rows=rows)


def _kernel(
    header: Mapping[str, Any],
    spec: MatmulSpec | RowPass | AttentionPass,
    target: GpuTarget,
    binary: bytes,
    *,
    cached: bool,
    rows: GpuStages | None = None,
) -> GpuStages:
    boxes = tuple(_box(each) for each in header["boxes"])
    sizes, texts = SimpleNamespace(**header["sizes"]), dict(header["texts"])
    return GpuStages(
        spec=spec,
        target=target,
        strategy=header["schedule"],
        sizes=sizes,
        texts=texts,
        shared_bytes=header["shared_bytes"],
        object=binary,
        boxes=boxes,
        row_multiple=header["row_multiple"],
        follows=header["follows"],
        cached=cached,
        rows=rows,
    )


def _box(given: Mapping[str, Any]) -> SimpleNamespace:
    """A box as kernels from the disk cache have it."""
    window = given["window"] and Window(*map(tuple, given["window"]))
    return SimpleNamespace(**{**given, "shape": tuple(given["shape"]), "window": window})


def _sizes(sizes: Any) -> dict[str, int]:  # noqa: ANN401 - of any strategy, or from JSON
    """A strategy's sizes by name, also those that it derives."""
    if isinstance(sizes, SimpleNamespace):
        return vars(sizes)
    return asdict(sizes) | {name: getattr(sizes, name) for name in _DERIVED if hasattr(sizes, name)}
