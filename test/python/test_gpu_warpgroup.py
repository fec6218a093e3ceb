# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `warpgroup`: numbers under the emulator, instructions, and what is refused."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from gpu_kernels import array, check, each_case
from tilewright.emit.gpu import assemble, tool
from tilewright.errors import LoweringError, ScheduleError
from tilewright.runtime import gpu
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel
from tilewright.schedules.gpu.warpgroup import WarpGroupTile
from tilewright.schedules.gpu.warpgroup_sizes import of_call, predicted, ranked, sizes
from tilewright.schedules.gpu.warpgroup_time import Work, cycles, resident
from tilewright.targets import nvidia

SM_80, SM_90A, _ = nvidia.ROWS
EMULATED = SM_90A.emulated()
SMALL = {"bm": 128, "bn": 64, "stages": 3}
TURNS = {"bm": 64, "bn": 64, "pingpong": 1}
CASES: list[tuple[dict[str, Any], dict[str, int]]] = [
    ({"m": 130, "n": 70, "k": 200, "a": "bf16"}, SMALL),
    ({"m": 130, "n": 71, "k": 136, "a": "f16", "layout": "nt", "c": "f16"}, SMALL),
    ({"m": 130, "n": 70, "k": 136, "a": "bf16", "layout": "tn", "beta": 1}, SMALL),
    ({"m": 60, "n": 130, "k": 65, "a": "f16", "layout": "tt"}, SMALL),
    ({"m": 3, "n": 5, "k": 7, "a": "bf16", "epilogue": (tw.bias("n"), tw.gelu(), tw.residual("mn")), "c": "bf16"}, {}),
    ({"m": 100, "n": 90, "k": 300, "a": "i8", "layout": "nt"}, SMALL),
    ({"m": 65, "n": 64, "k": 128, "a": "u8", "b": "i8", "layout": "nt", "epilogue": (tw.dequantize(0.25),)}, SMALL),
    ({"m": 70, "n": 40, "k": 50, "a": "f32", "tf32": True, "layout": "nt"}, SMALL),
    ({"m": 70, "n": 40, "k": 300, "a": "f8E4M3FN", "layout": "nt", "c": "bf16"}, {"bm": 64, "bn": 64, "consumers": 1}),
    ({"m": 70, "n": 40, "k": 150, "a": "f8E5M2", "b": "f8E4M3FN", "layout": "nt"}, SMALL),
    # Sums that are promoted 64 rows at a time.
    ({"m": 190, "n": 70, "k": 300, "a": "f8E4M3FN", "layout": "nt", "c": "bf16"}, {"bm": 256, "bn": 64}),
    ({"m": 40, "n": 70, "k": 72, "a": "bf16", "batch": (2, 3), "c": "bf16"}, {"bm": 64, "bn": 64, "consumers": 1}),
    # Several tiles of each consumer, and an odd number of them; two groups of rows of a consumer.
    ({"m": 300, "n": 130, "k": 130, "a": "bf16", "c": "bf16", "epilogue": (tw.bias("m"), tw.relu())}, TURNS),
    ({"m": 300, "n": 130, "k": 0, "a": "bf16"}, TURNS),
    ({"m": 300, "n": 70, "k": 130, "a": "bf16", "layout": "nt"}, {"bm": 256, "bn": 64}),
    # 11 rows of tiles in bands of 3.
    ({"m": 700, "n": 130, "k": 40, "a": "bf16", "c": "bf16"}, {"bm": 64, "bn": 64, "consumers": 1, "band": 3}),
    # Three rows of tiles in clusters of two: one block has none in the last one.
    ({"m": 300, "n": 70, "k": 200, "a": "bf16", "c": "bf16"}, {**SMALL, "cluster": 2}),
    ({"m": 200, "n": 70, "k": 136, "a": "bf16", "layout": "tt"}, {**TURNS, "cluster": 2}),
    # Three rows and three columns of tiles in clusters of 2x2; two columns of them that share the tile of a transposed A.
    ({"m": 300, "n": 150, "k": 200, "a": "bf16", "c": "bf16"}, {**SMALL, "cluster": 2, "beside": 2}),
    ({"m": 60, "n": 200, "k": 136, "a": "f16", "layout": "tt"}, {**TURNS, "beside": 2}),
    # Parts of K, some of them empty; two tiles of each cluster.
    ({"m": 130, "n": 70, "k": 500, "a": "bf16", "c": "bf16", "epilogue": (tw.bias("n"),)}, {**SMALL, "split": 3}),
    ({"m": 60, "n": 70, "k": 150, "a": "i8", "layout": "nt"}, {**SMALL, "split": 4}),
    # Steps of the last tiles, by 4 multiprocessors: 2 tiles in pieces of several blocks each; one of 14, with whole ones before;
    # clusters of two; rows of C as columns; no steps.
    ({"m": 130, "n": 60, "k": 1000, "a": "bf16"}, {**SMALL, "streamed": 1}),
    ({"m": 860, "n": 130, "k": 330, "a": "bf16", "c": "bf16", "epilogue": (tw.bias("n"),)}, {**SMALL, "bn": 128, "streamed": 1}),
    ({"m": 300, "n": 70, "k": 700, "a": "bf16", "c": "bf16"}, {**SMALL, "cluster": 2, "streamed": 1}),
    ({"m": 13, "n": 300, "k": 700, "a": "i8", "layout": "nt"}, {"bm": 16, "bn": 128, "swapped": 1, "streamed": 1}),
    ({"m": 130, "n": 70, "k": 0, "a": "bf16"}, {**SMALL, "streamed": 1}),
    # Sums of two products with the same A, or three: odd, two groups of rows, turns, parts of K, clusters, rows of C as columns.
    ({"m": 130, "n": 70, "k": 200, "a": "bf16", "c": "bf16", "epilogue": (tw.bias("n"), tw.glu("gelu"), tw.residual("mn"))}, SMALL),
    ({"m": 190, "n": 71, "k": 136, "a": "f16", "layout": "tt", "beta": 1, "epilogue": (tw.glu(), tw.glu("sigmoid"))},
     {"bm": 64, "bn": 64, "consumers": 1}),
    ({"m": 190, "n": 70, "k": 300, "a": "bf16", "layout": "tn", "epilogue": (tw.glu("relu"),)}, {"bm": 256, "bn": 64}),
    ({"m": 300, "n": 130, "k": 130, "a": "bf16", "epilogue": (tw.glu(),)}, TURNS),
    ({"m": 300, "n": 150, "k": 500, "a": "bf16", "epilogue": (tw.glu(),)}, {**SMALL, "cluster": 2, "beside": 2, "streamed": 1}),
    ({"m": 60, "n": 70, "k": 150, "a": "i8", "layout": "nt", "epilogue": (tw.dequantize(0.01), tw.glu())}, {**SMALL, "split": 3}),
    ({"m": 13, "n": 150, "k": 100, "a": "bf16", "batch": (2,), "epilogue": (tw.glu(),)}, {}),
    # Rows of C are columns of instructions: as few as 8, and more than a box has.
    ({"m": 13, "n": 150, "k": 100, "a": "bf16", "c": "bf16"}, {}),
    ({"m": 1, "n": 70, "k": 1000, "a": "bf16", "layout": "nt", "epilogue": (tw.bias("n"), tw.residual("mn"))}, {}),
    ({"m": 70, "n": 70, "k": 64, "a": "bf16", "layout": "tt", "beta": 1}, {"bm": 128, "bn": 64, "consumers": 1, "swapped": 1}),
    ({"m": 30, "n": 70, "k": 64, "a": "i8", "layout": "nt"}, {"bm": 32, "bn": 128, "swapped": 1}),
    # Rows of boxes of C that are no longer than 64 bytes, or 16.
    ({"m": 70, "n": 170, "k": 40, "a": "bf16", "c": "f8E4M3FN"}, {"bm": 64, "bn": 192, "consumers": 1, "stages": 2}),
    ({"m": 13, "n": 70, "k": 40, "a": "bf16", "c": "f8E4M3FN"}, {}),
    # Few rows of a transposed A: a tile has as many as a swizzle pattern.
    ({"m": 3, "n": 40, "k": 200, "a": "f16", "layout": "tt"}, {}),
]  # fmt: skip


