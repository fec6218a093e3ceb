# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads PTX: a module's text becomes LLVM IR whose operations the emulator of GPU kernels performs.

`parse` takes the text apart, `function` has registers, blocks and values of one function, and the other modules have tables from
instructions to what they do, by subject. Source of all meanings: the PTX ISA manual.
"""

from tilewright.ptx.module import Kernel, Module, translated

__all__ = ["Kernel", "Module", "translated"]
