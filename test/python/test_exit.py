# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A program that used kernels ends without output, whoever still references them."""

import pytest
from processes import in_new_process, new_process

PROGRAMS = {
    "matmul": "tw.matmul(np.ones((4, 5), 'f4'), np.ones((5, 6), 'f4'))",
    "compile": "kernel = tw.compile(tw.MatmulSpec(m=4, n=6, k=5, b_packed=True)); b = kernel.pack_b(np.ones((5, 6), 'f4'))",
    "operators": """
tw.conv2d(np.ones((1, 6, 6, 3), 'f4'), np.ones((3, 3, 3, 4), 'f4'))
tw.attention(*[np.ones((2, 8, 16), 'f4')] * 3)
""",
    "module": """
module = tw.compile_module('''
func.func @f(%a: tensor<6x5xf32>, %b: tensor<5x7xf32>, %c: tensor<6x7xf32>) -> tensor<6x7xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<6x5xf32>, tensor<5x7xf32>) outs(%c : tensor<6x7xf32>) -> tensor<6x7xf32>
  return %0 : tensor<6x7xf32>
}''')
""",
    "held by a package": "import tilewright; tilewright.errors.kept = tw.compile(tw.MatmulSpec(m=4, n=6, k=5))",
    "held by a thread": """
import threading
held, never = threading.Event(), threading.Event()
def hold():
    kernel = tw.compile(tw.MatmulSpec(m=4, n=6, k=5))
    held.set()
    never.wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
""",
    "held for ever": """
import ctypes
ctypes.pythonapi.Py_IncRef(ctypes.py_object(tw.compile(tw.MatmulSpec(m=4, n=6, k=5))))
""",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_ends_says_nothing(program):
    run = new_process(f"import numpy as np, tilewright as tw\n{PROGRAMS[program]}")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize("module", ["compile", "conv2d", "attention", "compile_module"])
def test_what_a_module_keeps_goes_with_the_interpreter(module):
    """As kernels in the caches of `matmul` and its like must: only an object that something outlives stays."""
    program = f"""
        import numpy, tilewright.runtime.{module} as module
        class Kept:
            def __del__(self):
                print("gone")
        module.kept = Kept()
        del module, Kept
    """
    assert in_new_process(program) == "gone\n"