@each_case(CASES)
def test_numbers(case: dict[str, Any], parameters: dict[str, int]) -> None:
    spec = tw.MatmulSpec(**case)
    kernel = gpu.compile(spec, EMULATED, "warpgroup", parameters)
    check(kernel, spec)
    assert all(aligned for aligned, _ in kernel._made)


def test_the_usual_sizes() -> None:
    spec = tw.MatmulSpec(m=256, n=512, k=256, a="bf16", epilogue=(tw.bias("n"), tw.relu()))
    assert gpu.compile(spec, EMULATED).metadata.schedule == "warpgroup"
    check(gpu.compile(spec, EMULATED, parameters={"bn": 256}), spec)


def test_every_size_by_one_kernel_and_rows_that_are_not_aligned() -> None:
    kernel = gpu.compile(tw.MatmulSpec(m=None, n=None, k=None, a="bf16"), EMULATED, parameters=SMALL)
    for number, (m, n, k) in enumerate([(1, 1, 1), (128, 64, 64), (129, 8, 640)]):
        check(kernel, tw.MatmulSpec(m=m, n=n, k=k, a="bf16"), seed=number)
    check(kernel, tw.MatmulSpec(m=30, n=20, k=70, a="bf16"), aligned=False)
    for m, n, k in [(3, 4, 0), (0, 4, 5), (3, 0, 5)]:
        check(kernel, tw.MatmulSpec(m=m, n=n, k=k, a="bf16"))


