# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes a Llama decoder layer whose seven projections have 4-bit weights.

    h = x + o(attention(rotated q(norm(x)), rotated k(norm(x)), v(norm(x))))
    y = h + down(silu(gate(norm(h))) * up(norm(h)))

Weights are N x K matrices, of which every 128 elements along K share a scale; kernels dequantize them in registers. Norms and rotations
are NumPy's.

Run it with ``python examples/14_llama_decoder_i4.py [TOKENS WIDTH HIDDEN HEADS KV_HEADS]``. Where torch is installed, its result with the
dequantized weights is compared.
"""

import sys
from dataclasses import dataclass

import numpy as np
import tilewright as tw
from ml_dtypes import bfloat16

GROUP = 128


@dataclass(frozen=True)
class Linear:
    """x · wᵀ and what follows it, with weights in four bits.

    Attributes:
        weights: The codes and their scales.
        kernel: The product with so many rows of x.
    """

    weights: tw.Quantized
    kernel: tw.Kernel

    @classmethod
    def of(cls, w: np.ndarray, tokens: int, *epilogue: tw.Epilogue) -> "Linear":
        """Quantizes `w`, of N x K floats, and compiles the product."""
        n, k = w.shape
        dequantize = tw.dequantize("gn", group=GROUP, scale_type="bf16")
        spec = tw.MatmulSpec(tokens, n, k, "bf16", "i4", layout="nt", prologue_b=(dequantize,), epilogue=epilogue)
        return cls(tw.quantize_weights(w, "i4", GROUP, scale_type="bf16"), tw.compile(spec))

    def __call__(self, x: np.ndarray, *further: np.ndarray) -> np.ndarray:
        """The result, checked against the reference of the same operands."""
        operands = (x.astype(bfloat16), *self.weights.operands, *further)
        result = self.kernel(*operands)
        spec = self.kernel.spec
        if not (np.abs(result - tw.reference(spec, *operands)) <= tw.error_bound(spec, *operands)).all():
            sys.exit(f"{spec}: wrong")
        return result


def main(tokens: int, width: int, hidden: int, heads: int, kv_heads: int) -> None:
    """Compiles the layer, runs it, and checks it."""
    rng = np.random.default_rng(0)
    head = width // heads
    x = rng.standard_normal((tokens, width)).astype(np.float32)
    shapes = {"q": (width, width), "k": (kv_heads * head, width), "v": (kv_heads * head, width), "o": (width, width)}
    shapes |= {"gate": (hidden, width), "up": (hidden, width), "down": (width, hidden)}
    after = {"o": (tw.residual("mn"),), "gate": (tw.silu(),), "up": (tw.multiply("mn"),), "down": (tw.residual("mn"),)}
    layer = {
        name: Linear.of(rng.standard_normal(shape).astype(np.float32) / shape[1] ** 0.5, tokens, *after.get(name, ()))
        for name, shape in shapes.items()
    }

    normal = norm(x)
    q, k = (rotated(layer[name](normal).reshape(tokens, -1, head)) for name in "qk")
    v = layer["v"](normal).reshape(tokens, -1, head)
    attended = tw.attention(*(each.astype(bfloat16).swapaxes(0, 1) for each in (q, k, v)), causal=True)
    h = layer["o"](attended.swapaxes(0, 1).reshape(tokens, width), x)
    normal = norm(h)
    y = layer["down"](layer["up"](normal, layer["gate"](normal)), h)

    stored = sum(each.codes.nbytes + each.scales.nbytes for each in (every.weights for every in layer.values()))
    elements = sum(n * k for n, k in shapes.values())
    print(f"{len(layer)} projections, each within its bound; {8 * stored / elements:.3g} bits a weight")
    weights = {name: each.weights.floats() for name, each in layer.items()}
    exact = in_numpy(x.astype(np.float64), weights, heads, kv_heads)
    error = np.linalg.norm(y - exact) / np.linalg.norm(exact)
    print(f"the layer: {error:.2g} from NumPy in double precision, relative")
    if not error < 0.01:
        sys.exit("the layer is wrong")
    compare_with_torch(y, x, weights, heads, kv_heads)


def norm(x: np.ndarray) -> np.ndarray:
    """Each row over the root of the mean of its squares."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def rotated(x: np.ndarray) -> np.ndarray:
    """Rotary position embedding of (tokens, heads, head) elements, halves of a head paired."""
    tokens, _, head = x.shape
    angles = np.outer(np.arange(tokens), 10000.0 ** (-np.arange(0, head, 2) / head))[:, None]
    first, second = x[..., : head // 2], x[..., head // 2 :]
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def in_numpy(x: np.ndarray, w: dict[str, np.ndarray], heads: int, kv_heads: int) -> np.ndarray:
    """The layer as it is defined."""
    tokens, width = x.shape
    normal = norm(x)
    q, k, v = (np.reshape(normal @ w[name].T, (tokens, -1, width // heads)) for name in "qkv")
    q, k = rotated(q), rotated(k)
    k, v = (np.repeat(each, heads // kv_heads, 1) for each in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) / (width // heads) ** 0.5
    scores[:, np.triu(np.ones((tokens, tokens), bool), 1)] = -np.inf
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    attended = np.einsum("hij,jhd->ihd", shares / shares.sum(-1, keepdims=True), v)
    h = x + attended.reshape(tokens, width) @ w["o"].T
    normal = norm(h)
    gate = normal @ w["gate"].T
    return h + (gate / (1 + np.exp(-gate)) * (normal @ w["up"].T)) @ w["down"].T


def compare_with_torch(y: np.ndarray, x: np.ndarray, w: dict[str, np.ndarray], heads: int, kv_heads: int) -> None:
    """Compares the layer with torch's, or says why not."""
    try:
        import torch  # type: ignore[import-not-found]
    except ImportError:
        print("torch: not compared, it is not installed")
        return
    f = torch.nn.functional
    tokens, width = x.shape
    weights = {name: torch.from_numpy(each) for name, each in w.items()}
    given = torch.from_numpy(x)
    normal = torch.from_numpy(norm(x))
    q, k, v = (f.linear(normal, weights[name]).reshape(tokens, -1, width // heads) for name in "qkv")
    q, k = (torch.from_numpy(rotated(each.numpy())) for each in (q, k))
    q, k, v = (
        each.transpose(0, 1) for each in (q, *(torch.repeat_interleave(each, heads // kv_heads, 1) for each in (k, v)))
    )
    attended = f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1).reshape(tokens, width)
    h = given + f.linear(attended, weights["o"])
    normal = torch.from_numpy(norm(h.numpy()))
    theirs = h + f.linear(f.silu(f.linear(normal, weights["gate"])) * f.linear(normal, weights["up"]), weights["down"])
    error = ((torch.from_numpy(y) - theirs).norm() / theirs.norm()).item()
    print(f"torch {torch.__version__}: {error:.2g} apart, relative")
    if not error < 0.01:
        sys.exit("torch's layer is another")


if __name__ == "__main__":
    main(*(int(extent) for extent in sys.argv[1:6] or (7, 256, 512, 8, 2)))
