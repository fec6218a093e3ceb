# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions on GPUs: numbers under the emulator and on Vulkan, what is copied how, the launches of a call, and errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from gpu_kernels import array
from tilewright.emit.gpu import tool
from tilewright.errors import OperandError, ScheduleError, SpecError
from tilewright.runtime import gpu, gpu_convolutions
from tilewright.schedules import steps
from tilewright.schedules.steps import block_tile, sharing
from tilewright.targets import amd, nvidia

SM_80, SM_90A, SM_100A = nvidia.ROWS
GFX942, GFX1100 = amd.ROWS
TILE = {"bm": 32, "bn": 32, "wm": 16, "wn": 16}
THREADS = {"bm": 32, "bn": 16, "rows": 2, "columns": 2}
BOTH: dict[str, Any] = {"padding": 1, "epilogue": (tw.bias(), tw.residual(), tw.scale_by(""))}
CASES: list[tuple[Any, str, dict[str, Any]]] = [
    (SM_80, "mma_sync", {"shape": (2, 7, 9, 8, 20, 3, 3), "a": "bf16", **BOTH}),
    (SM_80, "mma_sync", {"shape": (2, 7, 9, 8, 20, 3, 3), "a": "bf16", "filter": "ohwi", "stride": (2, 1), "dilation": (1, 2),
                         "padding": ((1, 2), (0, 3))}),
    (SM_80, "mma_sync", {"shape": (1, 9, 9, 3, 17, 3, 3), "a": "f16", "c": "f16", "padding": "same", "stride": 2}),
    (SM_80, "mma_sync", {"shape": (2, 6, 5, 16, 24, 3, 2), "a": "bf16", "groups": 2, **BOTH}),
    (SM_80, "mma_sync", {"shape": (2, 6, 5, 16, 24, 3, 2), "a": "bf16", "groups": 2, "layout": "nchw", **BOTH}),
    (SM_80, "mma_sync", {"shape": (1, 7, 6, 32, 16, 3, 3), "a": "u8", "b": "i8", "padding": 1}),
    (SM_80, "mma_sync", {"shape": (3, 5, 7, 16, 17, 1, 1), "a": "bf16", "stride": 2}),
    (SM_80, "simt", {"shape": (1, 7, 6, 4, 6, 3, 3), "padding": ((0, 4), (3, 0))}),
    (SM_80, "simt", {"shape": (2, 4, 5, 6, 6, 2, 3), "layout": "nchw", "groups": 6, "padding": 1, "epilogue": (tw.bias(),)}),
    (SM_90A, "warpgroup", {"shape": (2, 4, 5, 16, 24, 1, 1), "a": "bf16", "groups": 2, "epilogue": (tw.bias(), tw.relu())}),
    (SM_90A, "mma_sync", {"shape": (1, 4, 6, 8, 8, 2, 2), "a": "bf16", "layout": "nchw"}),
    (SM_90A, "warpgroup", {"shape": (3, 7, 9, 64, 20, 3, 3), "a": "bf16", **BOTH}),
    (SM_90A, "warpgroup", {"shape": (2, 9, 8, 128, 48, 3, 2), "a": "f16", "filter": "ohwi", "stride": (2, 1), "dilation": (1, 3),
                           "padding": ((0, 1), (3, 0)), "groups": 2}),
    (SM_90A, "warpgroup", {"shape": (2, 5, 7, 128, 24, 3, 3), "a": "u8", "b": "i8", "filter": "ohwi", "padding": "same"}),
    (SM_90A, "warpgroup", {"shape": (2, 7, 7, 64, 24, 1, 1), "a": "bf16", "stride": 2}),
    (SM_100A, "tensor_memory", {"shape": (3, 7, 9, 64, 20, 3, 3), "a": "bf16", "stride": (1, 2), **BOTH}),
    (GFX942, "matrix_cores", {"shape": (2, 7, 9, 8, 20, 3, 3), "a": "bf16", **BOTH}),
    (GFX1100, "matrix_cores", {"shape": (1, 7, 9, 5, 20, 3, 3), "a": "f16", "stride": 2}),
]  # fmt: skip


def made(fields: dict[str, Any]) -> tw.Conv2dSpec:
    return tw.Conv2dSpec(*fields["shape"], **{name: each for name, each in fields.items() if name != "shape"})


def operands_of(spec: tw.Conv2dSpec) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [np.array(array(each, rng), order="C") for each in spec.operands]


def is_right(spec: tw.Conv2dSpec, got: np.ndarray, operands: list[np.ndarray]) -> bool:
    expected, bound = tw.reference(spec, *operands), tw.error_bound(spec, *operands)
    return bool((np.abs(got.astype(np.float64) - expected) <= bound).all())


