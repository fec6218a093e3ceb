# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Emission: text or bytes of every stage, one file a format."""

STAGES = ("payload", "schedule", "scheduled", "bufferized", "llvm", "llvmir", "asm")
"""The stages that are text, in order. After them comes the object."""
GPU_STAGES = ("threads", "nvvm", "rocdl", "spirv", "ptx")
"""Those that only kernels for GPUs have."""
