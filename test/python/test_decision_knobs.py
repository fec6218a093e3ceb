# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes of decisions are knobs too: of attention, of weights in few bits, of depthwise convolutions, and of attention on GPUs."""

from typing import Any

import pytest
import tilewright as tw
from tilewright import targets
from tilewright.errors import ScheduleError
from tilewright.payload.spec_tables import Spec
from tilewright.runtime.kernel import Kernel
from tilewright.runtime.trial import Trial
from tilewright.schedules import choices, steps
from tilewright.schedules.decisions import OnlineSoftmax
from tilewright.schedules.steps import knobs

ATTENTION = tw.AttentionSpec(200, 150, 16, heads=4, kv_heads=2, causal="lower_right")
CODES = {"a": "f32", "b": "i4", "prologue_b": (tw.dequantize("gn", 0, 32),)}
OPEN: dict[str, tuple[Spec, str, set[str]]] = {
    "attention": (ATTENTION, "x86-64-v4", {"kc", "mr", "nr", "columns"}),
    "attention by tiles": (tw.AttentionSpec(200, 150, 32, q="bf16"), "sapphirerapids", {"kc", "nr", "columns"}),
    "attention of one query": (tw.AttentionSpec(1, 150, 16), "x86-64-v4", {"kc"}),
    "depthwise": (tw.Conv2dSpec(1, 14, 14, 32, 32, 3, 3, padding=1, groups=32), "znver4", {"channels", "pixels"}),
    "codes": (tw.MatmulSpec(2, 4096, 256, **CODES), "x86-64-v4", {"mr", "kc", "nc"}),
    "codes along k": (tw.MatmulSpec(1, 64, 256, layout="nt", **CODES), "x86-64-v4", {"nr"}),
    "attention on mma_sync": (tw.AttentionSpec(256, 256, 64, q="bf16"), "sm_80", {"kc"}),
    "attention on wgmma": (tw.AttentionSpec(256, 256, 128, q="bf16"), "sm_90a", {"kc", "pingpong", "stages"}),
}
"""Specs and targets, and the knobs that the schedule has."""


def compiled(spec: Spec, target: str, tmp_path: Any = None, text: str | None = None, **how: Any) -> Any:
    """The kernel of a spec, under a text where one is given."""
    if text is not None:
        (tmp_path / "turned.mlir").write_text(text)
        how["schedule"] = tmp_path / "turned.mlir"
    return tw.compile(spec, target, **how)


@pytest.mark.parametrize("name", OPEN)
def test_a_knob_that_is_turned_makes_what_that_size_makes(name, tmp_path):
    spec, target, expected = OPEN[name]
    usual = compiled(spec, target)
    found = {each.name: each for each in choices.read(usual.asm["schedule"])}
    assert set(found) == expected
    last = "ptx" if targets.gpu(target) else "asm"
    for each in found.values():
        other = next(option for option in reversed(each.options) if option != each.selected)
        turned = compiled(spec, target, tmp_path, choices.made(usual.asm["schedule"], {each.name: other}))
        same = {**{one.name: one.selected for one in found.values()}, each.name: other}
        assert turned.asm[last] == compiled(spec, target, parameters=same).asm[last], each
        assert turned.asm[last] != usual.asm[last], each


def test_sizes_that_do_not_go_together_are_refused(tmp_path):
    spec, target, _ = OPEN["attention"]
    text = compiled(spec, target).asm["schedule"]
    found = {each.name: each for each in choices.read(text)}
    apart = next({"kc": kc, "mr": mr} for kc in found["kc"].options for mr in found["mr"].options if kc % mr)
    with pytest.raises(ScheduleError, match="kc"):
        compiled(spec, target, tmp_path, choices.made(text, apart))


def test_a_decision_without_options_has_no_knobs():
    spec = tw.AttentionSpec(queries=None, keys=None, head=16)
    assert not choices.read(tw.compile(spec, "x86-64-v4").asm["schedule"])


def test_a_users_decision_leaves_sizes_open_and_is_tuned(tmp_path, monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_NO_RECORDS")
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(tmp_path / "records.sqlite"))

    def own(spec: Any, target: Any, sizes: OnlineSoftmax) -> Any:
        with steps.script() as script:
            softmax = steps.match(script.functions, "linalg.softmax")
            knobs.decide(softmax, OnlineSoftmax(kc=48, mr=6, nr=2), {"kc": [24, 48], "merged": [0, 1], "mr": [6]})
        return script.module

    spec = tw.AttentionSpec(40, 60, 16, heads=4, kv_heads=2)
    kernel = tw.compile(spec, schedule=own)
    text = kernel.asm["schedule"]
    assert {each.name: each.options for each in choices.read(text)} == {"kc": (24, 48), "merged": (0, 1)}
    for merged in (0, 1):
        turned = compiled(spec, "host", tmp_path, choices.made(text, {"merged": merged, "kc": 24}))
        assert f"kc=24, mr=6, nr=2, columns=1, merged={bool(merged)}" in turned.metadata.parameters["products"][0]
        assert right(turned, spec)
    file = tmp_path / "own.mlir"
    file.write_text(text)
    found = tw.tune(spec, seconds=1, schedule=str(file))
    assert set(found.sizes) == {"kc", "merged"}


def right(kernel: Kernel, spec: tw.AttentionSpec) -> bool:
    tried = Trial.random(kernel, spec, 0)
    tried()
    return bool(tried.difference().right)
