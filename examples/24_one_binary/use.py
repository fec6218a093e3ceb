# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls the kernels of one library on arrays of numpy, torch and JAX by tvm-ffi: whichever are installed, and no tilewright.

    python make.py FOLDER; python use.py FOLDER/liblayers.so

The second Python has apache-tvm-ffi, and for JAX jax-tvm-ffi; that of `make setup-frameworks` with JAX has them.
"""
# pyright: reportMissingImports=false, reportMissingModuleSource=false

import sys
from importlib.util import find_spec

import numpy as np
import tvm_ffi

library = tvm_ffi.load_module(sys.argv[1])
rng = np.random.default_rng(0)
x, w, bias = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((32, 64), (64, 48), (48,)))
expected = np.maximum(x @ w + bias, 0)

y = np.empty_like(expected)
library.layer(x, w, bias, y)  # operands, and then the result
print("numpy", np.allclose(y, expected, atol=1e-4))

if find_spec("torch"):
    import torch

    tensors = [torch.from_numpy(each) for each in (x, w, bias)]
    out = torch.empty(32, 48)
    library.layer(*tensors, out)
    print("torch", np.allclose(out.numpy(), expected, atol=1e-4))

if find_spec("jax_tvm_ffi"):
    import jax
    import jax_tvm_ffi

    jax_tvm_ffi.register_ffi_target("layers.layer", library.layer, ["args", "rets"], platform="cpu")
    call = jax.ffi.ffi_call("layers.layer", jax.ShapeDtypeStruct((32, 48), np.float32))
    print("JAX", np.allclose(jax.jit(call)(x, w, bias), expected, atol=1e-4))

try:
    library.rows(x, w.T, y)
except ValueError as error:
    print(error)
print("without tilewright", "tilewright" not in sys.modules)
