// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many threads a parallel region may have: LLVM's OpenMP runtime ends the process when it cannot make a thread.

#ifndef TILEWRIGHT_RUNTIME_TEAM_H
#define TILEWRIGHT_RUNTIME_TEAM_H

#include <cstdint>

namespace tilewright::runtime {

/// How the runtime is told of how many threads the calling thread's next region asks.
constexpr char pushNumThreads[] = "__kmpc_push_num_threads";

/// What kernels call in its place: asks for `threads` threads, or for as many of them as can be made. That is tried
/// before the first region of each calling thread, with threads of the same stacks, and again after a fork and after it
/// failed.
extern "C" void tilewrightPushNumThreads(void *location, int32_t thread, int32_t threads);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_TEAM_H
