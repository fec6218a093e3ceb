# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels for each level of x86-64 on a processor of that level and no more, which QEMU emulates.

A machine with AVX-512 also runs an instruction that slipped into code for an older level; the emulated processor does not.
QEMU 7.2 knows AVX2 and no AVX-512.
"""

import os
import shutil

import emulated_kernel
import numpy as np
import products
import pytest
import tilewright as tw
from tilewright.dtypes import to_numpy
from tilewright.errors import TilewrightError
from tilewright.payload.reference import within_bound
from tilewright.runtime.emulator import Emulator

QEMU = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
pytestmark = pytest.mark.skipif(QEMU is None or os.uname().sysname != "Linux", reason="qemu-x86_64 is not installed")

# QEMU's oldest processor of 64 bits, one with SSE4.2, and one with AVX2.
PROCESSORS = {"x86-64": "qemu64", "x86-64-v2": "Nehalem", "x86-64-v3": "Haswell"}
TYPES = ("f32", "f64", "f16,f16,f32", "bf16,bf16,f32", "i8", "u8", "u8,i8,i32", "i8,u8,i32")
# The one chosen, and blocks of which the last are short in every direction.
ODD, SEVERAL = (13, 11, 9), (19, 37, 29)
BLOCKS = {"mr": 4, "nr": 16, "mc": 8, "nc": 32, "kc": 12}


def compiled(spec: tw.MatmulSpec, level: str, processor: str, **sizes: int) -> tw.Kernel:
    """A kernel for `level`, to be run on `processor`."""
    return emulated_kernel.compiled(
        spec,
        tw.targets.get(level),
        Emulator(str(QEMU), ("-cpu", processor), exact=False),
        schedule="packed" if sizes else None,
        parameters=sizes,
    )


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("level", PROCESSORS)
def test_numbers(level, types):
    for shape, beta, sizes in ((ODD, 0, {}), (SEVERAL, 1, BLOCKS)):
        spec = tw.MatmulSpec.from_dtypes(*shape, types, beta=beta)
        products.check(compiled(spec, level, PROCESSORS[level], **sizes), products.uniform(spec))


@pytest.mark.parametrize("level", PROCESSORS)
def test_further_operands(level):
    spec = tw.MatmulSpec(*SEVERAL, epilogue=(tw.bias("m"), tw.residual(), tw.scale_by(""), tw.silu()))
    random = np.random.default_rng(0)
    operands = [random.uniform(-1, 1, each.shape).astype(np.float32) for each in spec.operands]
    result = compiled(spec, level, PROCESSORS[level])(*operands)
    assert within_bound(result, tw.reference(spec, *operands), tw.error_bound(spec, *operands)).all()


@pytest.mark.parametrize("types", [types for types in TYPES if "8" in types])
@pytest.mark.parametrize("level", PROCESSORS)
def test_bytes_at_their_extremes(level, types):
    spec = tw.MatmulSpec.from_dtypes(*SEVERAL, types)
    a, b = (np.iinfo(to_numpy(each)) for each in (spec.a_type, spec.b_type))
    kernel = compiled(spec, level, PROCESSORS[level])
    for left, right in ((a.min, b.min), (a.max, b.max), (a.max, b.min), (a.min, b.max)):
        operands = (
            np.full(spec.a_shape, left, to_numpy(spec.a_type)),
            np.full(spec.b_shape, right, to_numpy(spec.b_type)),
        )
        assert (kernel(*operands) == int(left) * int(right) * spec.k).all()


def test_a_processor_of_the_level_before_does_not_run_it():
    # What these tests rest on: an instruction that the processor lacks ends the program.
    spec = tw.MatmulSpec(*SEVERAL)
    with pytest.raises(TilewrightError, match="ended with status"):
        compiled(spec, "x86-64-v3", PROCESSORS["x86-64-v2"])(*products.uniform(spec)[:2])
