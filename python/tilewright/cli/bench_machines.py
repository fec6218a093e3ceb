# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The verbs of ``tilewright bench`` that are for one kind of machine each."""

from __future__ import annotations

from tilewright.cli.bench_amx import amx
from tilewright.cli.bench_card import card

MACHINES = (card, amx)
"""For a machine with an NVIDIA card, and for one with AMX."""
