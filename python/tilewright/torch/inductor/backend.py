# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The backend of torch.compile: rewrites each graph of ATen ops, and gives it to Inductor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch._dynamo.backends.registry import register_backend  # pyright: ignore[reportMissingImports]
from torch._functorch import config as functorch_config  # pyright: ignore[reportMissingImports]
from torch._inductor import config as inductor_config  # pyright: ignore[reportMissingImports]
from torch._inductor.compile_fx import compile_fx, compile_fx_inner  # pyright: ignore[reportMissingImports]
from torch._inductor.decomposition import select_decomp_table  # pyright: ignore[reportMissingImports]

from tilewright.torch.inductor import chains, frozen
from tilewright.torch.inductor.choice import Choice
from tilewright.torch.inductor.fx import aten
from tilewright.torch.inductor.rewrite import rewrite

_KEPT = (aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default)
"""Products that Inductor would make sums of where they are small."""


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Inductor's decompositions of ops, but for those of products."""
    return {op: what for op, what in select_decomp_table().items() if op not in _KEPT}


@register_backend
def tilewright(model: Any, inputs: Sequence[Any], **settings: Any) -> Callable[..., Any]:  # noqa: ANN401
    """Compiles a graph of torch.compile's.

    Args:
        model: The graph.
        inputs: Its inputs.
        **settings: Those of torch.compile. ``options`` are Inductor's; "freezing" makes parameters constants for inference;
            "timed", True if left out, leaves to torch what its own ops compute faster; and "chained", True if left out, calls kernels
            that follow one another by one op.
    """
    options = dict(settings.get("options") or {})
    timed, chained = (bool(options.pop(name, True)) for name in ("timed", "chained"))
    freezing = options.pop("freezing", inductor_config.freezing) and not torch.is_grad_enabled()
    constants = frozen.parameters(model, inputs) if freezing else {}
    choice = Choice.of(model, inputs) if timed else None
    # A graph that comes from AOTAutograd's cache would not be rewritten, and its kernels would not be there.
    with functorch_config.patch(enable_autograd_cache=False):
        compiled = compile_fx(
            model,
            inputs,
            inner_compile=partial(_compiled, constants=constants, choice=choice, timed=timed, chained=chained),
            config_patches={**options, "freezing": False},
            decompositions=decompositions(),
        )
    return compiled if choice is None else choice.between(compiled)


def _compiled(
    graph_module: Any,  # noqa: ANN401
    inputs: Sequence[Any],
    *,
    constants: Mapping[int, Any],
    choice: Choice | None,
    timed: bool,
    chained: bool,
    **options: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Compiles one graph of ATen ops: a forward, a backward, or both at once for inference."""
    # A table would be part of the key of Inductor's cache, and cannot be pickled: then nothing is cached. A function is its name.
    if "get_decomp_fn" in options:
        options["get_decomp_fn"] = decompositions

    kernels, images = 0, any(each.target is aten.convolution.default for each in graph_module.graph.nodes)

    def rest(graph_module: Any, inputs: Sequence[Any]) -> Any:  # noqa: ANN401
        nonlocal kernels
        kernels = rewrite(graph_module, timed=timed)
        if chained:
            chains.join(graph_module)
        return compile_fx_inner(graph_module, inputs, **options)

    is_frozen = constants and options.get("is_inference") and frozen.fits(graph_module, constants)
    compiled = frozen.Frozen(graph_module, inputs, constants, rest) if is_frozen else rest(graph_module, inputs)
    if choice is not None:
        choice.note(graph_module, compiled, kernels=bool(kernels), images=images)
    return compiled
