# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A layer of torch on a kernel of ours: tensors are used where they lie, and the result is a tensor.

Run it with a Python that has torch, such as that of `make setup-frameworks`.
"""

import tilewright as tw
import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

torch.manual_seed(0)
layer = torch.nn.Linear(768, 3072)
x = torch.randn(128, 768)

spec = tw.MatmulSpec(m=128, n=3072, k=768, layout="nt", epilogue=(tw.bias("n"), tw.gelu("tanh")))
kernel = tw.compile(spec)
weight, bias = layer.weight.detach(), layer.bias.detach()
y = kernel(x, weight, bias)
with torch.no_grad():
    expected = torch.nn.functional.gelu(layer(x), approximate="tanh")
print(spec, type(y).__name__, y.dtype, torch.allclose(y, expected, atol=1e-4))

half = tw.compile(tw.MatmulSpec(m=128, n=3072, k=768, layout="nt", a="bf16", c="bf16"))
z = torch.empty(128, 3072, dtype=torch.bfloat16)
half(x.bfloat16(), weight.bfloat16(), out=z)
print(half.spec, z.dtype, torch.allclose(z.float(), x @ weight.T, atol=0.05))
