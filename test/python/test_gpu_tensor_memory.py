# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `tensor_memory`: numbers under the emulator, instructions, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import tilewright as tw
from gpu_kernels import check, each_case
from tilewright.emit import gpu_code
from tilewright.emit.gpu import tool
from tilewright.errors import ScheduleError
from tilewright.runtime import gpu
from tilewright.schedules.gpu.tensor_memory_sizes import of_call, sizes
from tilewright.targets import nvidia

_, SM_90A, SM_100A = nvidia.ROWS
EMULATED = SM_100A.emulated()
SMALL = {"bm": 128, "bn": 64, "stages": 3}
PAIR = {"cluster": 2, "pair": 1}
CASES: list[tuple[dict[str, Any], dict[str, int]]] = [
    ({"m": 130, "n": 70, "k": 200, "a": "bf16"}, SMALL),
    ({"m": 130, "n": 71, "k": 136, "a": "f16", "layout": "nt", "c": "f16"}, SMALL),
    ({"m": 130, "n": 72, "k": 136, "a": "bf16", "layout": "tn", "beta": 1}, SMALL),
    ({"m": 60, "n": 130, "k": 65, "a": "f16", "layout": "tt"}, {**SMALL, "bn": 16}),
    ({"m": 3, "n": 5, "k": 7, "a": "bf16", "epilogue": (tw.bias("n"), tw.gelu(), tw.residual("mn")), "c": "bf16"}, {}),
    ({"m": 100, "n": 96, "k": 300, "a": "i8"}, {**SMALL, "bn": 128}),
    ({"m": 65, "n": 64, "k": 128, "a": "u8", "b": "i8", "layout": "tt", "epilogue": (tw.dequantize(0.25),)}, SMALL),
    ({"m": 70, "n": 40, "k": 50, "a": "f32", "tf32": True, "layout": "nt"}, SMALL),
    ({"m": 136, "n": 72, "k": 52, "a": "f32", "tf32": True, "layout": "tn"}, {**SMALL, "cluster": 2}),
    ({"m": 70, "n": 48, "k": 300, "a": "f8E4M3FN", "layout": "tn", "c": "bf16"}, {**SMALL, "bn": 128}),
    ({"m": 70, "n": 40, "k": 150, "a": "f8E5M2", "b": "f8E4M3FN", "layout": "nt"}, SMALL),
    ({"m": 40, "n": 72, "k": 72, "a": "bf16", "batch": (2, 3), "c": "bf16"}, {**SMALL, "stages": 2}),
    # Several tiles of each block, of two rows of instructions, one after the other in the same place.
    ({"m": 500, "n": 136, "k": 72, "a": "bf16", "c": "bf16"}, {**SMALL, "bm": 256, "buffers": 1}),
    # Three rows of tiles in clusters of two: one block has none in the last one.
    ({"m": 300, "n": 72, "k": 200, "a": "bf16", "c": "bf16"}, {**SMALL, "cluster": 2}),
    ({"m": 260, "n": 72, "k": 0, "a": "bf16"}, {**SMALL, "cluster": 2}),
    # Parts of K, some of them empty, or all; two tiles of each cluster; rows of C as columns; a batch; threads that store.
    ({"m": 130, "n": 72, "k": 500, "a": "bf16", "c": "bf16", "epilogue": (tw.bias("n"),)}, {**SMALL, "split": 3}),
    ({"m": 60, "n": 72, "k": 150, "a": "i8", "layout": "nt"}, {**SMALL, "split": 4}),
    ({"m": 130, "n": 71, "k": 200, "a": "bf16"}, {**SMALL, "split": 2}),
    ({"m": 300, "n": 136, "k": 260, "a": "bf16", "epilogue": (tw.gelu(),)}, {**SMALL, "bm": 256, "buffers": 1, "split": 2}),
    ({"m": 13, "n": 150, "k": 300, "a": "f16", "batch": (2,), "c": "f16"}, {"bm": 16, "bn": 128, "swapped": 1, "split": 2, "stages": 3}),
    ({"m": 40, "n": 72, "k": 0, "a": "bf16"}, {**SMALL, "split": 2}),
    # Steps of the last tiles, by 4 multiprocessors: 2 tiles in pieces of several blocks each; one of 14, with whole ones before;
    # clusters of two; rows of C as columns; two rows of instructions, and threads that store; no steps.
    ({"m": 130, "n": 60, "k": 1000, "a": "bf16"}, {**SMALL, "streamed": 1}),
    ({"m": 860, "n": 136, "k": 330, "a": "bf16", "c": "bf16", "epilogue": (tw.bias("n"),)}, {**SMALL, "bn": 128, "streamed": 1}),
    ({"m": 300, "n": 72, "k": 700, "a": "bf16", "c": "bf16"}, {**SMALL, "cluster": 2, "streamed": 1}),
    ({"m": 13, "n": 300, "k": 700, "a": "i8", "layout": "nt"}, {"bm": 16, "bn": 128, "swapped": 1, "streamed": 1}),
    ({"m": 500, "n": 71, "k": 390, "a": "bf16"}, {**SMALL, "bm": 256, "buffers": 1, "streamed": 1}),
    ({"m": 130, "n": 72, "k": 0, "a": "bf16"}, {**SMALL, "streamed": 1}),
    # Pairs of blocks that multiply together: three rows of tiles, of which one block has none in the last; several tiles of each pair;
    # every type and layout; a batch; steps of the last tiles; no steps.
    ({"m": 300, "n": 72, "k": 200, "a": "bf16", "c": "bf16", "epilogue": (tw.bias("m"), tw.relu())}, {**SMALL, "bn": 128, **PAIR}),
    ({"m": 500, "n": 200, "k": 136, "a": "f16", "layout": "nt"}, {**SMALL, **PAIR}),
    ({"m": 136, "n": 40, "k": 65, "a": "bf16", "layout": "tt", "beta": 1}, {**SMALL, "bn": 32, **PAIR}),
    ({"m": 260, "n": 72, "k": 136, "a": "bf16", "layout": "tn"}, {**SMALL, "bn": 128, **PAIR}),
    ({"m": 200, "n": 80, "k": 300, "a": "i8", "layout": "nt"}, {**SMALL, **PAIR}),
    ({"m": 144, "n": 300, "k": 150, "a": "f8E4M3FN", "layout": "tn"}, {**SMALL, "bn": 256, **PAIR}),
    ({"m": 136, "n": 72, "k": 52, "a": "f32", "tf32": True, "layout": "nn"}, {**SMALL, **PAIR}),
    ({"m": 140, "n": 72, "k": 72, "a": "bf16", "batch": (2, 3), "c": "bf16", "layout": "nt"}, {**SMALL, "stages": 2, **PAIR}),
    ({"m": 700, "n": 72, "k": 700, "a": "bf16", "c": "bf16", "layout": "nt"}, {**SMALL, **PAIR, "streamed": 1}),
    ({"m": 260, "n": 72, "k": 0, "a": "bf16", "layout": "nt"}, {**SMALL, **PAIR}),
    # Rows of C are columns of instructions: as few as 16, and more than a box has.
    ({"m": 13, "n": 150, "k": 100, "a": "bf16", "c": "bf16"}, {}),
    ({"m": 1, "n": 72, "k": 500, "a": "bf16", "layout": "nt", "epilogue": (tw.bias("n"), tw.residual("mn"))}, {}),
    ({"m": 70, "n": 72, "k": 64, "a": "i8", "layout": "tn"}, {"bm": 128, "bn": 128, "swapped": 1, "stages": 2}),
]  # fmt: skip


