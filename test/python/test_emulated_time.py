# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model of a kernel's time: small kernels whose times follow from its rates, and our own in the order they must have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from tilewright import ptx
from tilewright.cli import main
from tilewright.runtime import emulated_time, fiber_calls, gpu
from tilewright.runtime.emulated_gpu import EVENT, EmulatedGpuKernel, EmulationError
from tilewright.runtime.emulated_time import Estimate
from tilewright.runtime.launches import Launch
from tilewright.targets import nvidia

HEAD = """.version 8.3
.target sm_90a
.address_size 64
.shared .align 1024 .b8 memory[32768];
.entry k() {
  .reg .pred %p;
  .reg .b32 %a, %i, %r<4>;
  .reg .b64 %w;
  .reg .f32 %f<128>;
  mov.u32 %a, memory;
  mov.u32 %i, 0;
  mov.u64 %w, 0;
again:
  BODY
  add.u32 %i, %i, 1; setp.lt.u32 %p, %i, COUNT; @%p bra again;
  END
  ret;
}
"""
SUMS = "{" + ", ".join(f"%f{each}" for each in range(128)) + "}"
PRODUCT = f"wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {SUMS}, %w, %w, 1, 1, 1, 0, 0; "
COLUMNS_A_CYCLE = 2


def timed(body: str, count: int, end: str = "", threads: int = 128, **sizes: int) -> Estimate:
    """The estimate for a loop."""
    text = HEAD.replace("BODY", body).replace("COUNT", str(count)).replace("END", end)
    kernel = EmulatedGpuKernel(ptx.translated(text, counts=True).llvmir, "k")
    events, counts = kernel.trace(Launch((1, 1, 1), (threads, 1, 1)))
    return emulated_time.estimate(
        events, counts, warps=threads // 32, blocks=sizes.get("blocks", 1), cluster=1, resident=sizes.get("resident", 1)
    )


def test_products_take_the_cycles_of_the_tensor_cores() -> None:
    end = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
    found = timed("wgmma.fence.sync.aligned; " + PRODUCT, 200, end)
    least = 200 * 256 / COLUMNS_A_CYCLE
    assert least <= found.cycles <= 1.05 * least
    assert found.busy["tensor cores"] > 0.95
    # Each waited for, the cores stand still meanwhile; two warp groups fill each other's gaps, but halve the cores.
    waiting = timed("wgmma.fence.sync.aligned; " + PRODUCT + end, 200)
    assert waiting.cycles > 1.3 * least
    both = timed("wgmma.fence.sync.aligned; " + PRODUCT + end, 200, threads=256)
    assert 2 * least <= both.cycles < 1.9 * waiting.cycles


def test_bank_conflicts_take_their_passes() -> None:
    times = []
    for pitch in (4, 8, 128):
        body = f"mov.u32 %r0, %laneid; mad.lo.u32 %r0, %r0, {pitch}, %a; " + "st.shared.b32 [%r0], %i; " * 40
        times.append(timed(body, 20).cycles)
    stores = 4 * 40 * 20
    assert 0.99 * stores <= times[0] < 1.5 * stores
    assert 1.99 * stores <= times[1] < 2.5 * stores
    assert 31.9 * stores <= times[2] < 33 * stores


def test_rounds_of_blocks_and_blocks_that_share_a_multiprocessor() -> None:
    body = "bar.sync 0; mov.u32 %r0, %r1; " * 10
    one = timed(body, 50).cycles
    assert timed(body, 50, blocks=emulated_time.PROCESSORS).cycles == one
    assert timed(body, 50, blocks=emulated_time.PROCESSORS + 1).cycles == 2 * one
    shared = timed(body, 50, blocks=2 * emulated_time.PROCESSORS, resident=2).cycles
    assert one <= shared < 1.5 * one


def test_a_meeting_that_only_others_come_to_is_an_error() -> None:
    """The arrivals of a trace are those of first threads."""
    events = np.array([(0, 12, 7, 0), (1, 12, 8, 0), (0, 11, 8, 0), (1, 11, 7, 0)], EVENT)
    with pytest.raises(EmulationError, match="wait for what the trace does not have"):
        emulated_time.estimate(events, [], warps=2, blocks=1, cluster=1)


def own(parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> float:
    """Cycles of our own kernel for a product with a deep sum."""
    found: list[float] = []

    def traced(self: EmulatedGpuKernel, sizes: Launch, *arguments: Any, **_: Any) -> None:
        events, counts = self.trace(sizes, *arguments)
        warps = sizes.block[0] * sizes.block[1] * sizes.block[2] // 32
        blocks, cluster = int(np.prod(sizes.grid)), int(np.prod(sizes.cluster))
        found.append(emulated_time.estimate(events, counts, warps=warps, blocks=blocks, cluster=cluster).cycles)

    monkeypatch.setattr(fiber_calls, "as_nvvm", lambda stages: ptx.translated(stages.texts["ptx"], counts=True).llvmir)
    monkeypatch.setattr(EmulatedGpuKernel, "__call__", traced)
    spec = tw.MatmulSpec(m=128, n=256, k=1024, a="bf16", c="bf16")
    kernel = gpu.compile(spec, nvidia.ROWS[1].emulated(), parameters=parameters)
    kernel(np.zeros((128, 1024), ml_dtypes.bfloat16), np.zeros((1024, 256), ml_dtypes.bfloat16))
    return found[-1]


def test_our_own_sizes_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """More slots hide the copies."""
    sizes = {"bm": 128, "bn": 256, "cluster": 1}
    two, three, four = (own({**sizes, "stages": stages}, monkeypatch) for stages in (2, 3, 4))
    assert two > 1.2 * three > three >= four
    least = 1024 // 16 * 2 * 256 / COLUMNS_A_CYCLE
    assert least < four < 1.25 * least


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(HEAD.replace("BODY", "bar.sync 0;").replace("COUNT", "9").replace("END", ""))
    assert main(["emulate", str(file), "--time", "--grid", "400"]) == 0
    said = capsys.readouterr().out
    assert "k: an estimated" in said
    assert "busy: tensor cores 0%" in said
    example = Path(__file__).parents[2] / "examples" / "29_emulate_kernel.ll"
    assert main(["emulate", str(example), "--time"]) == 2
    assert "its time cannot be estimated" in capsys.readouterr().err
