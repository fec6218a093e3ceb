# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of tilewright as ops of torch, registered from C++ by torch's stable ABI.

`matmul`, `linear` and `linear_glu` compile a kernel when a shape first comes, and dynamic ones when shapes change often. Importing
this module loads the ops ``torch.ops.tilewright``; it needs torch 2.10 or newer, and the binary that ``make setup-frameworks`` builds.

Code that makes graphs calls a compiled kernel so, a product, an operator or a function of a module::

    name = tilewright.torch.register(tw.compile(spec))      # or register(tw.compile_module(text), "my_name")
    y = torch.ops.tilewright.call(name, [x, weight, bias])  # one result, a new tensor
    a, b = torch.ops.tilewright.call_many(name, [x])        # several results
    torch.ops.tilewright.call_out(name, [x, weight], [y])   # into tensors that are there

Operands are in the order of the kernel's call; a B that comes packed is the uint8 tensor `pack(kernel, b)`. They
are used where they lie and never copied: an operand that does not fit is a RuntimeError. The ops have fake kernels, so that
torch.compile and torch.export trace them, with symbols for dynamic extents; they have no gradient. The name of a kernel with a spec is the
same in every process, so that compiled graphs can be kept; a name that is given has to be.
"""

from __future__ import annotations

import atexit

from tilewright.torch import resolver, traced
from tilewright.torch.attention import scaled_dot_product_attention
from tilewright.torch.calls import call, call_many
from tilewright.torch.convolutions import conv2d
from tilewright.torch.native import load
from tilewright.torch.optimize import optimize, restore
from tilewright.torch.products import linear, linear_glu, matmul
from tilewright.torch.quantized import QuantizedWeight, linear_quantized, quantize
from tilewright.torch.registry import pack, register
from tilewright.torch.shipping import library

__all__ = [
    "QuantizedWeight",
    "call",
    "call_many",
    "conv2d",
    "library",
    "linear",
    "linear_glu",
    "linear_quantized",
    "load",
    "matmul",
    "optimize",
    "pack",
    "quantize",
    "register",
    "restore",
    "scaled_dot_product_attention",
]

resolver.start()
traced.start()
atexit.register(resolver.stop)
