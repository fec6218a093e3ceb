// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The OpenMP runtime of kernels of several threads: one that the process has, or LLVM's (libomp), which is loaded when
// the first of them is, and stays.

#ifndef TILEWRIGHT_RUNTIME_OPENMP_H
#define TILEWRIGHT_RUNTIME_OPENMP_H

#include <string>

namespace tilewright::runtime {

/// Whether `symbol` is one that OpenMP's runtime defines, by its name.
bool isOpenMP(const std::string &symbol);

/// The address of a function of the OpenMP runtime, or null when there is none. A process must have one such runtime
/// only, for its threads and its limits: one that is loaded already, LLVM's or Intel's, which have the same interface,
/// or else GNU's (GnuOpenMP.h), is preferred to our own.
void *findOpenMP(const std::string &symbol);

/// The file of LLVM's runtime, or Intel's, for what is linked with it, which this loads; empty when there is none.
std::string openMPFile();

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_OPENMP_H
