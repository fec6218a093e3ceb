// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nothing: libtilewright_openmp is there for what it needs, libomp. See OpenMP.cpp.
