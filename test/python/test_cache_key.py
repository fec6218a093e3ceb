# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The key of a compilation: everything that decides an object is in it, and every way to compile says all of what it was asked."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_layering
import tilewright as tw
from tilewright import targets
from tilewright.emit import versions
from tilewright.runtime import cache_key, compile_module, gpu
from tilewright.runtime.cache_key import Compilation
from tilewright.schedules import cases

SPEC = tw.MatmulSpec(8, 12, 16)
ROW = targets.get("x86-64-v4")
CARD = targets.gpu("sm_80")
assert CARD is not None
CASES = cases.plan(tw.MatmulSpec(None, 12, 16), ROW, None, None, 1).cases
IMAGE = tw.Conv2dSpec(1, 8, 8, 4, 8, 3, 3)
WHOLE = Compilation(kind="product", problem=SPEC, target=ROW, cases=CASES, form=(True, True))
VALUES = [
    WHOLE,
    ROW,
    ROW.l1,
    CARD,
    SPEC,
    IMAGE,
    tw.AttentionSpec(8, 8, 16),
    tw.Dim(),
    tw.bias(),
    CASES[0],
    CASES[0].plan,
]


def with_field(value: Any, name: str, other: object) -> Any:
    """A copy of a dataclass with another value of one field, whatever that is."""
    changed = object.__new__(type(value))
    for each in fields(value):
        object.__setattr__(changed, each.name, other if each.name == name else getattr(value, each.name))
    return changed


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_every_field_decides(value: Any) -> None:
    text = cache_key._text(value)
    for each in fields(value):
        assert cache_key._text(with_field(value, each.name, "another")) != text, each.name


def test_each_field_is_a_part_of_the_key() -> None:
    key = WHOLE.key
    assert list(key) == [each.name for each in fields(Compilation)]
    for name in key:
        other = with_field(WHOLE, name, "another").key
        assert [part for part in key if key[part] != other[part]] == [name]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, 2), (12,)),
        (("a", "b"), ("a, b",)),
        (("a",), ("'a'",)),
        (1, True),
        (0, False),
        (1, 1.0),
        (None, "None"),
        ({"a": 1}, {"a": "1"}),
        (frozenset({"a, b"}), frozenset({"a", "b"})),
        ((), frozenset()),
        (tw.Dim(), tw.Dim(multiple=2)),
        ((tw.function(lambda c: c + 1),), (tw.function(lambda c: c + 2),)),
        ((tw.clamp(0, 1),), (tw.clamp(0, 2),)),
    ],
)
def test_different_values_have_different_texts(one: object, other: object) -> None:
    assert cache_key._text(one) != cache_key._text(other)


def test_equal_values_have_one_text() -> None:
    assert cache_key._text({"mr": 6, "kc": 8}) == cache_key._text({"kc": np.int64(8), "mr": np.int32(6)})
    # The same slot of a small table: the first one that comes stands first.
    assert cache_key._text(frozenset([0, 8])) == cache_key._text(frozenset([8, 0]))


def test_what_cannot_be_told_apart_is_refused() -> None:
    with pytest.raises(TypeError, match="function cannot be part of a cache key"):
        with_field(WHOLE, "parameters", {"mr": lambda: 1}).key  # noqa: B018 - it raises


