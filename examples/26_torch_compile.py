# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A transformer's block through torch.compile with kernels of ours, for inference with frozen parameters.

Run it with a Python that has torch, such as that of `make setup-frameworks`, after `make setup-torch`.
"""

import logging

import tilewright.torch.inductor.backend  # noqa: F401 - makes the name known in a checkout; an installed package needs no import
import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch import nn  # pyright: ignore[reportMissingImports]

logging.basicConfig(format="  %(message)s")
logging.getLogger("tilewright").setLevel(logging.INFO)


class Block(nn.Module):
    """Attention and a feed-forward network, each added to what it is given."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        """Makes the layers."""
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width)
        x = x + self.out(seen)
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


torch.manual_seed(0)
model, x = Block().eval(), torch.randn(2, 24, 64)
# Frozen parameters are packed ahead of time. So small a model is not worth timing: take all kernels.
compiled = torch.compile(model, backend="tilewright", options={"freezing": True, "timed": False})
with torch.no_grad():
    print(torch.allclose(compiled(x), model(x), atol=1e-5))
