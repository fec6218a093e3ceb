# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Our convolutions beside other libraries and the machine's measured peak."""

from tilewright.bench.convolution.layers import LAYERS, Layer
from tilewright.bench.operators.comparison import Comparison

COMPARISON = Comparison(
    name="convolutions",
    tolerances={"f32": 1e-5, "bf16": 1e-2, "i8": 1e-2},
    libraries=("onednn", "onnxruntime"),
    worker="tilewright.bench.convolution.libraries",
)

__all__ = ["COMPARISON", "LAYERS", "Layer"]
