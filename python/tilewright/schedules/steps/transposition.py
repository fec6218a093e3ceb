# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The step of a schedule that computes the transpose of a product."""

from __future__ import annotations

from tilewright.mlir.dialects.transform import tilewright as ours
from tilewright.schedules import steps


def exchange(functions: steps.Handle) -> None:
    """Computes the transpose of a product, whose operands are taken as they are stored, and transposes the sums where they are written.

    Before: ``S = 0; S += A * B``, ``C = f(S)`` over (m, n, k). After, over (n, m, k)::

        T = 0; T += B^T * A^T;  C[m, n] = f(T[n, m])
    """
    ours.tilewright_exchange(functions)