def test_rows_that_are_not_behind_one_another_are_not_copied_in_boxes() -> None:
    kernel = gpu.compile(tw.MatmulSpec(m=20, n=16, k=24, a="bf16", batch=(2,)), EMULATED, parameters=SMALL)
    rng = np.random.default_rng(0)
    a, b = (array(each, rng) for each in kernel.spec.operands)
    for turned in (a[:, ::-1], np.broadcast_to(a[:1], a.shape)):
        assert np.allclose(kernel(turned, b), turned.astype(np.float32) @ b.astype(np.float32), atol=1e-3)
    assert set(kernel._made) == {(False, True)}


@pytest.mark.parametrize(("n", "pitch", "boxed"), [(48, 56, True), (43, 56, False), (48, 57, False)])
def test_nothing_around_c_is_written(n: int, pitch: int, boxed: bool) -> None:
    # An H200 wrote behind rows that are no whole pieces of 16 bytes: threads store those, and the emulator refuses boxes of them.
    spec = tw.MatmulSpec(m=70, n=n, k=40, a="bf16", c="bf16")
    kernel = gpu.compile(spec, EMULATED, parameters=SMALL)
    rng = np.random.default_rng(0)
    a, b = (array(each, rng) for each in spec.operands)
    memory = np.full((72, pitch), 99, a.dtype)
    kernel(a, b, out=memory[1:71, 8 : 8 + n])
    assert (True, boxed) in kernel._made
    expected = np.full(memory.shape, 99, np.float64)
    expected[1:71, 8 : 8 + n] = tw.reference(spec, a, b)
    assert np.allclose(memory.astype(np.float64), expected, atol=0.1)
    outside = np.ones(memory.shape, bool)
    outside[1:71, 8 : 8 + n] = False
    assert (memory[outside] == 99).all()


