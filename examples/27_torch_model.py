# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A block of a transformer in torch on kernels of ours: as it is trained, with packed weights, and with weights of eight bits.

Run it with a Python that has torch, such as that of `make setup-frameworks`.
"""

import tilewright.torch as ours
import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment


class Block(torch.nn.Module):
    """Attention and a feed-forward layer."""

    def __init__(self, size: int, heads: int) -> None:
        """Makes its layers."""
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(size, 3 * size), torch.nn.Linear(size, size)
        self.up, self.down = torch.nn.Linear(size, 4 * size), torch.nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of shape (batch, rows, size), as x is."""
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


torch.manual_seed(0)
torch.set_num_threads(1)
block, x = Block(64, 4), torch.randn(2, 24, 64)
expected = block(x)
expected.sum().backward()
gradient = block.up.weight.grad.clone()

block.zero_grad()
trained = ours.optimize(block)(x)
trained.sum().backward()
print(
    "training:", torch.allclose(trained, expected, atol=1e-4), torch.allclose(block.up.weight.grad, gradient, atol=1e-3)
)
ours.restore(block)

with torch.no_grad():
    for weights, bound in (("packed", 1e-4), ("i8", 0.05)):
        print(f"{weights}:", (ours.optimize(block, weights)(x) - expected).abs().max().item() < bound)
        ours.restore(block)

    # One kernel: bias, activation and residual are fused behind the product.
    rows = x.flatten(0, 1)
    fused = ours.linear(rows, block.out.weight, block.out.bias, activation="silu", residual=rows)
    print("fused:", torch.allclose(fused, torch.nn.functional.silu(block.out(rows)) + rows, atol=1e-4))
