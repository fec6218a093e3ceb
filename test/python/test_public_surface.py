# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The names that others call, as the design has them: they stay, and they are all that there is."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Mapping

import numpy as np
import pytest
import tilewright as tw
from processes import in_new_process

NAMES = [
    "Kernel",
    "LoweringError",
    "MatmulSpec",
    "OperandError",
    "PackedB",
    "ScheduleError",
    "SpecError",
    "Target",
    "TargetError",
    "TilewrightError",
    "compile",
    "error_bound",
    "matmul",
    "matmul_each",
    "reference",
    "targets",
]
ERRORS = [name for name in NAMES if name.endswith("Error")]


def parameters(function) -> dict[str, object]:
    """The parameters of a function that have a default, with it, and the others with `inspect.Parameter.empty`."""
    return {name: each.default for name, each in inspect.signature(function).parameters.items()}


def test_every_name_is_there_and_listed():
    assert set(NAMES) <= set(tw.__all__)
    assert set(tw.__all__) <= set(dir(tw))
    for name in tw.__all__:
        each = getattr(tw, name)
        assert each.__doc__, name
        assert getattr(each, "__module__", "tilewright").startswith("tilewright")
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        tw.no_such_name  # noqa: B018


def test_a_star_import_gives_these_names():
    program = """
        from tilewright import *
        print(sorted(name for name in globals() if not name.startswith("_")))
    """
    assert in_new_process(program).strip() == str(sorted(tw.__all__))


def test_importing_imports_no_numpy_and_no_mlir():
    program = "import sys, tilewright; print([name for name in sys.modules if name in ('numpy', 'tilewright.mlir')])"
    assert in_new_process(program).strip() == "[]"


def test_the_version():
    from importlib.metadata import version

    assert tw.__version__ == version("tilewright")


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    kind = getattr(tw, name)
    assert issubclass(kind, tw.TilewrightError)
    error = kind("what", where="where", expected="expected", remedy="Remedy")
    assert str(error) == "where: what; expected expected. Remedy"
    own = {
        "OperandError": ["operand"],
        "ScheduleError": ["file", "line", "transform_op", "payload_op"],
        "LoweringError": ["stage", "reproducer"],
    }
    for attribute in own.get(name, []):
        assert getattr(error, attribute) is None


def test_the_spec():
    assert [field.name for field in dataclasses.fields(tw.MatmulSpec)] == [
        "m", "n", "k", "a", "b", "c", "acc", "layout", "batch", "beta", "b_packed", "epilogue",
        "prologue_a", "prologue_b", "a_batch", "b_batch", "deterministic", "tf32", "alpha", "precision",
    ]  # fmt: skip
    spec = tw.MatmulSpec(m=384, n=1024, k=1024)
    assert (spec.a, spec.b, spec.c, spec.acc) == ("f32",) * 4
    assert (spec.layout, spec.batch, spec.beta, spec.b_packed, spec.epilogue) == ("nn", (), 0, False, ())
    assert spec == tw.MatmulSpec(m=384, n=1024, k=1024, a="f32", b="f32", c="f32", layout="nn", batch=(), beta=0)
    assert spec.flops == 2 * 384 * 1024 * 1024


def test_compile_and_call():
    assert list(parameters(tw.compile).items())[:4] == [
        ("spec", inspect.Parameter.empty), ("target", "host"), ("threads", 1), ("schedule", None)
    ]  # fmt: skip
    spec = tw.MatmulSpec(m=4, n=6, k=5)
    kernel = tw.compile(spec, target="host", threads=1, schedule=None)
    assert isinstance(kernel, tw.Kernel)
    a, b = np.ones((4, 5), "f4"), np.ones((5, 6), "f4")
    out = np.empty((4, 6), "f4")
    assert kernel(a, b, out=out) is out
    np.testing.assert_array_equal(kernel(a, b), out)
    np.testing.assert_array_equal(tw.matmul(a, b), out)
    np.testing.assert_array_equal(tw.reference(spec, a, b), out)
    assert tw.error_bound(spec, a, b).shape == out.shape


def test_the_kernel():
    kernel = tw.compile(tw.MatmulSpec(m=4, n=6, k=5))
    assert isinstance(kernel.asm, Mapping)
    assert list(kernel.asm) == ["payload", "schedule", "scheduled", "bufferized", "llvm", "llvmir", "asm"]
    assert isinstance(kernel.c_function.address, int)
    assert kernel.c_function.prototype.startswith("int32_t ")
    assert dataclasses.is_dataclass(kernel.metadata)
    facts = {field.name for field in dataclasses.fields(kernel.metadata)}
    assert facts >= {"target", "features", "schedule", "parameters", "seconds", "object_bytes"}
    assert kernel.spec == tw.MatmulSpec(m=4, n=6, k=5)
    assert repr(kernel) == "<tilewright.Kernel 4x6x5 f32 nn for host, schedule unpacked>"


def test_targets():
    known = {each.target.name: each for each in tw.targets()}
    assert {"host", "x86-64", "x86-64-v3", "x86-64-v4"} <= known.keys()
    assert known["host"].runs
    for each in known.values():
        assert isinstance(each.target, tw.Target)
        assert each.target.triple.count("-") >= 2
        assert each.target.feature_string.startswith("+")
        assert each.runs == (not each.missing)


def test_type_hints_are_complete():
    for function in (tw.compile, tw.matmul, tw.reference, tw.error_bound):
        hints = inspect.signature(function)
        assert hints.return_annotation is not inspect.Signature.empty
        assert all(each.annotation is not inspect.Parameter.empty for each in hints.parameters.values())
    assert typing.get_type_hints(tw.MatmulSpec).keys() == {field.name for field in dataclasses.fields(tw.MatmulSpec)}
