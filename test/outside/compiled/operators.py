# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A hundred small programs around products, as models have them: what torch.compile with our backend has to compute right and fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from judged import Program

torch: Any = import_module("torch")
F, nn = torch.nn.functional, torch.nn
F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16


@dataclass(frozen=True)
class Layer:
    """What makes a module, whose parameters are drawn anew in each type."""

    make: Callable[[], Any]


@dataclass(frozen=True)
class Operator:
    """A program and what it is run on.

    Attributes:
        name: Names it.
        function: The program, or what makes it.
        inputs: Shapes of tensors of floats, or functions of an element type that make inputs.
        types: Element types.
        training: Whether gradients of all inputs and parameters are computed too.
        again: Sizes of the first axis of the first input with which the compiled program runs once more each.
        rounds: The element type that it rounds to by itself, whatever its inputs have.
    """

    name: str
    function: Callable[..., Any] | Layer
    inputs: Sequence[tuple[int, ...] | Callable[[Any], Any]]
    types: tuple[Any, ...] = (F32,)
    training: bool = False
    again: tuple[int, ...] = ()
    rounds: Any = None

    def program(self, dtype: Any) -> Program:
        """It in one element type, the same in every process."""
        torch.manual_seed(0)
        call = self.function.make().to(dtype) if isinstance(self.function, Layer) else self.function
        inputs = [each(dtype) if callable(each) else drawn(each, dtype) for each in self.inputs]
        others = tuple([drawn((size, *inputs[0].shape[1:]), dtype), *inputs[1:]] for size in self.again)
        return Program(call, inputs, self.rounds or dtype, self.training, others)


def integers(high: int, *shape: int) -> Callable[[Any], Any]:
    return lambda _: torch.randint(high, shape)


def strided(*shape: int) -> Callable[[Any], Any]:
    """Every second element of each axis."""
    return lambda dtype: drawn(tuple(2 * each for each in shape), dtype)[tuple(slice(None, None, 2) for _ in shape)]


def permuted(shape: tuple[int, ...], *axes: int) -> Callable[[Any], Any]:
    return lambda dtype: drawn(shape, dtype).permute(axes)


def expanded(shape: tuple[int, ...], *to: int) -> Callable[[Any], Any]:
    return lambda dtype: drawn(shape, dtype).expand(to)


def small_integers(*shape: int) -> Callable[[Any], Any]:
    return lambda _: torch.randint(-8, 8, shape, dtype=torch.int8)


def complexes(*shape: int) -> Callable[[Any], Any]:
    return lambda dtype: torch.view_as_complex(drawn((*shape, 2), dtype))


def drawn(shape: Sequence[int], dtype: Any) -> Any:
    return (torch.rand(tuple(shape), dtype=F64) - 0.5).to(dtype)


