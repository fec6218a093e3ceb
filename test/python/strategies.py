# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The strategies that this machine has the features for, and which compute any product."""

from tilewright import targets
from tilewright.schedules import select

OF_CODES = "scaled_sums"
"""The one that computes products by dequantized weights only: `test_scaled_sums`."""
STRATEGIES = tuple(name for name in select.available(targets.resolve("host")) if name != OF_CODES)