class SeenError(Exception):
    """Stops a compilation where it asks the cache, and says for what."""

    def __init__(self, what: Compilation | None) -> None:
        super().__init__()
        self.what = what


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[[], object]], Compilation]:
    """A function that tells what a compilation asks the cache for."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.delenv("TILEWRIGHT_NO_CACHE", raising=False)

    def find(store: object, what: Compilation | None) -> None:
        raise SeenError(what)

    monkeypatch.setattr(cache_key, "find", find)

    def ask(compile_: Callable[[], object]) -> Compilation:
        with pytest.raises(SeenError) as caught:
            compile_()
        assert caught.value.what is not None
        return caught.value.what

    return ask


MODULE = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
CHAIN = (tw.MatmulSpec(8, 12, 16), tw.MatmulSpec(8, 4, 12))
OWN = "module attributes {transform.with_named_sequence} {}"
WAYS: dict[str, tuple[Callable[..., object], dict[str, Any], list[dict[str, Any]]]] = {
    "product": (
        tw.compile,
        {"spec": SPEC, "target": "x86-64"},
        [
            {"spec": replace(SPEC, m=9)},
            {"spec": replace(SPEC, m=None)},
            {"target": replace(targets.get("x86-64"), tune_cpu="nehalem")},
            {"threads": 2, "spec": tw.MatmulSpec(1024, 1024, 1024)},
            {"threads": 1, "spec": tw.MatmulSpec(1024, 1024, 1024)},
            {"schedule": "packed"},
            {"parameters": {"kc": 8}},
        ],
    ),
    "operator": (
        tw.compile,
        {"spec": IMAGE, "target": "x86-64"},
        [
            {"spec": replace(IMAGE, stride=2)},
            {"target": replace(targets.get("x86-64"), tune_cpu="nehalem")},
            {"threads": 2},
            {"parameters": {"kc": 8}},
        ],
    ),
    "module": (
        compile_module.compile_module,
        {"text": MODULE, "target": "x86-64"},
        [
            {"text": MODULE.replace("@f", "@g")},
            {"target": replace(targets.get("x86-64"), tune_cpu="nehalem")},
            {"threads": 2},
            {"plain": True},
            {"text": f"// plain\n{MODULE}"},
        ],
    ),
    "chain": (
        compile_module.compile_chain,
        {"stages": CHAIN, "target": "x86-64"},
        [
            {"stages": (CHAIN[0], replace(CHAIN[1], n=5))},
            {"target": replace(targets.get("x86-64"), tune_cpu="nehalem")},
            {"threads": 2},
        ],
    ),
    "gpu": (
        lambda **how: gpu.compile(cache=True, **how),
        {"spec": SPEC, "target": CARD},
        [
            {"spec": replace(SPEC, beta=1)},
            {"target": targets.gpu("sm_90a")},
            {"target": replace(CARD, features=frozenset({"ptx81"}))},
            {"target": replace(CARD, instructions=frozenset())},
            {"target": replace(CARD, types=frozenset({"f32"}))},
            {"schedule": "simt"},
            {"parameters": {"bk": 8}},
        ],
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_all_that_is_asked_for_is_said(way: str, asked: Callable[[Callable[[], object]], Compilation]) -> None:
    compile_, plain, others = WAYS[way]
    found = [asked(lambda how=how: compile_(**plain | how)) for how in ({}, *others)]
    assert {each.kind for each in found} == {way}
    assert len({tuple(each.key.items()) for each in found}) == len(found)


@pytest.mark.parametrize(("target", "compile_"), [("x86-64", tw.compile), ("sm_80", tw.compile)])
def test_the_text_of_a_schedule_is_said(
    target: str, compile_: Any, asked: Callable[[Callable[[], object]], Compilation], tmp_path: Path
) -> None:
    path = tmp_path / "own.mlir"
    path.write_text(OWN)
    assert asked(lambda: compile_(SPEC, target=target, schedule=path)).own == OWN


def test_each_form_of_a_gpu_kernel_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is found for rows of whole pieces reads beyond those of others: forms are never taken for each other."""
    kept: dict[tuple[tuple[str, str], ...], gpu.GpuStages] = {}

    def cached(what: Compilation, spec: object, target: object, build: Callable[[], gpu.GpuStages]) -> gpu.GpuStages:
        return kept.setdefault(tuple(what.key.items()), build())

    monkeypatch.setattr(gpu.gpu_forms, "cached", cached)
    spec = tw.MatmulSpec(40, 24, 16, a="f16")
    kernel = gpu.compile(spec, targets.gpu("sm_90a"), "warpgroup", cache=True)
    a, b = np.ones((40, 24), "f2")[:, 1:17], np.ones((16, 24), "f2")
    emulated = gpu.compile(spec, CARD.emulated(), "mma_sync", cache=True)
    assert (emulated(np.ones((40, 16), "f2"), b) == 16).all()
    assert (emulated(a, b) == 16).all()
    forms = {form: kernel._form(form) for form in ((True, True), (True, False), (False, True))}
    assert len({id(each) for each in forms.values()}) == 3
    assert len(kept) == 5


def test_the_sources_are_in_the_digest(tmp_path: Path) -> None:
    package = tmp_path / "tilewright"
    files = {name: package / name for name in ("spec.py", "nibbles.py", "codegen/gpu/mma.py", "runtime/gpu.py")}
    others = {name: package / name for name in ("bench/rows.py", "cli/run.py", "mlir/ir.py")}
    for file in (*files.values(), *others.values()):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x = 1\n")
    seen = [versions.digest_of(package)]
    for file in files.values():
        file.write_text("x = 2\n")
        seen.append(versions.digest_of(package))
    (package / "new.py").write_text("")
    seen.append(versions.digest_of(package))
    files["spec.py"].rename(package / "spec2.py")
    seen.append(versions.digest_of(package))
    (package / "_codegen.so").write_text("")
    seen.append(versions.digest_of(package))
    assert len(set(seen)) == len(seen)
    for file in others.values():
        file.write_text("x = 2\n")
    assert versions.digest_of(package) == seen[-1]


def test_every_source_that_compilation_imports_is_in_the_digest() -> None:
    package = test_layering.PACKAGE
    counted = set(versions.sources(package))
    reached, waiting = (
        set[str](),
        ["emit/stages.py", "emit/modules.py", "emit/chain.py", "emit/gpu.py", "emit/operators.py", "runtime/gpu.py"],
    )
    while waiting:
        name = waiting.pop()
        if name in reached or name.startswith("mlir/"):
            continue
        reached.add(name)
        file = package / name
        for _, dotted in test_layering.imported(ast.parse(file.read_text()), file, package):
            parts = list(filter(None, dotted.split(".")[1:])) if dotted.startswith("tilewright.") else []
            for end in range(1, len(parts) + 1):
                place = "/".join(parts[:end])
                waiting += [each for each in (f"{place}.py", f"{place}/__init__.py") if (package / each).exists()]
    assert len(reached) > 150
    assert reached <= counted


def test_one_library_that_has_changed_is_enough(tmp_path):
    first, second = tmp_path / "libLLVM.so", tmp_path / "libMLIR.so"
    for file in (first, second):
        file.write_bytes(b"code")
    found = {str(file): versions.version_of(str(file)) for file in (first, second)}
    assert versions.are_unchanged(found)
    second.write_bytes(b"other code")
    assert not versions.are_unchanged(found)
