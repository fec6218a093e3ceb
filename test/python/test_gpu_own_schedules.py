# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schedules of one's own for GPUs: what they decide is what is run, and what they get wrong is an error with its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from own_schedules import replaced_child
from tilewright.cli import main
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.steps import block_tile, sharing

SPEC = tw.MatmulSpec(70, 40, 48, a="bf16", epilogue=(tw.bias("n"),))
Decide = Callable[[steps.Handle], object]


def deciding(decide: Decide, bm: int = 32, bn: int = 32, bk: int = 32) -> Callable[..., ir.Module]:
    """A schedule for such tiles, which `decide` shares."""

    def own(spec: tw.MatmulSpec, target: tw.GpuTarget, sizes: object) -> ir.Module:
        with steps.script() as script:
            decide(block_tile.tile(script, spec, bm, bn, bk))
        return script.module

    return own


def among_warps(blocks: steps.Handle, stages: int = 2) -> None:
    sharing.pipeline(blocks, stages)
    sharing.share_among_warps(blocks, rows=16, columns=16, instructions="mma_sync")


def check(kernel: tw.Kernel, spec: tw.MatmulSpec = SPEC) -> None:
    """Checks a call."""
    rng = np.random.default_rng(0)
    kinds = [tw.dtypes.to_numpy(each) for each in (spec.a_type, spec.b_type, spec.c_type)]
    shapes = (spec.a_shape, spec.b_shape, (spec.n,))
    operands = [rng.uniform(-1, 1, shape).astype(kind) for shape, kind in zip(shapes, kinds, strict=True)]
    difference = np.abs(kernel(*operands) - tw.reference(spec, *operands))
    assert (difference <= tw.error_bound(spec, *operands)).all()


def failure(schedule: Callable[..., ir.Module], target: str = "sm_90a") -> tw.ScheduleError:
    """The error of compiling under a schedule."""
    with pytest.raises(tw.ScheduleError) as caught:
        tw.compile(SPEC, target=tw.targets.gpu(target).emulated(), schedule=schedule, cache=False)
    return caught.value


def test_what_is_decided_is_run() -> None:
    kernel = tw.compile(SPEC, target=tw.targets.gpu("sm_80").emulated(), schedule=deciding(among_warps), cache=False)
    check(kernel)
    decided = {"bm": 32, "bn": 32, "bk": 32, "wm": 16, "wn": 16, "stages": 2}
    assert kernel.metadata.parameters == decided
    assert kernel.metadata.threads == 4 * 32
    assert kernel.asm["ptx"].count("cp.async.wait_group") == 2
    assert "transform.tilewright.pipeline" in kernel.asm["schedule"]
    assert "#tilewright.pipeline<stages = 2>" in kernel.asm["scheduled"]


def test_tensor_memory_of_ones_own() -> None:
    def decide(blocks: steps.Handle) -> None:
        sharing.specialize_warps(blocks, buffers=2)
        sharing.pipeline(blocks, 3)

    schedule = deciding(decide, 128, 64, 32)
    kernel = tw.compile(SPEC, target=tw.targets.gpu("sm_100a").emulated(), schedule=schedule, cache=False)
    check(kernel)
    assert (kernel.metadata.parameters["buffers"], kernel.metadata.parameters["stages"]) == (2, 3)
    assert "at least 2" in str(
        failure(deciding(lambda blocks: sharing.specialize_warps(blocks, buffers=2), 128), "sm_100a")
    )


def test_warp_groups_of_ones_own() -> None:
    def decide(blocks: steps.Handle) -> None:
        sharing.specialize_warp_groups(blocks, consumers=1, cluster=2)
        sharing.pipeline(blocks, 3)

    schedule = deciding(decide, 64, 64, 64)
    kernel = tw.compile(SPEC, target=tw.targets.gpu("sm_90a").emulated(), schedule=schedule, cache=False)
    check(kernel)
    assert kernel.metadata.parameters["cluster"] == 2
    assert kernel.metadata.threads == 2 * 128
    kind = tw.dtypes.to_numpy(SPEC.a_type)
    wide = np.zeros((70, 49), kind)
    with pytest.raises(tw.OperandError, match="multiples of 16 bytes"):
        kernel(wide[:, :48], np.zeros((48, 40), kind), np.zeros(40, np.float32))


