# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls on arrays of torch and JAX, and kernels in programs of JAX, where `tilewright bench setup` has installed these."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from test_docs import blocks
from tilewright.bench import environments
from tilewright.targets import get, runnable

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "python"
PROGRAMS = {
    "torch": "torch",
    "jax": "jax",
    "jax_kernels": "jax",
    "onnx": "onnxruntime",
    **dict.fromkeys(("torch_ops", "torch_gradients", "torch_backend", "torch_chains", "torch_traced"), "torch"),
}
"""By what is after "on_" in the name of a program: the environment that it runs in."""
OPS = PACKAGE / "tilewright" / "torch" / "libtilewright_torch.so"
CASES = [
    (name, case) for name in PROGRAMS for case in re.findall(r"@case\ndef (\w+)", (HERE / f"on_{name}.py").read_text())
]


def python_with(name: str) -> Path:
    """The Python that has a framework."""
    python = environments.python(name)
    if python is None:
        pytest.skip(f"there is no environment with {name} (make setup-frameworks installs it)")
    return python


@cache
def outcomes(name: str) -> dict[str, str]:
    """What came of each case: nothing, or the traceback of a failure."""
    python = python_with(PROGRAMS[name])
    if name.startswith("torch_") and not OPS.exists():
        pytest.skip(f"{OPS.name} is not built (make setup-torch builds it)")
    done = subprocess.run(
        [str(python), "-B", "-W", "ignore", str(HERE / f"on_{name}.py")],
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    return {row["case"]: row["failure"] for row in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}-{case}" for name, case in CASES])
def test_a_call_on_their_arrays(name: str, case: str) -> None:
    assert outcomes(name)[case] == ""


def test_the_page_of_jax_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    if runnable(get("x86-64-v3")):
        pytest.skip("this machine does not run x86-64-v3")
    page = [each for each in blocks(PACKAGE.parent / "docs/how-to/jax.md") if each.language == "python"]
    mark = "\nprint(chr(12), end='')\n"
    (tmp_path / "page.py").write_text(mark.join(each.code for each in page))
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "JAX_PLATFORMS": "cpu"}
    command = [str(python_with("jax")), "-B", "-W", "ignore", "page.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1500, check=False
    )
    assert done.returncode == 0, done.stderr
    for block, printed in zip(page, done.stdout.split("\f"), strict=True):
        block.assert_prints(printed)


LAYOUTS = {
    "Api": ("struct_size", "api_version", "XLA_FFI_Error_Create"),
    "Buffer": ("dtype", "data", "rank", "dims"),
    "Args": ("size", "types", "args"),
    "Rets": ("size", "types", "rets"),
    "Attrs": ("size", "types", "names", "attrs"),
    "CallFrame": ("extension_start", "api", "stage", "args", "rets", "attrs"),
    "Metadata": ("api_version", "traits"),
    "Metadata_Extension": ("metadata",),
    "Error_Create_Args": ("message", "errc"),
}
"""Members of XLA's structures that the handler reads or writes; ours, in the same order."""
OURS = {
    "Api": ("Api", "bytes version makeError"),
    "Buffer": ("Buffer", "type data rank extents"),
    "Args": ("Values", "count kinds values"),
    "Rets": ("Values", "count kinds values"),
    "Attrs": ("Attributes", "count kinds names values"),
    "CallFrame": ("Call", "extensions api stage operands results attributes"),
    "Metadata": ("Metadata", "version traits"),
    "Metadata_Extension": ("MetadataExtension", "metadata"),
    "Error_Create_Args": ("ErrorArguments", "message code"),
}
CXX = shutil.which(os.environ.get("CXX", "c++"))


@pytest.mark.skipif(CXX is None, reason="no C++ compiler: neither CXX nor c++ names one")
def test_structures_of_the_handler_are_those_of_xla(tmp_path: Path) -> None:
    python = python_with("jax")
    (headers,) = python.parents[1].glob("lib/python*/site-packages/jaxlib/include")
    claims = [
        f'static_assert(offsetof(tilewright::xla::{OURS[name][0]}, {own}) == offsetof(XLA_FFI_{name}, {theirs}), "{name}");'
        for name, members in LAYOUTS.items()
        for own, theirs in zip(OURS[name][1].split(), members, strict=True)
    ]
    numbers = re.findall(r"\{(\d+), \d+, \d+\}", (PACKAGE.parent / "native/jax/XlaFfi.h").read_text())
    assert len(numbers) == 18
    (tmp_path / "claims.cpp").write_text(
        '#include "XlaFfi.h"\n#include "xla/ffi/api/c_api.h"\n'
        + "\n".join(claims)
        + "\nstatic_assert(XLA_FFI_API_MAJOR == tilewright::xla::majorVersion);"
        + "\nstatic_assert(XLA_FFI_ExecutionStage_EXECUTE == tilewright::xla::executeStage);"
        + "\nstatic_assert(XLA_FFI_AttrType_STRING == tilewright::xla::textAttribute);"
        + "\nstatic_assert(XLA_FFI_DataType_BF16 == 16 && XLA_FFI_DataType_F8E4M3FN == 20 && XLA_FFI_DataType_S8 == 2);\n"
    )
    command = [CXX, "-std=c++17", "-fsyntax-only", "-I", PACKAGE.parent / "native/jax", "-I", headers, "claims.cpp"]
    done = subprocess.run([str(word) for word in command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
