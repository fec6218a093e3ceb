# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks a result of a card against the product in f64, element by element and as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.bench.card.peers import Operands
from tilewright.bench.card.plan import Kernel
from tilewright.bench.card.plan_operators import Spec
from tilewright.payload.operators import error_bound, reference
from tilewright.schedules.gpu_strategies import GPU_STRATEGIES

_ACCUMULATORS: Mapping[str, float] = MappingProxyType({"f64": 2.0**-53, "tf32": 2.0**-10 + 2.0**-24})
_SINGLE = 2.0**-24
_SHORT_SUMS = 2.0**-13 / 32
"""Of |A||B|, for each of K: instructions sum 8-bit floats, 32 along K, with some 13 bits after the point, which NVIDIA does not say.
Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", section 3.5.2."""
_PROMOTED = 128
"""Of K, after so many `warpgroup` adds these sums to others."""
_RELATIVE: Mapping[str, float] = MappingProxyType(
    {"bf16": 4e-3, "f16": 1e-3, "f8E4M3FN": 1e-2, "f8E5M2": 1e-2, "tf32": 2e-3, "f32": 1e-5, "f64": 1e-13}
)
"""What the whole result is off at most, by the norm of Frobenius: random data is some three times below. The bound of each element is
that of the worst data, and a product that was left out of thousands could be below it."""
_FUSED = 2.0
"""How many times as much it is with an epilogue."""
SHOWN = 8
"""Wrong elements of which a record tells: row, column, what is there, and what should be."""
_OF_PEERS = 5.0
"""How many times as much is allowed of peers, whose way of rounding between kernels, and of summing 8-bit floats, is their own."""


@dataclass(frozen=True, slots=True)
class Known:
    """The expected result and its bounds, as torch tensors in f64.

    Attributes:
        wanted: The result.
        sums: |A||B|.
        gamma: What an element may be off, of `sums`, before it is rounded to its type.
        least: And, whatever its sum.
        relative: What all of them may, by the norm of Frobenius.
        k: Products of a sum.
    """

    wanted: Any
    sums: Any
    gamma: float
    least: Any
    relative: float
    k: int

    def of_peers(self, types: str) -> Known:
        """The same for peers, which round and sum in other ways."""
        short = _SHORT_SUMS * self.k if types.startswith("f8") else 0.0
        return replace(self, gamma=2 * self.gamma + short, least=10 * self.least, relative=_OF_PEERS * self.relative)


def expected(torch: Any, kernel: Kernel, seen: Operands) -> Known:  # noqa: ANN401 - the library
    """The result of a kernel in f64, and how far each element may be off: γ_K·|A||B|."""
    a, b = seen.a.double(), seen.b.double()
    found, sums = a @ b, a.abs() @ b.abs()
    k = a.shape[1]
    gamma, relative = _allowed(kernel, k)
    if seen.bias is None:
        return Known(found, sums, gamma, 0.0, relative, k)
    bias = seen.bias.double()
    found = torch.nn.functional.gelu(found + bias)
    return Known(found, sums, 2 * gamma, 2.0**-7 * bias.abs() + 1e-4, _FUSED * relative, k)


def _allowed(kernel: Kernel, k: int) -> tuple[float, float]:
    """What an element may be off, of |A||B|, and all of them together, by the norm of Frobenius."""
    u = _ACCUMULATORS.get(kernel.types, _SINGLE)
    gamma = (k + 2) * _SINGLE + 2 * u if kernel.types == "tf32" else (k + 2) * u
    row = GPU_STRATEGIES[kernel.strategy]
    if kernel.types.startswith("f8") and row.short_sums:
        gamma += _SHORT_SUMS * (min(_PROMOTED, k) if row.promoted else k)
    return gamma, _RELATIVE.get(kernel.types, 0.0)


def of_arrays(kernel: Kernel, *stored: np.ndarray[Any, Any]) -> dict[str, Any]:
    """`compared`, of numpy arrays: A and B as they are stored, and the result."""
    down, right = (each == "t" for each in kernel.layout)
    a, b, got = (each.astype(np.float64) for each in stored)
    a, b = a.T if down else a, b.T if right else b
    gamma, relative = _allowed(kernel, a.shape[1])
    wanted, sums, kind = a @ b, np.abs(a) @ np.abs(b), stored[-1].dtype
    off = np.abs(got - wanted)
    if kind.kind in "iu":
        beyond = off != 0
    else:
        rounded = float(ml_dtypes.finfo(kind).eps) * np.abs(wanted)
        beyond = ~(off <= gamma * sums + rounded + 1e-30)
    wrong = int(beyond.sum())
    norm = max(float(np.linalg.norm(wanted)), 1e-300)
    error = float(np.linalg.norm(np.nan_to_num(off, nan=np.inf))) / norm
    found = {"wrong": wrong, "elements": off.size, "rel_error": error, "right": not wrong and error <= relative}
    if wrong:
        places = [tuple(map(int, each)) for each in np.argwhere(beyond)[:SHOWN]]
        found["where"] = [[*at, float(got[at]), float(wanted[at])] for at in places]
    return found


def of_operator(spec: Spec, *stored: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The same of an operator's operands and result."""
    *operands, result = stored
    wanted, bound = reference(spec, *operands), error_bound(spec, *operands)
    off = np.abs(result.astype(np.float64) - wanted)
    wrong = int((~(off <= bound)).sum())
    error = float(np.linalg.norm(np.nan_to_num(off, nan=np.inf))) / max(float(np.linalg.norm(wanted)), 1e-300)
    return {"wrong": wrong, "elements": off.size, "rel_error": error, "right": not wrong}


def compared(torch: Any, got: Any, known: Known) -> dict[str, Any]:  # noqa: ANN401 - the library, and its tensor
    """Compares a result: elements beyond their bound, the relative error, and whether both are acceptable."""
    off = (got.double() - known.wanted).abs()
    if got.dtype.is_floating_point:
        rounded = torch.finfo(got.dtype).eps * known.wanted.abs()
        beyond = ~(off <= known.gamma * known.sums + known.least + rounded + 1e-30)
    else:
        beyond = off != 0
    wrong = int(beyond.sum())
    error = float(off.nan_to_num(float("inf")).norm() / known.wanted.norm().clamp_min(1e-300))
    found = {
        "wrong": wrong,
        "elements": off.numel(),
        "rel_error": error,
        "right": not wrong and error <= known.relative,
    }
    if wrong:
        places = beyond.nonzero()[:SHOWN].tolist()
        found["where"] = [[*at, float(got[tuple(at)]), float(known.wanted[tuple(at)])] for at in places]
    return found
