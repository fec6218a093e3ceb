# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Kernel object around a call: stages, metadata, the C function, and no copies. And how cheap a call is."""

from __future__ import annotations

import copy
import ctypes
import pickle
import timeit
from dataclasses import FrozenInstanceError
from typing import Any

import handmade
import numpy as np
import pytest
from handmade import matrix
from tilewright import _runtime, targets
from tilewright.errors import OperandError, TilewrightError
from tilewright.runtime.kernel import About, Kernel, Metadata, StageTexts
from tilewright.runtime.product import Product
from tilewright.spec import MatmulSpec

A, B = matrix(3, 7), matrix(7, 5)


def kernel(spec: MatmulSpec, object_: bytes | None = None, stages: dict[str, Any] | None = None) -> Kernel:
    target = targets.resolve("host")
    metadata = Metadata(
        target=target.name,
        triple=target.triple,
        features=target.feature_string,
        schedule="handmade",
        threads=1,
        parameters={"mr": 1},
        seconds={},
        compile_seconds=0.0,
        object_bytes=1,
        cached=False,
        version="0",
    )
    code = _runtime.Code(object_ or handmade.matmul("float" if spec.a == "f32" else "double"), "matmul")
    texts = StageTexts(stages or {"payload": "p", "asm": lambda: "a"})
    return Product(code, About(spec, target, metadata, texts))


def test_a_kernel_knows_what_it_is():
    product = kernel(MatmulSpec(3, 5, 7, a="f64"))
    a, b = matrix(3, 7, "float64"), matrix(7, 5, "float64")
    np.testing.assert_allclose(product(a, b), a @ b)
    assert product.spec == MatmulSpec(3, 5, 7, a="f64")
    assert product.target.name == "host"
    assert repr(product) == "<tilewright.Kernel 3x5x7 f64 nn for host, schedule handmade>"
    with pytest.raises(AttributeError):
        product.anything = 1  # pyright: ignore[reportAttributeAccessIssue]


def test_metadata_is_frozen():
    metadata = kernel(MatmulSpec(3, 5, 7)).metadata
    assert metadata.parameters["mr"] == 1
    with pytest.raises(TypeError):
        metadata.parameters["mr"] = 2  # pyright: ignore[reportIndexIssue]
    with pytest.raises(FrozenInstanceError):
        metadata.cached = True  # pyright: ignore[reportAttributeAccessIssue]


def test_stages_are_made_once_and_when_asked_for():
    made = []

    def text() -> str:
        made.append(1)
        return "text"

    asm = kernel(MatmulSpec(3, 5, 7), stages={"payload": "p", "asm": text}).asm
    assert list(asm) == ["payload", "asm"]
    assert "asm" in asm
    assert made == []
    assert (asm["asm"], asm["asm"], asm["payload"]) == ("text", "text", "p")
    assert made == [1]
    assert "ptx" not in asm
    assert asm.get("ptx") is None
    with pytest.raises(TilewrightError, match="no stage 'ptx'; expected one of payload, asm"):
        asm["ptx"]
    with pytest.raises(KeyError):
        asm["ptx"]


def test_the_c_function_outlives_the_kernel():
    function = kernel(MatmulSpec(3, 5, 7)).c_function
    assert function.prototype.startswith("int32_t matmul(int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,")
    a, b, c = matrix(3, 7), matrix(7, 5), np.empty((3, 5), np.float32)
    kinds = [ctypes.c_int64] * 3 + [ctypes.c_void_p, ctypes.c_int64] * 3
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(function.address)
    assert entry(3, 5, 7, a.ctypes.data, 7, b.ctypes.data, 5, c.ctypes.data, 5) == 0
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_kernels_are_not_copied(copied):
    with pytest.raises(TilewrightError, match=r"cannot be pickled or copied: .* Pickle kernel\.spec"):
        copied(kernel(MatmulSpec(3, 5, 7)))


def test_adding_to_c_needs_c():
    product = kernel(MatmulSpec(3, 5, 7, beta=1))
    with pytest.raises(OperandError, match=r"operand out: it is missing, and the kernel adds to it .* Pass out=c"):
        product(A, B)
    out = np.zeros((3, 5), np.float32)
    assert product(A, B, out=out) is out


def test_a_small_call_is_cheap():
    square, out = matrix(4, 4), np.empty((4, 4), np.float32)
    product = kernel(MatmulSpec(4, 4, 4))
    assert min(timeit.repeat(lambda: product(square, square, out=out), number=10_000, repeat=10)) / 10_000 < 1.5e-6
