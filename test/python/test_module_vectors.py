# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules: what is not vectorized is said; and no element beyond an operand is touched."""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from guard_pages import PLACINGS, Guarded
from tilewright.errors import SlowScheduleWarning
from tilewright.lowering import modules
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.operators import nests

MODULES = Path(__file__).parents[1] / "modules"
WINDOWS = """
#both = affine_map<(i, j) -> (i + j)>
func.func @windows(%x: tensor<514xf32>, %w: tensor<3xf32>, %c: tensor<512xf32>) -> tensor<512xf32> {
  %r = linalg.generic {indexing_maps = [#both, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<514xf32>, tensor<3xf32>) outs(%c : tensor<512xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<512xf32>
  return %r : tensor<512xf32>
}
"""


def test_an_op_without_vectors_is_named_each_time():
    x, w, c = np.arange(514, dtype=np.float32), np.array([1, 2, 4], np.float32), np.ones(512, np.float32)
    said = r"windows\.mlir:4:8: linalg\.generic is computed element by element"
    with pytest.warns(SlowScheduleWarning, match=said):
        tw.compile_module(WINDOWS, filename="windows.mlir")
    with pytest.warns(SlowScheduleWarning, match=said):  # from the cache
        module = tw.compile_module(WINDOWS, filename="windows.mlir")
    assert module["windows"].signature.slow == ("4:8: linalg.generic",)
    assert (module(x, w, c) == x[:512] + 2 * x[1:513] + 4 * x[2:] + 1).all()


PAIR = """
func.func @pair(%x: tensor<4x128xf32>) -> (tensor<4x128xf32>, tensor<4x128xf32>) {
  %e = tensor.empty() : tensor<4x128xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x128xf32>) outs(%e : tensor<4x128xf32>) {
  ^bb0(%u: f32, %o: f32):
    %v = math.absf %u : f32
    linalg.yield %v : f32
  } -> tensor<4x128xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x128xf32>) outs(%e : tensor<4x128xf32>) {
  ^bb0(%u: f32, %o: f32):
    %v = math.sqrt %u : f32
    linalg.yield %v : f32
  } -> tensor<4x128xf32>
  return %a, %b : tensor<4x128xf32>, tensor<4x128xf32>
}
"""


def test_what_a_schedule_fails_at_keeps_the_rest_from_nothing():
    """With a schedule that fails at the first op, the second one has vectors all the same."""
    with ir.Context() as context, ir.Location.unknown():
        module = ir.Module.parse(PAIR, context)
        found, others = nests.nests(module.body.operations[0].operation, tw.targets.get("x86-64-v4"))
        assert (len(found), others) == (2, [])

        def schedule(numbers):
            if 0 not in numbers:
                return nests.schedule(found, numbers)
            with steps.script() as script:
                steps.tile(script.functions, [1])  # a function is no loop nest
            return script.module

        made, failed = modules.scheduled(module, schedule, 2)
        assert failed == [0]
        text = str(made)
        assert "math.absf %in : f32" in text
        assert "math.sqrt" in text
        assert "vector<" in text[text.index("math.sqrt") :].split("\n")[0]


def guarded_calls(name):
    """Calls the functions of a file between pages that nobody may touch, and checks them; a program does it."""
    module = tw.compile_module((MODULES / f"{name}.mlir").read_text(), filename=f"{name}.mlir")
    for function, placing in itertools.product(module.values(), PLACINGS):
        random = np.random.default_rng(0)
        given, results = function.signature.arguments, function.signature.results
        arguments = [_values(random, each) for each in given]
        rooms = [np.zeros(each.shape, tw.dtypes.to_numpy(each.type)) for each in results]
        placed = [
            Guarded(value, placing if not each.compact and value.ndim <= 2 else PLACINGS[2 * placing.at_end])
            for value, each in zip((*arguments, *rooms), (*given, *results), strict=True)
        ]
        inside, out = [each.matrix for each in placed[: len(given)]], [each.matrix for each in placed[len(given) :]]
        function(*inside, out=out[0] if len(out) == 1 else tuple(out))
        plain = function(*arguments)
        for each, right in zip(out, plain if isinstance(plain, tuple) else (plain,), strict=True):
            assert each.tobytes() == np.ascontiguousarray(right).tobytes(), (name, placing)
        assert not any(each.is_written_around() for each in placed), (name, placing)


def _values(random, each):
    if each.type.kind == "float":
        return np.asarray(random.standard_normal(each.shape) * 0.5).astype(tw.dtypes.to_numpy(each.type))
    return random.integers(0, 100, each.shape).astype(tw.dtypes.to_numpy(each.type))


GUARDED = ("attention", "quantized", "residual", "rows", "masked", "gated", "vectors")


def test_no_element_beyond_an_operand_is_touched():
    here = Path(__file__)
    code = f"import sys; sys.path.insert(0, {str(here.parent)!r}); import test_module_vectors as t\n"
    code += f"for name in {GUARDED!r}: print(name, flush=True); t.guarded_calls(name)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False, env=os.environ
    )
    last = (done.stdout.splitlines() or ["nothing"])[-1]
    assert done.returncode != -signal.SIGSEGV, f"{last} strays"
    assert done.returncode == 0, f"{last}: {done.stderr[-2000:]}"
    assert last == GUARDED[-1]
