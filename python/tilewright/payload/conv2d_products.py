# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The matrix products that a convolution is computed as: one for each group, in NCHW also for each image, which GPUs take as a batch.

Needs no MLIR: kernels from the disk cache are run without.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.operator_specs.conv2d import Conv2dSpec, along_rows
from tilewright.spec import MatmulSpec


def product(spec: Conv2dSpec) -> MatmulSpec:
    """The product of one group, and in NCHW of one image, as the kernel computes it."""
    whole = spec.product
    if spec.layout == "nhwc":
        return replace(whole, layout="nt" if spec.filter == "ohwi" else "nn", b_packed=spec.w_packed)
    entries = tuple(along_rows(each) for each in spec.epilogue)
    types = {"a": whole.b, "b": whole.a}
    return replace(whole, m=whole.n, n=spec.oh * spec.ow, epilogue=entries, **types)


def of_launch(spec: Conv2dSpec) -> MatmulSpec:
    """The product that one launch of a GPU's kernel computes: of one group, and of all images."""
    inner = product(spec)
    return inner if spec.layout == "nhwc" else replace(inner, batch=(spec.n,), a_batch=(), b_batch=None)


def reads_patches(spec: Conv2dSpec) -> bool:
    """Whether an operand of the product is a matrix of patches, and not one that is in memory."""
    return not spec.is_pointwise
