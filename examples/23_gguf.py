# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Multiplies by the quantized weights of a GGUF file, llama.cpp's format, whose tensors are mapped into memory.

Run it with ``python examples/23_gguf.py [MODEL.gguf [TENSOR]]``. Without a file, a small one is written first.
"""

import struct
import sys
import tempfile
from pathlib import Path

import numpy as np
import tilewright as tw
from ml_dtypes import bfloat16

ROWS = 4


def main(path: Path, name: str | None = None) -> None:
    """Multiplies a few rows by the first quantized matrix, or by the one of that name, and checks the result."""
    model = tw.read_gguf(path)
    print(model)
    quantized = {each.name: each for each in model.tensors.values() if each.type in ("Q4_0", "Q8_0", "Q4_K", "Q6_K")}
    tensor = next(iter(quantized.values())) if name is None else quantized[name]
    weights = tensor.quantized()  # repacked once: codes and scales apart
    n, k = weights.shape

    scale = "f32" if weights.scales.dtype == np.float32 else "f16"
    zero = 0 if weights.zero_points is None else scale
    dequantize = tw.dequantize("gn", zero, weights.group, scale_type=scale)
    spec = tw.MatmulSpec(ROWS, n, k, "bf16", weights.type, layout="nt", prologue_b=(dequantize,))
    x = np.random.default_rng(0).standard_normal((ROWS, k)).astype(bfloat16)
    operands = (x, *weights.operands)
    c = tw.compile(spec)(*operands)
    right = np.abs(c - tw.reference(spec, *operands)) <= tw.error_bound(spec, *operands)
    print(f"{ROWS} rows by {tensor!r}: within the bound: {right.all()}")
    if not right.all():
        sys.exit("wrong")


def write_small(path: Path, n: int = 96, k: int = 256) -> None:
    """Writes a file of one matrix of Q4_0: blocks of a scale of f16 and 32 codes of four bits."""
    rng = np.random.default_rng(1)
    block = np.dtype([("scale", "<f2"), ("codes", "u1", 16)])
    blocks = np.zeros((n, k // 32), block)
    blocks["scale"] = rng.uniform(0.01, 0.1, blocks.shape)
    blocks["codes"] = rng.integers(0, 256, (*blocks.shape, 16))
    name = b"blk.0.attn_q.weight"
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0)
    head += struct.pack("<Q", len(name)) + name + struct.pack("<IQQIQ", 2, k, n, 2, 0)
    path.write_bytes(head + bytes(-len(head) % 32) + blocks.tobytes())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]), *sys.argv[2:3])
    else:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "small.gguf"
            write_small(file)
            main(file)
