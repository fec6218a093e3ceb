# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Our attention beside torch's, the machine's measured peak and its measured bandwidth."""

from tilewright.bench.attention.cases import SUITES, Case
from tilewright.bench.operators.comparison import Comparison

LIBRARY = "torch"
COMPARISON = Comparison(
    name="attention",
    tolerances={"f32": 1e-5, "bf16": 1e-2},
    libraries=(LIBRARY,),
    worker="tilewright.bench.attention.worker",
)

__all__ = ["COMPARISON", "LIBRARY", "SUITES", "Case"]
