# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilations through the disk cache: nothing is compiled twice, and nothing is taken for something else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import products
import pytest
import tilewright as tw
from own_schedules import MATCH, written
from processes import in_new_process
from tilewright.emit import versions
from tilewright.emit.pipeline import CPU_TEXTS

SPEC = tw.MatmulSpec(16, 48, 40)
A, B, C = products.uniform(SPEC)


@pytest.fixture
def cache(monkeypatch, tmp_path) -> Path:
    """An empty cache for this process and its children."""
    folder = tmp_path / "kernels"
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(folder))
    monkeypatch.delenv("TILEWRIGHT_NO_CACHE", raising=False)
    return folder


def entries(cache: Path) -> list[Path]:
    return sorted(cache.iterdir())


WARM = """
    import json, sys
    import numpy as np
    import tilewright as tw
    kernel = tw.compile(tw.MatmulSpec(16, 48, 40))
    c = kernel(np.ones((16, 40), "f4"), np.ones((40, 48), "f4"))
    maps = open("/proc/self/maps").read()
    print(json.dumps({
        "cached": kernel.metadata.cached,
        "right": bool((c == 40).all()),
        "seconds": dict(kernel.metadata.seconds),
        "mlir": [name for name in sys.modules if name.startswith(("tilewright.mlir", "tilewright.lowering"))],
        "libraries": [name for name in ("libMLIR", "libLLVM.so", "_codegen.cpython") if name in maps],
    }))
"""


def test_another_process_compiles_nothing_and_loads_no_mlir(cache):
    tw.compile(SPEC)
    (entry,) = entries(cache)
    before = entry.stat().st_ino
    assert json.loads(in_new_process(WARM)) == {
        "cached": True, "right": True, "seconds": {}, "mlir": [], "libraries": []
    }  # fmt: skip
    assert [entry.stat().st_ino for entry in entries(cache)] == [before]


def test_the_second_time_is_from_the_cache(cache):
    first, second = tw.compile(SPEC), tw.compile(SPEC)
    assert (first.metadata.cached, second.metadata.cached) == (False, True)
    assert list(first.metadata.seconds) == [*CPU_TEXTS[:-1], "obj"]
    assert not second.metadata.seconds
    assert first.metadata.object_bytes == second.metadata.object_bytes
    assert first.metadata.parameters == second.metadata.parameters
    np.testing.assert_array_equal(first(A, B), second(A, B))
    assert dict(first.asm) == dict(second.asm)


def test_what_differs_has_an_entry_of_its_own(cache):
    host = tw.targets.resolve("host")
    compilations = [
        {},
        {"spec": replace(SPEC, m=17)},
        {"spec": replace(SPEC, a="f64", b="f64", c="f64", acc="f64")},
        {"spec": replace(SPEC, beta=1)},
        {"target": "x86-64"},
        {"target": replace(host, features=host.features - {"avx512bf16", "clwb", "sha", "aes"})},
        {"target": replace(host, l2=replace(host.l2, bytes=host.l2.bytes * 2))},
        {"schedule": "packed"},
        {"parameters": {"kc": 20}},
        {"parameters": {"kc": 10}},
    ]
    for number, how in enumerate(compilations):
        assert not tw.compile(**{"spec": SPEC, **how}).metadata.cached
        assert len(entries(cache)) == number + 1
    for how in compilations:
        assert tw.compile(**{"spec": SPEC, **how}).metadata.cached


def test_what_is_the_same_shares_an_entry(cache):
    chosen = tw.compile(SPEC).metadata
    assert tw.compile(SPEC, schedule=chosen.schedule).metadata.cached
    assert tw.compile(SPEC, parameters=chosen.parameters).metadata.cached
    assert tw.compile(SPEC, target=tw.targets.resolve("host")).metadata.cached
    assert tw.compile(tw.MatmulSpec(16, 48, 40, a="f32", b="f32", beta=0)).metadata.cached
    assert len(entries(cache)) == 1


def test_schedules_of_users(cache, tmp_path):
    path = written(tmp_path / "own.mlir", MATCH)
    assert [tw.compile(SPEC, schedule=path).metadata.cached for _ in range(2)] == [False, True]
    # The text decides, not the file.
    assert tw.compile(SPEC, schedule=str(path.rename(tmp_path / "other.mlir"))).metadata.cached
    written(path, MATCH, "transform.print %m : !transform.any_op")
    assert not tw.compile(SPEC, schedule=path).metadata.cached

    def own(spec, target, sizes):
        from tilewright.mlir import ir

        return ir.Module.parse(path.read_text())

    # What a function will make cannot be known.
    assert [tw.compile(SPEC, schedule=own).metadata.cached for _ in range(2)] == [False, False]


def test_doing_without(cache, monkeypatch):
    assert not tw.compile(SPEC, cache=False).metadata.cached
    monkeypatch.setenv("TILEWRIGHT_NO_CACHE", "1")
    assert not tw.compile(SPEC).metadata.cached
    assert not cache.exists()


@pytest.mark.parametrize("damage", [b"", b"not an entry", None])
def test_a_damaged_entry_is_replaced(cache, damage):
    tw.compile(SPEC)
    (entry,) = entries(cache)
    sound = entry.read_bytes()
    entry.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]) if damage is None else damage)
    kernel = tw.compile(SPEC)
    assert not kernel.metadata.cached
    products.check(kernel, (A, B, C))
    assert len(entry.read_bytes()) == len(sound)
    assert tw.compile(SPEC).metadata.cached


def test_another_llvm_compiles_anew(cache, monkeypatch):
    real = versions.version_of
    tw.compile(SPEC)
    assert any("libLLVM" in file for file in versions.libraries())
    monkeypatch.setattr(versions, "version_of", lambda file: "new " + real(file))
    assert [tw.compile(SPEC).metadata.cached for _ in range(2)] == [False, True]
    monkeypatch.setattr(versions, "version_of", real)
    assert not tw.compile(SPEC).metadata.cached