def test_sizes_follow_the_shape() -> None:
    def chosen(m: int | None, n: int | None, k: int | None, a: str = "bf16", **given: int) -> Any:
        return sizes(tw.MatmulSpec(m=m, n=n, k=k, a=a, layout="nt"), SM_90A, given)

    large = chosen(8192, 8192, 8192)
    assert (large.bm, large.bk, large.stages, large.cluster, large.split) == (128, 64, 4, 2, 1)
    assert large.bn in (192, 256)  # On an H200 as fast as one another.
    assert chosen(None, None, None).cluster == 1
    few = chosen(5, 4096, 4096)
    assert (few.swapped, few.bm) == (True, 8)
    assert few.streamed or 4096 // few.bn * few.split > 100  # Memory is read by most multiprocessors.
    assert chosen(256, 256, 65536).split > 4
    assert chosen(256, 256, 256).split == 1
    # As many tiles of 128x256 as fill one round take less than two rounds of smaller ones.
    assert (chosen(2048, 2048, 2048).bm, chosen(2048, 2048, 2048).bn) == (128, 256)
    assert chosen(512, 4096, 4096).cluster == 2
    # 72 tiles of 128x256 on 132 multiprocessors, and 800: a few more than six rounds. 512 nearly fill four.
    assert chosen(1536, 1536, 8192).streamed
    assert chosen(5120, 5120, 5120).streamed
    assert not chosen(4096, 4096, 4096).streamed
    assert (chosen(8192, 8192, 8192, "f8E4M3FN").bk, chosen(8192, 8192, 8192, "f8E4M3FN").promote) == (128, 1)
    assert chosen(5, 4096, 4096, bm=64, consumers=1).swapped is False
    with pytest.raises(ScheduleError, match="at most 64x256"):
        chosen(None, None, None, bm=256)
    with pytest.raises(ScheduleError, match="pingpong"):
        chosen(None, None, None, pingpong=1, consumers=3, bm=64)
    with pytest.raises(ScheduleError, match="neither pingpong nor split"):
        chosen(None, None, None, streamed=1, split=2)
    with pytest.raises(ScheduleError, match="products=2"):
        chosen(64, 64, 64, products=2)
    # Two products of a tile have half of the columns each, and as many sums as one.
    unit = sizes(tw.MatmulSpec(m=4096, n=4096, k=4096, a="bf16", epilogue=(tw.glu(),)), SM_90A, {})
    assert (unit.products, unit.summed * unit.across, unit.stages > 2) == (2, 256, True)
    with pytest.raises(ScheduleError, match="products of a batch"):
        sizes(tw.MatmulSpec(m=64, n=64, k=64, a="bf16", batch=(2,)), SM_90A, {"streamed": 1})
    with pytest.raises(ScheduleError, match="cluster=2"):
        chosen(None, None, None, cluster=2, split=2)
    with pytest.raises(ScheduleError, match="bm a multiple of 128"):
        chosen(None, None, None, bm=64)
    with pytest.raises(ScheduleError, match="at most 256 rows, columns and depth"):
        chosen(None, None, None, bm=64, bn=512, swapped=1)
    with pytest.raises(ScheduleError, match="40 columns on i8"):
        chosen(None, None, None, "i8", bm=40, bn=128, swapped=1)


@pytest.mark.parametrize("layout", ["tn", "tt"])
def test_an_operand_across_k_is_whole_swizzle_patterns(layout: str) -> None:
    """PTX describes matrices of whole swizzle atoms alone: 64 elements of 16 bits along M or N."""
    for m in (1, 8, 48, 65):
        spec = tw.MatmulSpec(m=m, n=4096, k=4096, a="bf16", layout=layout)
        assert all(each.bm % 64 == 0 for each in [sizes(spec, SM_90A, {}), *ranked(spec, SM_90A)])
    for few in (8, 48, 72):
        with pytest.raises(ScheduleError, match=f"bm={few}, and A's neighbors lie along it"):
            sizes(spec, SM_90A, {"bm": few, "bn": 128, "swapped": 1})


def test_dynamic_extents_choose_by_the_call() -> None:
    """Few rows, parts of K, few tiles and many: by the model that static extents are compiled by."""
    for layout in ("nn", "nt", "tn"):
        spec = tw.MatmulSpec(m=None, n=None, k=None, a="bf16", layout=layout)

        def chosen(m: int, n: int, k: int, spec: tw.MatmulSpec = spec) -> Any:
            called = spec.sized({"m": m, "n": n, "k": k})
            given = of_call(spec, SM_90A, called)
            assert predicted(called, sizes(spec, SM_90A, given)) <= predicted(called, sizes(spec, SM_90A, {}))  # type: ignore[operator]
            return sizes(spec, SM_90A, given)

        decode = chosen(5, 4096, 4096)
        assert (decode.swapped, decode.bm) == (True, 64 if layout == "tn" else 16)
        assert chosen(64, 512, 16384).split == 4
        large = chosen(8192, 8192, 8192)
        assert (large.bm, large.bn, large.swapped) == (128, 256, False)
        assert of_call(spec, SM_90A, spec.sized({"m": 0, "n": 8, "k": 8})) == {}


