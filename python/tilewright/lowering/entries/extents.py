# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The check of a call's extents, as text in the LLVM dialect."""

from __future__ import annotations

from tilewright.dims import Dim, Extent, least, most
from tilewright.spec import MatmulSpec

NAMES = ("m", "n", "k")


def check(spec: MatmulSpec) -> str:
    """Defines ``%same``: whether ``%m``, ``%n`` and ``%k`` are what `spec` says."""
    lines = [line for name in NAMES for line in _one(name, getattr(spec, name))]
    lines += ["%same_mn = llvm.and %same_m, %same_n : i1", "%same = llvm.and %same_mn, %same_k : i1"]
    return "\n    ".join(lines)


def _one(name: str, extent: Extent) -> list[str]:
    """Lines that define ``%same_<name>``."""
    if not isinstance(extent, Dim):
        return [
            f"%static_{name} = llvm.mlir.constant({extent} : i64) : i64",
            f'%same_{name} = llvm.icmp "eq" %{name}, %static_{name} : i64',
        ]
    lines = [
        f"%least_{name} = llvm.mlir.constant({extent.min} : i64) : i64",
        f"%most_{name} = llvm.mlir.constant({extent.max} : i64) : i64",
        f"%multiple_{name} = llvm.mlir.constant({extent.multiple} : i64) : i64",
        f"%none_{name} = llvm.mlir.constant(0 : i64) : i64",
        f'%above_{name} = llvm.icmp "sge" %{name}, %least_{name} : i64',
        f'%below_{name} = llvm.icmp "sle" %{name}, %most_{name} : i64',
        f"%rest_{name} = llvm.urem %{name}, %multiple_{name} : i64",
        f'%whole_{name} = llvm.icmp "eq" %rest_{name}, %none_{name} : i64',
        f"%within_{name} = llvm.and %above_{name}, %below_{name} : i1",
    ]
    return [*lines, f"%same_{name} = llvm.and %within_{name}, %whole_{name} : i1"]


def bounds(spec: MatmulSpec) -> dict[str, str]:
    """Attributes of the parameters of a function by their names, for one that is called with extents as `spec` has them."""
    ranges = {name: (least(getattr(spec, name)), most(getattr(spec, name)) + 1) for name in NAMES}
    return {name: f" {{llvm.range = #llvm.constant_range<i64, {low}, {end}>}}" for name, (low, end) in ranges.items()}


def may_be_empty(spec: MatmulSpec) -> bool:
    """Whether a call may be for a result without elements."""
    return 0 in (least(spec.m), least(spec.n))