def test_a_file_that_was_printed_and_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.delenv("TILEWRIGHT_NO_CACHE", raising=False)
    with ir.Context():
        printed = str(deciding(among_warps)(SPEC, None, None))
    file = tmp_path / "own.mlir"
    file.write_text(printed)
    first = tw.compile(SPEC, target="sm_80", schedule=str(file))
    assert not first.metadata.cached
    assert tw.compile(SPEC, target="sm_80", schedule=str(file)).metadata.cached
    file.write_text(printed.replace("stages 2", "stages 3"))
    other = tw.compile(SPEC, target="sm_80", schedule=str(file))
    assert not other.metadata.cached
    assert (first.metadata.parameters["stages"], other.metadata.parameters["stages"]) == (2, 3)


@pytest.mark.parametrize(
    ("decide", "target", "what"),
    [
        (lambda blocks: None, "sm_90a", "does not say how the tile of a block is shared"),
        (
            lambda blocks: sharing.share_among_threads(blocks, rows=5, columns=4),
            "sm_90a",
            "no multiple of parts of 5x4",
        ),
        (
            lambda blocks: sharing.share_among_warps(blocks, rows=8, columns=16, instructions="mma_sync"),
            "sm_90a",
            "warps of 8x16 in a tile of 32x32x32",
        ),
        (
            lambda blocks: sharing.share_among_warps(blocks, rows=16, columns=16, instructions="matrix_cores"),
            "sm_90a",
            "matrix_cores cannot do 70x40x48 bf16",
        ),
        (lambda blocks: sharing.specialize_warp_groups(blocks, consumers=3, pingpong=True), "sm_90a", "pingpong"),
        (lambda blocks: among_warps(blocks, 2**31), "sm_90a", "a pipeline of 2147483648 stages"),
    ],
    ids=["nothing", "parts", "warps", "another target's", "clauses", "stages"],
)
def test_a_wrong_decision_is_an_error_at_its_line(decide: Decide, target: str, what: str) -> None:
    error = failure(deciding(decide), target)
    assert what in error.what
    assert error.file == __file__
    assert error.line
    assert "\n" not in str(error)


def test_more_shared_memory_than_there_is() -> None:
    def decide(blocks: steps.Handle) -> None:
        sharing.share_among_warps(blocks, rows=64, columns=32, instructions="mma_sync")
        sharing.pipeline(blocks, 12)

    error = failure(deciding(decide, 128, 128, 64))
    assert "bytes of shared memory" in error.what
    assert error.transform_op == "transform.tilewright.share_among_warps"
    assert "at least 1280000000" in failure(deciding(among_warps, 32, 32, 10**7 // 16 * 16)).what


def test_the_table_of_one_schedule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "own.mlir"
    with ir.Context():
        file.write_text(str(deciding(among_warps)(SPEC, None, None)))
    arguments = ("--target", "sm_80", "--dtype", "bf16", "--shape", "8x8x8", "--schedule", str(file), "--json", "-")
    assert main(["bench", "static", *arguments]) == 0
    (cell,) = json.loads(capsys.readouterr().out)
    assert (cell["strategy"], cell["right"]) == (str(file), True)
    assert main(["bench", "static", "--target", "x86-64-v3", "--schedule", str(file)]) == 2


def test_a_child_that_dies_is_an_error_with_a_reproducer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced_child(monkeypatch, tmp_path, "os.kill(os.getpid(), signal.SIGKILL)", stage="threads")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    with pytest.raises(tw.LoweringError, match="MLIR crashed with SIGKILL") as caught:
        tw.compile(SPEC, target="sm_80", schedule=deciding(among_warps), cache=False)
    folder = caught.value.reproducer
    assert caught.value.stage == "threads"
    assert folder is not None
    assert "--target sm_80 --schedule schedule.mlir" in (Path(folder) / "README.txt").read_text()
