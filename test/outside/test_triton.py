# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that Triton compiled to PTX are right in the emulator, which finds nothing wrong with them but one thing.

Barrier objects that copies of boxes complete on are initialized without the fence that the CUDA programming guide has behind that.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tilewright.bench import environments
from tilewright.dtypes import dtype
from tilewright.runtime import checked_kernels
from tilewright.runtime.checked_kernels import argument
from tilewright.runtime.launches import Launch

KERNELS = Path(__file__).parent / "triton_kernels.py"
M, N, K = 80, 96, 144
LENGTH, HEADS, HEAD = 100, 2, 64
TYPES = {"fp16": "f16", "bf16": "bf16", "fp32": "f32", "i8": "i8", "fp8e4nv": "f8E4M3FN", "fp8e5": "f8E5M2"}
ENDING = ("i64=0", "i64=0")
"""Of every kernel of Triton's: memory for intermediate results and for profiles, which these do not use."""
pytestmark = pytest.mark.skipif(
    "TILEWRIGHT_TRITON" not in os.environ, reason="Triton compiles for a minute: make check-outside"
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all kernels."""
    python = environments.python(environments.TRITON)
    if python is None:
        pytest.skip("Triton is not installed: tilewright bench setup --peers triton")
    folder = tmp_path_factory.mktemp("triton")
    variables = {"TRITON_CACHE_DIR": str(folder / "cache"), "TRITON_DEFAULT_FP_FUSION": "1"}
    subprocess.run([python, "-I", "-W", "ignore", KERNELS, folder], check=True, env=variables)
    return folder


def run(folder: Path, name: str, grid: tuple[int, ...], arguments: list[str], **allowed: Any) -> np.ndarray[Any, Any]:
    """What a kernel has written, without any finding."""
    launch = json.loads((folder / f"{name}.json").read_text())
    kernel = checked_kernels.read(folder / f"{name}.ptx", launch["kernel"])
    assert kernel.block is not None
    x, y, z = (*grid, 1, 1)[:3]
    sizes = Launch((x, y, z), kernel.block, dynamic_shared=launch["shared"])
    given = [argument(each) for each in (*arguments, *ENDING)]
    outcome = checked_kernels.run(kernel, sizes, given, (0, 1), 120.0, **allowed)
    assert not outcome.findings
    (output,) = outcome.outputs.values()
    return output.astype(np.float64)


def drawn(number: int, shape: tuple[int, ...], kind: str) -> np.ndarray[Any, Any]:
    """Argument number `number`, as `checked_kernels` draws it."""
    random = np.random.default_rng(number)
    numpy = np.dtype(getattr(ml_dtypes, dtype(kind).numpy, None) or dtype(kind).numpy)
    values = random.integers(0, 100, shape) if numpy.kind == "i" else random.uniform(-1, 1, shape)
    return values.astype(numpy).astype(np.float64)


def check_product(got: np.ndarray[Any, Any], kind: str, rounding: float = 2.0**-24) -> None:
    """Compares with the product of the first two arguments."""
    a, b = drawn(0, (M, K), kind), drawn(1, (K, N), kind)
    bound = rounding * (K + 2) * (abs(a) @ abs(b))
    if kind == "i8":
        bound = bound * 0
    elif kind == "f32":  # tf32 has 11 bits, of which Triton's kernels cut the rest off.
        bound = bound + 2.0**-9 * (abs(a) @ abs(b))
    assert (abs(got - a @ b) <= bound).all()


@pytest.mark.parametrize(
    ("chip", "kind"), [(chip, kind) for kind in TYPES for chip in (80, 90) if chip == 90 or not kind.startswith("fp8")]
)
def test_products(compiled: Path, chip: int, kind: str) -> None:
    ours, sums = TYPES[kind], "i32" if kind == "i8" else "f32"
    arguments = [f"{ours}[{M}x{K}]", f"{ours}[{K}x{N}]", f"out:{sums}[{M}x{N}]", f"i32={M}", f"i32={N}", f"i32={K}"]
    check_product(run(compiled, f"matmul_{kind}_{chip}", (2, 2), arguments), ours)


@pytest.mark.parametrize("chip", [80, 90])
def test_parts_of_k_that_are_added_up(compiled: Path, chip: int, tmp_path: Path) -> None:
    np.save(tmp_path / "zeros.npy", np.zeros((M, N), np.float32))
    arguments = [f"bf16[{M}x{K}]", f"bf16[{K}x{N}]", f"inout:{tmp_path}/zeros.npy", f"i32={M}", f"i32={N}", f"i32={K}"]
    check_product(run(compiled, f"split_matmul_bf16_{chip}", (2, 3, 3), arguments), "bf16")


@pytest.mark.parametrize("specialized", [0, 1])
def test_products_by_boxes(compiled: Path, specialized: int) -> None:
    def tensor(out: str, rows: int, columns: int) -> list[str]:
        return [f"{out}map:f16[{rows}x{columns}]/64x64/128", f"i32={rows}", f"i32={columns}", f"i64={columns}", "i64=1"]

    # Arguments are drawn by their numbers: B is the one of number 5.
    arguments = [*tensor("", M, K), *tensor("", K, N), *tensor("out:", M, N), f"i32={M}", f"i32={N}", f"i32={K}"]
    got = run(compiled, f"boxes_matmul_{specialized}", (2, 1), arguments, allowed=("unfenced",))
    a, b = drawn(0, (M, K), "f16"), drawn(5, (K, N), "f16")
    assert (abs(got - a @ b) <= 2.0**-11 * abs(a @ b) + 2.0**-24 * (K + 2) * (abs(a) @ abs(b))).all()


@pytest.mark.parametrize("chip", [80, 90])
@pytest.mark.parametrize(("kind", "causal"), [("fp16", True), ("bf16", False)])
def test_attention(compiled: Path, chip: int, kind: str, causal: bool) -> None:
    shape = f"{TYPES[kind]}[{HEADS}x{LENGTH}x{HEAD}]"
    arguments = [shape, shape, shape, f"out:{shape}", f"i32={LENGTH}", "f32=0.25"]
    got = run(compiled, f"attention_{kind}_{chip}", (2, HEADS), arguments)
    q, k, v = (drawn(number, (HEADS, LENGTH, HEAD), TYPES[kind]) for number in range(3))
    scores = np.einsum("hmd,hnd->hmn", q, k) * 0.25
    if causal:
        scores = np.where(np.tri(LENGTH, dtype=bool), scores, -np.inf)
    weights = np.exp2(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    # Weights and the result are rounded to 11 or 8 bits; values are at most 1.
    assert abs(got - expected).max() <= 2 * 2.0 ** (-11 if kind == "fp16" else -8)


@pytest.mark.parametrize("chip", [80, 90])
def test_rows(compiled: Path, chip: int) -> None:
    got = run(compiled, f"normalized_{chip}", (3,), ["f32[3x900]", "out:f32[3x900]", "f32[900]", "i32=900"])
    x, weights = drawn(0, (3, 900), "f32"), drawn(2, (900,), "f32")
    around = x - x.mean(-1, keepdims=True)
    expected = around / np.sqrt((around**2).mean(-1, keepdims=True) + 1e-5) * weights
    np.testing.assert_allclose(got, expected, atol=1e-5)
    got = run(compiled, f"ordered_{chip}", (3,), ["f32[3x100]", "out:f32[3x100]", "i32=100"])
    np.testing.assert_array_equal(got, np.sort(drawn(0, (3, 100), "f32"), -1))
