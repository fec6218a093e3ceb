# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What kernels are timed beside on a card: cuBLASLt through torch, and Triton. A and B are matrices as they are multiplied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any

Run = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Operands:
    """What a product takes, torch's tensors on the card.

    Attributes:
        a: M x K elements; a transposed view where it is stored so.
        b: K x N elements, likewise.
        c: M x N elements.
        bias: N elements, of the type that the peer wants; None without an epilogue.
    """

    a: Any
    b: Any
    c: Any
    bias: Any = None


def cublaslt(torch: Any, types: str, given: Operands) -> Run:  # noqa: ANN401 - the library
    """The product by cuBLASLt's first choice, and, with a bias, that and the GELU in a kernel of its own."""
    a, b, c = given.a, given.b, given.c
    if types.startswith("f8"):
        one = torch.ones((), device=a.device)
        # With fast sums, the faster of its two ways.
        scaled = {"scale_a": one, "scale_b": one, "use_fast_accum": True}
        return partial(torch._scaled_mm, a, b, **scaled, out_dtype=c.dtype, out=c)
    if types == "i8":
        return partial(torch._int_mm, a, b, out=c)
    if given.bias is None:
        return partial(torch.mm, a, b, out=c)
    linear, gelu, weight = torch.nn.functional.linear, torch.nn.functional.gelu, b.t()
    return lambda: gelu(linear(a, weight, given.bias))


def triton(torch: Any, types: str, given: Operands) -> Run:  # noqa: ANN401 - the library
    """The product by a kernel in Triton, tuned before."""
    multiply = import_module("tilewright.bench.card.triton_matmul").multiply
    return partial(multiply, given.a, given.b, given.c)


PEERS: Mapping[str, Callable[[Any, str, Operands], Run]] = MappingProxyType({"cuBLASLt": cublaslt, "Triton": triton})
"""By name; Triton is not asked for an epilogue."""


def versions(torch: Any) -> dict[str, str]:  # noqa: ANN401 - the library
    """What the peers are."""
    found = {"cuBLASLt": f"of torch {torch.__version__}, CUDA {torch.version.cuda}"}
    with suppress(ImportError):
        found["Triton"] = str(import_module("triton").__version__)
    return found