@each_case(CASES)
def test_numbers(case: dict[str, Any], parameters: dict[str, int]) -> None:
    spec = tw.MatmulSpec(**case)
    kernel = gpu.compile(spec, EMULATED, "tensor_memory", parameters)
    check(kernel, spec)
    assert all(aligned for aligned, _ in kernel._made)


def test_the_usual_sizes() -> None:
    spec = tw.MatmulSpec(m=256, n=512, k=256, a="bf16", epilogue=(tw.bias("n"), tw.relu()))
    assert gpu.compile(spec, EMULATED).metadata.schedule == "tensor_memory"
    check(gpu.compile(spec, EMULATED, parameters={"bn": 256}), spec)


def test_every_size_by_one_kernel_and_rows_that_are_not_aligned() -> None:
    kernel = gpu.compile(tw.MatmulSpec(m=None, n=None, k=None, a="bf16"), EMULATED, parameters=SMALL)
    for number, (m, n, k) in enumerate([(1, 1, 1), (128, 64, 64), (129, 8, 200)]):
        check(kernel, tw.MatmulSpec(m=m, n=n, k=k, a="bf16"), seed=number)
    check(kernel, tw.MatmulSpec(m=30, n=20, k=70, a="bf16"), aligned=False)
    for m, n, k in [(3, 4, 0), (0, 4, 5), (3, 0, 5)]:
        check(kernel, tw.MatmulSpec(m=m, n=n, k=k, a="bf16"))


