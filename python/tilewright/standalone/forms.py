# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the native calls are made of, from what the compiler says of a kernel in JSON's types."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from .errors import TilewrightError


def numpy_type(name: str) -> np.dtype[Any]:
    """The numpy type of a name: "float32", or "ml_dtypes.bfloat16" for one that another package brings.

    Raises:
        TilewrightError: That package is not installed.
    """
    module, _, own = name.rpartition(".")
    try:
        return np.dtype(getattr(import_module(module), own) if module else own)
    except ImportError:
        raise TilewrightError(
            f"elements are of type {own}, which numpy does not have",
            expected=f"the package {module}",
            remedy=f"Install {module}",
        ) from None


def product(form: Mapping[str, Any], entry: str, packing: object | None) -> dict[str, Any]:
    """The arguments of `MatmulCall` beside the code.

    Args:
        form: What the compiler says of the product.
        entry: The function that takes an array of tensors, where it has operands beside A and B.
        packing: How B comes packed, or None.
    """
    m, n, k = form["extents"]
    a, b, c = map(numpy_type, form["types"])
    a_transposed, b_transposed = form["transposed"]
    operands = [(name, shape, numpy_type(type_), *rest) for name, shape, type_, *rest in form["operands"]]
    return {
        "m": m,
        "n": n,
        "k": k,
        "a": a,
        "b": b,
        "c": c,
        "a_transposed": a_transposed,
        "b_transposed": b_transposed,
        "accumulate": form["accumulate"],
        "packed": packing,
        "tensor_entry": entry,
        "operands": operands,
        "limits": _limits(form),
    }


def function(form: Mapping[str, Any], entry: str, packings: Mapping[str, object]) -> dict[str, Any]:
    """The arguments of `FunctionCall` beside the code.

    Args:
        form: What the compiler says of the function.
        entry: The function that takes an array of tensors.
        packings: By the names of arguments that come packed, how.
    """
    tensors = [
        (name, shape, numpy_type(type_), code, bits, written, compact, packings.get(name), batch)
        for name, shape, type_, code, bits, written, compact, batch in form["tensors"]
    ]
    facts = {name: form[name] for name in ("arguments", "operations")}
    return {"entry": entry, "tensors": tensors, **facts, "limits": _limits(form)}


def _limits(form: Mapping[str, Any]) -> list[tuple[int, ...]]:
    return [tuple(each) for each in form["limits"]]
