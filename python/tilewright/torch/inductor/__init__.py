# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``torch.compile(model, backend="tilewright")``: products with what is around them are kernels of ours, the rest is Inductor's."""
