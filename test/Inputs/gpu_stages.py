# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes every stage of a kernel for a GPU to a folder: gpu_stages.py MxNxK TYPE TARGET STRATEGY FOLDER [NAME=SIZE...].

Names are those of a strategy's sizes, and layout, batch, b_batch, beta and tf32, which are the product's.
"""

import sys
from pathlib import Path

import tilewright as tw
from tilewright.emit import gpu
from tilewright.targets.registry import gpu as card

shape, types, target, strategy, folder, *sizes = sys.argv[1:]
m, n, k = map(int, shape.split("x"))
given = dict(each.split("=") for each in sizes)
fields = {name: tuple(map(int, given.pop(name).split("x"))) for name in ("batch", "b_batch") if name in given}
fields |= {"layout": given.pop("layout", "nn"), "tf32": bool(given.pop("tf32", "")), "beta": int(given.pop("beta", 0))}
spec = tw.MatmulSpec.from_dtypes(m, n, k, types, epilogue=(tw.bias("n"),), **fields)
row = card(target)
assert row is not None, target
parameters = {name: int(size) for name, size in given.items()}
stages = gpu.build(spec, row, strategy, parameters, aligned=True)
Path(folder).mkdir(parents=True, exist_ok=True)
for name, text in stages.texts.items():
    (Path(folder) / name).write_text(text)