def linear(after: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, w, b: after(F.linear(x, w, b))


def rms(x: Any) -> Any:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def rotated(x: Any) -> Any:
    angle = torch.outer(torch.arange(x.shape[-2]), 1.0 / (10 ** torch.arange(0, x.shape[-1] // 2))).to(x.dtype)
    left, right = x.chunk(2, -1)
    return torch.cat((left * angle.cos() - right * angle.sin(), right * angle.cos() + left * angle.sin()), -1)


def attention_by_hand(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v


def split_heads(x: Any, heads: int = 4) -> Any:
    return x.unflatten(-1, (heads, -1)).transpose(-2, -3)


def self_attention(x: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
    q, k, v = (split_heads(F.linear(x, w)) for w in (wq, wk, wv))
    return F.linear(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2), wo)


def low_rank(x: Any, w: Any, a: Any, b: Any) -> Any:
    return F.linear(x, w) + F.linear(F.linear(x, a), b) * 0.5


def experts(x: Any, gate: Any, w: Any) -> Any:
    share = torch.softmax(F.linear(x, gate), -1)
    return torch.einsum("te,teo->to", share, torch.einsum("td,eod->teo", x, w))


def appended(cache: Any, x: Any, w: Any) -> Any:
    cache = cache.clone()
    cache[:, -1] = F.linear(x, w)
    return cache, cache.sum(1)


def recurrent(x: Any, h: Any, w: Any, u: Any) -> Any:
    for step in range(4):
        h = torch.tanh(F.linear(x[:, step], w) + F.linear(h, u))
    return h


def in_place(x: Any, w: Any) -> Any:
    y = F.linear(x, w)
    y.add_(1).relu_()
    y[0] = 2
    x.mul_(2)
    return y


def views_of_a_result(x: Any, w: Any) -> Any:
    y = F.relu(F.linear(x, w))
    return y, y[1:], y.t(), y.view(-1), y.unsqueeze(0).expand(2, *y.shape)


def loss(x: Any, w: Any, labels: Any) -> Any:
    return F.cross_entropy(F.linear(x, w), labels)


def normalized_attention(x: Any, w: Any, b: Any) -> Any:
    q, k, v = F.linear(F.layer_norm(x, x.shape[-1:]), w, b).chunk(3, -1)
    return x + F.scaled_dot_product_attention(*map(split_heads, (q, k, v))).transpose(1, 2).flatten(-2)


def branches(x: Any, w: Any, v: Any) -> Any:
    y = F.linear(x, w)
    return F.gelu(y) @ v + torch.sigmoid(y) @ v.flip(0)


def image_gate(x: Any, w: Any, down: Any, up: Any) -> Any:
    y = F.silu(F.conv2d(x, w, padding=1))
    s = F.relu(F.linear(y.mean((2, 3)), down))
    return y * torch.sigmoid(F.linear(s, up))[:, :, None, None]


CHAINS = {
    "none": lambda y: y,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "elu": F.elu,
    "softplus": F.softplus,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "leaky": partial(F.leaky_relu, negative_slope=0.2),
    "tanh_clamp": lambda y: torch.tanh(y).clamp(-0.5, 0.5),
    "sigmoid_scaled": lambda y: torch.sigmoid(y * 1.702) * y,
    "relu_squared": lambda y: F.relu(y).square(),
    "exp_log": lambda y: torch.log1p(torch.exp(-y.abs())),
    "sin_cos": lambda y: y.sin() + y.cos() * 2,
    "powers": lambda y: y.pow(3) + (y.abs() + 0.1).pow(-0.5) + y.abs().pow(1.5),
    "rounded": lambda y: (y * 16).round() / 16,
    "selected": lambda y: torch.where(y > 0.1, y, y.neg() * 0.5).masked_fill(y < -0.2, 0),
    "dropout_off": lambda y: F.dropout(y, 0.5, training=False) + 1,
    "softmax": lambda y: torch.softmax(y, -1),
    "log_softmax": lambda y: torch.log_softmax(y, -1),
    "layer_norm": lambda y: F.layer_norm(y, y.shape[-1:]),
    "rms_norm": rms,
    "group_norm": lambda y: F.group_norm(y, 8),
    "sum": lambda y: y.sum(-1),
    "argmax": lambda y: y.argmax(-1),
    "top": lambda y: y.topk(4, -1).values,
    "cumulative": lambda y: y.cumsum(0),
    "glu": lambda y: F.glu(y, -1),
    "swiglu": lambda y: (lambda a, b: F.silu(a) * b)(*y.chunk(2, -1)),
    "transposed": lambda y: F.relu(y).t(),
    "concatenated": lambda y: torch.cat((y, F.relu(y)), -1),
    "padded": lambda y: F.pad(F.relu(y), (1, 2)),
    "to_int": lambda y: (y * 8).to(torch.int32),
    "to_double": lambda y: F.relu(y).double(),
}
"""What is done to x·Wᵀ + b."""

_IMAGES = {
    "plain": (lambda x, w, b: F.conv2d(x, w, b), ((24, 16, 3, 3), (24,))),
    "strided": (lambda x, w, b: F.relu(F.conv2d(x, w, b, stride=2, padding=1)), ((24, 16, 3, 3), (24,))),
    "pointwise": (lambda x, w, b: F.silu(F.conv2d(x, w, b)), ((64, 16, 1, 1), (64,))),
    "pointwise_strided": (lambda x, w: F.conv2d(x, w, stride=2), ((64, 16, 1, 1),)),
    "dilated": (lambda x, w, b: F.conv2d(x, w, b, dilation=2, padding=2), ((24, 16, 3, 3), (24,))),
    "groups": (lambda x, w, b: F.conv2d(x, w, b, groups=4, padding=1), ((32, 4, 3, 3), (32,))),
    "depthwise": (lambda x, w, b: F.hardswish(F.conv2d(x, w, b, groups=16, padding=2)), ((16, 1, 5, 5), (16,))),
    "multiplied": (lambda x, w: F.conv2d(x, w, groups=16), ((32, 1, 3, 3),)),
    "oblong": (lambda x, w: F.conv2d(x, w, padding=(0, 3), stride=(2, 1)), ((24, 16, 1, 7),)),
    "same": (lambda x, w: F.conv2d(x, w, padding="same"), ((24, 16, 4, 4),)),
    "reflected": (lambda x, w: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), w), ((24, 16, 3, 3),)),
    "transposed": (lambda x, w, b: F.relu(F.conv_transpose2d(x, w, b, stride=2)), ((16, 24, 2, 2), (24,))),
    "normalized": (
        lambda x, w, m, v: F.relu(F.batch_norm(F.conv2d(x, w, padding=1), m, v.abs() + 1)),
        ((24, 16, 3, 3), (24,), (24,)),
    ),
    "residual": (lambda x, w: F.relu(x + F.conv2d(x, w, padding=1)), ((16, 16, 3, 3),)),
    "pooled": (lambda x, w: F.max_pool2d(F.relu(F.conv2d(x, w)), 2), ((24, 16, 3, 3),)),
    "gated": (image_gate, ((32, 16, 3, 3), (8, 32), (32, 8))),
    "patches": (lambda x, w: F.conv2d(x, w, stride=4).flatten(2).mT, ((64, 16, 4, 4),)),
    "shuffled": (lambda x, w: F.pixel_shuffle(F.conv2d(x, w, padding=1), 2), ((32, 16, 3, 3),)),
}
"""Convolutions of images, with the shapes of what they take besides."""


def operators(scale: int = 1) -> tuple[Operator, ...]:
    """All of them, whose extents grow with `scale`."""
    tokens, width, wide = 64 * scale, 128 * scale, 512 * scale
    linear_shapes, square = ((tokens, width), (wide, width), (wide,)), ((tokens, width), (width, width))
    some, few, head, side = 48 * scale, 40 * scale, 32 * min(scale, 2), 20 * scale
    heads, grouped, image = (2, 4, some, head), (2, 2, some, head), (2, 16, side, side)
    return (
        *(Operator(f"linear_{name}", linear(after), linear_shapes) for name, after in CHAINS.items()),
        *(
            Operator(f"linear_{name}_small_types", linear(CHAINS[name]), linear_shapes, (BF16, F16))
            for name in ("none", "gelu", "layer_norm", "softmax", "to_double")
        ),
        Operator("linear_f64", linear(F.gelu), linear_shapes, (F64,)),
        *(Operator(f"conv2d_{name}", function, (image, *rest)) for name, (function, rest) in _IMAGES.items()),
        Operator("conv2d_small_types", _IMAGES["strided"][0], (image, *_IMAGES["strided"][1]), (BF16, F16, F64)),
        Operator(
            "conv2d_channels_last", _IMAGES["residual"][0], (permuted((2, side, side, 16), 0, 3, 1, 2), (16, 16, 3, 3))
        ),
        Operator("conv2d_one_image", lambda x, w: F.conv2d(x, w), ((16, side, side), (24, 16, 3, 3))),
        Operator(
            "conv1d", lambda x, w, b: F.gelu(F.conv1d(x, w, b, padding=1)), ((2, 32, 100 * scale), (64, 32, 3), (64,))
        ),
        Operator(
            "conv1d_causal", lambda x, w: F.conv1d(F.pad(x, (3, 0)), w, groups=32), ((2, 32, 100 * scale), (32, 1, 4))
        ),
        Operator(
            "conv1d_dilated", lambda x, w: F.conv1d(x, w, dilation=4, stride=2), ((2, 32, 100 * scale), (48, 32, 3))
        ),
        Operator(
            "conv3d",
            lambda x, w, b: F.relu(F.conv3d(x, w, b)),
            ((1, 8, 8, 10 * scale, 10 * scale), (16, 8, 3, 3, 3), (16,)),
        ),
        Operator(
            "conv_transpose1d", lambda x, w: F.conv_transpose1d(x, w, stride=4), ((2, 32, 50 * scale), (32, 16, 8))
        ),
        Operator("residual", lambda x, w, r: r + F.linear(x, w), ((tokens, width), (wide, width), (tokens, wide))),
        Operator("row_factor", lambda x, w, r: r * (x @ w), (*square, (tokens, 1))),
        Operator("column_factor", lambda x, w, g, b: (x @ w) * g + b, (*square, (width,), (1, width))),
        Operator("broadcast_result", lambda x, w, b: x @ w + b, (*square, (3, tokens, width))),
        Operator("number", lambda x, w: (x @ w) * 0.125 - 3, square),
        Operator(
            "gated_mlp",
            lambda x, g, u, d: F.linear(F.silu(F.linear(x, g)) * F.linear(x, u), d),
            ((tokens, width), (wide, width), (wide, width), (width, wide)),
            (F32, BF16),
        ),
        Operator(
            "mlp",
            lambda x, u, b, d, c: x + F.linear(F.gelu(F.linear(x, u, b)), d, c),
            ((2, tokens, width), (wide, width), (wide,), (width, wide), (width,)),
            (F32, BF16),
        ),
        Operator(
            "layer_norm_linear",
            lambda x, g, b, w: F.linear(F.layer_norm(x, x.shape[-1:], g, b), w),
            ((tokens, width), (width,), (width,), (wide, width)),
            (F32, BF16),
        ),
        Operator(
            "rms_norm_linear",
            lambda x, g, w: F.linear(rms(x) * g, w),
            ((tokens, width), (width,), (wide, width)),
            (F32, BF16),
        ),
        Operator("low_rank", low_rank, ((tokens, width), (width, width), (8, width), (width, 8))),
        Operator("branches", branches, ((tokens, width), (width, width), (width, width))),
        Operator("experts", experts, ((tokens, width), (4, width), (4, width, width))),
        Operator("classifier", lambda x, w, b: F.linear(x.mean(1), w, b), ((4, 20, width), (1000, width), (1000,))),
        Operator("one_row", lambda x, w, b: F.relu(F.linear(x, w, b)), ((1, wide), (wide, wide), (wide,)), (F32, BF16)),
        Operator("one_column", lambda x, w: x @ w, ((tokens, width), (width, 1))),
        Operator("matrix_vector", lambda x, w: F.relu(x @ w), ((tokens, width), (width,))),
        Operator("outer", lambda x, y: torch.outer(x, y) + 1, ((tokens,), (width,))),
        Operator("one_inner", lambda x, y: x @ y, ((tokens, 1), (1, width))),
        Operator("no_rows", linear(F.relu), ((0, width), (wide, width), (wide,))),
        Operator("no_inner", lambda x, y, b: x @ y + b, ((tokens, 0), (0, width), (width,))),
        Operator("no_columns", lambda x, y: F.relu(x @ y), ((tokens, width), (width, 0))),
        Operator("transposed_both", lambda x, y: x.t() @ y.t(), ((width, tokens), (wide, width)), (F32, BF16)),
        Operator("strided", lambda x, y: x @ y, (strided(tokens, width), strided(width, width))),
        Operator("sliced", lambda x, w: F.gelu(x[:, 8:72] @ w[3:67]), ((tokens, width), (width, width))),
        Operator("broadcast_operand", lambda x, y: x @ y, (expanded((1, width), tokens, width), (width, width))),
        Operator("gram", lambda x: x @ x.t(), ((width, width),)),
        Operator("chain", lambda x, a, b: x @ a @ b, ((tokens, width), (width, width), (width, tokens))),
        Operator(
            "addmm",
            lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2),
            ((tokens, width), (tokens, width), (width, width)),
        ),
        Operator(
            "baddbmm",
            lambda c, a, b: torch.baddbmm(c, a, b, beta=0, alpha=0.5),
            ((4, some, few), (4, some, head), (4, head, few)),
        ),
        Operator("bmm", lambda a, b: F.relu(torch.bmm(a, b)), ((8, some, head), (8, head, few)), (F32, BF16)),
        Operator("bmm_broadcast", lambda a, b: a @ b, ((2, 4, some, head), (head, few))),
        Operator("bmm_broadcast_batch", lambda a, b: a @ b, ((2, 1, some, head), (4, head, few))),
        Operator("bmm_bias", lambda a, b, c: a @ b + c, ((8, some, head), (8, head, few), (8, 1, few))),
        Operator(
            "einsum_heads", lambda x, w: torch.einsum("bsd,dhk->bhsk", x, w), ((2, some, width), (width, 4, head))
        ),
        Operator("einsum_out", lambda x, w: torch.einsum("bhsk,dhk->bsd", x, w), (heads, (width, 4, head))),
        Operator("bilinear", F.bilinear, ((tokens, 24), (tokens, 32), (16, 24, 32), (16,))),
        Operator("distances", lambda x, y: torch.cdist(x, y), ((tokens, 32), (width, 32))),
        Operator("attention", F.scaled_dot_product_attention, (heads, heads, heads), (F32, BF16)),
        Operator("attention_causal", partial(F.scaled_dot_product_attention, is_causal=True), (heads, heads, heads)),
        Operator("attention_additive_mask", F.scaled_dot_product_attention, (heads, heads, heads, (some, some))),
        Operator(
            "attention_truth_mask",
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m > -0.3),
            (heads, heads, heads, (2, 1, some, some)),
        ),
        Operator(
            "attention_grouped",
            partial(F.scaled_dot_product_attention, enable_gqa=True),
            (heads, grouped, grouped),
            (F32, BF16),
        ),
        Operator(
            "attention_grouped_by_hand",
            lambda q, k, v: F.scaled_dot_product_attention(
                q, *(x[:, :, None].expand(2, 2, 2, some, head).reshape(heads) for x in (k, v)), is_causal=True
            ),
            (heads, grouped, grouped),
            (F32, BF16),
        ),
        Operator(
            "attention_decode",
            F.scaled_dot_product_attention,
            ((2, 4, 1, head), (2, 4, 2 * some, head), (2, 4, 2 * some, head)),
        ),
        Operator("attention_by_hand", attention_by_hand, (heads, heads, heads), (F32, BF16)),
        Operator("attention_three_axes", F.scaled_dot_product_attention, ((8, some, head),) * 3),
        Operator(
            "attention_rotary",
            lambda q, k, v: F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True),
            (heads,) * 3,
        ),
        Operator("attention_capped", lambda q, k, v: torch.softmax(torch.tanh(q @ k.mT / 8) * 8, -1) @ v, (heads,) * 3),
        Operator("self_attention", self_attention, ((2, tokens, width), *((width, width),) * 4), (F32, BF16)),
        Operator("normalized_attention", normalized_attention, ((2, some, width), (3 * width, width), (3 * width,))),
        Operator("linear_attention", lambda q, k, v: (F.elu(q) + 1) @ ((F.elu(k) + 1).mT @ v), (heads,) * 3),
        Operator(
            "embedding_linear",
            lambda e, w, i: F.linear(F.embedding(i, e), w),
            ((100, width), (wide, width), integers(100, 4, 16)),
        ),
        Operator("tied_embedding", lambda e, i: F.embedding(i, e) @ e.t(), ((100, width), integers(100, 4, 16))),
        Operator("gathered", lambda x, w, i: F.linear(x[i], w), (*square, integers(tokens, 20))),
        Operator(
            "scattered",
            lambda x, w, i: torch.zeros(tokens, width, dtype=x.dtype).index_add(0, i, F.linear(x, w)),
            (*square, integers(tokens, tokens)),
        ),
        Operator("appended", appended, ((2, 10, width), (2, width), (width, width))),
        Operator("in_place", in_place, square),
        Operator("views_of_a_result", views_of_a_result, square),
        Operator("two_results", lambda x, w: ((y := x @ w), y + 1, F.relu(y)), square),
        Operator("loop", recurrent, ((8, 4, width), (8, width), (width, width), (width, width))),
        Operator("rnn", Layer(lambda: nn.RNN(32, 64, batch_first=True)), ((4, 6, 32),)),
        Operator("gru", Layer(lambda: nn.GRU(32, 64, batch_first=True)), ((4, 6, 32),)),
        Operator("lstm", Layer(lambda: nn.LSTM(32, 64, batch_first=True)), ((4, 6, 32),)),
        Operator("lstm_cell", Layer(lambda: nn.LSTMCell(64, 128)), ((8, 64),)),
        Operator(
            "encoder_layer",
            Layer(lambda: nn.TransformerEncoderLayer(width, 4, wide, batch_first=True).eval()),
            ((2, few, width),),
        ),
        Operator(
            "decoder_layer",
            Layer(lambda: nn.TransformerDecoderLayer(width, 4, wide, batch_first=True, norm_first=True).eval()),
            ((2, few, width), (2, 30, width)),
        ),
        Operator(
            "multihead_attention",
            Layer(lambda: nn.MultiheadAttention(width, 4, batch_first=True).eval()),
            ((2, few, width),) * 3,
        ),
        Operator("complex_product", lambda x, y: x @ y, (complexes(32, 40), complexes(40, 24))),
        Operator(
            "complex_view", lambda x, w: torch.view_as_complex(F.linear(x, w).unflatten(-1, (-1, 2))).abs(), square
        ),
        Operator("conjugate", lambda x, y: torch.view_as_real(x @ y.mH), (complexes(32, 40), complexes(24, 40))),
        Operator(
            "int8_weights",
            lambda x, w, s: F.linear(x, w.to(x.dtype)) * s,
            ((tokens, width), small_integers(wide, width), (wide,)),
            (F32, BF16),
        ),
        Operator("int8_product", lambda x, y: torch._int_mm(x, y), (small_integers(32, 64), small_integers(64, 40))),
        Operator("mixed_types", lambda x, w: F.linear(x.to(BF16), w.to(BF16)).float(), square, rounds=BF16),
        Operator("wide_result", lambda x, w: (x @ w).float() + 1, square, (BF16,)),
        Operator(
            "autocast",
            lambda x, w: torch.autocast("cpu", BF16)(lambda: F.gelu(F.linear(x, w)))().float(),
            square,
            rounds=BF16,
        ),
        Operator("dynamic_rows", linear(F.gelu), linear_shapes, (F32, BF16), again=(7, 33, 130)),
        Operator(
            "dynamic_attention",
            lambda x: F.scaled_dot_product_attention(*(x.transpose(0, 1)[None],) * 3),
            ((40, 4, 32),),
            again=(9, 65),
        ),
        Operator(
            "dynamic_mlp",
            Layer(lambda: nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.LayerNorm(64), nn.Linear(64, 8))),
            ((40, 32),),
            again=(3, 50),
        ),
        Operator(
            "dynamic_images",
            lambda x, w: F.relu(F.conv2d(x, w, padding=1)),
            ((2, 8, 12, 12), (16, 8, 3, 3)),
            again=(3, 5),
        ),
        Operator("training_linear", linear(F.gelu), linear_shapes, (F32, BF16), training=True),
        Operator(
            "training_mlp",
            Layer(lambda: nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 64))),
            ((32, 64),),
            training=True,
        ),
        Operator(
            "training_gated",
            lambda x, g, u: F.silu(F.linear(x, g)) * F.linear(x, u),
            (*square, (width, width)),
            training=True,
        ),
        Operator("training_attention", self_attention, ((2, tokens, width), *((width, width),) * 4), training=True),
        Operator(
            "training_images",
            Layer(lambda: nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 1))),
            ((2, 8, 12, 12),),
            training=True,
        ),
        Operator(
            "training_depthwise", lambda x, w: F.conv2d(x, w, groups=8), ((2, 8, 12, 12), (8, 1, 3, 3)), training=True
        ),
        Operator("training_loss", loss, (*square, integers(width, tokens)), training=True),
        Operator(
            "training_checkpointed",
            lambda x, w: torch.utils.checkpoint.checkpoint(lambda x: F.gelu(F.linear(x, w)), x, use_reentrant=False),
            square,
            training=True,
        ),
        Operator("training_lstm", Layer(lambda: nn.LSTM(16, 32, batch_first=True)), ((4, 5, 16),), training=True),
    )
