# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels are checked before they are returned: wrong results, a crash and an endless loop are the schedule's error."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, cast

import pytest
import tilewright as tw
from handmade import compiled, entry
from own_schedules import MATCH, SPEC, written
from tilewright.cli import main
from tilewright.emit import child
from tilewright.errors import UnverifiedWarning, WrongResultError
from tilewright.runtime import verification
from tilewright.runtime.emulators import find
from tilewright.runtime.runners import Runner
from tilewright.targets import registry

# K is padded from 8 to 9 with ones, and every sum is larger by one.
WRONG = (
    "%p, %q, %z = transform.structured.pad %m pad_to_multiple_of [3] {padding_values = [1.0 : f32, 1.0 : f32, 0.0 : f32], "
    "padding_dimensions = [2]} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)"
)


@pytest.fixture(autouse=True)
def strict():
    """Makes an error of every warning, so that nothing counts as verified that was not."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnverifiedWarning)
        yield


def test_wrong_numbers(tmp_path):
    path = written(tmp_path / "own.mlir", MATCH, WRONG)
    with pytest.raises(
        tw.ScheduleError, match=r"16x32x8 f32 nn: C\[\d+, \d+\] = .* is off by 1, .* times its bound"
    ) as caught:
        tw.compile(SPEC, schedule=path, verify=True)
    assert type(caught.value) is WrongResultError
    assert str(caught.value).startswith(f"{path}: ")
    assert "512 of 512 elements are wrong; expected " in str(caught.value)
    assert caught.value.remedy
    # From the cache too; and only when asked.
    with pytest.raises(WrongResultError):
        tw.compile(SPEC, schedule=path, verify=True)
    assert tw.compile(SPEC, schedule=path).metadata.cached


@pytest.mark.parametrize(
    "spec",
    [
        SPEC,
        replace(SPEC, b_packed=True),
        tw.MatmulSpec(None, 32, tw.Dim(multiple=8), a="bf16", beta=1),
        tw.MatmulSpec(5, 16, 7, a="u8", b="i8", epilogue=(tw.dequantize(0.01), tw.gelu()), batch=(None,)),
        tw.MatmulSpec(0, 3, 4),
    ],
    ids=str,
)
def test_right_numbers(spec):
    tw.compile(spec, verify=True)


def test_right_numbers_under_a_users_schedule(tmp_path):
    tw.compile(replace(SPEC, m=None), schedule=written(tmp_path / "own.mlir", MATCH), verify=True, cache=False)


def test_on_an_emulator(tmp_path):
    try:
        find(registry.get("neoverse-n1"))
    except tw.TargetError as error:
        pytest.skip(str(error))
    right, wrong = (written(tmp_path / f"{len(ops)}.mlir", *ops) for ops in ((MATCH,), (MATCH, WRONG)))
    tw.compile(SPEC, "neoverse-n1", schedule=right, verify=True, cache=False)
    with pytest.raises(WrongResultError):
        tw.compile(SPEC, "neoverse-n1", schedule=wrong, verify=True, cache=False)


def verify(object_: bytes = b"") -> None:
    facts = verification._facts(tw.targets.resolve("host"), "own.mlir", 1)
    verification.verify(object_, SPEC, tw.targets.resolve("host"), facts, None, Runner("host"))


def test_a_kernel_that_crashes():
    with pytest.raises(WrongResultError, match=r"own\.mlir: the kernel crashed with SIG"):
        verify(compiled(entry("call void @llvm.trap()\nret i32 0", "declare void @llvm.trap()")))


@pytest.mark.parametrize("stage", ["call", "comparison", None])
def test_one_that_takes_too_long(monkeypatch, stage):
    # Waiting for it would take as long as the limit.
    def ask(*_: object) -> dict[str, Any]:
        raise child.EndedError("took more than 60 s", stage or "payload", "")

    monkeypatch.setattr(child, "ask", ask)
    if stage == "call":
        with pytest.raises(WrongResultError, match="the kernel took more than 60 s"):
            verify()
    else:
        with pytest.warns(UnverifiedWarning, match="not verified: the comparison took more than 60 s"):
            verify()


def test_no_memory(monkeypatch):
    monkeypatch.setattr(child, "ask", lambda *_: {"unverified": "out of memory: 64 GiB"})
    with pytest.warns(UnverifiedWarning, match="16x32x8 f32 nn was not verified: out of memory: 64 GiB"):
        verify()


LARGE = tw.MatmulSpec(4096, 4096, 4096, a="f16")


def test_a_gpu_without_a_card_is_emulated_on_small_operands():
    tw.compile(LARGE, "sm_80", verify=True, cache=False)


def test_wrong_numbers_of_a_gpu():
    kernel = cast("Any", tw.compile(LARGE, tw.targets.gpu("sm_80").emulated()))
    other = kernel.called_as(replace(LARGE, a="bf16", b="bf16"))
    with pytest.raises(WrongResultError, match=r"136x72x72 bf16.* nn: C"):
        verification.verify_gpu(other, lambda: other)


def test_a_gpu_that_nothing_here_runs(monkeypatch):
    kernel = cast("Any", tw.compile(LARGE, "sm_80"))

    def refuse() -> Any:
        raise tw.TargetError("no emulator")

    monkeypatch.setattr("tilewright.runtime.card_calls.call", lambda *_: refuse())
    with pytest.warns(UnverifiedWarning, match="not verified: no emulator"):
        verification.verify_gpu(kernel, refuse)


def test_operators_have_schedules_of_ours():
    with pytest.raises(tw.SpecError, match="verify=True for attention"):
        tw.compile(tw.AttentionSpec(4, 4, 8), verify=True)


def test_run_tries_a_users_schedule_first(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("tilewright.cli.run._SAMPLE_SECONDS", 1e-4)
    path = str(written(tmp_path / "own.mlir", MATCH, WRONG))
    assert main(["run", "--shape", "16x32x8", "--schedule", path]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert "is off by 1" in output.err
    assert output.err.count("\n") == 1
    assert main(["run", "--shape", "16x32x8", "--schedule", path, "--no-verify"]) == 0
    assert "error     not looked at (--no-verify, seed " in capsys.readouterr().out
