# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every mistake that Python can make on the way to a result is one line of the right class, with its place and a remedy.

The runtime's own tests have all that a call can get wrong; here are the kinds, met by compiled kernels.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import products
import pytest
import tilewright as tw
from tilewright.errors import NotRunnableError
from tilewright.runtime.cache import CacheError
from tilewright.targets import host

SPEC = tw.MatmulSpec(3, 5, 7)
KERNEL = tw.compile(SPEC, cache=False)
A, B, _ = products.uniform(SPEC)
OUT = np.zeros(SPEC.c_shape, np.float32)


def complaint(kind: type[tw.TilewrightError], action, *arguments, **keywords) -> tw.TilewrightError:
    """The error of a call, which is of exactly this kind, on one line, and says what would be right or what to do."""
    with pytest.raises(tw.TilewrightError) as caught:
        action(*arguments, **keywords)
    error = caught.value
    assert type(error) is kind
    assert "\n" not in str(error)
    assert error.what
    assert error.expected or error.remedy
    return error


def strided(shape: tuple[int, ...], strides: tuple[int, int]) -> np.ndarray:
    """A matrix of float32 with these strides in bytes, some of them perhaps negative."""
    memory = np.zeros(4096, np.float32)
    return np.lib.stride_tricks.as_strided(memory[2048:], shape, strides)


# Calls.

WIDE = np.zeros((8, 16), np.float32)


@pytest.mark.parametrize(
    ("operand", "a", "b", "out", "what"),
    [
        ("a", A[:2], B, None, "shape (2, 7)"),
        ("a", A[0], B, None, "shape (7,)"),
        ("b", A, B[:6], None, "shape (6, 5)"),
        ("b", A, B.T, None, "shape (5, 7)"),
        ("out", A, B, OUT[:2], "shape (2, 5)"),
        ("a", A.astype(np.float64), B, None, "element type float64"),
        ("b", A, B.astype(np.int32), None, "element type int32"),
        ("b", A, B.astype(">f4"), None, "element type >f4"),
        ("out", A, B, OUT.astype(np.float16), "element type float16"),
        ("a", A.tolist(), B, None, "a list is not a numpy array"),
        ("b", A, None, None, "a NoneType is not a numpy array"),
        ("a", np.asfortranarray(A), B, None, "not adjacent"),
        ("b", A, WIDE[:7, ::2][:, :5], None, "not adjacent"),
        ("out", A, B, np.asfortranarray(OUT), "not adjacent"),
        ("a", A[::-1], B, None, "rows run backwards"),
        ("b", A, B[:, ::-1], None, "columns run backwards"),
        ("out", A, B, OUT[::-1], "rows run backwards"),
        ("a", strided(A.shape, (0, 4)), B, None, "rows overlap"),
        ("out", A, B, strided(OUT.shape, (8, 4)), "rows overlap"),
        ("out", WIDE[:3, :7], B, WIDE[:3, 4:9], "overlaps operand a"),
        ("out", A, WIDE[:7, :5], WIDE[6:, :5][:3], "shape (2, 5)"),
        ("out", A, WIDE[:7, :5], WIDE[5:, :5], "overlaps operand b"),
        ("out", A, B, np.frombuffer(bytes(60), np.float32).reshape(3, 5), "read-only"),
    ],
)
def test_a_wrong_call(operand, a, b, out, what):
    before = None if out is None else out.copy()
    error = complaint(tw.OperandError, KERNEL, a, b, out=out)
    assert getattr(error, "operand") == operand  # noqa: B009 - an attribute of this class
    assert str(error).startswith(f"operand {operand}: ")
    assert what in error.what
    if out is not None:
        np.testing.assert_array_equal(out, before)


def test_adding_to_nothing():
    kernel = tw.compile(replace(SPEC, beta=1), cache=False)
    assert "out" in str(complaint(tw.OperandError, kernel, A, B))


@pytest.mark.parametrize(
    ("a", "b", "kind", "what"),
    [
        (A, A, tw.OperandError, "operand b: has 3 rows"),
        (A, 5, tw.OperandError, "operand b: has no dimensions"),
        (A, "b", tw.OperandError, "operand b: is a str of which numpy makes no array"),
        (A.astype(object), B, tw.OperandError, "operand b: is of float32, and a of object"),
    ],
)
def test_a_wrong_matmul(monkeypatch, a, b, kind, what):
    monkeypatch.setenv("TILEWRIGHT_NO_CACHE", "1")
    assert what in str(complaint(kind, tw.matmul, a, b))


# Specs.


@pytest.mark.parametrize("field", ["m", "n", "k"])
@pytest.mark.parametrize("value", [-1, 2**31, 1.5, "8", True])
def test_a_wrong_extent(field, value):
    error = complaint(tw.SpecError, tw.MatmulSpec, **{"m": 1, "n": 1, "k": 1, field: value})
    assert f"MatmulSpec: {field}" in str(error)


