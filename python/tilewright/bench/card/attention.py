# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention as it is timed on a card: operands, the expected result in f64 with its bound, and torch's kernels as peers.

Where it is causal, there are as many queries as keys, so that torch's `is_causal` means the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import prod
from typing import Any

from tilewright.dtypes import dtype
from tilewright.operator_specs import AttentionSpec

Bind = Callable[[Sequence[Any]], Callable[[], object]]
"""Binds a peer to Q, K, V and the result, and returns a function that runs it and gives its result."""
_BACKENDS: Mapping[str, str] = {"FlashAttention": "FLASH_ATTENTION", "cuDNN": "CUDNN_ATTENTION"}
"""Torch's kernels, and its names for them."""
PEERS = tuple(_BACKENDS)
_ROUNDINGS = 2.0**-7
"""What an element may be off, of P|V|: weights are rounded to 8 bits, and their sums to others, and exponentials are approximated."""


@dataclass(frozen=True, slots=True)
class Known:
    """The expected result, and what each element may be off, as torch tensors in f64 of a few heads.

    Attributes:
        heads: Which entries of the batch and heads these are.
        wanted: Their results.
        bound: What each element may be off.
    """

    heads: Sequence[tuple[int, int]]
    wanted: Sequence[Any]
    bound: Sequence[Any]


def operands(torch: Any, spec: AttentionSpec, device: str = "cuda") -> list[Any]:  # noqa: ANN401 - the library
    """Random Q, K and V, and memory for the result."""
    kind = getattr(torch, dtype(spec.q).numpy)
    shapes = [each.shape for each in (*spec.operands, spec.result)]
    return [torch.randn(*shape, device=device, dtype=torch.float32).to(kind) for shape in shapes]


def expected(torch: Any, spec: AttentionSpec, given: Sequence[Any]) -> Known:  # noqa: ANN401 - the library
    """The results of the first and the last head of the first and the last entry: in f64 others take as long as all timings."""
    q, k, v, _ = given
    entries = dict.fromkeys((entry, head) for entry in (0, prod(spec.batch) - 1) for head in (0, spec.heads - 1))
    wanted, bound = [], []
    for entry, head in entries:
        key_head = head // (spec.heads // spec.kv_heads)
        scores = q[entry, head].double() @ k[entry, key_head].double().t() * spec.scale
        if spec.causal:
            unseen = torch.ones(spec.queries, spec.keys, dtype=torch.bool, device=q.device).triu(1)
            scores.masked_fill_(unseen, float("-inf"))
        weights, values = scores.softmax(-1), v[entry, key_head].double()
        wanted.append(weights @ values)
        eps = torch.finfo(v.dtype).eps
        bound.append(_ROUNDINGS * (weights @ values.abs()) + eps * wanted[-1].abs())
    return Known(tuple(entries), wanted, bound)


def wrong(got: Any, known: Known) -> str:  # noqa: ANN401 - torch's tensor
    """What is wrong with a result; "" where nothing is."""
    count = int(got.isnan().sum())
    for (entry, head), wanted, bound in zip(known.heads, known.wanted, known.bound, strict=True):
        count += int((~((got[entry, head].double() - wanted).abs() <= bound)).sum())
    return f"{count} elements are wrong" if count else ""


def peers(torch: Any, spec: AttentionSpec) -> dict[str, Bind]:  # noqa: ANN401 - the library
    """Torch's kernels."""
    ways = import_module("torch.nn.attention")
    attend = torch.nn.functional.scaled_dot_product_attention
    options: dict[str, Any] = {"is_causal": bool(spec.causal), "scale": spec.scale}
    if spec.heads != spec.kv_heads:
        options["enable_gqa"] = True

    def bound(backend: Any) -> Bind:  # noqa: ANN401 - torch's
        def run(q: Any, k: Any, v: Any) -> Any:  # noqa: ANN401 - torch's tensors
            with ways.sdpa_kernel(backend):
                return attend(q, k, v, **options)

        return lambda given: partial(run, *given[:3])

    return {name: bound(getattr(ways.SDPBackend, each)) for name, each in _BACKENDS.items()}


def flops(spec: AttentionSpec) -> int:
    """Operations of both products, of keys that queries see."""
    seen = spec.queries * spec.keys
    if spec.causal:
        seen = spec.queries * (spec.keys + 1) // 2
    return 4 * prod(spec.batch) * spec.heads * seen * spec.head


def words(spec: AttentionSpec) -> str:
    """What is computed, in short."""
    heads = f"{spec.heads} heads" + (f" of {spec.kv_heads}" if spec.heads != spec.kv_heads else "")
    return f"{prod(spec.batch)} × {heads}, {spec.queries}×{spec.keys}×{spec.head}" + (", causal" if spec.causal else "")
