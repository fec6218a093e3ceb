# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles one product for the lit tests, and writes what each stage made into a folder: FOLDER/payload.mlir, …, asm.s.

Usage: stages.py MxNxK DTYPE TARGET STRATEGY|- UNTIL FOLDER [NAME=SIZE]… [beta=1] [b_packed=1] [batch=BxB]
    [b_batch=BxB|none] [layout=nn|nt|tn|tt] [threads=N] [epilogue=ENTRY,…] [prologue_a=ENTRY,…] [prologue_b=ENTRY,…]
"""

from __future__ import annotations

import sys
from pathlib import Path

from tilewright.emit import stages
from tilewright.payload.epilogues import parse
from tilewright.schedules import make
from tilewright.spec import MatmulSpec
from tilewright.targets import registry

SUFFIXES = {"llvmir": "ll", "asm": "s"}


def main(shape: str, dtype: str, target_name: str, strategy: str, until: str, folder: str, *settings: str) -> None:
    m, n, k = (None if extent == "?" else int(extent) for extent in shape.split("x"))
    given = dict(setting.split("=") for setting in settings)
    batch = {name: _extents(given.pop(name)) for name in ("batch", "b_batch") if name in given}
    fused = {name: parse(given.pop(name)) for name in ("epilogue", "prologue_a", "prologue_b") if name in given}
    layout = given.pop("layout", "nn")
    sizes = {name: int(size) for name, size in given.items()}
    how = {"beta": sizes.pop("beta", 0), "b_packed": bool(sizes.pop("b_packed", 0))}
    spec = MatmulSpec.from_dtypes(m, n, k, dtype, layout=layout, **how, **batch, **fused)
    target = registry.get(target_name)
    threads = sizes.pop("threads", 1)
    plan = make.make(spec, target, None if strategy == "-" else strategy, sizes, threads)
    texts = stages.build(spec, target, plan, until=until).texts
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    for stage, text in texts.items():
        (out / f"{stage}.{SUFFIXES.get(stage, 'mlir')}").write_text(text)


def _extents(text: str) -> tuple[int, ...]:
    return () if text == "none" else tuple(int(extent) for extent in text.split("x"))


if __name__ == "__main__":
    main(*sys.argv[1:])