def test_calls_of_a_dynamic_kernel_take_several_configurations() -> None:
    spec = tw.MatmulSpec(m=None, n=None, k=None, a="bf16", c="bf16")
    kernel = gpu.compile(spec, EMULATED)
    taken = []
    for m, n, k in ((3, 72, 520), (3, 72, 72), (3, 72, 520)):
        called = spec.sized({"m": m, "n": n, "k": k})
        rng = np.random.default_rng(0)
        operands = [array(each, rng, aligned=True) for each in called.operands]
        found, bound = tw.reference(called, *operands), tw.error_bound(called, *operands)
        assert (np.abs(kernel(*operands).astype(float) - found.astype(float)) <= bound).all()
        taken.append(kernel.of_call(called))
    assert all(each.metadata.parameters["swapped"] for each in taken)
    assert taken[0] is taken[2] is not kernel
    assert len(kernel.others._kernels) <= 2  # pyright: ignore[reportOptionalMemberAccess]
    # Sizes that are asked for are taken by every call.
    assert gpu.compile(spec, EMULATED, parameters=SMALL).others is None


def test_predictions_count_what_copies_write_to_shared_memory() -> None:
    """Of 8-bit floats, tiles of 128x128 need 160 bytes a cycle of 128, and bf16 ones of 128x256 exactly 128."""
    short = Work(m=4096, n=4096, k=8192, batch=1, bytes_in=1, bytes_out=2)
    products = 2 * short.m * short.n * short.k / 8192 / 132
    assert cycles(short, WarpGroupTile(bm=128, bn=128, bk=128, promote=1)) > 1.25 * products


def test_predictions_are_not_below_what_is_counted() -> None:
    work = Work(m=4096, n=4096, k=4096, batch=1, bytes_in=2, bytes_out=2)
    tile = WarpGroupTile(cluster=2)
    products = 2 * 4096**3 / 4096 / 132  # Operations of a multiprocessor's tensor cores a cycle.
    measured = 1.2 * products  # What an H200's tensor cores take.
    assert measured < cycles(work, tile) < 1.15 * measured
    pair = replace(tile, bn=128)
    # The L2 cache would give less than is multiplied.
    assert cycles(work, replace(pair, cluster=1)) > cycles(work, pair)
    one = Work(m=1, n=4096, k=4096, batch=1, bytes_in=2, bytes_out=2)
    assert cycles(one, WarpGroupTile(bm=8, bn=128, swapped=True)) > one.memory_bytes / 2623
    assert [resident(blocks) for blocks in (1, 2, 4, 8)] == [132, 66, 32, 16]


def test_what_instructions_do_not_take_is_for_another_strategy() -> None:
    for spec in (
        tw.MatmulSpec(m=64, n=64, k=64, a="i8"),
        tw.MatmulSpec(m=64, n=64, k=64, a="f32", tf32=True),
        tw.MatmulSpec(m=64, n=64, k=64, a="bf16", deterministic=True),
    ):
        assert gpu.compile(spec, SM_90A).metadata.schedule == "mma_sync"
        with pytest.raises(ScheduleError, match="mma_sync"):
            gpu.compile(spec, SM_90A, "warpgroup")
    assert gpu.compile(tw.MatmulSpec(m=64, n=64, k=64, a="f32", layout="nt"), SM_90A).metadata.schedule == "simt"
    with pytest.raises(ScheduleError, match="mma_sync, simt"):
        gpu.compile(tw.MatmulSpec(m=64, n=64, k=64, a="bf16"), SM_80, "warpgroup")


