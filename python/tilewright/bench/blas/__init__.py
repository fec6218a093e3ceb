# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Our BLAS beside the OpenBLAS of numpy's wheel and MKL, through their C interfaces."""

from tilewright.bench.blas.cases import SUITES, Case
from tilewright.bench.blas.comparison import NAME, run

__all__ = ["NAME", "SUITES", "Case", "run"]
