# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention with a cache of keys and values, GroupQueryAttention, as a group: of one row of queries, and of any number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tilewright.onnx.graph import Node
from tilewright.onnx.groups import Grouping
from tilewright.operator_specs import AttentionSpec

_OPERANDS = 10
"""Inputs that are taken: query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos_cache, sin_cache, position_ids."""
_OPTIONAL = (1, 2, 3, 4, 7, 8, 9)
_RESULTS = 3
_TAKEN = ("num_heads", "kv_num_heads", "scale", "do_rotary", "rotary_interleaved", "qk_norm_epsilon")
"""The last one is of norms whose weights are inputs that are not taken."""
_LEFT: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "softcap": (0,),
        "local_window_size": (-1,),
        "sliding_window_cache": (0,),
        "smooth_softmax": (0, -1),
        "qk_output": (0,),
        "kv_cache_bit_width": (0,),
        "causal": (1,),
        "unidirectional": (1,),
        "k_quant_type": ("NONE",),
        "v_quant_type": ("NONE",),
    }
)
"""Attributes that must say that what they choose is not done."""


@dataclass(frozen=True, eq=False)
class CachedAttention:
    """A GroupQueryAttention of f32, whose rotation of queries and keys and whose cache the provider does itself.

    Attributes:
        nodes: It.
        specs: The attention of one row of queries, and of any number, of one sequence.
        is_turned: Whether queries and keys are turned by their positions.
        is_interleaved: Whether the pairs that are turned are neighbors.
    """

    nodes: tuple[Node, ...]
    specs: tuple[AttentionSpec, AttentionSpec]
    is_turned: bool
    is_interleaved: bool

    def json(self, names: Mapping[Any, str]) -> dict[str, Any]:
        """As the provider reads it, with the kernels' names."""
        (node,), (one, many) = self.nodes, self.specs
        operands = [node.input(slot) for slot in range(_OPERANDS)]
        return {
            "nodes": [node.words],
            "cache": {
                "one": names[one],
                "many": names[many],
                "heads": one.heads,
                "kv_heads": one.kv_heads,
                "head": one.head,
                "turned": self.is_turned,
                "interleaved": self.is_interleaved,
                "operands": [each.name if each else "" for each in operands],
                "results": [each.name for each in node.outputs if each],
            },
        }


def cached_attention(grouping: Grouping, node: Node) -> CachedAttention | None:
    """The group of a GroupQueryAttention; None for another node, or one with more than the provider does.

    Raises:
        SpecError: No kernel computes it, as the error says.
    """
    given = node.attributes
    if node.op != "com.microsoft.GroupQueryAttention" or len([each for each in node.outputs if each]) != _RESULTS:
        return None
    if any(node.inputs[_OPERANDS:]) or any(
        name not in _TAKEN and each not in _LEFT.get(name, ()) for name, each in given.items()
    ):
        return None
    operands = [node.input(slot) for slot in range(_OPERANDS)]
    if any(each is None and slot not in _OPTIONAL for slot, each in enumerate(operands)):
        return None
    query, key, value, past_key, past_value, _, _, cosine, sine, _ = operands
    is_turned = bool(given.get("do_rotary", 0))
    pairs = ((key, value), (past_key, past_value), (cosine, sine))
    if any((one is None) != (other is None) for one, other in pairs) or (is_turned and cosine is None):
        return None
    heads, kv_heads = given.get("num_heads", 0), given.get("kv_num_heads", 0)
    parts = heads + (2 * kv_heads if key is None else 0)
    width = query.shape[-1] if query and query.shape else None
    floats = (query, key, value, past_key, past_value, cosine, sine)
    if not isinstance(width, int) or not parts or width % parts or any(each and each.type != "f32" for each in floats):
        return None
    head = width // parts
    scale = given.get("scale") or None
    one = AttentionSpec(1, None, head, heads, kv_heads, scale=scale)
    many = AttentionSpec(None, None, head, heads, kv_heads, scale=scale, causal="lower_right")
    return CachedAttention((node,), (one, many), is_turned, bool(given.get("rotary_interleaved", 0)))
