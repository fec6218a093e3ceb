# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products with fused prologues and row entries, and operands for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import tilewright as tw
from tilewright.payload.reference import within_bound
from tilewright.payload.samples import values

PROLOGUES: dict[str, dict[str, Any]] = {
    "i8 weights": {"b": "i8", "prologue_b": (tw.dequantize("n", 3),)},
    "f16 A": {"a": "f16", "b": "f32", "prologue_a": (tw.cast("f32"),)},
    # f(0) is not zero: padding is zeros after the function.
    "functions": {
        "prologue_a": (lambda a, s: tw.math.exp(a * s), tw.bias("m"), tw.residual("mk", "bf16")),
        "prologue_b": (tw.bias("k"), lambda b: b + 1),
        "epilogue": (tw.bias(), tw.relu()),
    },
    "bf16": {"b": "f32", "c": "bf16", "prologue_a": (tw.gelu(), tw.cast("bf16")), "prologue_b": (tw.cast("bf16"),)},
    "quantized": {"b": "i8", "prologue_a": (tw.quantize(0.01, 3, "u8"),), "epilogue": (tw.dequantize(),)},
    "f64": {"a": "f64", "prologue_b": (tw.scale_by("k"), tw.tanh())},
}
GATHERS: dict[str, dict[str, Any]] = {
    "f32": {"prologue_a": (tw.gather_rows(50),), "epilogue": (tw.bias(),)},
    "bytes": {"a": "u8", "b": "i8", "prologue_a": (tw.gather_rows(50, "i64"),)},
    "converted": {
        "a": "i8",
        "b": "f32",
        "prologue_a": (tw.gather_rows(3, "i64"), tw.cast("f32"), tw.scale_by("m"), tw.cast("bf16")),
        "prologue_b": (tw.cast("bf16"),),
    },
}
GLUS: dict[str, dict[str, Any]] = {
    "silu": {"epilogue": (tw.glu(),)},
    "bf16": {"a": "bf16", "c": "bf16", "epilogue": (tw.bias(), tw.glu("gelu"), tw.residual("n", "bf16"))},
    "bytes": {"a": "u8", "b": "i8", "epilogue": (tw.dequantize(0.01), tw.glu(lambda c: c * c), tw.quantize(5))},
    "integers": {"a": "i8", "epilogue": (tw.glu("relu"),)},
    "gathered": {"a": "bf16", "prologue_a": (tw.gather_rows(9),), "epilogue": (tw.glu(),)},
    "added to": {"beta": 1, "epilogue": (tw.glu("relu"),)},
}
ROWS: dict[str, dict[str, Any]] = {
    "softmax": {"epilogue": (tw.softmax(),)},
    "softmax and more": {
        "a": "bf16",
        "c": "bf16",
        "epilogue": (tw.bias(), tw.softmax(), tw.scale_by("m"), tw.residual("mn", "bf16")),
    },
    "bytes": {"a": "u8", "b": "i8", "epilogue": (tw.dequantize(0.001), tw.softmax(), tw.quantize(0.01, 3, "u8"))},
    "f64": {"a": "f64", "epilogue": (tw.softmax(),)},
    "glu": {"epilogue": (tw.glu(), tw.softmax())},
    "prologue": {"b": "i8", "prologue_b": (tw.dequantize(),), "epilogue": (tw.scale(0.01), tw.softmax())},
    "row_sum": {"epilogue": (tw.row_sum(),)},
    "row_sum rounded": {"a": "f16", "c": "f16", "epilogue": (tw.relu(), tw.row_sum())},
    "row_sum of integers": {"a": "i8", "epilogue": (tw.row_sum(),)},
    "row_max": {"epilogue": (tw.bias(), tw.row_max())},
    "row_max of integers": {"a": "u8", "epilogue": (tw.row_max(),)},
}


def operands(spec: tw.MatmulSpec, seed: int = 0) -> list[np.ndarray]:
    """All operands, with numbers of rows where rows are gathered."""
    random = np.random.default_rng(seed)
    given = [values(random, each.shape, each.type) for each in spec.operands]
    if spec.gathers:
        given[2] %= spec.a_shape[0]
    return given


def assert_right(spec: tw.MatmulSpec, given: list[np.ndarray], result: np.ndarray, former: np.ndarray | None) -> None:
    """Checks a result against the reference and its bound."""
    expected, bound = tw.reference(spec, *given, c=former), tw.error_bound(spec, *given, c=former)
    assert result.shape == expected.shape
    wrong = np.argwhere(~within_bound(result, expected, bound))
    assert len(wrong) == 0, (
        f"{len(wrong)} elements of {spec} are wrong, the first at {wrong[0]}: {result[tuple(wrong[0])]!r}, "
        f"expected {expected[tuple(wrong[0])]!r} ± {bound[tuple(wrong[0])]!r}"
    )
    assert bound.size == 0 or np.isfinite(bound).mean() > 0.9


def check(spec: tw.MatmulSpec, target: str = "host", **options: Any) -> None:
    """Compiles a product, calls it once, and checks what it gives."""
    kernel, given = tw.compile(spec, target, **options), operands(spec)
    former = values(np.random.default_rng(1), spec.c_shape, spec.c_type) if spec.beta else None
    out = None if former is None else former.copy()
    b = kernel.pack_b(given[1]) if spec.b_packed else given[1]
    assert_right(spec, given, kernel(given[0], b, *given[2:], out=out), former)
