# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a convolution for the lit tests, and prints a stage.

Usage: conv2d.py TARGET STAGE FIELD=VALUE… (fields of Conv2dSpec, and with a dot before them sizes of the schedule); for a GPU by its best
strategy, for aligned operands.
"""

from __future__ import annotations

import sys
from typing import Any

from tilewright import targets
from tilewright.emit import gpu, operators
from tilewright.operator_specs import Conv2dSpec

name, stage, *given = sys.argv[1:]


def _value(text: str) -> Any:
    """True, a number, or the text."""
    return text == "True" or (int(text) if text.isdecimal() else text)


every = {key: _value(text) for key, text in (each.split("=") for each in given)}
fields = {key: each for key, each in every.items() if not key.startswith(".")}
sizes = {key[1:]: each for key, each in every.items() if key.startswith(".")}
spec = Conv2dSpec(**fields)
card = targets.gpu(name)
if card is None:
    made = operators.build(spec, targets.resolve(name), parameters=sizes, until=stage)
else:
    made = gpu.build(spec, card, gpu.able(spec, card)[0], {}, aligned=True)
sys.stdout.write(made.texts[stage])
