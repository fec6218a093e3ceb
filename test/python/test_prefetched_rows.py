# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products whose next rows of A are prefetched while a tile is multiplied, on a target whose caches hold next to nothing."""

import re
from dataclasses import replace

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.dtypes import to_numpy
from tilewright.schedules.models.blocking import row_gap
from tilewright.targets import get

_HOST = targets.resolve("host")
HOST = replace(_HOST, name="vectors", features=frozenset(each for each in _HOST.features if not each.startswith("amx")))
"""Without tile registers, whose slices are prefetched otherwise."""
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


def test_others_have_a_part_of_the_last_level_cache():
    def prefetches(m: int, n: int) -> int:
        spec = tw.MatmulSpec(m, n, 512)
        kernel = tw.compile(spec, target, schedule="inner_product", cache=False)
        return kernel.asm["asm"].count("prefetch")

    core = targets.get("znver4")
    l2, l3 = (replace(core.l2, bytes=size) for size in (1 << 16, 1 << 20))
    target = replace(core, name="small-caches-of-zen4", l1=replace(core.l1, bytes=8192), l2=l2, l3=l3)
    quarter = (1 << 20) // 4 // (512 * 4)
    assert prefetches(quarter, 8) == 0 < prefetches(quarter + 1, 8)
    # One column outruns what is fetched ahead of it only from memory.
    assert prefetches(2 * quarter, 1) < prefetches(2 * quarter + 1, 1)


@pytest.mark.parametrize("types", ["f32", "bf16,bf16,f32"])
@pytest.mark.parametrize("packed", [False, True])
def test_what_passes_through_once_is_prefetched_in_blocks_of_rows(types, packed):
    # More columns than a panel has, by which A would be read where it lies.
    spec = tw.MatmulSpec.from_dtypes(4000, 130, 20, types)
    spec = replace(spec, b_packed=packed, epilogue=(tw.residual(), tw.relu()))
    target = replace(SMALL, l2=replace(HOST.l2, bytes=65536))
    kernel = tw.compile(spec, target, schedule="packed", cache=False)
    sizes = kernel.metadata.parameters
    # The next blocks of A, of the residual and of the result wait in half of L2: in a quarter, but for the last tile of rows.
    assert sizes["mc"] * (20 * spec.a_type.bytes + 130 * 8) <= target.l2.bytes / 2 < spec.m * 130 * 4
    lines = re.findall(r"memref.prefetch %(arg\d)\[[^\]]*\], (read|write)", kernel.asm["bufferized"])
    assert {("arg0", "read"), ("arg2", "read"), ("arg3", "write")} <= set(lines)
    rng = np.random.default_rng(3)
    a, b = (
        rng.integers(0, 4, shape).astype(to_numpy(kind))
        for shape, kind in ((spec.a_shape, spec.a_type), (spec.b_shape, spec.b_type))
    )
    beside = rng.integers(-99, 99, (4000, 130)).astype(np.float32)
    got = kernel(a, kernel.pack_b(b) if packed else b, beside)
    assert (got == tw.reference(spec, a, b, beside)).all()


def test_a_result_whose_sums_go_on_is_not_prefetched_as_one_that_is_written():
    spec = tw.MatmulSpec(252, 48, 400, beta=1)
    target = replace(HOST, l2=replace(HOST.l2, bytes=65536))
    kernel = tw.compile(spec, target, schedule="packed", parameters={"kc": 40}, cache=False)
    text = kernel.asm["bufferized"]
    assert "memref.prefetch %arg0" in text
    assert "memref.prefetch %arg2" not in text


@pytest.mark.parametrize(("m", "k"), [(1, 1000), (2, 1000), (3, 900)])
def test_few_rows_have_no_prefetches_of_all_of_k_in_one_place(m: int, k: int) -> None:
    """A tile of a row has one strip of K, which had those of a whole block: half a megabyte of code."""
    kernel = tw.compile(tw.MatmulSpec(m, 3000, k), target="sapphirerapids", schedule="unpacked")
    assert 0 < kernel.asm["bufferized"].count("memref.prefetch") <= 600


def test_a_strip_of_c_has_rows_of_whole_lines() -> None:
    target = get("sapphirerapids")
    for n in (616, 617, 640):
        spec = tw.MatmulSpec(30, n, 1443)
        text = tw.compile(spec, target=target, schedule="streamed", threads=2).asm["bufferized"]
        rows = {int(each) for each in re.findall(r"memref<30x(\d+)xf32>", text)} - {n, 1443 + 48}
        assert rows == {n + row_gap(target, spec.acc_type, n)}
        assert not any(each % 16 for each in rows)