@pytest.mark.parametrize(
    "fields",
    [
        {"a": "f8E4M3"},
        {"a": "float32"},
        {"a": None},
        {"a": "f32", "b": "f64"},
        {"layout": "xx"},
        {"batch": (-2,)},
        {"batch": [2]},
        {"beta": "2"},
        {"b_packed": 1},
        {"epilogue": ("relu",)},
    ],
    ids=str,
)
def test_a_wrong_spec(fields):
    error = complaint(tw.SpecError, tw.MatmulSpec, 1, 1, 1, **fields)
    assert next(iter(fields)) in str(error) or "A of f32, B of f64" in str(error)


@pytest.mark.parametrize(
    ("spec", "how", "what"),
    [
        ((3, 5, 7), {}, "spec is a tuple"),
        (SPEC, {"threads": -2}, "threads is -2"),
        (SPEC, {"threads": 0}, "threads is 0"),
        (SPEC, {"threads": True}, "threads is True"),
    ],
)
def test_a_wrong_compilation(spec, how, what):
    error = complaint(tw.SpecError, tw.compile, spec, **how)
    assert f"compile: {what}" in str(error)


# Targets.

HOST = tw.targets.resolve("host")


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("i486", "unknown target 'i486'"),
        ("", "unknown target ''"),
        (None, "target is a NoneType"),
    ],
)
def test_a_wrong_target(target, what):
    assert what in str(complaint(tw.TargetError, tw.compile, SPEC, target))


def test_an_architecture_that_no_row_has():
    target = replace(HOST, name="mine", triple="sparc64-unknown-linux-gnu")
    assert "no row for sparc64 machines" in str(complaint(tw.TargetError, tw.compile, SPEC, target))


@pytest.mark.parametrize("features", [("avx512f", "avx512vl"), ("amx-bf16", "amx-tile")], ids=" ".join)
def test_features_that_this_machine_lacks(monkeypatch, features):
    monkeypatch.setattr(host, "machine", lambda: ("x86_64", frozenset({"fpu", "sse2", "avx2"})))
    target = replace(tw.targets.get("x86-64"), name="mine", features=frozenset({"sse2", "avx2", *features}))
    error = complaint(NotRunnableError, tw.compile(SPEC, target), None, None)
    assert error.what == f"this machine cannot run code for mine: it lacks {', '.join(sorted(features))}"


# Sizes.


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        ({"kr": 3}, "unknown parameter 'kr'"),
        ({"kc": 0}, "kc is 0"),
        ({"mr": -4}, "mr is -4"),
        ({"nr": 16.0}, "nr is 16.0"),
        ({"nr": True}, "nr is True"),
        ({"mc": None}, "mc is None"),
        ({"kc": 2**31}, "kc is 2147483648"),
        (["kc"], "they are a list"),
    ],
)
@pytest.mark.parametrize("schedule", [None, "packed"])
def test_wrong_sizes(parameters, what, schedule):
    error = complaint(tw.ScheduleError, tw.compile, SPEC, schedule=schedule, parameters=parameters)
    assert f"schedule parameters: {what}" in str(error)


# The cache.


def test_an_unusable_cache_that_was_named(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "file" / "kernels"))
    error = complaint(CacheError, tw.compile, SPEC)
    assert str(tmp_path / "file" / "kernels") in str(error)
    assert "TILEWRIGHT_CACHE_DIR" in str(error)
    # It can be done without.
    assert tw.compile(SPEC, cache=False).metadata.cached is False
    monkeypatch.setenv("TILEWRIGHT_NO_CACHE", "1")
    assert tw.compile(SPEC).metadata.cached is False


def test_an_unusable_cache_that_nobody_named(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.delenv("TILEWRIGHT_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="compiling without a cache") as caught:
        kernel = tw.compile(SPEC)
    assert len(caught) == 1
    np.testing.assert_allclose(kernel(A, B), A @ B, rtol=1e-5)


def test_a_cache_that_fills_the_disk_is_done_without(tmp_path):
    # No file may have more than 1 KiB in this process.
    program = """
import resource, signal
import numpy as np, tilewright as tw
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
spec = tw.MatmulSpec(64, 64, 64)
a = np.ones((64, 64), np.float32)
for _ in range(2):
    kernel = tw.compile(spec)
    assert not kernel.metadata.cached and (kernel(a, a) == 64).all()
"""
    environment = {"TILEWRIGHT_CACHE_DIR": str(tmp_path), "PATH": ""}
    run = subprocess.run(
        [sys.executable, "-I", "-B", "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert list(tmp_path.iterdir()) == []


# Stages.


def test_an_unknown_stage():
    with pytest.raises(KeyError):
        KERNEL.asm["assembly"]
    with pytest.raises(
        tw.TilewrightError, match=r"no stage 'assembly'; expected one of payload, schedule, .*asm"
    ) as caught:
        KERNEL.asm["assembly"]
    assert "\n" not in str(caught.value)
