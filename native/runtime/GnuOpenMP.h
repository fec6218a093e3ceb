// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GNU's OpenMP runtime (libgomp) under the functions of LLVM's that kernels call, for processes that have it: with two
// runtimes the threads of each spin where those of the other should run.

#ifndef TILEWRIGHT_RUNTIME_GNUOPENMP_H
#define TILEWRIGHT_RUNTIME_GNUOPENMP_H

#include <string>

namespace tilewright::runtime {

/// Takes the libgomp that this process has loaded, if it has. Returns whether kernels then use it. In a child of a fork
/// they use LLVM's runtime, of which `llvm` finds functions: libgomp would wait for threads that are its parent's.
bool takeGnuOpenMP(void *(*llvm)(const char *symbol));

/// The function that kernels call for one of LLVM's runtime; null when kernels call no such one.
void *findGnuOpenMP(const std::string &symbol);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_GNUOPENMP_H