BUSY = (tw.bias("n"), tw.gelu(), tw.residual("mn"))
GATED = (tw.bias("n"), tw.glu(), tw.residual("mn"))
SASS: list[tuple[dict[str, Any], dict[str, int], dict[str, int]]] = [
    ({"a": "bf16"}, {"bn": 256}, {"HGMMA": 4, "UTMALDG": 5, "UTMASTG": 8}),
    ({"a": "bf16", "c": "bf16"}, {"bn": 256, "cluster": 2}, {"HGMMA": 4, "UTMASTG": 4, "STSM": 16}),
    ({"a": "bf16", "c": "bf16"}, {"bn": 256, "cluster": 2, "beside": 2}, {"HGMMA": 4, "UTMALDG": 5}),
    ({"a": "f16", "c": "f16"}, {"bm": 64, "bn": 256, "pingpong": 1}, {"HGMMA": 4, "UTMASTG": 4, "STSM": 16}),
    ({"a": "bf16", "c": "bf16"}, {"bn": 256, "cluster": 2, "streamed": 1}, {"UTMASTG": 4, "STG.E.128": 32, "LDG.E.128": 32}),
    ({"a": "bf16"}, {"bn": 128, "split": 8}, {"HGMMA": 4, "UTMASTG": 4}),
    ({"a": "bf16", "c": "bf16"}, {"bm": 64, "bn": 128, "swapped": 1}, {"HGMMA": 4, "UTMASTG": 1, "STSM": 4}),
    ({"a": "f32", "tf32": True, "layout": "nt"}, {"bn": 256}, {"HGMMA": 4}),
    ({"a": "f8E4M3FN", "c": "bf16", "layout": "nt"}, {"bn": 192}, {"QGMMA": 4}),
    ({"a": "f8E4M3FN", "c": "bf16", "layout": "nt"}, {"bm": 256, "bn": 128, "beside": 2}, {"QGMMA": 8}),
    ({"a": "i8", "layout": "nt", "epilogue": ()}, {"bn": 256, "cluster": 2}, {"IGMMA": 4}),
    ({"a": "bf16", "m": 256, "k": 256}, {}, {"HGMMA": 8}),
    ({"a": "bf16", "c": "bf16", "epilogue": GATED}, {"bn": 128, "cluster": 2}, {"HGMMA": 8, "UTMALDG": 5, "UTMASTG": 2}),
    ({"a": "f16", "layout": "tn", "epilogue": GATED}, {"bm": 64, "bn": 128, "pingpong": 1}, {"HGMMA": 8}),
    ({"a": "bf16", "c": "bf16", "m": 64, "epilogue": GATED}, {"bm": 64, "bn": 128, "swapped": 1}, {"HGMMA": 8}),
]  # fmt: skip


@pytest.mark.parametrize(("case", "parameters", "counts"), SASS, ids=lambda each: "-".join(map(str, each)))
def test_the_assembler_moves_registers_and_spills_none(
    case: dict[str, Any], parameters: dict[str, int], counts: dict[str, int], tmp_path: Path
) -> None:
    if tool("ptxas") is None:
        pytest.skip("there is no ptxas")
    kernel = gpu.compile(
        tw.MatmulSpec(**{"m": 512, "n": 512, "k": 512, "epilogue": BUSY, **case}), SM_90A, "warpgroup", parameters
    )
    made = kernel.assembled()
    assert made.spill_bytes == 0
    assert made.warnings == ()
    if tool("nvdisasm") is None:
        pytest.skip("there is no nvdisasm to look for HGMMA, UTMALDG, UTMASTG and USETMAXREG with")
    (tmp_path / "kernel.cubin").write_bytes(made.cubin)
    sass = subprocess.run(
        [str(tool("nvdisasm")), tmp_path / "kernel.cubin"], capture_output=True, text=True, check=True
    ).stdout
    found = {name: len(re.findall(rf"\b{name}\b", sass)) for name in counts}
    assert found == counts
    # What waits for all of a thread's accesses to memory is done where blocks of a cluster meet, and in no step.
    steps = sass[sass.index("GMMA.64x") : sass.rindex("GMMA.64x")] + sass[sass.rindex("GMMA.64x") :].split(" BRA ")[0]
    assert "MEMBAR" not in steps
    assert len(re.findall(r"\bUSETMAXREG\b", sass)) == 2
    assert "UTMALDG" in sass
    assert "UTMASTG" in sass


