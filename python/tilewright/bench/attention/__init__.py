# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Our attention beside torch's, the machine's measured peak and its measured bandwidth."""

from tilewright.bench.attention.cases import SUITES, Case
from tilewright.bench.attention.session import Result, run

__all__ = ["SUITES", "Case", "Result", "run"]