def test_sizes_follow_the_shape() -> None:
    def chosen(m: int | None, n: int | None, k: int | None, a: str = "bf16", **given: int) -> Any:
        return sizes(tw.MatmulSpec(m=m, n=n, k=k, a=a, layout="nt"), SM_100A, given)

    large = chosen(8192, 8192, 8192)
    assert (large.bm, large.bn, large.bk, large.stages, large.buffers) == (128, 256, 64, 6, 2)
    assert (large.cluster, large.pair, large.split, large.streamed) == (2, True, 1, False)
    assert (chosen(8192, 8192, 8192, cluster=2).stages, chosen(8192, 8192, 8192, cluster=2, pair=1).stages) == (4, 6)
    assert (chosen(None, None, None).cluster, chosen(256, 256, 256).bn) == (1, 128)
    # Few tiles and a long K, which most multiprocessors share; and tiles that fill the chip in part.
    assert (chosen(256, 256, 65536).split, chosen(256, 256, 256).split) == (8, 1)
    assert 4096 // chosen(5, 4096, 4096).bn * chosen(5, 4096, 4096).split > 100
    assert chosen(1280, 4096, 32768).streamed
    assert not chosen(4096, 4096, 4096).streamed
    assert (chosen(5, 4096, 4096).swapped, chosen(5, 4096, 4096).bm) == (1, 16)
    assert chosen(8192, 8192, 8192, "f8E4M3FN").bk == 128
    for parameters, expected in (
        ({"bm": 256, "bn": 256}, "all of tensor memory"),
        ({"bm": 64}, "bm a multiple of 128"),
        ({"bn": 24}, "bn of 16"),
        ({"cluster": 2, "swapped": 1, "bm": 16, "bn": 128}, "cluster=2"),
        ({"stages": 1}, "at least 2"),
        ({"pair": 1}, "cluster=2, bm=128, and bn a multiple of 32"),
        ({"pair": 1, "cluster": 2, "bn": 48}, "bn a multiple of 32"),
        ({"pair": 1, "cluster": 2, "bm": 256, "buffers": 1}, "bm=128"),
        ({"split": 2, "cluster": 2}, "nothing is split or swapped"),
        ({"split": 2, "streamed": 1}, "no split"),
        ({"split": 9}, "at most 8"),
    ):
        with pytest.raises(ScheduleError, match=expected):
            sizes(tw.MatmulSpec(m=None, n=None, k=None, a="bf16", layout="nt"), SM_100A, parameters)


def test_dynamic_extents_choose_by_the_call() -> None:
    spec = tw.MatmulSpec(m=None, n=None, k=None, a="bf16", c="bf16", layout="nt")

    def chosen(m: int, n: int, k: int) -> Any:
        return sizes(spec, SM_100A, of_call(spec, SM_100A, spec.sized({"m": m, "n": n, "k": k})))

    assert (chosen(5, 4096, 4096).swapped, chosen(5, 4096, 4096).bm) == (1, 16)
    assert chosen(64, 512, 16384).split == 4
    assert (chosen(8192, 8192, 8192).pair, chosen(8192, 8192, 8192).bn) == (1, 256)
    assert of_call(spec, SM_100A, spec.sized({"m": 0, "n": 8, "k": 8})) == {}
    kernel = gpu.compile(spec, EMULATED)
    called = spec.sized({"m": 3, "n": 72, "k": 520})
    check(kernel, called)
    other = kernel.of_call(called)
    assert other is not kernel
    assert other.metadata.parameters["swapped"]


def test_an_operand_across_k_is_whole_swizzle_patterns() -> None:
    """PTX describes matrices of whole swizzle atoms alone: 128 bytes along M or N."""
    for types, wide in (("bf16", 64), ("i8", 128)):
        spec = tw.MatmulSpec(m=5, n=512, k=512, a=types, layout="tn")
        assert sizes(spec, SM_100A, {}).bm % wide == 0
        with pytest.raises(ScheduleError, match="bm=16, and A's neighbors lie along it"):
            sizes(spec, SM_100A, {"bm": 16, "bn": 128, "swapped": 1})
        with pytest.raises(ScheduleError, match=f"multiple of {2 * wide}, .* in each block"):
            sizes(spec, SM_100A, {"bm": 128, "bn": wide, **PAIR})
        with pytest.raises(ScheduleError, match="bn=48, and B's neighbors lie along it"):
            sizes(spec, SM_100A, {"bm": 128, "bn": 48})


