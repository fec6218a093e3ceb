# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models that are measured: from their configurations, with seeded random weights, so that nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

_SEED = 0
_IMAGE = (1, 3, 224, 224)
_VISION_OPS = (
    "nms",
    "qnms",
    "roi_align",
    "_roi_align_backward",
    "ps_roi_align",
    "_ps_roi_align_backward",
    "roi_pool",
    "_roi_pool_backward",
    "ps_roi_pool",
    "_ps_roi_pool_backward",
    "qroi_align",
)
_WORDS = 1000
"""Numbers of tokens are drawn below this: every vocabulary has so many."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model.

    Attributes:
        what: For people.
        sizes: The numbers of tokens that it is measured with; none for images of one size.
        build: Makes it; torch and where it is from are imported then.
    """

    what: str
    sizes: tuple[int, ...]
    build: Callable[[], Any]


def _bert() -> Any:  # noqa: ANN401 - a module of torch, here and below
    from transformers import BertConfig, BertModel  # pyright: ignore[reportMissingImports]

    return BertModel(BertConfig(), add_pooling_layer=False)


def _llama() -> Any:  # noqa: ANN401
    from transformers import LlamaConfig, LlamaModel  # pyright: ignore[reportMissingImports]

    shape = {"hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 32, "num_key_value_heads": 4}
    return LlamaModel(LlamaConfig(num_hidden_layers=8, use_cache=False, **shape))


def _vit() -> Any:  # noqa: ANN401
    from transformers import ViTConfig, ViTModel  # pyright: ignore[reportMissingImports]

    return ViTModel(ViTConfig(), add_pooling_layer=False)


def _resnet() -> Any:  # noqa: ANN401
    from torchvision.models import resnet50  # pyright: ignore[reportMissingImports]

    return resnet50(weights=None)


MODELS: Mapping[str, Model] = MappingProxyType(
    {
        "bert": Model("BERT-base, 12 layers of 768", (128, 512), _bert),
        "llama": Model("a decoder like Llama's, 8 layers of 2048, 32 heads over 4 of keys, SwiGLU", (128,), _llama),
        "vit": Model("ViT-B/16, an image of 224x224", (), _vit),
        "resnet50": Model("ResNet-50, an image of 224x224", (), _resnet),
    }
)
"""By the name that the command line takes."""


def made(name: str, size: int, dtype: Any) -> tuple[Any, tuple[Any, ...]]:  # noqa: ANN401 - a type of torch
    """A model for inference and its inputs, the same in every process.

    Args:
        name: Which one.
        size: How many tokens; 0 for images.
        dtype: The type of parameters and images.
    """
    import torch  # pyright: ignore[reportMissingImports]

    torch.manual_seed(_SEED)
    # torchvision, which transformers imports too, comes built for CUDA. Beside a torch for CPUs its ops are not there, and without
    # their names it cannot be imported.
    ops = torch.library.Library("torchvision", "FRAGMENT")
    if not torch.cuda.is_available():
        for each in _VISION_OPS:
            ops.define(f"{each}(Tensor x) -> Tensor")
    module = MODELS[name].build().eval()
    for each in module.modules():
        if isinstance(each, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(each.running_mean, std=0.1)
            torch.nn.init.uniform_(each.running_var, 0.5, 2)
    words = torch.randint(_WORDS, (1, size)) if size else torch.randn(_IMAGE, dtype=torch.float64).to(dtype)
    return First(module.to(dtype)).eval(), (words,)


def First(module: Any) -> Any:  # noqa: ANN401, N802 - makes a module
    """The module with one tensor as its result."""
    import torch  # pyright: ignore[reportMissingImports]

    class Only(torch.nn.Module):
        """The first result of a module."""

        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, given: Any) -> Any:  # noqa: ANN401
            got = self.module(given)
            return got if isinstance(got, torch.Tensor) else got[0]

    return Only()
