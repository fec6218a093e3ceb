# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GPU kernels through the disk cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from processes import in_new_process
from tilewright.runtime.gpu import GpuKernel

WARM = """
    import json, sys
    import numpy as np
    import tilewright as tw
    kernel = tw.compile(tw.MatmulSpec(40, 24, 16, a="f16"), target=tw.targets.gpu("sm_90a").emulated())
    a, b = np.ones((40, 16), "f2"), np.ones((16, 24), "f2")
    print(json.dumps({
        "cached": kernel.metadata.cached,
        "right": bool((kernel(a, b) == 16).all()),
        "schedule": kernel.metadata.schedule,
        "compiler": [name for name in sys.modules if name in ("tilewright.emit.gpu", "tilewright.codegen.gpu.kernel")],
        "stages": "vector.contract" in kernel.asm["scheduled"],
    }))
"""


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache for this process and its children."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.delenv("TILEWRIGHT_NO_CACHE", raising=False)
    return tmp_path / "kernels"


def test_another_process_compiles_nothing(cache: Path) -> None:
    made = tw.compile(tw.MatmulSpec(40, 24, 16, a="f16"), target="sm_90a")
    assert not made.metadata.cached
    assert len(list(cache.iterdir())) == 1
    assert json.loads(in_new_process(WARM)) == {
        "cached": True,
        "right": True,
        "schedule": made.metadata.schedule,
        "compiler": [],
        "stages": True,
    }


def test_both_kernels_of_a_call_are_kept(cache: Path) -> None:
    spec = tw.MatmulSpec(8, 8, 8, epilogue=(tw.softmax(),))
    a = np.eye(8, dtype=np.float32)
    results = []
    for cached in (False, True):
        kernel = tw.compile(spec, target=tw.targets.gpu("sm_80").emulated())
        assert kernel.metadata.cached == cached
        results.append(kernel(a, a))
    assert (results[0] == results[1]).all()
    assert np.allclose(results[0].sum(axis=1), 1)


def test_nothing_is_taken_for_something_else(cache: Path) -> None:
    spec = tw.MatmulSpec(8, 8, 8)
    others: tuple[tuple[str, dict[str, Any]], ...] = (
        ("sm_80", {}),
        ("sm_90a", {}),
        ("sm_80", {"schedule": "simt"}),
        ("sm_80", {"parameters": {"bk": 8}}),
    )
    for target, fields in others:
        assert not tw.compile(spec, target=target, **fields).metadata.cached
    assert not tw.compile(tw.MatmulSpec(8, 8, 8, tf32=True), target="sm_80").metadata.cached
    assert tw.compile(spec, target="sm_80", parameters={"bk": 8}).metadata.parameters["bk"] == 8
    assert tw.compile(spec, target="sm_80").metadata.cached
    a = np.eye(8, dtype=np.float32)
    assert (tw.compile(spec, target=tw.targets.gpu("sm_80").emulated())(a, a) == a).all()


def test_a_kernel_that_was_kept_takes_the_same_rows(cache: Path) -> None:
    spec, target = tw.MatmulSpec(40, 24, 16, a="i8"), tw.targets.gpu("sm_80")
    made, kept = (tw.compile(spec, target=target, schedule="mma_sync") for _ in range(2))
    assert isinstance(made, GpuKernel)
    assert isinstance(kept, GpuKernel)
    assert (made.metadata.cached, kept.metadata.cached) == (False, True)
    assert (made.row_multiple, kept.row_multiple) == (16, 16)
    assert made.shared_bytes == kept.shared_bytes