def test_what_the_assembler_calls_information_is_a_warning() -> None:
    if tool("ptxas") is None:
        pytest.skip("there is no ptxas")
    stages = gpu.compile(tw.MatmulSpec(m=128, n=64, k=640, a="bf16"), SM_90A, "warpgroup", SMALL)._stages
    # Without a bound of the threads, the registers that they start with are unknown.
    stages.texts["ptx"] = re.sub(r"\.(minnctapersm|maxntid)[^\n]*", "", stages.texts["ptx"])
    assert any("'setmaxnreg' ignored" in line for line in assemble(stages).warnings)


def test_registers_suffice_where_threads_store_c() -> None:
    if tool("ptxas") is None:
        pytest.skip("there is no ptxas")
    spec = tw.MatmulSpec(m=512, n=512, k=512, a="bf16", epilogue=(tw.bias("n"),))
    assert gpu.compile(spec, SM_90A, parameters={"bn": 256}).assembled(boxed=False).spill_bytes == 0


def test_first_products_replace_sums() -> None:
    begun = re.compile(r"setp\.ne\.b32 p, (\S+), 0;\s+wgmma")
    for promote in (0, 1):
        spec = tw.MatmulSpec(m=512, n=512, k=512, a="f8E4M3FN", layout="nt")
        text = gpu.compile(spec, SM_90A, parameters={**SMALL, "promote": promote}).asm["ptx"]
        first, *others = begun.findall(text)
        # Sums that are promoted are new in each step, others in the first one of a tile.
        assert first == "0" if promote else first.startswith("%r")
        assert others == ["1"] * 3
    with pytest.raises(ScheduleError, match="promote"):
        gpu.compile(spec, SM_90A, "warpgroup", {"bm": 128, "bn": 256, "promote": 1})


def test_tiles_whose_sums_are_promoted_fit_registers() -> None:
    short = tw.MatmulSpec(m=8192, n=8192, k=8192, a="f8E4M3FN", layout="nt", c="bf16")
    assert (sizes(short, SM_90A, {}).bm, sizes(short, SM_90A, {}).bn) == (128, 192)
    tiles = {(each.groups, each.across) for each in ranked(short, SM_90A) if not each.swapped}
    assert {(1, 192), (2, 128)} <= tiles
    assert all((groups + 1) * across <= 384 for groups, across in tiles)
    # Products of 128x192 keep shared memory less busy than those of 128x128.
    work = Work(8192, 8192, 8192, 1, 1, 2)
    wide, narrow = (WarpGroupTile(bm=128, bn=bn, bk=128, cluster=2, promote=1) for bn in (192, 128))
    assert cycles(work, wide) < 0.95 * cycles(work, narrow)


def test_sums_of_parts_of_k_have_to_fit() -> None:
    spec = tw.MatmulSpec(m=256, n=128, k=256, a="bf16")
    with pytest.raises(ScheduleError, match=r"131072 bytes of sums with split=2.*expected at most the 98304"):
        gpu.compile(spec, SM_90A, "warpgroup", {"bm": 256, "bn": 128, "split": 2, "stages": 2})


def test_a_result_that_is_not_waited_for_is_refused() -> None:
    kernel = gpu.compile(tw.MatmulSpec(m=128, n=64, k=640, a="bf16"), EMULATED, parameters=SMALL)
    wait = r"\n[^\n]*call [^\n]*@llvm\.nvvm\.wgmma\.wait_group\.sync\.aligned\(i64 0\)"
    text = re.sub(wait, "", kernel.asm["llvmir"])
    with pytest.raises(LoweringError, match=r"before wgmma\.wait_group"):
        EmulatedGpuKernel(text, "matmul")


@pytest.mark.parametrize("operand", [0, 1, 2])
def test_another_swizzle_gives_wrong_numbers(operand: int) -> None:
    spec = tw.MatmulSpec(m=128, n=64, k=128, a="bf16")
    kernel = gpu.compile(spec, EMULATED, parameters=SMALL)
    check(kernel, spec)
    stages = kernel._stages
    stages.boxes = tuple(replace(box, swizzle=0 if box.operand == operand else 128) for box in stages.boxes)
    with pytest.raises(AssertionError):
        check(kernel, spec)
