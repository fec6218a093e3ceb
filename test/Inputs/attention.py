# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles attention for the lit tests, and prints a stage, or for "loops" the instructions of its hot loops.

Usage: attention.py TARGET STAGE FIELD=VALUE… (fields of AttentionSpec; queries and keys "?": open); of a GPU for aligned rows
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from tilewright.emit import gpu, hotloop, operators
from tilewright.operator_specs import AttentionSpec
from tilewright.targets import registry


def main(target_name: str, stage: str, *settings: str) -> None:
    fields = dict(setting.split("=") for setting in settings)
    threads = int(fields.pop("threads", "1"))
    spec = AttentionSpec(**{name: _value(text) for name, text in fields.items()})
    card = registry.gpu(target_name)
    if card is not None:
        sys.stdout.write(gpu.build(spec, card, "shared_softmax", {}, aligned=True).texts[stage])
        return
    target = registry.get(target_name)
    until = "asm" if stage == "loops" else stage
    built = operators.build(spec, target, threads=threads, until=until)
    if stage != "loops":
        sys.stdout.write(built.texts[stage])
        return
    for loop in hotloop.hot_loops(built.texts["asm"], target.architecture):
        products = Counter(each.mnemonic for each in loop.instructions if each.fma)
        # The loop that makes weights of scores has polynomials, and stores.
        if products and not loop.stores:
            counts = ", ".join(f"{count} {name}" for name, count in products.items())
            sys.stdout.write(f"{counts}: {loop.stack_accesses} stack, {loop.calls} calls, {loop.gathers} gathers\n")


def _value(text: str) -> Any:
    if text == "?":
        return None
    return int(text) if text.isdigit() else text


if __name__ == "__main__":
    main(*sys.argv[1:])
