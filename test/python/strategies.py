# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The strategies that this machine has the features for."""

from tilewright import targets
from tilewright.schedules import select

STRATEGIES = select.available(targets.resolve("host"))
