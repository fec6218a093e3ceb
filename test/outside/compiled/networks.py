# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sixty networks of torchvision and transformers, small, from their configurations with random weights; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any

from judged import Program

torch: Any = import_module("torch")
_SEED = 0
_VOCABULARY, _TOKENS = 200, 24


@dataclass(frozen=True)
class Network:
    """A network.

    Attributes:
        name: That of torchvision's function, or of transformers' configuration.
        inputs: Makes what it takes, by the parameter's name.
        settings: Of the configuration, or of the function.
        of_transformers: Whether it is one of transformers.
    """

    name: str
    inputs: Callable[[], Mapping[str, Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    of_transformers: bool = True

    def program(self) -> Program:
        """It for inference in f32, the same in every process."""
        torch.manual_seed(_SEED)
        if self.of_transformers:
            from transformers import AutoConfig, AutoModel  # pyright: ignore[reportMissingImports]

            module = AutoModel.from_config(AutoConfig.for_model(self.name, **self.settings))
        else:
            import torchvision  # pyright: ignore[reportMissingImports]

            module = torchvision.models.get_model(self.name, weights=None, **self.settings)
        for each in module.modules():
            if isinstance(each, torch.nn.BatchNorm2d):
                torch.nn.init.normal_(each.running_mean, std=0.1)
                torch.nn.init.uniform_(each.running_var, 0.5, 2)
        return Program(module.eval(), self.inputs(), torch.float32)


def _image(size: int, name: str) -> Callable[[], Mapping[str, Any]]:
    return lambda: {name: torch.rand(1, 3, size, size)}


def _words(*names: str) -> Callable[[], Mapping[str, Any]]:
    return lambda: {name: torch.randint(2, _VOCABULARY, (2, _TOKENS)) for name in names}


_SMALL = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
    "vocab_size": _VOCABULARY, "max_position_embeddings": 64,
}  # fmt: skip
_TOKEN_NUMBERS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
_DECODER = {**_SMALL, **_TOKEN_NUMBERS, "use_cache": False}
_GROUPED = {**_DECODER, "num_key_value_heads": 2}
_PATCHES = {**_SMALL, "image_size": 32, "patch_size": 8}
_SEQUENCES = {
    "d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": _VOCABULARY, "max_position_embeddings": 64,
    **_TOKEN_NUMBERS, "decoder_start_token_id": 1, "forced_eos_token_id": None, "use_cache": False,
}  # fmt: skip
_T5 = {
    "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 4,
    "vocab_size": _VOCABULARY, "use_cache": False, **_TOKEN_NUMBERS, "decoder_start_token_id": 1,
}  # fmt: skip
_VISION: Mapping[str, int] = MappingProxyType(
    {
        "alexnet": 64,
        "convnext_tiny": 64,
        "densenet121": 64,
        "efficientnet_b0": 64,
        "efficientnet_v2_s": 64,
        "googlenet": 64,
        "inception_v3": 96,
        "mnasnet1_0": 64,
        "mobilenet_v2": 64,
        "mobilenet_v3_large": 64,
        "mobilenet_v3_small": 64,
        "regnet_x_400mf": 64,
        "regnet_y_400mf": 64,
        "resnet18": 64,
        "resnet50": 64,
        "resnext50_32x4d": 64,
        "shufflenet_v2_x1_0": 64,
        "squeezenet1_1": 64,
        "swin_t": 64,
        "swin_v2_t": 64,
        "vgg11_bn": 64,
        "vit_b_32": 224,
        "wide_resnet50_2": 64,
        "maxvit_t": 224,
    }
)
"""Networks of torchvision, with the width and height of the image."""
_FEW = {
    "googlenet": {"init_weights": False, "aux_logits": False},
    "inception_v3": {"init_weights": False, "aux_logits": False},
}

NETWORKS: tuple[Network, ...] = (
    *(Network(name, _image(size, "x"), _FEW.get(name, {}), of_transformers=False) for name, size in _VISION.items()),
    *(
        Network(name, _words("input_ids"), _SMALL)
        for name in (
            "bert",
            "roberta",
            "electra",
            "albert",
            "mobilebert",
            "deberta-v2",
            "mpnet",
            "ernie",
            "megatron-bert",
            "camembert",
            "rembert",
        )
    ),
    Network("convbert", _words("input_ids"), {**_SMALL, "embedding_size": 64}),
    Network(
        "distilbert",
        _words("input_ids"),
        {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": _VOCABULARY},
    ),
    Network("modernbert", _words("input_ids"), {**_SMALL, **_TOKEN_NUMBERS, "cls_token_id": 1, "sep_token_id": 1}),
    Network("fnet", _words("input_ids"), _SMALL),
    *(
        Network(name, _words("input_ids"), _GROUPED)
        for name in (
            "llama",
            "mistral",
            "qwen2",
            "qwen3",
            "gemma",
            "gemma2",
            "olmo2",
            "phi3",
            "granite",
            "starcoder2",
            "stablelm",
            "smollm3",
        )
    ),
    *(
        Network(name, _words("input_ids"), {**_DECODER, "rotary_dim": 8})
        for name in ("phi", "gpt_neox", "gpt2", "opt", "bloom", "gptj", "codegen")
    ),
    Network("falcon", _words("input_ids"), {**_DECODER, "multi_query": True}),
    Network("mixtral", _words("input_ids"), {**_GROUPED, "num_local_experts": 4, "experts_implementation": "eager"}),
    Network(
        "mamba",
        _words("input_ids"),
        {"hidden_size": 64, "num_hidden_layers": 1, "vocab_size": _VOCABULARY, "use_cache": False},
    ),
    *(Network(name, _words("input_ids", "decoder_input_ids"), _SEQUENCES) for name in ("bart", "marian", "pegasus")),
    *(Network(name, _words("input_ids", "decoder_input_ids"), _T5) for name in ("t5", "mt5")),
    *(
        Network(name, _image(32, "pixel_values"), _PATCHES)
        for name in ("vit", "deit", "beit", "dinov2", "vit_mae", "vit_msn")
    ),
    Network("convnextv2", _image(64, "pixel_values"), {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}),
    Network("segformer", _image(64, "pixel_values"), {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}),
    Network("mobilevit", _image(64, "pixel_values"), {"hidden_sizes": [32, 48, 64]}),
    Network(
        "resnet",
        _image(64, "pixel_values"),
        {"embedding_size": 16, "hidden_sizes": [32, 48, 64, 96], "depths": [1, 1, 1, 1]},
    ),
    Network(
        "wav2vec2",
        lambda: {"input_values": torch.rand(1, 3200)},
        {
            **_SMALL,
            "conv_dim": (32, 32, 32),
            "conv_stride": (5, 4, 4),
            "conv_kernel": (10, 4, 4),
            "num_feat_extract_layers": 3,
        },
    ),
    Network(
        "whisper",
        lambda: {"input_features": torch.rand(1, 80, 64), "decoder_input_ids": torch.randint(2, _VOCABULARY, (1, 8))},
        {**_SEQUENCES, "max_source_positions": 32, "max_target_positions": 16},
    ),
)


_OPS: list[Any] = []


def prepare() -> None:
    """Makes torchvision importable beside a torch that was built without CUDA."""
    import tilewright.bench.models.cases as cases

    library = torch.library.Library("torchvision", "FRAGMENT")
    if not torch.cuda.is_available():
        for each in cases._VISION_OPS:
            library.define(f"{each}(Tensor x) -> Tensor")
    _OPS.append(library)