@pytest.mark.parametrize(
    ("target", "strategy", "fields"), CASES, ids=[f"{each[0].name}-{made(each[2])}" for each in CASES]
)
def test_numbers(target: Any, strategy: str, fields: dict[str, Any]) -> None:
    spec = made(fields)
    parameters = {"simt": THREADS, "warpgroup": None, "tensor_memory": None}.get(strategy, TILE)
    kernel = tw.compile(spec, target=target.emulated(), parameters=parameters)
    assert kernel.metadata.schedule == strategy
    assert kernel.spec == spec
    operands = operands_of(spec)
    out = np.empty(spec.result.shape, tw.dtypes.to_numpy(spec.result.type))
    assert kernel(*operands, out=out, seed=3) is out
    assert is_right(spec, out, operands)


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_vulkan(layout: str) -> None:
    pytest.importorskip("vulkan")
    spec = tw.Conv2dSpec(2, 7, 9, 6, 4, 3, 3, a="f16", padding=1, groups=2, layout=layout, epilogue=(tw.bias(),))
    operands = operands_of(spec)
    assert is_right(spec, tw.compile(spec, target="vulkan")(*operands), operands)


def test_channels_are_copied_ahead_of_time_and_nothing_spills() -> None:
    spec = tw.Conv2dSpec(8, 56, 56, 64, 64, 3, 3, a="bf16", padding=1)
    kernel = gpu.compile(spec, SM_80)
    # Of the images as of the filters: none is loaded into registers on its way.
    assert "ld.global" not in kernel.asm["ptx"]
    assert kernel.asm["ptx"].count("cp.async.cg.shared.global") == 12
    if tool("ptxas"):
        assert kernel.assembled().spill_bytes == kernel.assembled(aligned=False).spill_bytes == 0


BOXES = {"shape": (3, 7, 6, 64, 24, 3, 3), "a": "bf16", "padding": 1}


@pytest.mark.parametrize(
    "sizes",
    [
        {"bm": 128, "bn": 64, "cluster": 2},
        {"bm": 128, "bn": 64, "beside": 2, "cluster": 1},
        {"bm": 128, "bn": 64, "split": 2, "cluster": 1},
        {"bm": 128, "bn": 64, "streamed": 1, "cluster": 1},
        {"bm": 16, "bn": 64, "swapped": 1, "cluster": 1, "consumers": 1},
        {"bm": 64, "bn": 64, "pingpong": 1, "consumers": 2, "cluster": 1},
    ],
    ids=str,
)
def test_patches_are_copied_in_boxes(sizes: dict[str, int]) -> None:
    spec = made(BOXES)
    kernel = tw.compile(spec, target=SM_90A.emulated(), schedule="warpgroup", parameters=sizes)
    # A has boxes of images, B those of a matrix.
    assert {"4d", "2d"} == set(re.findall(r"cp\.async\.bulk\.tensor\.(\dd)\.shared", kernel.asm["ptx"]))
    assert "im2col" in kernel.asm["ptx"]
    operands = operands_of(spec)
    assert is_right(spec, kernel(*operands, seed=1), operands)


def test_boxes_behind_the_last_element_of_a_filter_are_zeros() -> None:
    """A step has two elements of a filter, which has three: in place of a fourth, the map would find what the image has below."""
    spec = tw.Conv2dSpec(1, 4, 6, 64, 16, 1, 3, a="bf16")
    kernel = tw.compile(spec, target=SM_90A.emulated(), schedule="warpgroup", parameters={"bk": 128, "split": 1})
    x, w = operands_of(spec)
    x[0, 3] = np.inf
    assert np.isfinite(kernel(x, w)[0, :3]).all()
    assert not np.isfinite(kernel(x, w)[0, 3]).any()


def test_what_no_map_of_images_describes_is_copied_in_pieces() -> None:
    fields = {"shape": (1, 6, 5, 64, 8, 2, 2), "a": "bf16"}
    assert gpu.compile(made(fields), SM_90A).metadata.schedule == "warpgroup"
    for other in (
        {"shape": (1, 6, 5, 32, 8, 2, 2)},  # A row of a box has 64 channels.
        {"shape": (1, 6, 5, 72, 8, 2, 2)},
        {"padding": 129},
        {"padding": ((0, 0), (0, 130))},
        {"dilation": 256, "padding": 128},
        {"stride": 9, "padding": 4},
    ):
        assert gpu.compile(made(fields | other), SM_90A).metadata.schedule == "mma_sync", other
    spec = made(fields | {"stride": (1, 8), "padding": ((0, 0), (126, 100)), "dilation": (1, 200)})
    operands = operands_of(spec)
    kernel = tw.compile(spec, target=SM_90A.emulated())
    assert kernel.metadata.schedule == "warpgroup"
    assert is_right(spec, kernel(*operands), operands)


