# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products whose next rows of A are prefetched while a tile is multiplied, on a target whose caches hold next to nothing."""

from dataclasses import replace

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.dtypes import to_numpy

HOST = targets.resolve("host")
SMALL = replace(HOST, name="small-caches", l1=replace(HOST.l1, bytes=8192), l2=replace(HOST.l2, bytes=32768), l3=None)


@pytest.mark.parametrize("types", ["f32", "bf16,bf16,f32", "u8,i8,i32"])
@pytest.mark.parametrize("shape", [(71, 8, 1024), (140, 5, 1001), (140, 24, 515)])
def test_strips_of_k_add_up_to_the_product(shape, types):
    m, n, k = shape
    spec = tw.MatmulSpec.from_dtypes(m, n, k, types)
    kernel = tw.compile(spec, SMALL, schedule="unpacked", parameters={"mr": 3, "kc": k}, cache=False)
    assert kernel.asm["bufferized"].count("memref.prefetch %arg0") >= 8
    rng = np.random.default_rng(3)
    a, b = (
        rng.integers(0, 4, shape).astype(to_numpy(kind))
        for shape, kind in ((spec.a_shape, spec.a_type), (spec.b_shape, spec.b_type))
    )
    assert (kernel(a, b) == tw.reference(spec, a, b)).all()
