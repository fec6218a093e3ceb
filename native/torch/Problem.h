// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the kernel for what an op is to compute: by a text that says it, such as "product 128x3072x768 f32,f32,f32 nt".
// A kernel may be of exactly these extents, of any number of rows ("?x3072x768"), or of any extents at all ("?x?x?").

#ifndef TILEWRIGHT_TORCH_PROBLEM_H
#define TILEWRIGHT_TORCH_PROBLEM_H

#include "Registry.h"

#include <functional>
#include <string>

namespace tilewright::torch_ops {

/// Which extents of a kernel are open.
enum class Open { none, rows, all };

/// The kernel for a problem, which Python compiles where there is none.
///
/// Args:
///   key: Bytes that are the same for the same problem, quickly made.
///   text: The problem in words, for a kernel with these open extents; empty where there is none such.
///
/// Throws std::runtime_error where no kernel can be had.
const Kernel &kernelFor(const std::string &key, const std::function<std::string(Open)> &text);

/// Has every problem be looked for anew, because kernels were added or replaced.
void forgetProblems();

} // namespace tilewright::torch_ops

#endif // TILEWRIGHT_TORCH_PROBLEM_H
