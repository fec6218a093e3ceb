# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of ours in models that ONNX Runtime runs, through a plugin execution provider.

Building needs onnxruntime 1.23 or later in the same environment; running needs onnxruntime alone, in any language.
"""

from tilewright.onnx.build import DEFAULT_OPERATORS, OPERATORS, PROVIDER, ModelKernels, binary, build, register, session

__all__ = ["DEFAULT_OPERATORS", "OPERATORS", "PROVIDER", "ModelKernels", "binary", "build", "register", "session"]
