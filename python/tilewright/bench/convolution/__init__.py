# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Our convolutions beside other libraries and the machine's measured peak."""

from tilewright.bench.convolution.layers import LAYERS, Layer
from tilewright.bench.convolution.session import Result, run

__all__ = ["LAYERS", "Layer", "Result", "run"]