def test_what_instructions_do_not_take_is_for_another_strategy() -> None:
    spec = tw.MatmulSpec(m=64, n=64, k=64, a="bf16", deterministic=True)
    assert gpu.compile(spec, SM_100A).metadata.schedule == "mma_sync"
    with pytest.raises(ScheduleError, match="mma_sync"):
        gpu.compile(spec, SM_100A, "tensor_memory")
    with pytest.raises(ScheduleError, match="warpgroup"):
        gpu.compile(tw.MatmulSpec(m=64, n=64, k=64, a="bf16"), SM_90A, "tensor_memory")


def test_another_swizzle_gives_wrong_numbers() -> None:
    spec = tw.MatmulSpec(m=128, n=64, k=64, a="f32", tf32=True)
    kernel = gpu.compile(spec, EMULATED, "tensor_memory", SMALL)
    check(kernel, spec)
    kernel._stages.boxes = tuple(replace(box, atom=16) for box in kernel._stages.boxes)
    with pytest.raises(AssertionError):
        check(kernel, spec)


BUSY = (tw.bias("n"), tw.gelu(), tw.residual("mn"))
SASS: list[tuple[dict[str, Any], dict[str, int], dict[str, int]]] = [
    ({"a": "bf16"}, {"bn": 256}, {"UTCHMMA": 4, "UTMALDG": 5, "LDTM": 2, "UTMASTG": 2}),
    ({"a": "f16", "c": "f16"}, {"bn": 256, "cluster": 2}, {"UTCHMMA": 4, "LDTM": 4, "UTMASTG": 2, "STSM": 8}),
    ({"a": "bf16", "c": "bf16"}, {"bm": 64, "bn": 128, "swapped": 1}, {"UTCHMMA": 4, "UTMASTG": 2, "STSM": 8}),
    ({"a": "bf16", "c": "bf16"}, {"bn": 256, **PAIR}, {"UTCHMMA": 4, "UTMASTG": 2, "STSM": 8}),
    ({"a": "bf16", "c": "bf16"}, {"bn": 256, **PAIR, "streamed": 1}, {"UTCHMMA": 4, "UTMASTG": 2}),
    ({"a": "bf16", "c": "bf16"}, {"bn": 256, "streamed": 1}, {"UTCHMMA": 4, "UTMASTG": 2}),
    ({"a": "bf16"}, {"bn": 128, "split": 4}, {"UTCHMMA": 4, "UTMASTG": 1}),
    ({"a": "f32", "tf32": True}, {}, {"UTCHMMA": 4}),
    ({"a": "f8E4M3FN", "c": "bf16"}, {}, {"UTCQMMA": 4}),
    ({"a": "i8", "epilogue": ()}, {}, {"UTCIMMA": 4}),
]  # fmt: skip


@pytest.mark.parametrize(("case", "parameters", "counts"), SASS, ids=lambda each: "-".join(map(str, each)))
def test_the_assembler_spills_no_register(
    case: dict[str, Any], parameters: dict[str, int], counts: dict[str, int]
) -> None:
    if tool("ptxas") is None:
        pytest.skip("there is no ptxas")
    kernel = gpu.compile(
        tw.MatmulSpec(**{"m": 512, "n": 512, "k": 512, "epilogue": BUSY, **case}),
        SM_100A,
        "tensor_memory",
        parameters,
    )
    made = kernel.assembled()
    assert (made.spill_bytes, made.warnings) == (0, ())
    if tool("nvdisasm") is None:
        pytest.skip("there is no nvdisasm to look for UTCHMMA, UTMALDG, LDTM and UTMASTG with")
    text = gpu_code.disassembly(made.cubin)
    found = gpu_code.opcodes(text)
    assert ("UTCHMMA.2CTA" in text, "UTMALDG.2D.2CTA" in text) == (bool(parameters.get("pair")),) * 2
    assert {name: found[name] for name in counts} == counts
    # One thread begins them, and the assembler knows it: no loop over those of a warp that might.
    assert found["UTCBAR"] == 2
    assert found["UTMALDG"]
    assert found["UTMASTG"]