def test_boxes_of_patches_from_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TILEWRIGHT_NO_CACHE", raising=False)
    spec = made(BOXES)
    operands = operands_of(spec)
    for cached in (False, True):
        kernel = tw.compile(spec, target=SM_90A.emulated())
        assert (kernel.metadata.cached, kernel.metadata.schedule) == (cached, "warpgroup")
        assert is_right(spec, kernel(*operands), operands)


@pytest.mark.parametrize("target", [SM_90A, SM_100A], ids=lambda each: each.name)
def test_boxes_of_patches_spill_nothing(target: Any) -> None:
    if not tool("ptxas"):
        pytest.skip("there is no ptxas (make setup-gpu installs it)")
    for stride in (1, 2):
        spec = tw.Conv2dSpec(8, 56, 56, 64, 64, 3, 3, a="bf16", c="bf16", padding=1, stride=stride)
        assert gpu.compile(spec, target).assembled().spill_bytes == 0


def test_images_beyond_the_blocks_of_a_grid_take_several_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tw.Conv2dSpec(5, 4, 4, 8, 8, 3, 3, a="bf16", groups=1, padding=1)
    kernel, operands = tw.compile(spec, target=SM_80.emulated(), parameters=TILE), operands_of(spec)
    monkeypatch.setattr(gpu_convolutions, "MOST_BLOCKS", 33)
    out = np.empty(spec.result.shape, np.float32)
    assert [each.m for each, _ in gpu_convolutions.products(spec, [*operands, out])] == [32, 32, 16]
    assert is_right(spec, kernel(*operands), operands)
    with pytest.raises(SpecError, match="at most 99"):
        gpu_convolutions.check(tw.Conv2dSpec(1, 10, 10, 1, 1, 1, 1), rows=3)


def test_a_kernel_from_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TILEWRIGHT_NO_CACHE", raising=False)
    spec = tw.Conv2dSpec(1, 5, 4, 8, 8, 3, 3, a="bf16", padding=1)
    operands = operands_of(spec)
    for cached in (False, True):
        kernel = tw.compile(spec, target=SM_80.emulated(), parameters=TILE)
        assert kernel.metadata.cached == cached
        assert is_right(spec, kernel(*operands), operands)
        assert "#tilewright.patches" in kernel.asm["payload"]


def schedule(spec: tw.MatmulSpec, target: tw.GpuTarget, sizes: Any) -> Any:
    with steps.script() as script:
        blocks = block_tile.tile(script, spec, bm=16, bn=32, bk=16)
        sharing.share_among_warps(blocks, rows=16, columns=16, instructions="mma_sync")
        sharing.pipeline(blocks, stages=2)
    return script.module


def test_a_schedule_of_ones_own() -> None:
    spec = tw.Conv2dSpec(1, 5, 4, 8, 8, 3, 3, a="bf16", padding=1)
    kernel, operands = tw.compile(spec, target=SM_80.emulated(), schedule=schedule), operands_of(spec)
    assert kernel.metadata.parameters["bm"] == 16
    assert is_right(spec, kernel(*operands), operands)


def test_what_is_refused() -> None:
    spec = tw.Conv2dSpec(1, 5, 4, 8, 8, 3, 3, a="bf16")
    with pytest.raises(SpecError, match="b_packed on a GPU"):
        tw.compile(tw.Conv2dSpec(1, 5, 4, 8, 8, 3, 3, w_packed=True), target=SM_80)
    with pytest.raises(ScheduleError, match="one of mma_sync, simt"):
        tw.compile(spec, target=SM_90A, schedule="warpgroup")
    with pytest.raises(SpecError, match="a GPU has its own"):
        tw.compile(spec, target=SM_80, threads=2)
    kernel, (x, w) = tw.compile(spec, target=SM_80.emulated(), parameters=TILE), operands_of(spec)
    with pytest.raises(OperandError, match="without gaps"):
        kernel(np.concatenate([x, x], axis=2)[:, :, ::2], w)
    with pytest.raises(OperandError, match=r"shape \(1, 5, 4, 7\)"):
        kernel(x[..., :7], w)
    with pytest.raises(OperandError, match="without gaps"):
        kernel(x, w, out=np.empty((1, 3, 4, 8), np.float32)[:, :, ::2])
