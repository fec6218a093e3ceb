# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole modules on the command line: compiled to libraries, run, explained."""

import ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright.cli.app import main

MODULES = Path(__file__).parents[1] / "modules"


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def tensor(array):
    """The DLTensor of an array of f32; it keeps nothing alive."""
    extents = (ctypes.c_int64 * array.ndim)(*array.shape)
    strides = (ctypes.c_int64 * array.ndim)(*(each // array.itemsize for each in array.strides))
    return Tensor(array.ctypes.data, Device(1, 0), array.ndim, Type(2, 32, 1), extents, strides, 0)


def test_a_library_is_called_from_c(tmp_path, capsys):
    library, header = tmp_path / "gated.so", tmp_path / "gated.h"
    assert main(["compile", str(MODULES / "gated.mlir"), "-o", str(library), "--header", str(header)]) == 0
    assert "gated.so: " in capsys.readouterr().out
    assert (
        "int32_t gated(const DLTensor *x_, const DLTensor *w_, const DLTensor *v_, DLTensor *out_);"
        in header.read_text()
    )
    random = np.random.default_rng(3)
    x, w, v = (random.standard_normal(shape).astype(np.float32) for shape in ((14, 33), (33, 26), (33, 26)))
    out = np.zeros((14, 40), np.float32)[:, :26]
    gated = ctypes.CDLL(str(library)).gated
    tensors = [tensor(each) for each in (x, w, v, out)]
    assert gated(*map(ctypes.byref, tensors)) == 0
    a = (x @ w).astype(np.float64)
    np.testing.assert_allclose(out, a / (1 + np.exp(-a)) * (x @ v), rtol=1e-4, atol=1e-5)
    tensors[0].dtype.bits = 64
    assert gated(*map(ctypes.byref, tensors)) == 4
    tensors[0].dtype.bits, tensors[0].shape[0] = 32, 13
    assert gated(*map(ctypes.byref, tensors)) == 1


@pytest.mark.parametrize("target", ["x86-64-v3", "neoverse-n1"])
def test_objects_are_made_for_any_target(target, tmp_path):
    path = tmp_path / "m.o"
    assert main(["compile", str(MODULES / "feed_forward.mlir"), "--target", target, "-o", str(path)]) == 0
    assert path.read_bytes()[18] == {"x86-64-v3": 62, "neoverse-n1": 183}[target]


def test_functions_are_run_and_compared(capsys):
    assert main(["run", str(MODULES / "functions.mlir"), "--seed", "1"]) == 0
    printed = capsys.readouterr().out
    assert "first(a: 8x16 f32, b: 16x8 f32) -> 8x8 f32" in printed
    assert printed.count("(seed 1): ok") == 2


def test_a_module_is_explained(tmp_path, capsys):
    assert main(["explain", str(MODULES / "rounded.mlir"), "-o", str(tmp_path / "out")]) == 0
    assert "hot loop: " in capsys.readouterr().out
    facts = json.loads((tmp_path / "out" / "explain.json").read_text())
    assert facts["module"].endswith("rounded.mlir")
    assert "product = 0" in (tmp_path / "out" / "1-payload.mlir").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("compile", "FILE", "-o", "k.o"), "bad.mlir:2:8: tensor.pad is not supported yet"),
        (("run", "FILE"), "bad.mlir:2:8: tensor.pad is not supported yet"),
        (("run", "FILE", "--shape", "4x4x4"), "both FILE.mlir and --shape given"),
        (("run", "FILE", "--dtype", "bf16"), "both FILE.mlir and --dtype given"),
        (("run", "FILE", "--device", "emulated"), "both FILE.mlir and --device given"),
        (("compile", "FILE", "-o", "k.o", "--schedule", "packed"), "bad.mlir:2:8: tensor.pad is not supported yet"),
        (("compile", "FILE", "-o", "k.o", "--dtype", "bf16"), "both FILE.mlir and --dtype given"),
        (("compile", "FILE", "-o", "k.o", "--schedule", "s.mlir"), "Leave out --schedule, which is for one product"),
        (("explain", "FILE", "-o", "out", "--beta", "1"), "both FILE.mlir and --beta given"),
        (("explain", "FILE", "-o", "out"), "bad.mlir:2:8: tensor.pad is not supported yet"),
    ],
)
def test_what_is_refused_is_one_line(arguments, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("bad.mlir").write_text(
        "func.func @f(%a: tensor<4xf32>, %b: tensor<4x4xf32>) -> tensor<6xf32> {\n"
        "  %p = tensor.pad %a low[1] high[1] {\n  ^bb0(%i: index):\n    %z = arith.constant 0.0 : f32\n"
        "    tensor.yield %z : f32\n  } : tensor<4xf32> to tensor<6xf32>\n  return %p : tensor<6xf32>\n}\n"
    )
    assert main(["bad.mlir" if each == "FILE" else each for each in arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_warm_module_loads_no_mlir(tmp_path):
    code = f"""
import sys
import tilewright as tw
module = tw.compile_module(open({str(MODULES / "chain.mlir")!r}).read())
print(module.metadata.cached, [name for name in sys.modules if name.startswith(("tilewright.mlir", "tilewright.lowering"))])
"""
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")}
    runs = [
        subprocess.run([sys.executable, "-I", "-c", code], env=environment, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert [each.stdout for each in runs] == ["False []\n", "True []\n"], runs[0].stderr


def test_products_share_threads():
    text = (MODULES / "chain.mlir").read_text()
    text = re.sub(r"<(\d+)x(\d+)xf64>", r"<\g<1>0x\g<2>0xf64>", text)
    module = tw.compile_module(text, threads=2)
    shapes = [each.shape for each in module["chain"].signature.arguments]
    a, b, c = (np.random.default_rng(2).standard_normal(shape) for shape in shapes)
    np.testing.assert_allclose(module(a, b, c), a @ b @ c, rtol=1e-9)
    assert "omp.parallel" in module.asm["bufferized"]


def test_a_module_of_open_extents_is_checked_at_several_sizes(tmp_path, capsys):
    file = tmp_path / "scaled.mlir"
    file.write_text(
        """func.func @scaled(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %r = linalg.mul ins(%x, %y : tensor<?x?xf32>, tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""
    )
    assert main(["run", str(file), "--seed", "1"]) == 0
    told = capsys.readouterr().out
    assert "scaled(x: d0xd1 f32, y: d0xd1 f32) -> d0xd1 f32" in told
    assert "each open extent being 64" in told
