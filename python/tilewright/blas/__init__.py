# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A BLAS library over kernels made by tilewright: built, run under programs, and registered with the system."""
