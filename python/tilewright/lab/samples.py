# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The examples of the lab's menu: files beside this one, whose first lines say what each is of; each of our strategies; each target."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

from tilewright.schedules import select
from tilewright.schedules.gpu_strategies import GPU_STRATEGIES
from tilewright.targets import registry

_FIELDS = (
    "SPDX-License-Identifier",
    "title",
    "group",
    "shape",
    "dtype",
    "layout",
    "epilogue",
    "target",
    "strategy",
    "operator",
    "fields",
)
_FIELD = re.compile(r"^(?:#|//) ([\w-]+): (.*)$")


@dataclass(frozen=True, slots=True)
class Sample:
    """An example.

    Attributes:
        name: Its file's name without the suffix and the number that orders it.
        title: What the menu shows.
        group: Where in the menu it stands.
        language: That of its text.
        text: The schedule; empty where it is one of ours, which `strategy` names.
        product: The fields of the product that it says: shape, dtype, target and so on.
        strategy: One of ours; "chosen" for the one that is chosen; empty for none.
    """

    name: str
    title: str
    group: str
    language: str
    text: str
    product: dict[str, str]
    strategy: str = ""

    def as_json(self) -> dict[str, Any]:
        """As the page gets it."""
        return asdict(self)


STRATEGIES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "packed": {"shape": "384x512x512"},
        "unpacked": {"shape": "96x96x96"},
        "streamed": {"shape": "4x1024x1024"},
        "inner_product": {"shape": "4x512x512", "layout": "nt"},
        "scaled_sums": {"shape": "4x512x512", "dtype": "bf16,i4,f32", "prologue_b": "dequantize:gn:0:64"},
        "scalable": {"shape": "64x64x64", "target": "neoverse-v1"},
        "outer_product": {"shape": "64x64x64", "target": "armv9-a+sme"},
    }
)
"""A product for each of our strategies for processors."""
GPU_PRODUCTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "mma_sync": {"shape": "256x256x256", "dtype": "f16,f16,f32", "target": "sm_80"},
        "warpgroup": {"shape": "512x512x512", "dtype": "bf16,bf16,f32", "target": "sm_90a"},
        "tensor_memory": {"shape": "512x512x512", "dtype": "bf16,bf16,f32", "target": "sm_100a"},
        "matrix_cores": {"shape": "256x256x256", "dtype": "f16,f16,f32", "target": "gfx942"},
        "simt": {"shape": "128x128x128", "target": "vulkan"},
    }
)
"""A product for each of those for GPUs."""
_TARGETS = {"sapphirerapids": "bf16", "graniterapids": "bf16"}
"""The types of products for targets, where they are not f32."""


@functools.cache
def all() -> tuple[Sample, ...]:
    """The examples: those of files, each strategy, and each target."""
    files = sorted(resources.files("tilewright.lab").joinpath("examples").iterdir(), key=lambda each: each.name)
    read = [_read(each.name, each.read_text(encoding="utf-8")) for each in files if each.is_file()]
    return (*read, *_ours("strategies", STRATEGIES), *_ours("gpus", GPU_PRODUCTS), *_targets())


def _ours(group: str, products: Mapping[str, Mapping[str, str]]) -> Iterator[Sample]:
    """Our strategies."""
    rows = {**select.STRATEGIES, **GPU_STRATEGIES}
    for name, product in products.items():
        target = f" ({product['target']})" if "target" in product else ""
        yield Sample(name, f"{name}{target}: {rows[name].purpose}", group, "mlir", "", dict(product), name)


def _targets() -> Iterator[Sample]:
    """Each target, under the schedule that is chosen for it."""
    for row in (*registry.all(), *registry.GPUS):
        product = {"shape": "64x64x64", "dtype": _TARGETS.get(row.name, "f32"), "target": row.name}
        yield Sample(f"target {row.name}", f"{row.name}, {product['dtype']}", "targets", "mlir", "", product, "chosen")


def _read(name: str, text: str) -> Sample:
    """An example's fields are the comments at its start."""
    stem, _, language = name.rpartition(".")
    fields: dict[str, str] = {}
    lines = text.splitlines(keepends=True)
    while lines and (found := _FIELD.match(lines[0])) and found[1] in _FIELDS:
        fields[found[1]] = found[2]
        lines.pop(0)
    title, group = fields.pop("title"), fields.pop("group")
    fields.pop("SPDX-License-Identifier", None)
    strategy = fields.pop("strategy", "")
    return Sample(stem.split("_", 1)[1], title, group, language, "".join(lines).lstrip("\n"), fields, strategy)
